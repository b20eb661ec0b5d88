"""What a cell measures: a record, computed at a workbench, under a key that says all it depends on.

How long a reproduction still takes: cells of a kind take about as long as each other, kinds do not.

What is learnt of one kind and expected of another is in proportion to the rows of their data sets.

The cells of a reproduction: what items ask for, each computed once, kept, and found again.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

from assent.game.estimates import Objective
from assent.methods import Method, make_method
from assent.reproduce.plan import DataSource, Where, fingerprint_of, problem_of
from assent.results.records import Way
from assent.runs.pool import run_all
from assent.runs.store import Kept, Key, Store, choice_key, digest, unit_key
from assent.runs.units import Models, Step, Wanted, fill
from assent.settings import Settings
from assent.support.progress import SILENT, Advance, Progress
from assent.workbench import Workbench


@dataclass(frozen=True)
class Desk:
    """Where a unit's cells are computed, one after the other."""

    bench: Workbench
    models: Models
    cells: Path
    """The folder of all cells, for what has to outlive the unit."""


class Task(Protocol):
    """One kind of measurement."""

    @property
    def alone(self) -> bool:
        """Whether it shares nothing with others and is better done beside them."""

    def key(self, fingerprint: str, settings: Settings, seed: int) -> Key:
        """All that determines the record."""

    def run(self, desk: Desk) -> dict[str, Any]:
        """The record: flat, as JSON."""


@dataclass(frozen=True)
class Measured:
    """A method at a price, or within a budget: chosen, trained on, tested.

    Record and key are those of `assent compare`, or of `assent frontier`.
    """

    way: Way
    price: float
    point: float | None = None
    """The budget, as a share of All's violation."""

    @property
    def alone(self) -> bool:
        """A method that trains a model for everything it tries is work of its own."""
        return method_of(self.way).retrains

    def key(self, fingerprint: str, settings: Settings, seed: int) -> Key:
        """The method's, with price or budget."""
        return self._wanted.key(fingerprint, settings, seed)

    def run(self, desk: Desk) -> dict[str, Any]:
        """Choose, train, test."""
        return desk.models.measure(self._wanted)

    @property
    def _wanted(self) -> Wanted:
        return Wanted(method_of(self.way), self.price, self.point)


@dataclass(frozen=True)
class Certified:
    """How far a decision of IFRQE++ can be trusted, and what selfishness costs, as predicted."""

    way: Way
    price: float
    alone: ClassVar[bool] = False

    def key(self, fingerprint: str, settings: Settings, seed: int) -> Key:
        """The decision's."""
        about = choice_key(fingerprint, settings, seed, method_of(self.way))
        return {"kind": "certificate", **about, "price": self.price}

    def run(self, desk: Desk) -> dict[str, Any]:
        """The certificate's figures."""
        certificate = method_of(self.way).at_price(desk.bench, self.price).certificate
        return {name: value for name, value in certificate.items() if not isinstance(value, list)}


def method_of(way: Way) -> Method:
    """The method of a name and an objective."""
    return make_method(way[0], Objective(way[1])) if way[1] else make_method(way[0])


def settings_key(kind: str, fingerprint: str, settings: Settings, seed: int, **more: object) -> Key:
    """The key of what depends on models and values but on no game."""
    ignored = {"proactive", "scratch", "anchors", "adaptive", "rounds", "strategy", "table"}
    read = settings.model_dump(mode="json", exclude=ignored)
    return unit_key(fingerprint, settings, seed) | {"settings": read, "kind": kind} | more


Kind = tuple[str, ...]
"""What is measured first, then where: the longer a beginning two kinds share, the more they are alike."""
_SECONDS = 30.0
"""Between two looks into the store."""


class Waiting(NamedTuple):
    """A cell that is not there yet."""

    kind: Kind
    key: Key
    rows: int
    """How many rows its data set has."""


@dataclass
class TimeLeft:
    """Seconds until all `waiting` cells are there, at `jobs` of them at once; None while none is known.

    A cell is expected to take what a row of those that are there took, of its kind or else of the most
    similar. The first of those that wait are being computed, since the last one came.
    """

    store: Store
    waiting: Sequence[Waiting]
    jobs: int
    clock: Callable[[], float] = time.monotonic
    _spent: defaultdict[Kind, float] = field(default_factory=lambda: defaultdict(float))
    _rows: Counter[Kind] = field(default_factory=Counter)
    _looked: float | None = None
    _came: float = 0.0

    def learn(self, kind: Kind, rows: int, kept: Kept) -> None:
        """Take account of a cell that is there."""
        for length in range(len(kind) + 1):
            self._spent[kind[:length]] += kept.seconds
            self._rows[kind[:length]] += rows

    def __call__(self) -> float | None:
        """The seconds, as of now; who has come is looked up now and then."""
        now = self.clock()
        if self._looked is None or now - self._looked >= _SECONDS:
            self._look(now)
        if not self._rows:
            return None
        expected, jobs = [self._expected(cell) for cell in self.waiting], max(self.jobs, 1)
        begun = sum(min(seconds, now - self._came) for seconds in expected[:jobs])
        return (sum(expected) - begun) / jobs

    def _look(self, now: float) -> None:
        still = []
        for cell in self.waiting:
            kept = self.store.find(cell.key)
            if kept is None:
                still.append(cell)
            else:
                self.learn(cell.kind, cell.rows, kept)
        if self._looked is None or len(still) < len(self.waiting):
            self._came = now
        self._looked, self.waiting = now, still

    def _expected(self, cell: Waiting) -> float:
        kinds = (cell.kind[:length] for length in range(len(cell.kind), -1, -1))
        known = next(kind for kind in kinds if self._rows[kind])
        return self._spent[known] / self._rows[known] * cell.rows


