"""LiSSA as the paper describes it: H⁻¹ b by N_J steps, each with the Hessian of a single sample.

    x_j = b + (I − ∇²ℓ_s) x_{j−1},    s drawn uniformly from the anchor's rows at every step

Here H is the Hessian of the *mean* training loss. Kept as the paper has it, to compare with: a single row
touches so few parameters that the result hardly differs from a multiple of b.
"""

from collections.abc import Callable

import numpy as np
from torch import Tensor

from assent.arrays import Ints
from assent.influence.samples import TrainSamples


def sampled_rows(samples: TrainSamples, *, steps: int, seed: int) -> Ints:
    """The anchor's rows s that the steps use: [steps]."""
    rows = np.flatnonzero(samples.anchor.numpy())
    return np.random.default_rng(seed).choice(rows, size=steps)


def lissa(row_product: Callable[[int, Tensor], Tensor], b: Tensor, rows: Ints) -> Tensor:
    """H⁻¹ b for a vector b, with `row_product(s, x)` = ∇²ℓ_s x."""
    x = b
    for row in rows:
        x = b + x - row_product(int(row), x)
    return x
