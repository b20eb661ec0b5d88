"""Which problem a cell is about: a named data set, or a simulation, cut and split for one repeat."""

from collections import deque
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from assent.data.interactions import Interactions
from assent.data.named import read_named
from assent.data.problem import Problem, Protocol
from assent.data.simulator import MOST, simulate
from assent.data.split import make_problem
from assent.hashing import string_keys
from assent.unwillingness import PAPER_SENSITIVITY, Sensitivity, assign

SIMULATION = "simulation"
"""Built in; the others are files."""
CHANCE = "The simulated data carry no preference: every model ranks at chance (F1 of 1.67 %)."


@dataclass(frozen=True)
class Source:
    """A data set as an item wants it."""

    name: str
    users: int | None = None
    """At most so many users, a neighbourhood; None: all."""
    eta: float = 0.5
    """Of the simulation: how hard interactions are to come by."""
    sensitivity: Sensitivity = PAPER_SENSITIVITY
    """Of the simulation: (a1, a2, a3) of the unwillingness."""
    negatives: int = 99
    """Sampled items that each validation and test row is ranked among."""


@dataclass(frozen=True)
class Where:
    """Folders."""

    data: Path | None = None
    """Of the data sets."""
    kept: Path | None = None
    """For what was read of large files."""


@cache
def problem_of(source: Source, seed: int, where: Where) -> Problem:
    """The problem of repeat `seed`: split as in the paper's tables.

    A repeat draws the sampled negatives anew and, for real data, everybody's unwillingness. The simulation's
    belongs to its features and stays.
    """
    log = _log(source, where)
    if source.name != SIMULATION:
        log = assign(log, "random", seed)
    return make_problem(log, Protocol.PAPER_TABLES, seed=seed, negatives=source.negatives)


@cache
def fingerprint_of(source: Source, seed: int, where: Where) -> str:
    """The short name of that problem."""
    return problem_of(source, seed, where).fingerprint()


@cache
def _log(source: Source, where: Where) -> Interactions:
    if source.name == SIMULATION:
        enough = max(source.users or 0, MOST + source.negatives + 1)
        size = {} if source.users is None else {"users": source.users, "items": enough}
        log = simulate(preference="paper", eta=source.eta, sensitivity=source.sensitivity, **size)
        return replace(log, name=SIMULATION)
    return _fewer(read_named(source.name, where.data, where.kept), source.users)


def _fewer(log: Interactions, users: int | None) -> Interactions:
    """The log of a neighbourhood of `users` people: a person, then whoever shares an item with one of them.

    People drawn by lot would hardly share anything. The first is the one whose id comes first in an order by
    hash, and so is the next where a neighbourhood ends.
    """
    people = log.table["user"].unique().sort()
    if users is None or users >= len(people):
        return log
    queue = people.gather(np.argsort(string_keys(people))).to_list()
    items_of, users_of = (_lists(log, key, other) for key, other in (("user", "item"), ("item", "user")))
    chosen: dict[str, None] = {}
    for start in queue:
        near = deque([start])
        while near and len(chosen) < users:
            person = near.popleft()
            if person not in chosen:
                chosen[person] = None
                near.extend(other for item in items_of[person] for other in users_of[item])
    return replace(log, table=log.table.filter(log.table["user"].is_in(list(chosen))))


def _lists(log: Interactions, key: str, other: str) -> dict[str, list[str]]:
    """For each value of the column `key`, those of the column `other` on its rows."""
    return dict(log.table.group_by(key, maintain_order=True).agg(other).iter_rows())
