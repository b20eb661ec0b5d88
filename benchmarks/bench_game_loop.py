"""The game loop on the authors' simulation file, T = 3 anchors, histories of up to 18. Theirs: 960 s.

Theirs is L = 1000 samples of every user, after a set-up of 550 to 640 s for the tables of 2^18 actions, which
is not counted here; ours has none. One core: run with OMP_NUM_THREADS=1. Seconds are CPU seconds. Beside them
what the solutions disclose and what a player could still gain by deviating from them.
"""

import argparse
import time

import numpy as np
from assent.settings import Settings
from assent.workbench import Workbench

from assent.game.estimates import Objective
from assent.game.nearest import regret_of
from assent.game.paper.algorithms import Rewards, algorithm_2, draw_all
from assent.game.paper.tables import Gradient, TableSettings
from assent.game.solve import solve
from assent.support.arrays import Bools
from common import PAPERS_GAME, load, verdict

THEIRS = 960.0

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--price", type=float, default=0.1)
    parser.add_argument("--rounds", type=int, default=1, help="M; the authors' loop starts anew instead")
    arguments = parser.parse_args()
    problem = load("simulation_authors")
    estimates = Workbench(problem, Settings(anchors=3, value=PAPERS_GAME), seed=0).estimates(3, effects=True)
    longest = int(np.bincount(problem.train.users).max())
    print(f"{problem.n_users} users, {len(problem.train)} interactions, longest history {longest}")

    rewards = Rewards(estimates, Objective.NASH, arguments.price)

    def trust(selection: Bools) -> str:
        gains = regret_of(estimates, selection, objective=Objective.NASH, price=arguments.price)
        reward = estimates.predicted_total(selection, arguments.price) / problem.n_users
        share = 100 * gains.max() / abs(reward)
        return f"discloses {100 * selection.mean():.1f} %; largest gain {share:.3g} % of the mean reward"

    def mean_reward(codes: np.ndarray[tuple[int, int], np.dtype[np.int64]]) -> float:
        """Predicted, over players and the joint selections `codes[N, B]`."""
        opponents = rewards.meet(codes).seen_by(slice(0, problem.n_users))
        return float(opponents.rewards(opponents.drawn).mean())

    for gradient in Gradient:
        settings = TableSettings(rounds=arguments.rounds, samples=1000, gradient=gradient)
        start = time.process_time()
        tables, played = algorithm_2(rewards, settings, np.random.default_rng(0))
        seconds = time.process_time() - start
        reward = mean_reward(draw_all(tables, 100, np.random.default_rng(1)))
        verdict(f"table, {gradient}, {played} rounds of L = 1000", seconds, THEIRS / 20, "s")
        print(f"  {THEIRS / seconds:.0f} times faster; mean predicted reward {reward:.2f}")
        print(f"  {trust(rewards.histories.selections(draw_all(tables, 1, np.random.default_rng(2)))[0])}")

    start = time.process_time()
    found = solve(estimates, objective=Objective.NASH, price=arguments.price)
    seconds = time.process_time() - start
    verdict("factored", seconds, THEIRS / 1000, "s")
    bits = found.selection[rewards.histories.rows] & rewards.histories.inside
    codes = (bits * (1 << np.arange(bits.shape[1]))).sum(axis=1, keepdims=True)
    print(f"  {THEIRS / seconds:.0f} times faster; mean predicted reward {mean_reward(codes):.2f}")
    print(f"  {trust(found.selection)}")
