"""Where the anchors are: random selections, as in the paper."""

import numpy as np

from assent.arrays import Bools


def draw_anchors(n_rows: int, count: int, *, rate: float, seed: int) -> Bools:
    """`count` selections, [count, n_rows], that disclose each interaction with probability `rate`.

    The first anchors do not depend on how many follow, so that those of IFRQE++ include the one of IFRQE.
    """
    draws = [np.random.default_rng((seed, 0, t)).random(n_rows) < rate for t in range(count)]
    return np.array(draws, dtype=np.bool_)
