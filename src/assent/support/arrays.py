"""Types of the arrays that packages hand to each other, and small operations on them."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
"""float64 array; the owner's docstring gives the shape."""
Ints = npt.NDArray[np.int64]
"""int64 array, usually indices."""
Bools = npt.NDArray[np.bool_]
"""bool array; a *selection* has length `len(problem.train)`."""
Signs = npt.NDArray[np.int8]
"""int8 array of −1, 0 and 1."""
Strings = npt.NDArray[np.str_]
"""Unicode array, usually sorted ids."""


def sum_by(index: Ints, weights: Floats, length: int) -> Floats:
    """Sum `weights[n]` over equal values of `index[n]`: [length]."""
    return np.bincount(index, weights=weights, minlength=length).astype(np.float64, copy=False)


def slices(length: int, size: int) -> Iterator[slice]:
    """Cut `range(length)` into slices of `size`, to bound memory; the last may be shorter."""
    for start in range(0, length, size):
        yield slice(start, min(start + size, length))


def positions(known: Ints | Strings, values: Ints | Strings) -> Ints:
    """Position of each of `values` in the sorted `known`; `len(known)` for values that are not in it."""
    if not len(known):
        return np.zeros(values.shape, dtype=np.int64)
    places = np.minimum(np.searchsorted(known, values), len(known) - 1)
    return np.where(known[places] == values, places, len(known))
