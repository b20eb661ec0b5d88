"""Whether exact updates equal fits from scratch, and what they cost.

    bench_exact.py                              all cases (hours)
    bench_exact.py --cases sequences --sequences 12
    bench_exact.py --cases withdrawal --datasets gowalla

sequences    random sequences of add, change, never, withdraw, leave and return on small logs, with every
             model, with and without tuning, folds and shards, at a budget, a price and a quality to keep:
             files of the updated run that differ from those of a fit on the present log
long         the same on whole data sets, with ials and worth, over several steps
withdrawal   one person withdraws one disclosed interaction: seconds of the exact update, with and without the
             calibration kept, against those of a fit, in one run
"""

import tempfile
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Final
from unittest.mock import patch

import numpy as np

from assent.data.door import assign
from assent.data.interactions import Interactions
from assent.data.live import live_problem
from assent.data.problem import Protocol, make_problem
from assent.lab.store import Store
from assent.methods import make_method
from assent.models import MODELS
from assent.runs.folder import Run
from assent.runs.plan import RunPlan
from assent.runs.run import fit
from assent.runs.update import update
from assent.support.runtime import one_thread
from assent.testing.updates import Way, differences
from assent.training import Settings
from common import Option, load_log, read_options, settings_of, verdict, workers

SEED = 0
POINTS: Final[tuple[dict[str, float], ...]] = ({"budget": 0.5}, {"price": 0.05}, {"keep_quality": 0.9})


def sequences() -> None:
    """Print how many files differ, over all models."""
    found, done = list[str](), 0
    for number in range(given.first, given.first + given.sequences):
        model, way = list(given.models)[number % len(given.models)], drawn_way(number)
        # Reports are drawn from the other files, which are compared: a third of the time.
        with (
            one_thread(),
            patch("assent.runs.run.build_report", return_value=""),
            tempfile.TemporaryDirectory() as folder,
        ):
            differ = differences(way, Path(folder), seed=number, steps=given.steps)
        found += [f"{model}, sequence {number}, {each}" for each in differ]
        done += 1
        if done % 25 == 0 or differ:
            print(f"  {done} sequences done, {len(found)} files differ", flush=True)
    verdict(f"files that differ after {done} sequences of {given.steps} steps", len(found), 0)
    for each in found[:5]:
        print(f"  {each}")


def drawn_way(number: int) -> Way:
    """The model goes round with the number; all else is drawn by it."""
    rng = np.random.default_rng([number, 1])
    model = list(given.models)[number % len(given.models)]
    tune = "quick" if rng.random() < 0.3 else "none"
    settings = Settings.model_validate({"model": model, "training": {"epochs": 2}, "tune": tune})
    whole = bool(rng.random() < 0.3)  # folds and trials too
    method = make_method("worth", folds=2) if whole else make_method("worth", source="structure")
    shards = 2 if rng.random() < 0.2 else None
    point = POINTS[rng.integers(2 if shards else len(POINTS))]
    return Way(settings, method, shards is None and bool(rng.random() < 0.2), point, shards)


def long() -> None:
    """Print how many files differ on whole data sets."""
    for name in given.datasets:
        if name == "gowalla":
            continue
        start = _minded(name).table.select("user", "item", "time", "unwillingness")
        way = Way(settings_of("ials", quick=given.quick), make_method("worth"))
        for seed in given.long_seeds:
            with tempfile.TemporaryDirectory() as folder, workers(given.jobs) as executor:
                differ = differences(
                    way, Path(folder), seed=seed, steps=given.long_steps, start=start, executor=executor
                )
            verdict(f"{name}, seed {seed}: files that differ in {given.long_steps} steps", len(differ), 0)
            for each in differ:
                print(f"  {each}")


def withdrawal() -> None:
    """Print the cost of an exact update after one withdrawal, as a share of a fit's."""
    for name in given.datasets:
        log, settings = _minded(name), settings_of("ials", quick=given.quick)
        split, live = make_problem(log, Protocol.PAPER_TABLES), live_problem(log)
        with tempfile.TemporaryDirectory() as place:
            folder, plan = Path(place), RunPlan(budget=0.5)
            kept = Store(folder / "store")
            first = partial(fit, log, split, folder / "run", plan, settings, live=live, store=kept)
            fresh, run = _timed(first)
            print(f"{name}: a fit takes {fresh:.0f} seconds", flush=True)
            gone = run.selection.filter("disclosed").select("user", "item").sample(1, seed=SEED)
            table = log.table.join(gone, on=["user", "item"], how="anti", maintain_order="left")
            now = replace(log, table=table)
            for words, limit in (("with the calibration kept", 0.5), ("with a calibration of its own", 1.05)):
                out, store = folder / words, Store(folder / "store")
                spent, made = _timed(partial(update, run, now, out, keep_calibration=limit < 1, store=store))
                verdict(f"{name}: an exact update {words}, of a fit", spent / fresh, limit, "times")
                both = made.selection.join(run.selection, on=["user", "item"])
                changed = int((both["disclosed"] != both["disclosed_right"]).sum())
                print(f"  {changed} of {both.height} decisions changed", flush=True)


def _minded(name: str) -> Interactions:
    return assign(load_log(name, quick=given.quick), "random", SEED)


def _timed(work: Callable[..., Run]) -> tuple[float, Run]:
    """Seconds on a quiet machine, and what the work returns."""
    started = perf_counter()
    with workers(given.jobs) as executor:
        made = work(executor=executor)
    return perf_counter() - started, made


CASES = {"sequences": sequences, "long": long, "withdrawal": withdrawal}

if __name__ == "__main__":
    given = read_options(
        __doc__,
        cases=Option(tuple(CASES), "which of them"),
        datasets=Option(("diginetica", "steam", "gowalla"), "data sets of long and withdrawal"),
        models=Option(tuple(MODELS), "models of the sequences"),
        sequences=Option(300, "random sequences", quick=6),
        first=Option(0, "number of the first one"),
        steps=Option(2, "steps of each"),
        long_seeds=Option((0,), "seeds of the sequences on whole data sets"),
        long_steps=Option(3, "steps on whole data sets", quick=1),
        jobs=Option(2, "processes"),
    )
    warnings.simplefilter("ignore")
    for case in given.cases:
        CASES[case]()
