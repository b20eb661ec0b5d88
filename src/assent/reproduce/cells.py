"""The cells of a reproduction: the records that items ask for, each computed once, kept and found again."""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, NamedTuple

from assent.lab.executor import SERIAL, Executor
from assent.lab.lab import Lab, Task
from assent.lab.store import Entry, Found, Key, Store, digest
from assent.reproduce.plan import DataSource, Where, problem_of
from assent.runs.measure import Cell as MethodCell
from assent.runs.measure import run_groups
from assent.support.progress import SILENT, Progress
from assent.training import Settings

Kind = tuple[str, ...]
"""What is measured first, then where: the longer a beginning two kinds share, the more they are alike."""
_SECONDS = 30.0
"""Between two looks into the store."""


class Waiting(NamedTuple):
    """A cell that may not be there yet."""

    kind: Kind
    find: Callable[[], Entry | None]
    rows: int
    """How many rows its data set has."""


@dataclass
class TimeLeft:
    """Seconds until all `waiting` cells are there, at `jobs` of them at once; None while none is known.

    A cell is expected to take what a row of those that are there took, of its kind or else of the most
    similar. The first of those that wait are being computed, since the last one came.
    """

    waiting: Sequence[Waiting]
    jobs: int
    clock: Callable[[], float] = time.monotonic
    _spent: defaultdict[Kind, float] = field(default_factory=lambda: defaultdict(float))
    _rows: Counter[Kind] = field(default_factory=Counter)
    _looked: float | None = None
    _came: float = 0.0

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
            if (kept := cell.find()) is None:
                still.append(cell)
                continue
            for length in range(len(cell.kind) + 1):
                self._spent[cell.kind[:length]] += kept.seconds
                self._rows[cell.kind[:length]] += cell.rows
        if self._looked is None or len(still) < len(self.waiting):
            self._came = now
        self._looked, self.waiting = now, still

    def _expected(self, cell: Waiting) -> float:
        kinds = (cell.kind[:length] for length in range(len(cell.kind), -1, -1))
        known = next(kind for kind in kinds if self._rows[kind])
        return self._spent[known] / self._rows[known] * cell.rows


@dataclass(frozen=True)
class Cell:
    """One record that an item needs: a task, where it is run, and what the item calls its record.

    Cells of the same source, settings, seed and task are the same, whatever their labels: items share them.
    """

    source: DataSource
    settings: Settings
    seed: int
    task: Task
    labels: Mapping[str, Any] = field(default_factory=dict)
    alone: bool = False
    """Whether it shares nothing with others and is better computed beside them."""

    @property
    def kind(self) -> Kind:
        """What it takes about as long as."""
        what = f"{type(self.task).__name__} {self.labels.get('method_name', '')}"
        return what, self.source.name, self.settings.model

    @property
    def label(self) -> str:
        """What it is called where it fails."""
        labels = dict.fromkeys([*map(str, self.labels.values()), self.settings.model])
        return f"{', '.join(labels)}, repeat {self.seed + 1}"

    def key(self, lab: Lab) -> Key:
        """Return the key of its task."""
        return self.task.key(lab)

    def run(self, lab: Lab) -> Found:
        """Do its task."""
        return self.task.run(lab)


@dataclass(frozen=True)
class _Group:
    """Cells of one lab."""

    tasks: tuple[Cell, ...]

    def lab(self, shared: "Cells") -> Lab:
        return shared.lab(self.tasks[0])


@dataclass(frozen=True)
class Cells:
    """Where cells are kept, and where their data is."""

    store: Store
    where: Where

    def lab(self, cell: Cell) -> Lab:
        """Return the lab of a cell."""
        return _lab(cell.source, cell.settings, cell.seed, self.store, self.where)

    def find(self, cell: Cell) -> Entry | None:
        """Return a cell's entry, if it is there."""
        return self.store.get(cell.key(self.lab(cell)))

    def found(self, cells: Sequence[Cell]) -> list[tuple[Cell, Entry]]:
        """Return those of the cells that are there, in order."""
        looked = ((cell, self.find(cell)) for cell in cells)
        return [(cell, entry) for cell, entry in looked if entry is not None]

    def compute(
        self, cells: Sequence[Cell], *, executor: Executor = SERIAL, progress: Progress = SILENT
    ) -> list[str]:
        """Compute what is missing; another process may do so at the same time.

        Returns which cells could not be computed and why, in sentences: the others are computed still.
        """
        once = list({digest(cell.key(self.lab(cell))): cell for cell in cells}.values())
        groups = _grouped([cell for cell in once if self.find(cell) is None])
        sizes = [len(self.lab(cell).problem.train) for cell in once]
        waiting = [
            Waiting(cell.kind, partial(self.find, cell), rows) for cell, rows in zip(once, sizes, strict=True)
        ]
        left = TimeLeft(waiting, min(executor.workers, len(groups)))
        return run_groups(
            groups, self, executor=executor, label="cells", go_on=True, left=left, progress=progress
        )


@cache
def _lab(source: DataSource, settings: Settings, seed: int, store: Store, where: Where) -> Lab:
    return Lab(problem_of(source, seed, where), settings, seed, store)


def _grouped(cells: Sequence[Cell]) -> list[_Group]:
    """Return cells by lab, in the order in which the first of each is asked for; some alone."""
    groups: dict[Any, list[Cell]] = {}
    for cell in cells:
        is_alone = cell.alone or (isinstance(cell.task, MethodCell) and cell.task.method.retrains)
        place = id(cell) if is_alone else (cell.source, cell.settings, cell.seed)
        groups.setdefault(place, []).append(cell)
    return [_Group(tuple(members)) for members in groups.values()]
