"""The paper's game with anchors where its solution lies, within low budgets.

    bench_adaptive.py                                        MF on Diginetica and Steam, 3 seeds
    bench_adaptive.py --datasets diginetica --seeds 2 --most 4

IFRQE++ (welfare, T = 3) is solved again with 0, 1, 2, … anchors at its solution. Prints by how much the
predicted reward differs from the true one after training, and test NDCG@5, both in %: means over seeds, with
standard errors of the difference to 0 anchors.
"""

import numpy as np

from assent.evaluation.evaluate import evaluate
from assent.lab import Lab, Training
from assent.methods.ifrqe import IFRQEpp
from assent.runs.measure import certificate_of
from common import Option, load, read_options, settings_of

POINTS = (0.5, 0.25, 0.1)


def measure(lab: Lab, adaptive: int, point: float) -> tuple[float, float]:
    """Return the error of the predicted reward, and NDCG@5, both in %."""
    method = IFRQEpp(adaptive=adaptive)
    choice = method.within(lab, point)
    [trained] = lab.train([Training(choice.selection)])
    off = certificate_of(lab, method, choice, trained, price=0)["prediction_error"]
    return 100 * off, 100 * evaluate(lab.problem, trained, choice.selection, price=0)["ndcg"]


if __name__ == "__main__":
    given = read_options(
        __doc__,
        datasets=Option(("diginetica", "steam"), "data sets", quick=("diginetica",)),
        seeds=Option(3, "training seeds, at least 2", quick=2),
        most=Option(2, "largest number of anchors at the solution"),
    )
    for name in given.datasets:
        problem, settings = load(name, quick=given.quick), settings_of(quick=given.quick)
        labs = [Lab(problem, settings, seed) for seed in range(given.seeds)]
        for point in POINTS:
            found = np.array([[measure(lab, n, point) for lab in labs] for n in range(given.most + 1)])
            for n, figures in enumerate(found):
                mean = figures.mean(axis=0)
                error = (figures - found[0]).std(axis=0, ddof=1) / np.sqrt(given.seeds)
                print(
                    f"{name} at {point:.0%}, {n} anchors at the solution: reward off by "
                    f"{mean[0]:.1f} ± {error[0]:.1f} %, NDCG@5 {mean[1]:.2f} ± {error[1]:.2f} %",
                    flush=True,
                )
