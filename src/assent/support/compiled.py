"""Loops at the speed of compiled code, by numba, and the one that several packages need: grouping rows."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt
from numba import njit

from assent.support.arrays import Ints

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """Compile a function of arrays and numbers when it is first called; a decorator.

    The compiled code is kept on disk, beside the source or in the user's cache; where neither can be written,
    every process compiles anew. Other threads may run meanwhile.
    """
    return _compiled(function)


def kernel(function: F) -> F:
    """Compile a function as `compiled` does, for speed: sums may be taken in any order.

    Not a number stays not a number, and a division by 0 raises nothing.
    """
    return _compiled(function, fastmath={"reassoc", "contract", "arcp", "nsz"}, error_model="numpy")


def _compiled(function: F, **how: Any) -> F:
    try:
        return cast(F, njit(cache=True, nogil=True, **how)(function))
    except RuntimeError:  # numba found no place to keep it
        return cast(F, njit(nogil=True, **how)(function))


@compiled
def grouped(keys: Ints, rows: npt.NDArray[np.int32], length: int) -> tuple[Ints, npt.NDArray[np.int32]]:
    """Return where each of `length` keys starts, [length + 1], and `rows[n]` sorted by `keys[rows]`.

    Rows with equal keys stay in the order given. It takes one pass over the rows.
    """
    starts, order = np.zeros(length + 1, dtype=np.int64), np.empty_like(rows)
    for key in keys:
        starts[key + 1] += 1
    starts = np.cumsum(starts)
    ends = starts.copy()
    for row in rows:
        order[ends[keys[row]]] = row
        ends[keys[row]] += 1
    return starts, order


def grouped_twice(
    keys: Ints, others: Ints, length: int, other_length: int
) -> tuple[Ints, npt.NDArray[np.int32]]:
    """Return where each of `keys[n]` starts, [length + 1], and places sorted by key, then by `others[n]`."""
    places = np.arange(len(keys), dtype=np.int32)
    return grouped(keys, grouped(others, places, other_length)[1], length)
