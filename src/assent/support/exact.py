"""Exact sums of floats: the same whatever the order and however the numbers are dealt out."""

import numpy as np

from assent.support.arrays import Floats, slices

_UNIT = 1074 + 53
"""Sums are integers, in units of 2 to the power of minus this."""
_AT_ONCE = 2**24
"""Numbers whose halves can be summed in double precision without rounding."""


def exact_sum(values: Floats) -> int:
    """Return the sum of finite `values[n]`, in a unit of which every float is a multiple.

    Integers of this unit can be added up further; `rounded` returns the float.
    """
    total = 0
    for here in slices(len(values), _AT_ONCE):
        fractions, exponents = np.frexp(values[here])
        whole = (fractions * 2.0**53).astype(np.int64)
        least = int(exponents.min(initial=0))
        upper = np.bincount(exponents - least, weights=(whole >> 27).astype(np.float64))
        lower = np.bincount(exponents - least, weights=(whole & (2**27 - 1)).astype(np.float64))
        for place, (high, low) in enumerate(zip(upper.tolist(), lower.tolist(), strict=True)):
            total += ((int(high) << 27) + int(low)) << (_UNIT - 53 + least + place)
    return total


def rounded(total: int) -> float:
    """Return the float nearest to an exact sum."""
    return total / (1 << _UNIT)
