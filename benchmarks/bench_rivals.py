"""What IFRQE++ costs against rivals that train a model for everything they try: MF, one thread, CPU time.

SCR is measured on a few explored selections (`--explored`) and extrapolated linearly to L = 1000, because
each costs a training. In one round, all are drawn from the prior, as in the first iteration of the paper's
Algorithm 2. In several rounds, later selections withhold more and are cheaper to train on than the anchors of
IFRQE++. Proactive runs until it converges. All times include the final training. Of IFRQE++ and SCR the
cheaper of two runs counts, because other work on the machine makes CPU time longer.
"""

import time
from typing import Any

from assent.data.problem import Problem
from assent.lab import Lab, Training
from assent.methods import Choice, Method, make_method
from assent.support.runtime import one_thread
from assent.training import Settings
from common import Option, load, read_options, settings_of, verdict

PRICE = 1.0
EXPLORED = 1000
SPEED_UP_OVER_PROACTIVE = 13.5
GAME: dict[str, Any] = {"objective": "nash", "influence": {"loss": "bce"}}
"""Settings of the paper's game."""
ANCHORS = (2, 3, 8)


def whole_run(problem: Problem, settings: Settings, method: Method) -> tuple[float, float, Choice]:
    """Return CPU seconds of the decision and of the final training, and the decision."""
    lab = Lab(problem, settings)
    start = time.process_time()
    choice = method.at_price(lab, PRICE)
    decided = time.process_time()
    lab.train([Training(choice.selection)])
    return decided - start, time.process_time() - decided, choice


def cheaper_run(problem: Problem, settings: Settings, method: Method) -> tuple[float, float]:
    """Return CPU seconds of the decision and of the final training, the least of two runs each."""
    decisions, finals, _ = zip(*(whole_run(problem, settings, method) for _ in range(2)), strict=True)
    return min(decisions), min(finals)


def main(name: str, problem: Problem, settings: Settings, *, explored: int, proactive: Method) -> None:
    whole_run(problem, settings, make_method("ifrqe", **GAME))  # warms up
    ours: dict[int, float] = {}
    for anchors in ANCHORS:
        method = make_method("ifrqe++", anchors=anchors, **GAME)
        ours[anchors] = sum(cheaper_run(problem, settings, method))
        print(f"{name}: IFRQE++, T = {anchors}: {ours[anchors]:.1f} s CPU", flush=True)
    for rounds in (1, 4):
        method = make_method("scratch", selections=explored, rounds=rounds)
        decision, final = cheaper_run(problem, settings, method)
        scratch = decision * EXPLORED / explored + final
        print(
            f"{name}: SCR, {explored} selections in {rounds} rounds: {decision:.1f} s; "
            f"extrapolated linearly to {EXPLORED}: {scratch:.0f} s CPU",
            flush=True,
        )
        for anchors in (2, 8):
            bound = EXPLORED / (anchors + 1)
            title = f"{name}: SCR in {rounds} rounds / IFRQE++, T = {anchors} (bound {bound:.0f})"
            verdict(title, scratch / ours[anchors], 2 / 3 * bound, "times", at_most=False)
    decision, final, choice = whole_run(problem, settings, proactive)
    played, converged = choice.certificate["rounds"], bool(choice.certificate["converged"])
    print(f"{name}: Proactive, {played} rounds (converged: {converged}): {decision + final:.0f} s CPU")
    title = f"{name}: Proactive / IFRQE++, T = 3"
    verdict(title, (decision + final) / ours[3], SPEED_UP_OVER_PROACTIVE, "times", at_most=False)


if __name__ == "__main__":
    given = read_options(
        __doc__,
        datasets=Option(("diginetica",), "data sets"),
        explored=Option(12, "selections of SCR that are measured", quick=4),
        rounds=Option(300, "largest number of Proactive's rounds", quick=10),
    )
    with one_thread():
        for data in given.datasets:
            main(
                data,
                load(data, quick=given.quick),
                settings_of(quick=given.quick),
                explored=given.explored,
                proactive=make_method("proactive", rounds=given.rounds),
            )
