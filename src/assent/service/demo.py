"""Demo data: a small simulated log of films with titles and categories, and a demo person."""

from typing import Final

import numpy as np
from sqlalchemy import select

from assent.data.simulate import simulate
from assent.service import interactions, jobs, wishes
from assent.service.database import ConflictError, Database
from assent.service.interactions import NewInteraction
from assent.service.settings import ServiceSettings
from assent.service.tables import Person
from assent.service.wishes import Said
from assent.service.worker import work_once

DEMO_PERSON: Final = "demo"
"""The platform's id of the demo person."""
_USERS, _ITEMS, _SEED = 150, 90, 7
_BEGAN, _DAY = 1_767_225_600.0, 86_400.0
"""The first day of the demo: 1 January 2026."""
_GENRES: Final = {
    "genre-1": ("Comedy", "Laughing", "Uncle", "Wedding"),
    "genre-2": ("Crime", "Silent", "Witness", "Harbour"),
    "genre-3": ("Health", "Living with", "Sleep", "Heart"),
    "genre-4": ("Romance", "Summer in", "Lisbon", "Letters"),
}
"""Categories of the simulation: a name, and words that titles are made of."""
_SECOND: Final = ("Award winner", "Documentary", "Family")


def is_empty(database: Database) -> bool:
    """Return whether nobody is known to a database."""
    with database.reading() as session:
        return session.scalar(select(Person.id).limit(1)) is None


def make_demo(database: Database, settings: ServiceSettings) -> None:
    """Fill an empty database with the demo, train a first model and put it into service (a few seconds)."""
    if not is_empty(database):
        raise ConflictError("demo: the database holds people already; accepted: an empty one")
    with database.writing() as session:
        interactions.add(session, _interactions())
        said = [Said("category", "Health", 0.75), Said("everything", "", 0.25)]
        wishes.record(session, settings, [(DEMO_PERSON, said)])
        jobs.enqueue(session, "train", by="demo")
    work_once(database, settings, worker="demo")


def _interactions() -> list[NewInteraction]:
    """Return the demo's interactions; the demo person is the one who has most."""
    log = simulate(users=_USERS, items=_ITEMS, noise=0.3, seed=_SEED)
    counts = log.table.group_by("user").len().sort("len", "user", descending=[True, False])
    star = counts["user"][0]
    draws = np.random.default_rng(_SEED)
    films = {}
    for place, row in enumerate(log.items.iter_rows(named=True)):
        name, *words = _GENRES[row["category"][0]]
        title = f"{words[place % 3]} {words[(place // 3) % 3].lower()} {place + 1}"
        more = [_SECOND[place % len(_SECOND)]] if place % 4 == 0 else []
        films[row["item"]] = (title, [name, *more])
    found = []
    for row in log.minded.join(log.table.select("user", "item", "time"), on=["user", "item"]).iter_rows(
        named=True
    ):
        title, categories = films[row["item"]]
        found.append(
            NewInteraction(
                user=DEMO_PERSON if row["user"] == star else row["user"],
                item=row["item"],
                at=_BEGAN + _DAY * (3 * row["time"] + float(draws.random())),
                title=title,
                categories=categories,
                unwillingness=round(row["unwillingness"], 2),
            )
        )
    return found
