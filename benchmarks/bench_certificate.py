"""What a person could still gain by deviating from the solution of the paper's game, on real data.

Target: at most 1 % of the mean absolute reward. Also prints the price of anarchy. MF, T = 3 and 8 anchors,
three losses, both objectives, four prices. (`worth` plays around one anchor, where nobody can gain anything.)
"""

from assent.game.certificate import certify
from assent.game.estimates import Objective
from assent.game.solve import solve
from assent.lab import Lab
from assent.methods import make_method
from assent.methods.ifrqe import IFRQEpp
from assent.models.losses import Loss
from common import REAL, Option, load, read_options, settings_of, verdict

PRICES = (0.1, 0.5, 1.0, 2.0)

if __name__ == "__main__":
    given = read_options(
        __doc__,
        datasets=Option(REAL, "data sets", quick=REAL[:1]),
        anchors=Option((3, 8), "numbers of anchors", quick=(2,)),
    )
    largest = dict.fromkeys(Loss, 0.0)
    for name in given.datasets:
        lab = Lab(load(name, quick=given.quick), settings_of(quick=given.quick))
        for loss in Loss:
            for anchors in given.anchors:
                method = make_method("ifrqe++", anchors=anchors, influence={"loss": loss})
                assert isinstance(method, IFRQEpp)
                estimates = method.estimates(lab)
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
        verdict(f"{loss}: largest gain by deviating, share of the mean absolute reward", share, 1, "%")
