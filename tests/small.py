"""Small problems and quick settings that tests of several packages share."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any

import numpy as np

from assent.data.problem import Problem, Protocol, make_problem
from assent.data.simulate import simulate
from assent.lab import SERIAL, Store
from assent.support.arrays import Bools
from assent.support.files import read_json
from assent.support.progress import Advance
from assent.training import Settings

QUICK = Settings.model_validate(
    {"model": "mf", "model_settings": {"dimension": 4}, "training": {"epochs": 3}, "tune": "none"}
)
"""A training takes about ten milliseconds."""


def small_problem(users: int = 40, items: int = 40, *, seed: int = 3, negatives: int = 9) -> Problem:
    log = simulate(preference="learnable", users=users, items=items, seed=seed)
    return make_problem(log, Protocol.PAPER_TABLES, negatives=negatives)


def some_of(problem: Problem, rate: float = 0.8, seed: int = 0) -> Bools:
    """A random selection."""
    return np.random.default_rng(seed).random(len(problem.train)) < rate


def entries(store: Store, kind: str | None = None) -> dict[str, dict[str, Any]]:
    """What a store keeps, by digest: key, facts, seconds and cost of each entry, or of those of a kind."""
    found = {file.stem: read_json(file) for file in sorted(store.folder.glob("*.json"))}
    return {name: each for name, each in found.items() if kind in (None, each["key"]["kind"])}


def rehashed(about: dict[str, Any]) -> str:
    """The JSON file of a store's entry with a hash that fits, as somebody could write it by hand."""
    said = {name: value for name, value in about.items() if name != "hash"}
    fitting = blake2b(json.dumps(said, sort_keys=True).encode(), digest_size=16).hexdigest()
    return json.dumps(said | {"hash": fitting})


def trained_in(store: Store) -> int:
    """How many models were trained for what a store keeps."""
    parts: dict[str, int] = {}
    for each in entries(store).values():
        parts |= {part: trainings for part, (_, trainings) in each["cost"].items()}
    return sum(parts.values())


def timeless(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Records without what a clock says."""
    return [{key: value for key, value in each.items() if key != "seconds"} for each in records]


class Recorded:
    """Runs everything in this process, and remembers what it was given."""

    workers = 1

    def __init__(self) -> None:
        self.lists: list[list[Any]] = []
        self.shared: list[Any] = []

    def map(self, work: Any, items: Sequence[Any], shared: Any, tell: Any) -> list[Any]:
        self.lists.append(list(items))
        self.shared.append(shared)
        return SERIAL.map(work, items, shared, tell)


class Listener:
    """Remembers the tasks that a progress bar would show, and how many steps each took."""

    def __init__(self) -> None:
        self.told: list[tuple[str, int]] = []

    @property
    def labels(self) -> list[str]:
        return [label for label, _ in self.told]

    @contextmanager
    def task(self, label: str, total: int) -> Iterator[Advance]:
        steps = 0

        def advance() -> None:
            nonlocal steps
            steps += 1

        try:
            yield advance
        finally:
            self.told.append((label, steps))
