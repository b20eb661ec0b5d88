"""What anchors at the solution give to the paper's game within low budgets.

    bench_adaptive.py                                        MF on Diginetica and Steam, 3 seeds
    bench_adaptive.py --datasets diginetica --seeds 2 --most 4

IFRQE++ (welfare, `--value influence`, T = 3), solved again with 0, 1, 2 … anchors where its solution lies:
how far the predicted reward is from the true one after training, and test NDCG@5, both in %. Means over the
seeds, with standard errors of the differences to none.
"""

import argparse

import numpy as np
from assent.settings import Settings
from assent.workbench import Workbench

from assent.evaluation.evaluate import evaluate
from assent.methods import make_method
from assent.runs.records import certificate_of
from common import PAPERS_GAME, load

POINTS = (0.5, 0.25, 0.1)


def measure(bench: Workbench, adaptive: int, point: float) -> tuple[float, float]:
    """How far off the predicted reward is, and NDCG@5, both in %."""
    bench.settings = bench.settings.model_copy(update={"adaptive": adaptive})
    choice = make_method("ifrqe++").within(bench, point)
    trained = bench.final(choice.selection)
    off = certificate_of(bench, choice, trained, price=0)["prediction_error"]
    return 100 * off, 100 * evaluate(bench.problem, trained, choice.selection, price=0)["ndcg"]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--datasets", default="diginetica,steam")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--most", type=int, default=2, help="anchors at the solution, at most")
    given = parser.parse_args()
    if given.seeds < 2:
        parser.error("--seeds: at least 2, for standard errors")
    for name in given.datasets.split(","):
        problem = load(name)
        benches = [Workbench(problem, Settings(value=PAPERS_GAME), seed) for seed in range(given.seeds)]
        for point in POINTS:
            found = np.array(
                [[measure(bench, number, point) for bench in benches] for number in range(given.most + 1)]
            )
            for number, figures in enumerate(found):
                mean = figures.mean(axis=0)
                error = (figures - found[0]).std(axis=0, ddof=1) / np.sqrt(given.seeds)
                print(
                    f"{name} at {point:.0%}, {number} at the solution: reward off by "
                    f"{mean[0]:.1f} ± {error[0]:.1f} %, NDCG@5 {mean[1]:.2f} ± {error[1]:.2f} %",
                    flush=True,
                )
