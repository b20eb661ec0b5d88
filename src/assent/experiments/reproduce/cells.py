"""The cells of a reproduction: what items ask for, each computed once, kept, and found again."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from assent.experiments.compare import Models
from assent.experiments.pool import run_all
from assent.experiments.reproduce.sources import Source, fingerprint_of, problem_of
from assent.experiments.reproduce.tasks import Desk, Task
from assent.experiments.store import Key, Store, digest, unit_key
from assent.progress import SILENT, Advance, Progress
from assent.settings import Settings
from assent.workbench import Workbench

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Cell:
    """One record that an item needs, and what the item calls it.

    Cells of the same source, settings, seed and task are the same, whatever their labels: items share them.
    """

    source: Source
    settings: Settings
    seed: int
    task: Task
    labels: Mapping[str, Any] = field(default_factory=dict)

    def key(self, folder: Path | None) -> Key:
        """All that determines the record."""
        return self.task.key(fingerprint_of(self.source, self.seed, folder), self.settings, self.seed)


@dataclass(frozen=True)
class Unit:
    """Cells that share a workbench, in order."""

    key: Key
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Cells:
    """Where cells are kept, and where their data is."""

    store: Store
    folder: Path | None
    """Of the data sets."""

    def found(self, cells: Sequence[Cell]) -> list[dict[str, Any]]:
        """The records that are there, with the cells' labels, in order."""
        records = ((cell, self.store.get(cell.key(self.folder))) for cell in cells)
        return [
            {**record, **cell.labels, "seed": cell.seed} for cell, record in records if record is not None
        ]

    def compute(self, cells: Sequence[Cell], *, jobs: int, progress: Progress = SILENT) -> None:
        """Compute what is missing, `jobs` units at once; another process may do so at the same time."""
        units = list(self._units(cells))
        run_all(
            partial(_work, self),
            units,
            jobs=jobs,
            steps=sum(len(unit.cells) for unit in units),
            label="cells",
            progress=progress,
        )

    def missing(self, cells: Sequence[Cell]) -> list[Cell]:
        """The cells that are not there yet, each once."""
        once = {digest(cell.key(self.folder)): cell for cell in cells}
        return [cell for cell in once.values() if self.store.get(cell.key(self.folder)) is None]

    def _units(self, cells: Sequence[Cell]) -> Iterator[Unit]:
        """The missing cells by workbench; those that share nothing come first, because they take longest."""
        units: dict[str, tuple[Key, list[Cell]]] = {}
        for cell in sorted(self.missing(cells), key=lambda cell: not cell.task.alone):
            key = self._unit_key(cell)
            units.setdefault(digest(key), (key, []))[1].append(cell)
        for key, members in units.values():
            yield Unit(key, tuple(members))

    def _unit_key(self, cell: Cell) -> Key:
        """What the cells of a workbench agree on: all that anchors and influence depend on."""
        if cell.task.alone:
            return {"alone": dict(cell.key(self.folder))}
        fingerprint = fingerprint_of(cell.source, cell.seed, self.folder)
        pooled = cell.settings.value.is_pooled
        ignored = {"proactive", "scratch"} | (set() if pooled else {"anchors"})
        shared = cell.settings.model_dump(mode="json", exclude=ignored)
        return unit_key(fingerprint, cell.settings, cell.seed) | {"settings": shared}


def _work(cells: Cells, unit: Unit, *, wait: bool, tell: Advance, progress: Progress) -> bool:
    """Compute the cells of a unit that the store lacks, unless another process is at it."""
    with cells.store.held(unit.key, wait=wait) as held:
        if not held:
            return False
        first = unit.cells[0]
        problem = problem_of(first.source, first.seed, cells.folder)
        folder = cells.store.work(unit.key)
        bench = Workbench(problem, _shared(first.settings), first.seed, progress, folder)
        _ = bench.mark  # kept: anchors are named by what all cells share, whichever is the first
        desk = Desk(bench, Models(bench), cells.store.folder)
        for cell in unit.cells:
            key = cell.key(cells.folder)
            if cells.store.get(key) is None:
                bench.settings = cell.settings
                start = time.perf_counter()
                record = cell.task.run(desk)
                cells.store.put(key, record, seconds=time.perf_counter() - start)
            tell()
        bench.clear()
    return True


def _shared(settings: Settings) -> Settings:
    """Settings that anchors depend on: their number matters where values are pooled from all of them."""
    return settings if settings.value.is_pooled else settings.model_copy(update={"anchors": 1})
