"""The frontier of the default method against Threshold and Occurrence, and what its values cost.

    bench_frontier.py                                        MF on all data sets, 5 seeds
    bench_frontier.py --models lightgcn,din --seeds 3 --datasets diginetica --unwillingness random-category
    bench_frontier.py --datasets gowalla                     a log that nothing was chosen on

Test NDCG@5 after retraining, in %, mean and standard error of the paired difference to each rival. With
--out, finished cells are kept there and not computed again. With --earlier, the last row of every user is
left out and the one before it is the test row: what settings (--set value.source=structure) and versions are
compared on.
"""

import argparse
from pathlib import Path

import numpy as np
from assent.runs.frontier import frontier, parse_methods
from assent.settings import Settings
from assent.workbench import Workbench

from assent.cli.options import read_settings
from assent.data.problem import Problem
from assent.game.estimates import Objective
from assent.support.arrays import Floats
from common import load, seconds, verdict

POINTS = (0.75, 0.5, 0.25, 0.1)
RIVALS = ("threshold", "occurrence")
OURS = "ifrqe++"
ASKED = {
    ("diginetica", "mf"): (20.5, 14.0, 8.0),
    ("steam", "mf"): (40.2, 40.2, 38.5),
}
"""What matrix factorisation is to reach with random unwillingness at 75, 50 and 25 %."""


def judge(
    problem: Problem,
    settings: Settings,
    objective: Objective,
    *,
    seeds: int,
    out: Path | None,
    asked: tuple[float, ...],
) -> Floats:
    """Print a data set's frontier; the gain over the better rival at each point, as a share: [points]."""
    methods = parse_methods(f"{OURS}:{objective},{','.join(RIVALS)}")
    records = frontier(
        problem, settings, methods=methods, points=POINTS, seeds=range(seeds), price=0.1, cache=out
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
    where = f"{problem.name}, {settings.model}"
    print(f"{where}: all {everything:.2f}")
    for name, values in figures.items():
        print(f"  {name:12}" + "".join(f"{mean:8.2f}" for mean in values.mean(axis=1)))
    for name in RIVALS:
        difference = figures[OURS] - figures[name]
        mean, error = difference.mean(axis=1), difference.std(axis=1, ddof=1) / np.sqrt(seeds)
        print(f"  - {name:10}" + " ".join(f"{d:+7.2f}±{e:.2f}" for d, e in zip(mean, error, strict=True)))
        for point, d, e in zip(POINTS, mean, error, strict=True):
            if d < -e:
                verdict(
                    f"{where} at {point:.0%}: over {name} in standard errors", d / e, -1, "", at_most=False
                )
    for point, limit, value in zip(POINTS, asked, figures[OURS].mean(axis=1), strict=False):
        verdict(f"{where} at {point:.0%}", value, limit, "%", at_most=False)
    best = np.max([figures[name].mean(axis=1) for name in RIVALS], axis=0)
    gain: Floats = figures[OURS].mean(axis=1) / best - 1
    return gain


def price(problem: Problem, settings: Settings, objective: Objective) -> None:
    """Print what valuing all interactions costs, in trainings of the model."""
    bench, everything = Workbench(problem, settings, seed=0), np.ones(len(problem.train), dtype=np.bool_)
    bench.final(everything)  # warms up
    before = [seconds(lambda: bench.final(everything)) for _ in range(2)]
    valuing = seconds(lambda: bench.estimates(settings.anchors, objective))
    after = [seconds(lambda: bench.final(everything)) for _ in range(2)]
    cost = valuing / float(np.median(before + after))
    verdict(f"{problem.name}, {settings.model}: values of all interactions", cost, 10, "trainings")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--datasets", default="diginetica,steam,amazon_video_games,simulation")
    parser.add_argument("--models", default="mf")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--unwillingness", default="random")
    parser.add_argument("--objective", type=Objective, default=Objective.WELFARE, help="nash or welfare")
    parser.add_argument("--earlier", action="store_true", help="the split one row earlier")
    parser.add_argument("--set", action="append", default=[], help="KEY=VALUE, a setting")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.seeds < 2:
        parser.error("--seeds: at least 2, for standard errors")
    for model in given.models.split(","):
        gains = []
        for name in given.datasets.split(","):
            problem = load(name, source=given.unwillingness, earlier=given.earlier)
            settings = read_settings(model, overrides=given.set)
            price(problem, settings, given.objective)
            asked = (
                ASKED.get((name, model), ()) if given.unwillingness == "random" and not given.earlier else ()
            )
            gains.append(
                judge(problem, settings, given.objective, seeds=given.seeds, out=given.out, asked=asked)
            )
        for point, gain in zip(POINTS[1:3], np.mean(gains, axis=0)[1:3], strict=True):
            verdict(f"{model} at {point:.0%}: mean gain", 100 * gain, 10, "%", at_most=False)
