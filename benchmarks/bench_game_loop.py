"""The game loop on the authors' simulation file: T = 3 anchors, histories of up to 18 interactions.

The authors' loop takes 960 s for L = 1000 samples of every user, after 550 to 640 s for the tables of 2^18
actions, which are not counted here; assent needs no such tables. Prints CPU seconds with one thread, how much
each solution discloses, and what a player could still gain by deviating from it.
"""

import numpy as np

from assent.game.estimates import Estimates, Objective
from assent.game.nearest import regret_of
from assent.game.paper import Gradient, Meeting, Rewards, TableSettings, algorithm_2, draw_all
from assent.game.solve import solve
from assent.lab import Lab
from assent.methods.ifrqe import IFRQEpp
from assent.support.arrays import Bools, Ints, mix
from assent.support.runtime import one_thread
from common import Option, load, read_options, seconds, settings_of, verdict

THEIRS = 960.0


def trust(estimates: Estimates, selection: Bools, price: float) -> str:
    """Say how much a selection discloses, and what a player could gain by deviating from it."""
    gains = regret_of(estimates, selection, objective=Objective.NASH, price=price)
    reward = estimates.predicted_total(selection, price) / estimates.n_users
    share = 100 * gains.max() / abs(reward)
    return f"discloses {100 * selection.mean():.1f} %; largest gain {share:.3g} % of the mean reward"


def mean_reward(rewards: Rewards, codes: Ints) -> float:
    """Return the predicted reward, a mean over players and the joint selections `codes[N, B]`."""
    opponents = Meeting(rewards, codes).seen_by(slice(0, len(codes)))
    return float(opponents.rewards(opponents.drawn).mean())


def main(estimates: Estimates, price: float, rounds: int, samples: int) -> None:
    rewards, keys = Rewards(estimates, Objective.NASH, price), mix(np.arange(estimates.n_users))

    def show(name: str, taken: float, limit: float, codes: Ints, selection: Bools) -> None:
        verdict(name, taken, limit, "s")
        print(f"  {THEIRS / taken:.0f} times faster; mean predicted reward {mean_reward(rewards, codes):.2f}")
        print(f"  {trust(estimates, selection, price)}", flush=True)

    for gradient in Gradient:
        settings = TableSettings(rounds=rounds, samples=samples, gradient=gradient)
        found = []
        taken = seconds(
            lambda: found.append(algorithm_2(rewards, settings, mix(0, keys)))  # noqa: B023
        )
        tables, played = found[0]
        [selection] = rewards.histories.selections(draw_all(rewards, tables, 1, mix(2, keys)))
        name = f"table, {gradient}, {played} rounds of L = {samples}"
        show(name, taken, THEIRS / 20, draw_all(rewards, tables, 100, mix(1, keys)), selection)

    solved = []
    taken = seconds(lambda: solved.append(solve(estimates, objective=Objective.NASH, price=price)))
    selection = solved[0].selection
    bits = selection[rewards.histories.rows] & rewards.histories.inside
    codes = (bits * (1 << np.arange(bits.shape[1]))).sum(axis=1, keepdims=True)
    show("factored", taken, THEIRS / 1000, codes, selection)


if __name__ == "__main__":
    given = read_options(
        __doc__,
        price=Option(0.1, "price"),
        rounds=Option(1, "rounds M; the authors' loop starts anew instead"),
        samples=Option(1000, "samples L", quick=20),
    )
    problem = load("simulation_authors", quick=given.quick)
    longest = int(np.bincount(problem.train.users).max())
    print(f"{problem.n_users} users, {len(problem.train)} interactions, longest history {longest}")
    with one_thread():
        known = IFRQEpp(anchors=3).estimates(Lab(problem, settings_of(quick=given.quick)), effects=True)
        main(known, given.price, given.rounds, given.samples)
