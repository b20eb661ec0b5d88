"""Computing the cells of a unit: those that share a workbench, one after the other, by one process.

Measuring methods: each chooses, a model is trained on that, and the model is tested.

The work is divided into units of a model and a seed, which share their anchors; units run beside each other,
one thread each, so that figures do not depend on how many do. What is done is kept in a store.
"""

import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from assent.data.problem import Problem
from assent.methods import Choice, Method
from assent.methods.exploring import check_wishes
from assent.runs.pool import run_all
from assent.runs.records import Stopwatch, check_price, record
from assent.runs.store import Key, Store, choice_key, unit_key
from assent.settings import Settings
from assent.support.arrays import Bools
from assent.support.errors import AssentError
from assent.support.progress import Advance, Progress
from assent.training import Trained
from assent.workbench import Workbench


@dataclass(frozen=True)
class Step:
    """One cell of a unit: its key, how its record is computed, and what it is called where that fails."""

    key: Key
    run: Callable[[], Mapping[str, Any]]
    name: str


def fill(
    store: Store,
    unit: Key,
    *,
    bench: Callable[[Path], Workbench],
    steps: Callable[[Workbench], Iterable[Step]],
    wait: bool,
    tell: Advance,
    go_on: bool = False,
) -> list[str] | None:
    """Compute the cells of a unit that the store lacks; None, at once, if another process is at it.

    `bench` makes the workbench that keeps its state in the folder that it is given. What is wrong with a cell
    ends the unit; with `go_on` the others are computed still, and that is what is returned, in sentences. A
    file system that fails ends it even so: it would fail the others too, after hours of work.
    """
    with store.held(unit, wait=wait) as held:
        if not held:
            return None
        own, wrong = bench(store.work(unit)), []
        for step in steps(own):
            if store.get(step.key) is None:
                start = time.perf_counter()
                try:
                    record = step.run()
                    store.put(step.key, record, seconds=time.perf_counter() - start)
                except Exception as error:
                    if not go_on or isinstance(error, OSError):
                        raise
                    wrong.append(f"{step.name}: {_in_words(error)}")
            tell()
        if not wrong:
            own.clear()
    return wrong


def _in_words(error: Exception) -> str:
    """What went wrong; of an error that nobody foresaw, also its kind and where it comes from."""
    if isinstance(error, AssentError):
        return str(error)
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(last.filename).name}, line {last.lineno})"


@dataclass(frozen=True)
class Wanted:
    """A method at a price, or within a budget: then the price is that of its rewards alone."""

    method: Method
    price: float
    point: float | None = None
    """The budget, as a share of All's violation."""

    def key(self, fingerprint: str, settings: Settings, seed: int) -> Key:
        """What determines its record for the problem of this fingerprint."""
        about = choice_key(fingerprint, settings, seed, self.method) | {"price": self.price}
        if self.point is None:
            return about | {"kind": "price"}
        return about | {"kind": "budget", "point": self.point}

    @property
    def name(self) -> str:
        """What it is called where it fails."""
        return f"{self.method.name} at {f'{self.price:g}' if self.point is None else f'{self.point:.0%}'}"


@dataclass(frozen=True)
class Unit:
    """The cells of one model and seed."""

    settings: Settings
    seed: int
    cells: tuple[Wanted, ...]

    def keys(self, fingerprint: str) -> list[Key]:
        """Those of all its cells."""
        return [cell.key(fingerprint, self.settings, self.seed) for cell in self.cells]


@dataclass
class Models:
    """Trains a unit's models; one on a selection that was met before, at another price, is found again."""

    bench: Workbench
    _known: dict[bytes, tuple[Trained, float]] = field(default_factory=dict)

    def measure(self, cell: Wanted) -> dict[str, Any]:
        """The record of a cell."""
        watch, method = Stopwatch(self.bench), cell.method
        if cell.point is None:
            choice = method.at_price(self.bench, cell.price)
        else:
            choice = method.within(self.bench, cell.point)
        trained, owed = self._train(choice.selection, cell.name)
        charged: Choice = replace(choice, owed=choice.owed + owed)
        return record(self.bench, method, charged, trained, price=cell.price, watch=watch, point=cell.point)

    def _train(self, selection: Bools, label: str) -> tuple[Trained, float]:
        """The model of a selection, and the seconds that it took before now."""
        name = selection.tobytes()
        if name in self._known:
            return self._known[name]
        start = time.perf_counter()
        trained = self.bench.final(selection, label=label)
        before = trained.seconds_before
        self._known[name] = trained, before + time.perf_counter() - start
        return trained, before


def measured(
    problem: Problem,
    units: Sequence[Unit],
    *,
    folder: Path | None,
    jobs: int,
    label: str,
    progress: Progress,
) -> list[dict[str, Any]]:
    """The records of all units, in order.

    With `folder`, finished cells are kept there: what was killed goes on where it was, and another process
    may work on it at the same time. With `jobs`, so many processes compute, each with one thread; with 0,
    this one does. Prices at which nothing can be decided, and wishes that a method does not know, are refused
    before that.
    """
    for cell in dict.fromkeys(cell for unit in units for cell in unit.cells):
        check_price(cell.price)
        if cell.method.retrains:
            check_wishes(cell.method.name, problem)
    if folder is None:
        with TemporaryDirectory(prefix="assent-") as temporary:
            return measured(problem, units, folder=Path(temporary), jobs=jobs, label=label, progress=progress)
    store, fingerprint = Store(folder), problem.fingerprint()
    missing = [unit for unit in units if any(store.get(key) is None for key in unit.keys(fingerprint))]
    for unit in units:
        if unit not in missing:  # perhaps killed when all its cells were there
            store.forget(unit_key(fingerprint, unit.settings, unit.seed))
    run_all(
        partial(_work, problem, fingerprint, store),
        missing,
        jobs=jobs,
        steps=sum(len(unit.cells) for unit in missing),
        label=label,
        progress=progress,
    )
    found = [store.get(key) for unit in units for key in unit.keys(fingerprint)]
    return [each for each in found if each is not None]


def _work(
    problem: Problem,
    fingerprint: str,
    store: Store,
    unit: Unit,
    *,
    wait: bool,
    tell: Advance,
    progress: Progress,
) -> list[str] | None:
    """Compute the cells of a unit that the store lacks, unless another process is at it."""

    def bench(folder: Path) -> Workbench:
        return Workbench(problem, unit.settings, unit.seed, progress, folder)

    def steps(own: Workbench) -> Iterator[Step]:
        models = Models(own)
        for key, cell in zip(unit.keys(fingerprint), unit.cells, strict=True):
            yield Step(key, partial(models.measure, cell), cell.name)

    own = unit_key(fingerprint, unit.settings, unit.seed)
    return fill(store, own, bench=bench, steps=steps, wait=wait, tell=tell)
