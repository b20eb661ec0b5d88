"""Methods against each other at prices: each chooses, a model is trained on that, true rewards are measured.

The work is divided into units of a model and a seed, which share their anchors; units run beside each other,
one thread each, so that figures do not depend on how many do. What is done is kept in a store.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from assent.arrays import Bools
from assent.data.problem import Problem
from assent.experiments.filling import Step, fill
from assent.experiments.pool import run_all
from assent.experiments.records import REFERENCES, Stopwatch, check_price, record
from assent.experiments.store import Key, Store, choice_key, unit_key
from assent.methods import Choice, Method, make_method
from assent.methods.explored import check_wishes
from assent.progress import SILENT, Advance, Progress
from assent.settings import Settings
from assent.training import Trained
from assent.workbench import Workbench


@dataclass(frozen=True)
class Unit:
    """The cells of one model and seed."""

    settings: Settings
    seed: int
    methods: tuple[Method, ...]
    prices: tuple[float, ...]

    def cells(self, fingerprint: str) -> Iterator[tuple[Key, Method, float]]:
        """Every method at every price, and first what determines its record for a problem."""
        for method in self.methods:
            key = {"kind": "price", **choice_key(fingerprint, self.settings, self.seed, method)}
            for price in self.prices:
                yield key | {"price": price}, method, price

    def __len__(self) -> int:
        return len(self.methods) * len(self.prices)


def compare(
    problem: Problem,
    models: Sequence[Settings],
    *,
    methods: Sequence[Method],
    prices: Sequence[float],
    seeds: Sequence[int],
    jobs: int = 0,
    folder: Path | None = None,
    progress: Progress = SILENT,
) -> list[dict[str, Any]]:
    """Records of every model, method, price and seed, with All and Nothing.

    A seed sets anchors, lots, initial parameters and negatives; the split and the unwillingness are the
    problem's, so that all records of a seed are paired. With `folder`, finished cells are kept there: a
    killed comparison goes on where it was, and another process may work on it at the same time. With `jobs`,
    so many processes compute, each with one thread; with 0, this one does.
    """
    for price in prices:
        check_price(price)
    for method in methods:
        if method.retrains:
            check_wishes(method.name, problem)
    everyone = tuple(each for each in methods if each.name not in REFERENCES) + tuple(
        map(make_method, REFERENCES)
    )
    asked = tuple(dict.fromkeys(prices))
    units = [Unit(settings, seed, everyone, asked) for settings in models for seed in seeds]
    if folder is None:
        with TemporaryDirectory(prefix="assent-") as temporary:
            return _measured(problem, units, Store(Path(temporary)), jobs, progress)
    return _measured(problem, units, Store(folder), jobs, progress)


def _measured(
    problem: Problem, units: Sequence[Unit], store: Store, jobs: int, progress: Progress
) -> list[dict[str, Any]]:
    """The records of all units, computed where the store lacks them."""
    fingerprint = problem.fingerprint()
    missing = [unit for unit in units if any(store.get(key) is None for key, *_ in unit.cells(fingerprint))]
    for unit in units:
        if unit not in missing:  # perhaps killed when all its cells were there
            store.forget(unit_key(fingerprint, unit.settings, unit.seed))
    work = partial(_work, problem, fingerprint, store)
    run_all(work, missing, jobs=jobs, steps=sum(map(len, missing)), label="comparing", progress=progress)
    found = [store.get(key) for unit in units for key, *_ in unit.cells(fingerprint)]
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
        for key, method, price in unit.cells(fingerprint):
            yield Step(key, partial(models.measure, method, price), f"{method.name} at {price:g}")

    own = unit_key(fingerprint, unit.settings, unit.seed)
    return fill(store, own, bench=bench, steps=steps, wait=wait, tell=tell)


@dataclass
class Models:
    """Trains a unit's models; one on a selection that was met before, at another price, is found again."""

    bench: Workbench
    _known: dict[bytes, tuple[Trained, float]] = field(default_factory=dict)

    def measure(self, method: Method, price: float) -> dict[str, Any]:
        """The record of a method at a price."""
        watch = Stopwatch(self.bench)
        choice = method.at_price(self.bench, price)
        trained, owed = self._train(choice.selection, f"{method.name} at {price:g}")
        charged: Choice = replace(choice, owed=choice.owed + owed)
        return record(self.bench, method, charged, trained, price=price, watch=watch)

    def measure_within(self, method: Method, point: float, price: float) -> dict[str, Any]:
        """The record of a method within a budget, a share of All's violation; rewards count `price`."""
        watch = Stopwatch(self.bench)
        choice = method.within(self.bench, point)
        trained, owed = self._train(choice.selection, f"{method.name} at {point:.0%}")
        charged: Choice = replace(choice, owed=choice.owed + owed)
        return record(self.bench, method, charged, trained, price=price, watch=watch, point=point)

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
