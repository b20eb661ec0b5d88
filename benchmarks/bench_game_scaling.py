"""The time and memory of the game against the number of interactions: 10^4 to 10^7, T = 8 anchors.

A run solves its game and certifies the solution, for which the game is also solved with the other objective.
`bench_game_scaling.py FOLDER` also draws the times to FOLDER/game_scaling.svg.
"""

import resource
import sys
import time
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from assent.game.certificate import certify
from assent.game.estimates import Estimates, Objective
from assent.game.solve import solve
from assent.support.arrays import Bools
from common import verdict

SIZES = (10**4, 10**5, 10**6, 10**7)
ANCHORS, PER_USER, PRICE, ROUNDS = 8, 10, 0.5, 40


def synthetic(rows: int) -> Estimates:
    """Histories of ten, and eight anchors that agree on the values but for as much noise.

    As in real estimates, what an anchor withholds is worth more there, so that no cell answers itself.
    """
    rng = np.random.default_rng(0)
    owners = np.arange(rows) // PER_USER
    anchors: Bools = rng.random((ANCHORS, rows), dtype=np.float32) < 0.9
    truth = rng.standard_normal(rows)
    own = np.empty((ANCHORS, rows))
    for t in range(ANCHORS):
        own[t] = truth + rng.standard_normal(rows) + 0.3 * ~anchors[t]
    losses = 60 + rng.random((ANCHORS, rows // PER_USER))
    return Estimates(owners, rows // PER_USER, rng.random(rows), anchors, own, 1.5 * own, losses)


def draw(folder: Path, seconds: dict[Objective, list[float]]) -> None:
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for objective, times in seconds.items():
        axes.loglog(SIZES, times, marker="o", label=objective.value)
    linear = [seconds[Objective.NASH][-1] * size / SIZES[-1] for size in SIZES]
    axes.loglog(SIZES, linear, linestyle="--", color="grey", label="linear")
    axes.set_xlabel("interactions")
    axes.set_ylabel("seconds to solve and certify, T = 8")
    axes.legend()
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / "game_scaling.svg", metadata={"Date": None})


def main(folder: Path | None) -> None:
    seconds: dict[Objective, list[float]] = {objective: [] for objective in Objective}
    for rows in SIZES:
        game = synthetic(rows)
        for objective in Objective:
            start = time.perf_counter()
            found = solve(game, objective=objective, price=PRICE, rounds=ROUNDS)
            solved = time.perf_counter() - start
            trust = certify(game, found, objective=objective, price=PRICE, rounds=ROUNDS, is_solved=True)
            seconds[objective].append(time.perf_counter() - start)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
            print(
                f"{rows:.0e} interactions, {objective}: {solved:.2f} s, certified after "
                f"{seconds[objective][-1]:.2f} s, {peak:.2f} GB, {found.rounds} rounds, "
                f"largest gain {100 * trust.largest_gain_share:.3g} % of the mean reward",
                flush=True,
            )
    for objective, times in seconds.items():
        verdict(f"10^7 interactions, {objective}", times[-1], 60, "s")
        for size, less, more in zip(SIZES[2:], times[1:], times[2:], strict=False):
            verdict(f"{size:.0e} interactions against a tenth, {objective}", more / less, 15, "times")
    verdict("peak memory", peak, 8, "GB")
    if folder is not None:
        draw(folder, seconds)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
