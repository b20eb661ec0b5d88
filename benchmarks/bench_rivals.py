"""What IFRQE++ costs against the rivals that train a model for everything they try, MF, one thread, CPU time.

python benchmarks/bench_rivals.py [DATA [MEASURED]]

SCR is measured on MEASURED explored selections (12) and extrapolated linearly to L = 1000: each costs a
training. In one round all are drawn from the prior, as in the first iteration of the paper's Algorithm 2; in
several the later ones withhold more and are cheaper to train on than IFRQE++'s anchors. Proactive runs to its
own convergence. All pay for their final training. Of IFRQE++ and SCR the cheaper of two runs counts, since
other work on the machine makes caches cold and CPU time long.
"""

import sys
import time

from assent.game.retraining import ScratchSettings
from assent.settings import Settings
from assent.workbench import Workbench

from assent.game.estimates import Objective
from assent.influence.settings import InfluenceSettings
from assent.methods import Choice, make_method
from assent.models.losses import Loss
from assent.support.runtime import one_thread
from common import PAPERS_GAME, load, verdict

PRICE = 1.0
EXPLORED = 1000
SPEED_UP_OVER_PROACTIVE = 13.5
SETTINGS = Settings(influence=InfluenceSettings(loss=Loss.BCE), value=PAPERS_GAME)


def whole_run(name: str, method: str, settings: Settings) -> tuple[float, float, Choice]:
    """CPU seconds of the decision and of the final training, and the decision."""
    bench = Workbench(load(name), settings, seed=0)
    start = time.process_time()
    choice = make_method(method, Objective.NASH).at_price(bench, PRICE)
    decided = time.process_time()
    bench.final(choice.selection)
    return decided - start, time.process_time() - decided, choice


def cheaper_run(name: str, method: str, settings: Settings) -> tuple[float, float]:
    """CPU seconds of the decision and of the final training, the least of two runs each."""
    decisions, finals, _ = zip(*(whole_run(name, method, settings) for _ in range(2)), strict=True)
    return min(decisions), min(finals)


def scratch_cost(name: str, measured: int, rounds: int) -> float:
    """CPU seconds of SCR with L = 1000, extrapolated linearly from `measured` explored selections."""
    few = SETTINGS.model_copy(update={"scratch": ScratchSettings(selections=measured, rounds=rounds)})
    decision, final = cheaper_run(name, "scratch", few)
    scratch = decision * EXPLORED / measured + final
    print(
        f"{name}: SCR, {measured} selections in {rounds} rounds: {decision:.1f} s; "
        f"extrapolated linearly to {EXPLORED}: {scratch:.0f} s CPU"
    )
    return scratch


def main(name: str, measured: int) -> None:
    whole_run(name, "ifrqe", SETTINGS)  # warms up
    ours = {}
    for anchors in (2, SETTINGS.anchors, 8):
        decision, final = cheaper_run(name, "ifrqe++", SETTINGS.model_copy(update={"anchors": anchors}))
        ours[anchors] = decision + final
        print(f"{name}: IFRQE++, T = {anchors}: {ours[anchors]:.1f} s CPU")
    for rounds in (1, SETTINGS.scratch.rounds):
        scratch = scratch_cost(name, measured, rounds)
        for anchors in (2, 8):
            bound = EXPLORED / (anchors + 1)
            title = f"{name}: SCR in {rounds} rounds / IFRQE++, T = {anchors} (bound {bound:.0f})"
            verdict(title, scratch / ours[anchors], 2 / 3 * bound, "times", at_most=False)
    decision, final, choice = whole_run(name, "proactive", SETTINGS)
    rounds, converged = choice.explored, bool(choice.certificate["converged"])
    print(f"{name}: Proactive, {rounds} rounds (converged: {converged}): {decision + final:.0f} s CPU")
    speed_up = (decision + final) / ours[SETTINGS.anchors]
    verdict(
        f"{name}: Proactive / IFRQE++, T = {SETTINGS.anchors}",
        speed_up,
        SPEED_UP_OVER_PROACTIVE,
        "times",
        at_most=False,
    )


if __name__ == "__main__":
    with one_thread():
        main(
            sys.argv[1] if len(sys.argv) > 1 else "diginetica", int(sys.argv[2]) if len(sys.argv) > 2 else 12
        )
