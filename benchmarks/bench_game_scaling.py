"""Time and memory of the game for 10^4 to 10^7 interactions, T = 8 anchors.

A run solves a game and certifies the solution; for that, the game is solved with the other objective, too.
`--out FOLDER` draws the times to FOLDER/game_scaling.svg.
"""

import resource
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from assent.game.certificate import certify
from assent.game.estimates import Estimates, Objective
from assent.game.solve import solve
from assent.support.arrays import Bools
from common import Option, draw_growth, read_options, verdict

ANCHORS, PER_USER, PRICE, ROUNDS = 8, 10, 0.5, 40


def synthetic(rows: int) -> Estimates:
    """Return histories of ten with eight anchors, whose values are a common part plus noise of its size.

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


def main(sizes: Sequence[int], folder: Path | None) -> None:
    seconds: dict[Objective, list[float]] = {objective: [] for objective in Objective}
    for rows in sizes:
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
        verdict(f"{sizes[-1]:.0e} interactions, {objective}", times[-1], 60, "s")
        for size, less, more in zip(sizes[2:], times[1:], times[2:], strict=False):
            verdict(f"{size:.0e} interactions against a tenth, {objective}", more / less, 15, "times")
    verdict("peak memory", peak, 8, "GB")
    if folder is not None:
        named = {objective.value: times for objective, times in seconds.items()}
        draw_growth(folder / "game_scaling.svg", sizes, named, "seconds to solve and certify, T = 8")


if __name__ == "__main__":
    given = read_options(
        __doc__,
        sizes=Option((10**4, 10**5, 10**6, 10**7), "numbers of interactions", quick=(10**3, 10**4)),
        out=Option(None, "folder of the picture", type=Path),
    )
    main(given.sizes, given.out)
