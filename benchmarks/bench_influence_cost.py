"""Influence of all interactions at T anchors plus the game, against training one anchor."""

import time

from assent.game.objective import Objective
from assent.game.solve import solve
from assent.settings import Settings
from assent.workbench import Workbench
from common import load, verdict

if __name__ == "__main__":
    for name in ("diginetica", "steam", "amazon_video_games"):
        bench = Workbench(load(name), Settings(), seed=0)
        anchors = bench.settings.anchors
        bench.anchor(0)  # warms up
        start = time.perf_counter()
        bench.anchor(anchors - 1)
        training = (time.perf_counter() - start) / (anchors - 1)
        start = time.perf_counter()
        estimates = bench.estimates(anchors)
        influence = time.perf_counter() - start
        start = time.perf_counter()
        solve(estimates, objective=Objective.WELFARE, price=0.1)
        game = time.perf_counter() - start
        start = time.perf_counter()
        solve(estimates, objective=Objective.NASH, price=0.1)
        nash = time.perf_counter() - start
        print(
            f"{name}: training an anchor {training:.2f} s, influence at {anchors} anchors {influence:.2f} s, "
            f"welfare game {game:.3f} s, nash game {nash:.2f} s"
        )
        verdict(
            f"{name}, one anchor, influence + game / training", (influence / anchors + game) / training, 1, ""
        )
        verdict(f"{name}, {anchors} anchors, welfare: the same", (influence + game) / training, 1, "")
        verdict(f"{name}, {anchors} anchors, nash: the same", (influence + nash) / training, 1, "")
