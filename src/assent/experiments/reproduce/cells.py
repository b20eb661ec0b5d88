"""The cells of a reproduction: what items ask for, each computed once, kept, and found again."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from assent.experiments.filling import Step, fill
from assent.experiments.pool import run_all
from assent.experiments.reproduce.sources import Source, Where, fingerprint_of, problem_of
from assent.experiments.reproduce.tasks import Desk, Task
from assent.experiments.reproduce.timing import Kind, TimeLeft, Waiting
from assent.experiments.store import Kept, Key, Store, digest, unit_key
from assent.experiments.units import Models
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
