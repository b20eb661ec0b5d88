"""What the game of the authors' published code discloses when influence is 0: nothing but its step decides.

    bench_published.py                          Diginetica and Amazon (a minute)
    bench_published.py --steps 0.01,0.02,0.04,0.08,0.16 --losses 0.1,0.65

For every step size and every mean loss of the anchors, the violation of what is disclosed after 1000 steps.
No model is trained. The paper has, for MF on Diginetica, Base 2.01, IFRQE 2.01, IFRQE++ 1.79; its code has
a step of 0.08 there.
"""

import numpy as np

from assent.data.problem import Problem
from assent.game.estimates import Estimates, Objective
from assent.game.paper import TableSettings
from assent.game.published import play_published
from assent.support.runtime import one_thread
from common import Option, load, read_options


def violation(problem: Problem, step: float, loss: float, samples: int) -> float:
    """Return the violation at price 1, with one anchor that discloses everything."""
    rows, zero = len(problem.train), np.zeros((1, len(problem.train)))
    game = Estimates(
        owners=problem.train.users,
        n_users=problem.n_users,
        unwillingness=problem.unwillingness,
        anchors=np.ones((1, rows), dtype=np.bool_),
        own=zero,
        social=zero,
        losses=np.full((1, problem.n_users), loss),
    )
    settings = TableSettings(step=step, samples=samples)
    found = play_published(
        game, objective=Objective.NASH, price=1.0, settings=settings, keys=problem.user_keys
    )
    return problem.violation(found.selection)


if __name__ == "__main__":
    given = read_options(
        __doc__,
        datasets=Option(("diginetica", "amazon_video_games"), "data sets"),
        steps=Option((0.01, 0.04, 0.08, 0.1), "step sizes γ"),
        losses=Option((0.1, 0.65), "mean losses of the anchors"),
        samples=Option(1000, "L", quick=50),
    )
    for name in given.datasets:
        problem = load(name, quick=given.quick)
        print(f"{name}: everything {problem.violation():.3f}", flush=True)
        for loss in given.losses:
            with one_thread():
                kept = {step: violation(problem, step, loss, given.samples) for step in given.steps}
            print(
                f"  loss {loss:g}: "
                + ", ".join(f"γ = {step:g} → {found:.3f}" for step, found in kept.items())
            )
