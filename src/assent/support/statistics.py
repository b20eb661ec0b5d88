"""How sure a figure is: standard errors over repetitions, paired comparisons.

What too few values cannot tell is None, never NaN, so that every result can be written as JSON.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from assent.support.arrays import Floats

FEWEST = 3
"""Pairs that a test needs: two leave one degree of freedom, which tells nothing."""
_ROUNDING = 1e-12
"""A standard error that is this share of the values is rounding."""


class PairedDifference(NamedTuple):
    """Mean and standard error of a − b over pairs, with the paired t test of "no difference"."""

    mean: float
    error: float | None
    """None for a single pair."""
    t: float | None
    """None where the pairs are fewer than `FEWEST`, or differ by the same: nothing to test against."""
    p: float | None
    """Two-sided; None where t is."""


def mean_and_error(values: npt.ArrayLike) -> tuple[float, float | None]:
    """Mean of `values[n]` and its standard error, s / √n with n − 1 in s; the error of one value is None."""
    array = _vector(values)
    if len(array) == 1:
        return float(array[0]), None
    return float(array.mean()), float(array.std(ddof=1)) / float(np.sqrt(len(array)))


def paired_difference(a: npt.ArrayLike, b: npt.ArrayLike) -> PairedDifference:
    """Compare `a[n]` with `b[n]`, where a[i] and b[i] share what else varies (the seed, the user).

    A difference that is always the same, but for rounding, leaves nothing to test, and so do few pairs.
    """
    first, second = _vector(a), _vector(b)
    if len(first) != len(second):
        raise ValueError(f"paired values: {len(first)} against {len(second)}; each needs its partner")
    mean, error = mean_and_error(first - second)
    if not error or len(first) < FEWEST or error <= _ROUNDING * np.abs([first, second]).max():
        return PairedDifference(mean, error, None, None)
    from scipy import stats  # noqa: PLC0415 (takes long to load)

    t = mean / error
    return PairedDifference(mean, error, t, 2 * float(stats.t.sf(abs(t), len(first) - 1)))


def holm(p: Sequence[float]) -> list[float]:
    """The p of several tests, corrected by Holm (1979) so that any false alarm at a level is that unlikely.

    The k-th smallest of n is multiplied by n − k + 1, never falls below a smaller one's, and is at most 1.
    """
    found, least = [0.0] * len(p), 0.0
    for done, place in enumerate(sorted(range(len(p)), key=lambda each: p[each])):
        least = max(least, min(1.0, (len(p) - done) * p[place]))
        found[place] = least
    return found


def correlation(first: Floats, second: Floats) -> float | None:
    """Pearson's, of `first[n]` and `second[n]`; None for constants."""
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return None
    return float(np.corrcoef(first, second)[0, 1])


def _vector(values: npt.ArrayLike) -> Floats:
    """`values` as a float64 vector of at least one finite number."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not len(array) or not np.isfinite(array).all():
        raise ValueError(f"values: expected a vector of one or more finite numbers, got {array}")
    return array
