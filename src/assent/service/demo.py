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
    "genre-1": ("Comedy", ("Laughing", "Silly", "Borrowed", "Late"), ("Uncles", "Weddings", "Neighbours")),
    "genre-2": ("Crime", ("Silent", "Cold", "Seventh", "Second"), ("Witness", "Harbour", "Alibi")),
    "genre-3": (
        "Health",
        ("Living with", "Talking about", "After", "Beyond"),
        ("Grief", "Diabetes", "Insomnia"),
    ),
    "genre-4": (
        "Romance",
        ("Summer in", "Letters from", "Rain over", "Back to"),
        ("Lisbon", "Porto", "Rome"),
    ),
}
"""Categories of the simulation: a name, and words that titles are made of."""
_SECOND: Final = ("Award winner", "Documentary", "Family")
_LATEST: Final = 2
"""Interactions of the demo person that come after the first model."""
_SAID: Final = (Said("category", "Health", 0.75), Said("category", "Comedy", 0.25))
_STAR: Final = "u015"
"""Whose place in the simulation the demo person takes: some of what they did is used, some is withheld."""


def is_empty(database: Database) -> bool:
    """Return whether nobody is known to a database."""
    with database.reading() as session:
        return session.scalar(select(Person.id).limit(1)) is None


def make_demo(database: Database, settings: ServiceSettings) -> None:
    """Fill an empty database with the demo, train a first model and put it into service (a few seconds)."""
    if not is_empty(database):
        raise ConflictError("demo: the database holds people already; accepted: an empty one")
    everything = _interactions()
    mine = sorted((each for each in everything if each.user == DEMO_PERSON), key=lambda each: each.at)
    latest = mine[-_LATEST:]
    never = [Said("item", each.item, 1.0) for each in mine if "Health" in (each.categories or ())][:_LATEST]
    with database.writing() as session:
        interactions.add(session, [each for each in everything if each not in latest])
        wishes.record(session, settings, [(DEMO_PERSON, [*_SAID, *never])])
        jobs.enqueue(session, "train", by="demo")
    if not work_once(database, settings, worker="demo"):
        raise ConflictError("demo: another worker has taken its training; accepted: a database of its own")
    with database.writing() as session:
        interactions.add(session, latest)


def _interactions() -> list[NewInteraction]:
    """Return the demo's interactions."""
    log = simulate(users=_USERS, items=_ITEMS, noise=0.3, seed=_SEED)
    draws = np.random.default_rng(_SEED)
    films, seen = {}, dict[str, int]()
    for place, row in enumerate(log.items.iter_rows(named=True)):
        name, first, second = _GENRES[row["category"][0]]
        number = seen[name] = seen.get(name, -1) + 1
        part = number // (len(first) * len(second))
        title = f"{first[number % len(first)]} {second[number % len(second)]}" + (
            f" {part + 1}" if part else ""
        )
        more = [_SECOND[place % len(_SECOND)]] if place % 4 == 0 else []
        films[row["item"]] = (title, [name, *more])
    found = []
    for row in log.minded.join(log.table.select("user", "item", "time"), on=["user", "item"]).iter_rows(
        named=True
    ):
        title, categories = films[row["item"]]
        found.append(
            NewInteraction(
                user=DEMO_PERSON if row["user"] == _STAR else row["user"],
                item=row["item"],
                at=_BEGAN + _DAY * (3 * row["time"] + float(draws.random())),
                title=title,
                categories=categories,
                unwillingness=round(row["unwillingness"], 2),
            )
        )
    return found
