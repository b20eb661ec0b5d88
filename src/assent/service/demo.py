"""Demo data: a small simulated log of films with titles and categories, and a demo person."""

from functools import cache
from typing import Final

import numpy as np
from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from assent.data.simulate import simulate
from assent.service import interactions, jobs, models, wishes
from assent.service.database import ConflictError, Database, shown
from assent.service.interactions import NewInteraction
from assent.service.settings import ServiceSettings
from assent.service.tables import Leaf, Meta, Person
from assent.service.wishes import Said

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
_MARK: Final = "demo"
"""The fact that says that a database is a demo's."""


def make_demo(database: Database, settings: ServiceSettings) -> bool:
    """Fill an empty database with the demo, and ask for its first model; return False if it is one already.

    Any other database is refused: a demo lets everybody in.
    """
    if _is_made(database):
        return False
    everything, latest = _interactions(), _latest()
    mine = [each for each in everything if each.user == DEMO_PERSON]
    never = [Said("item", each.item, 1.0) for each in mine if "Health" in (each.categories or ())][:_LATEST]
    with database.writing() as session:
        session.execute(insert(Meta).values(name=_MARK, value="1"))
        interactions.add(session, [each for each in everything if each not in latest])
        wishes.record(session, settings, [(DEMO_PERSON, [*_SAID, *never])])
        jobs.enqueue(session, "train", by="demo")
    return True


def _is_made(database: Database) -> bool:
    """Return whether a database is that of a demo; refuse one that holds anything else."""
    with database.reading() as session:
        if session.get(Meta, _MARK) is not None:
            return True
        holds = any(session.scalar(select(each).limit(1)) is not None for each in (Person.id, Leaf.number))
    if holds:
        place = shown(database.engine.url)
        raise ConflictError(f"demo: {place} is no demo's, and not empty; accepted: a folder of its own")
    return False


def finish_demo(database: Database) -> bool:
    """Bring what the demo person did last, once a first model is in service; return whether one is."""
    with database.writing() as session:
        if models.in_service_id(session) is None:
            return False
        interactions.add(session, _latest())
    return True


def first_model(session: Session) -> str | None:
    """Return how far the demo's first model is, in words; None once one is in service."""
    if models.in_service_id(session) is not None:
        return None
    found, _ = jobs.page(session, limit=1)
    return (found[0].progress if found else None) or ""


def _latest() -> list[NewInteraction]:
    """Return what the demo person does after the first model."""
    mine = [each for each in _interactions() if each.user == DEMO_PERSON]
    return sorted(mine, key=lambda each: each.at)[-_LATEST:]


@cache
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
