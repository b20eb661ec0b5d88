"""Loops at the speed of compiled code, by numba."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

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
