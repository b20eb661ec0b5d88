"""The Euclidean projection onto the simplex, for numbers that are given once with how often they occur."""

import numpy as np

from assent.arrays import Floats


def simplex_shift(values: Floats, counts: Floats) -> Floats:
    """The shift τ of each row with Σ_c counts_c · max(values_c − τ, 0) = 1: [R].

    max(values − τ, 0) is then the point of the simplex that is nearest to the row, in which values[R, C]
    occur counts[R, C] times. Every set of numbers gives a lower bound of τ, (their sum − 1) / how many they
    are; starting from all of them, those at most the bound are dropped until none is left to drop (Michelot
    1986).
    """
    weighted = values * counts
    shift: Floats = (weighted.sum(axis=1) - 1) / counts.sum(axis=1)
    above = np.empty_like(values)
    while True:
        np.greater(values, shift[:, None], out=above)
        better = (np.einsum("rc,rc->r", weighted, above) - 1) / np.einsum("rc,rc->r", counts, above)
        if (better <= shift).all():
            return shift
        shift = np.maximum(shift, better)
