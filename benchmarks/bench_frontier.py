"""The frontier of `worth` against Threshold and Occurrence, and what estimating worth costs.

    bench_frontier.py                                        MF on all data sets, 5 seeds
    bench_frontier.py --models lightgcn,din --seeds 3 --datasets diginetica --unwillingness random-category
    bench_frontier.py --datasets gowalla-part                a log that no setting was chosen on

Prints test NDCG@5 in % after retraining, as means over seeds, and the paired difference to each rival with
its standard error. `--out` keeps finished cells. `--earlier` leaves out the last row of every user, so that
the row before is the test row: settings (`--set worth.source=structure`) and versions are chosen on that.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from assent.cli.how import Asked, read_asked
from assent.data.problem import Problem
from assent.game.estimates import Objective
from assent.lab import Lab, Store
from assent.methods import Method, make_method
from assent.methods.worth import WorthMethod
from assent.runs.compare import frontier
from assent.support.arrays import Floats
from common import REAL, Option, load, read_options, seconds, train, verdict, workers

POINTS = (0.75, 0.5, 0.25, 0.1)
RIVALS = ("threshold", "occurrence")
OURS = "worth"
TARGETS = {
    ("diginetica", "mf"): (20.5, 14.0, 8.0),
    ("steam", "mf"): (40.2, 40.2, 38.5),
}
"""What MF has to reach with random unwillingness at 75, 50 and 25 %."""


def judge(
    problem: Problem, asked: Asked, ours: Method, given: argparse.Namespace, targets: Sequence[float]
) -> Floats:
    """Print a data set's frontier; returns the gain over the better rival at each point, as a share."""
    with workers(given.jobs) as executor:
        records = frontier(
            problem,
            asked.settings,
            methods=[ours, *map(make_method, RIVALS)],
            points=POINTS,
            seeds=range(given.seeds),
            price=0.1,
            store=None if given.out is None else Store(given.out),
            executor=executor,
        )
    figures = {
        name: np.array(
            [
                [100 * each["ndcg"] for each in records if (each["method"], each["point"]) == (name, point)]
                for point in POINTS
            ]
        )
        for name in (OURS, *RIVALS)
    }
    everything = np.mean([100 * each["ndcg"] for each in records if each["method"] == "all"])
    where = f"{problem.name}, {asked.settings.model}"
    print(f"{where}: all {everything:.2f}")
    for name, values in figures.items():
        print(f"  {name:12}" + "".join(f"{mean:8.2f}" for mean in values.mean(axis=1)))
    for name in RIVALS:
        difference = figures[OURS] - figures[name]
        mean, error = difference.mean(axis=1), difference.std(axis=1, ddof=1) / np.sqrt(given.seeds)
        print(f"  - {name:10}" + " ".join(f"{d:+7.2f}±{e:.2f}" for d, e in zip(mean, error, strict=True)))
        for point, d, e in zip(POINTS, mean, error, strict=True):
            if d < -e:
                over = f"{where} at {point:.0%}: over {name} in standard errors"
                verdict(over, d / e, -1, at_most=False)
    for point, limit, value in zip(POINTS, targets, figures[OURS].mean(axis=1), strict=False):
        verdict(f"{where} at {point:.0%}", value, limit, "%", at_most=False)
    best = np.max([figures[name].mean(axis=1) for name in RIVALS], axis=0)
    gain: Floats = figures[OURS].mean(axis=1) / np.maximum(best, 1e-9) - 1
    return gain


def price(problem: Problem, asked: Asked, ours: WorthMethod) -> None:
    """Print what estimating the worth of all interactions costs, in trainings of the model (CPU time)."""
    train(problem, asked.settings)  # warms up
    before = [seconds(lambda: train(problem, asked.settings)) for _ in range(2)]
    estimating = seconds(lambda: ours.estimate(Lab(problem, asked.settings)))
    after = [seconds(lambda: train(problem, asked.settings)) for _ in range(2)]
    cost = estimating / float(np.median(before + after))
    verdict(f"{problem.name}, {asked.settings.model}: worth of all interactions", cost, 10, "trainings")


if __name__ == "__main__":
    given = read_options(
        __doc__,
        datasets=Option((*REAL, "simulation"), "data sets", quick=("diginetica", "simulation")),
        models=Option(("mf",), "recommenders"),
        seeds=Option(5, "training seeds, at least 2", quick=2),
        unwillingness=Option("random", "source of unwillingness"),
        objective=Option(Objective.WELFARE.value, "nash or welfare"),
        earlier=Option(False, "the split one row earlier"),
        set=Option([], "KEY=VALUE, a setting"),
        jobs=Option(1, "processes"),
        out=Option(None, "folder of finished cells", type=Path),
    )
    is_usual = given.unwillingness == "random" and not (given.earlier or given.quick)
    for model in given.models:
        short = ["training.epochs=2"] if given.quick else []
        asked = read_asked(model, [*given.set, *short])
        ours = asked.method(OURS, Objective(given.objective))
        assert isinstance(ours, WorthMethod)
        gains = []
        for name in given.datasets:
            problem = load(name, quick=given.quick, source=given.unwillingness, earlier=given.earlier)
            price(problem, asked, ours)
            gains.append(
                judge(problem, asked, ours, given, TARGETS.get((name, model), ()) if is_usual else ())
            )
        for point, gain in zip(POINTS[1:3], np.mean(gains, axis=0)[1:3], strict=True):
            verdict(f"{model} at {point:.0%}: mean gain", 100 * gain, 10, "%", at_most=False)
