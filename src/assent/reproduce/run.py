"""A reproduction: the cells of the items that are asked for, and what they show. `page.py` writes it.

    OUT/cells/            every finished record, shared by all items and scales
    OUT/data/             what was read of large original files
    OUT/NAME/             tables (csv, parquet, md, tex), figures (svg, png), records and the paper's numbers
    OUT/index.html        all of it on one page
    OUT/verdicts.csv      a verdict on every number of the paper
    OUT/claims.csv        a verdict on every claim

A killed run goes on where it was; another process may work in the same folder at the same time.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from assent.lab.executor import SERIAL, Executor
from assent.lab.lab import Lab
from assent.lab.store import Entry, Store, digest
from assent.reproduce.item import Cell, Chapter, Item, Kind, Only
from assent.reproduce.plan import DataSource, Plan, Where, problem_of, size_of
from assent.results.records import METHOD
from assent.results.words import NONE, plural
from assent.runs.measure import Cell as MethodCell
from assent.runs.measure import run_groups
from assent.support.errors import AssentError
from assent.support.progress import SILENT, Progress, phases
from assent.support.runtime import code_state
from assent.training import Settings

CELLS = "cells"
DATA = "data"
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
class _Group:
    tasks: tuple[Cell, ...]
    """All of one lab."""

    @property
    def label(self) -> str:
        return self.tasks[0].label

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
        missing = [cell for cell in once if self.find(cell) is None]
        shared, groups = dict[str, Cell](), dict[Any, list[Cell]]()
        for cell in missing:
            shared |= {digest(each.key(self.lab(each))): each for each in self._below(cell)}
            is_alone = cell.alone or isinstance(cell.task, MethodCell)
            place = id(cell) if is_alone else (cell.source, cell.settings, cell.seed)
            groups.setdefault(place, []).append(cell)
        waiting = [
            Waiting(cell.kind, partial(self.find, cell), len(self.lab(cell).problem.train))
            for cell in (*shared.values(), *once)
        ]
        wrong = []
        parts = {"what cells share": [[each] for each in shared.values()], "cells": list(groups.values())}
        parts = {label: lists for label, lists in parts.items() if lists}
        with phases(progress, {label: len(lists) for label, lists in parts.items()}) as phase:
            for label, lists in parts.items():
                with phase(label):
                    wrong += run_groups(
                        [_Group(tuple(each)) for each in lists],
                        self,
                        executor=executor,
                        label=label,
                        go_on=True,
                        left=TimeLeft(waiting, min(executor.workers, len(lists))),
                        progress=progress,
                    )
        return wrong

    def _below(self, cell: Cell) -> list[Cell]:
        """Return what a cell and others rest on, as far as it is missing: then each is dealt out alone."""
        if not isinstance(cell.task, MethodCell):
            return []
        tasks = cell.task.method.groundwork(self.lab(cell))
        cells = [replace(cell, task=task, labels={**cell.labels, METHOD: task.label}) for task in tasks]
        return [each for each in cells if self.find(each) is None]


@cache
def _lab(source: DataSource, settings: Settings, seed: int, store: Store, where: Where) -> Lab:
    return Lab(problem_of(source, seed, where), settings, seed, store)


@dataclass(frozen=True)
class Reproduction:
    """What a run found."""

    plan: Plan
    chapters: Sequence[Chapter]
    missing: Sequence[str]
    """What could not be run, and why, in sentences."""
    kept: Sequence[str]
    """Items of which the folder has files, but no records for these options."""
    failed: Sequence[str]
    """Cells that could not be computed, and why, in sentences."""
    seconds: float
    """What computing all cells took, summed over processes and runs."""
    counted: Sequence[Item] = ()
    """Items whose numbers count in shares of verdicts, measured or not."""
    states: Mapping[str, int] = field(default_factory=dict)
    """How many cells each state of assent's own code has computed, the most first."""
    added: Sequence[str] = ()
    """That records of other runs were added, in sentences."""

    @property
    def notices(self) -> list[str]:
        """What is not shown, in sentences."""
        others = [
            f"{name} was run in this folder with other options; its files are kept." for name in self.kept
        ]
        return [*(f"Not run: {sentence}" for sentence in self.missing), *others]

    @property
    def provenance(self) -> str:
        """Which state of the code has computed the cells and which one shows them, in a sentence or two."""
        by = ", ".join(f"{name} ({plural(cells, 'cell')})" for name, cells in self.states.items())
        said = f"Computed by state {by or NONE} of assent's source, version {version('assent')}."
        return " ".join(filter(None, (said, self.stale, *self.added)))

    @property
    def stale(self) -> str:
        """That cells come from another state of the code than the present one, where they do."""
        now = code_state()
        if self.states.keys() <= {now}:
            return ""
        others = sum(cells for name, cells in self.states.items() if name != now)
        return (
            f"{others} of {sum(self.states.values())} cells come from another state of assent's source than "
            f"the present one ({now}), which may compute otherwise; to compute all anew, choose another "
            "folder."
        )


