"""What anybody could still gain by deviating from the solution of the game, on real data.

Target: at most 1 % of the mean absolute reward. The price of anarchy is printed beside it. The games are the
paper's, with influence at each anchor; by default values are pooled, and one anchor leaves nothing to gain.
"""

import sys

from assent.settings import Settings
from assent.workbench import Workbench

from assent.game.certificate import certify
from assent.game.estimates import Objective
from assent.game.solve import solve
from assent.models.losses import Loss
from common import PAPERS_GAME, load, verdict

DATA = ("diginetica", "steam", "amazon_video_games")
PRICES = (0.1, 0.5, 1.0, 2.0)


def main(names: list[str]) -> None:
    largest = dict.fromkeys(Loss, 0.0)
    for name in names:
        problem = load(name)
        for loss in Loss:
            bench = Workbench(
                problem,
                Settings.model_validate({"influence": {"loss": loss}, "value": PAPERS_GAME.model_dump()}),
                0,
            )
            for anchors in (3, 8):
                estimates = bench.estimates(anchors)
                for objective in Objective:
                    for price in PRICES:
                        found = solve(estimates, objective=objective, price=price)
                        figures = certify(estimates, found, objective=objective, price=price, rounds=40)
                        share = 100 * figures.largest_gain_share
                        largest[loss] = max(largest[loss], share)
                        print(
                            f"{name}, {loss}, T = {anchors}, {objective}, price {price:g}: largest gain "
                            f"{figures.largest_gain:.3g} ({share:.3f} %), mean {figures.mean_gain:.2g}, "
                            f"predicted reward {figures.predicted_reward:.2f}, price of anarchy "
                            f"{figures.price_of_anarchy:.4f} ({figures.anarchy_cost:.3f} per user), "
                            f"rounds {figures.rounds}",
                            flush=True,
                        )
    for loss, share in largest.items():
        verdict(f"{loss}: largest deviation gain, share of the mean absolute reward", share, 1, "%")


if __name__ == "__main__":
    main(sys.argv[1:] or list(DATA))
