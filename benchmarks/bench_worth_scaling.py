"""Time and memory of worth without its trainings and influence: paths, shrinkage, withdrawal.

Random numbers stand for influence. Cases are data sets by name, or numbers of rows to simulate.

    bench_worth_scaling.py --cases gowalla,10000000
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from assent.data.problem import Problem, make_problem
from assent.data.simulate import simulate
from assent.support.arrays import Floats
from assent.worth import trial
from assent.worth.folds import Measured, deal, pooled
from assent.worth.paths import Paths, find_paths
from common import Option, load, read_options, verdict

FOLDS = 3
LIMITS = {"gowalla": (25, 1.5), "10000000": (360, 5)}
"""CPU seconds and GB that were aimed at."""


class Steps:
    """The CPU time and the peak memory of steps."""

    def __init__(self) -> None:
        self.seconds, self.peak = 0.0, 0.0

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Print what is done here, and add it."""
        Path("/proc/self/clear_refs").write_text("5")  # Linux: the peak begins again
        start = time.process_time()
        yield
        seconds, peak = time.process_time() - start, _peak()
        print(f"{name:24s} {seconds:7.2f} s {peak:6.2f} GB", flush=True)
        self.seconds, self.peak = self.seconds + seconds, max(self.peak, peak)


def _peak() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1e6 for line in lines if line.startswith("VmHWM"))


def influence(problem: Problem, rng: np.random.Generator) -> list[Measured]:
    rows = np.bincount(problem.valid.users, minlength=problem.n_users).astype(np.float64)
    truth = rng.exponential(size=len(problem.train))

    def noisy() -> Floats:
        return truth + 5 * rng.standard_normal(len(truth))

    return [
        Measured(
            own_valid=noisy(),
            own_held=noisy(),
            social_valid=noisy(),
            social_held=noisy(),
            losses=rng.random(problem.n_users),
            n_valid=rows,
            n_held=rows,
        )
        for _ in range(FOLDS)
    ]


def main(name: str, *, quick: bool) -> None:
    if name.isdecimal():
        rows = int(name)
        log = simulate(users=max(1, rows * 3 // 100), items=max(400, rows // 100), rows=rows)
        problem = make_problem(log, "paper-tables", negatives=99)
        del log
    else:
        problem = load(name, quick=quick)
    train, unwillingness, steps = problem.train, problem.unwillingness, Steps()
    print(f"{name}: {len(train):,} training rows, {problem.n_users:,} users, {problem.n_items:,} items")
    with steps.step("find_paths"):
        paths = find_paths(train, problem.user_keys, problem.item_keys, seed=0)
    print(paths.facts())
    with steps.step("values and variances"):
        own = trial.by_paths(paths, Paths.own, Paths.own_variance)
        social = trial.by_paths(paths, Paths.social, Paths.social_variance)
    measured = influence(problem, np.random.default_rng(0))
    with steps.step("pooled"):
        levels = pooled(measured, deal(problem.row_keys, FOLDS, seed=0), train, cost=1.0)
    del measured
    said = [trial.opinions(*each) for each in zip(levels, (own, social), strict=True)]
    means = [level.mean for level in levels]
    del levels
    for kind, opinion in said[1].items():
        with steps.step(f"withdrawn, {kind}"):
            trial.withdrawn(opinion.untold, unwillingness)
    weights = dict.fromkeys(trial.Kind, 1 / 3)
    tilted = {kind: 0.5 if kind is trial.Kind.STRUCTURE else 0.25 for kind in trial.Kind}
    trials = [
        trial.Trial(budget=0.5, qualities=weights, weights=weights),
        trial.Trial(budget=0.2, qualities=tilted, weights=tilted),
    ]
    for level, opinions, mean in zip(("own", "social"), said, means, strict=True):
        with steps.step(f"combine, {level}"):
            values = trial.combine(opinions, trials, unwillingness, mean=mean)
    with steps.step("errors"):
        trial.errors(said[1], trials, values)
    if name in LIMITS:
        verdict(f"{name}, CPU time", steps.seconds, LIMITS[name][0], "s")
        verdict(f"{name}, peak memory", steps.peak, LIMITS[name][1], "GB")
    else:
        print(f"{name}: {steps.seconds:.1f} s, {steps.peak:.2f} GB")


if __name__ == "__main__":
    given = read_options(__doc__, cases=Option(("gowalla", "10000000"), "logs", quick=("gowalla", "10000")))
    for case in given.cases:
        main(case, quick=given.quick)
