"""What anchors at the solution give to the paper's game within low budgets.

    bench_adaptive.py                                        MF on Diginetica and Steam, 3 seeds
    bench_adaptive.py --datasets diginetica --seeds 2 --most 4

IFRQE++ (welfare, `--value influence`, T = 3), solved again with 0, 1, 2 … anchors where its solution lies:
how far the predicted loss of everybody is from the true one after training, in %, and test NDCG@5 in %.
Means over the seeds; standard errors of the differences to 0 further anchors.
"""

import argparse

import numpy as np

from assent.evaluation import evaluate, validation_losses
from assent.methods import make_method
from assent.settings import Settings
from assent.workbench import Workbench
from common import PAPERS_GAME, load

POINTS = (0.5, 0.25, 0.1)


def measure(name: str, adaptive: int, seed: int, point: float) -> tuple[float, float]:
    """How far off the predicted sum of losses is, and NDCG@5, both in %."""
    problem = load(name)
    settings = Settings(value=PAPERS_GAME, adaptive=adaptive)
    bench = Workbench(problem, settings, seed)
    choice = make_method("ifrqe++").within(bench, point)
    trained = bench.final(choice.selection)
    true = float(validation_losses(problem, trained, settings.influence.loss).sum())
    assert choice.price is not None
    paid = choice.price * float(problem.unwillingness[choice.selection].sum())
    predicted = -problem.n_users * float(str(choice.certificate["predicted_reward"])) - paid
    quality = evaluate(problem, trained, choice.selection, price=0)["ndcg"]
    return 100 * abs(predicted - true) / true, 100 * quality


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--datasets", default="diginetica,steam")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--most", type=int, default=2, help="anchors at the solution, at most")
    given = parser.parse_args()
    for name in given.datasets.split(","):
        for point in POINTS:
            found = np.array(
                [
                    [measure(name, adaptive, seed, point) for seed in range(given.seeds)]
                    for adaptive in range(given.most + 1)
                ]
            )
            for adaptive, figures in enumerate(found):
                mean = figures.mean(axis=0)
                error = (figures - found[0]).std(axis=0, ddof=1) / np.sqrt(given.seeds)
                print(
                    f"{name} at {point:.0%}, {adaptive} at the solution: "
                    f"loss off by {mean[0]:.1f} ± {error[0]:.1f} %, NDCG@5 {mean[1]:.2f} ± {error[1]:.2f} %",
                    flush=True,
                )