def reproduce(
    items: Sequence[Item],
    plan: Plan,
    out: Path,
    *,
    data: Path | None,
    executor: Executor = SERIAL,
    asked: Collection[str] | None = None,
    only: Only | None = None,
    counted: Sequence[Item] = (),
    compute: bool = True,
    progress: Progress = SILENT,
) -> Reproduction:
    """Compute what is missing and say what was found; without `compute`, of what is there already.

    Nothing is computed for items whose names are not `asked` for: they are shown as far as this plan's
    records are there. Nor are cells computed that do not fit `only`. Items that the plan's profile does not
    have are left out. The paper's numbers of the `counted` items have verdicts whether or not they were
    measured; default: of the items with records.
    """
    items = [item for item in items if plan.profile in item.profiles]
    where = Where(data, out / DATA)
    with phases(progress, {"reading data sets": 1, "computing": 50}) as phase:
        with phase("reading data sets"):
            plan, missing = _with_data(plan, where, progress)
        cells = Cells(Store(out / CELLS), where)
        wanted: list[tuple[Item, list[Cell]]] = []
        for item in items:
            try:
                wanted.append((item, item.cells(plan)))
            except AssentError as error:
                missing.append(str(error))
        failed: list[str] = []
        with phase("computing"):
            if compute:
                cells.store.sweep()
                late = sorted(wanted, key=lambda each: each[0].last)
                own = [cell for item, some in late if asked is None or item.name in asked for cell in some]
                if only and not (own := [cell for cell in own if cell.fits(only)]):
                    raise AssentError(nothing_fits(only, [cell for _, some in late for cell in some]))
                failed = cells.compute(own, executor=executor, progress=progress)
    chapters, kept_files = [], []
    everything: dict[Path, Entry] = {}
    for item, some in wanted:
        found = cells.found(some)
        everything |= {kept.file: kept for _, kept in found}
        records = [{**kept.facts, **cell.labels, "seed": cell.seed} for cell, kept in found]
        if records:
            chapters.append(item.chapter(plan, records, len(some)))
        elif asked is not None and item.name not in asked:
            kept_files.append(item.name)
        elif some:
            missing.append(none_there(item.name, len(some)))
        else:
            missing.append(f"{item.name}: has none of the models and data sets that are asked for and there.")
    seconds = sum(kept.seconds for kept in everything.values())
    states = Counter(kept.code for kept in everything.values())
    known = [item for item in counted if plan.profile in item.profiles]
    by = dict(states.most_common())
    return Reproduction(plan, chapters, missing, kept_files, failed, seconds, known, by)


def none_there(name: str, cells: int) -> str:
    """Return a sentence on an item without records."""
    return f"{name}: none of its {cells} cells is there."


def nothing_fits(only: Only, cells: Sequence[Cell]) -> str:
    """Return a sentence on a wish that no cell fits, with what would be accepted."""
    known: dict[str, dict[str, None]] = {}
    for cell in cells:
        for name, value in cell.place.items():
            known.setdefault(name, {})[value] = None
    for name, patterns in only.items():
        if name not in known:
            return f"no cell has a label {name}; accepted: {', '.join(known)}"
        if not any(fnmatchcase(value, pattern) for value in known[name] for pattern in patterns):
            return f"no cell has the {name} {' or '.join(patterns)}; accepted: {'; '.join(known[name])}"
    return f"no cell has all of these labels: {', '.join(only)}"


def _with_data(plan: Plan, where: Where, progress: Progress) -> tuple[Plan, list[str]]:
    """The plan with those of its data sets that are there, and what is wrong with the others."""
    sizes, missing = {}, []
    with progress.task("reading data sets", len(plan.datasets)) as advance:
        for name in plan.datasets:
            try:
                sizes[name] = size_of(plan.source(name), where)
            except AssentError as error:
                missing.append(str(error))
            advance()
    return replace(plan, datasets=tuple(sizes), sizes=sizes), missing