Record = Mapping[str, Any]


@dataclass(frozen=True)
class Cell:
    """One record that an item needs, and what the item calls it.

    Cells of the same source, settings, seed and task are the same, whatever their labels: items share them.
    """

    source: DataSource
    settings: Settings
    seed: int
    task: Task
    labels: Mapping[str, Any] = field(default_factory=dict)

    def key(self, where: Where) -> Key:
        """All that determines the record."""
        return self.task.key(fingerprint_of(self.source, self.seed, where), self.settings, self.seed)

    @property
    def kind(self) -> Kind:
        """What it takes about as long as."""
        what = f"{type(self.task).__name__} {self.labels.get('method_name', '')}"
        return what, self.source.name, self.settings.model

    @property
    def name(self) -> str:
        """What it is called where it fails."""
        labels = dict.fromkeys([*map(str, self.labels.values()), self.settings.model])
        return f"{type(self.task).__name__}, {', '.join(labels)}, repeat {self.seed + 1}"


@dataclass(frozen=True)
class Unit:
    """Cells that share a workbench, in order."""

    key: Key
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Cells:
    """Where cells are kept, and where their data is."""

    store: Store
    where: Where

    def found(self, cells: Sequence[Cell]) -> list[tuple[Cell, Kept]]:
        """Those of the cells that are there, in order."""
        looked = ((cell, self.store.find(cell.key(self.where))) for cell in cells)
        return [(cell, kept) for cell, kept in looked if kept is not None]

    def compute(self, cells: Sequence[Cell], *, jobs: int, progress: Progress = SILENT) -> list[str]:
        """Compute what is missing, `jobs` units at once; another process may do so at the same time.

        A cell that cannot be computed does not keep the others from it: which, and why, in sentences.
        """
        once = list({digest(cell.key(self.where)): cell for cell in cells}.values())
        there = self.found(once)
        known = {id(cell) for cell, _ in there}
        missing = [cell for cell in once if id(cell) not in known]
        units = list(self._units(missing))
        begun = {digest(unit.key) for unit in units}
        for unit in self._units(cells):
            if digest(unit.key) not in begun:  # perhaps killed when all its cells were there
                self.store.forget(unit.key)
        waiting = [Waiting(cell.kind, cell.key(self.where), self._rows(cell)) for cell in missing]
        left = TimeLeft(self.store, waiting, min(jobs, len(units)))
        for cell, kept in there:
            left.learn(cell.kind, self._rows(cell), kept)
        return run_all(
            partial(_work, self),
            units,
            jobs=jobs,
            steps=len(missing),
            label="cells",
            left=left,
            progress=progress,
        )

    def _rows(self, cell: Cell) -> int:
        """How many training rows it is about."""
        return len(problem_of(cell.source, cell.seed, self.where).train)

    def _units(self, cells: Sequence[Cell]) -> Iterator[Unit]:
        """Cells by workbench, in the order in which the first of each is asked for."""
        units: dict[str, tuple[Key, list[Cell]]] = {}
        for cell in cells:
            key = self._unit_key(cell)
            units.setdefault(digest(key), (key, []))[1].append(cell)
        for key, members in units.values():
            yield Unit(key, tuple(members))

    def _unit_key(self, cell: Cell) -> Key:
        """What the cells of a workbench agree on: all that anchors and influence depend on."""
        if cell.task.alone:
            return {"alone": dict(cell.key(self.where))}
        fingerprint = fingerprint_of(cell.source, cell.seed, self.where)
        shared = cell.settings.model_dump(
            mode="json", exclude={"proactive", "scratch", "anchors", "adaptive"}
        )
        return unit_key(fingerprint, cell.settings, cell.seed) | {"settings": shared}


def _work(cells: Cells, unit: Unit, *, wait: bool, tell: Advance, progress: Progress) -> list[str] | None:
    """Compute the cells of a unit that the store lacks, unless another process is at it."""
    first = unit.cells[0]

    def bench(folder: Path) -> Workbench:
        problem = problem_of(first.source, first.seed, cells.where)
        return Workbench(problem, first.settings, first.seed, progress, folder)

    def steps(own: Workbench) -> Iterator[Step]:
        desk = Desk(own, Models(own), cells.store.folder)
        for cell in unit.cells:
            yield Step(cell.key(cells.where), partial(_run, cell, desk), cell.name)

    return fill(cells.store, unit.key, bench=bench, steps=steps, wait=wait, tell=tell, go_on=True)


def _run(cell: Cell, desk: Desk) -> Record:
    desk.bench.settings = cell.settings
    return cell.task.run(desk)
