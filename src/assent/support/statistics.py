"""Standard errors over repetitions, intervals, paired t tests, Holm's correction.

A figure that cannot be computed from too few values is None, never NaN: every result can be written as JSON.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import stdtr, stdtrit

from assent.support.arrays import Floats

FEWEST = 3
"""Smallest number of pairs to test: two leave a single degree of freedom."""
_ROUNDING = 1e-12
"""A standard error of at most this share of the values is taken for rounding."""


@dataclass(frozen=True)
class Interval:
    """A figure, and between what it is in 95 of 100 cases."""

    mean: float
    low: float
    high: float

    @classmethod
    def around(cls, mean: float, parts: Sequence[tuple[float, int]]) -> "Interval":
        """The interval of a mean whose variance is a sum of estimates, each with its degrees of freedom.

        The quantile is that of Student's t with the degrees of freedom of Welch and Satterthwaite.
        """
        variance = sum(part for part, _ in parts)
        if not variance:
            return cls(mean, mean, mean)
        freedom = variance**2 / sum(part**2 / count for part, count in parts if part)
        half = float(stdtrit(freedom, 0.975)) * math.sqrt(variance)
        return cls(mean, mean - half, mean + half)

    @property
    def half(self) -> float:
        """Half of its length."""
        return (self.high - self.low) / 2


class PairedDifference(NamedTuple):
    """Mean and standard error of a − b over pairs, with a paired t test of "no difference"."""

    mean: float
    error: float | None
    """None for a single pair."""
    t: float | None
    """None for fewer than `FEWEST` pairs, or if all pairs differ by the same."""
    p: float | None
    """Two-sided; None if t is."""


def mean_and_error(values: npt.ArrayLike) -> tuple[float, float | None]:
    """Mean of `values[n]` and its standard error s / √n (s with n − 1); the error of one value is None."""
    array = _vector(values)
    if len(array) == 1:
        return float(array[0]), None
    return float(array.mean()), float(array.std(ddof=1)) / float(np.sqrt(len(array)))


def paired_difference(a: npt.ArrayLike, b: npt.ArrayLike) -> PairedDifference:
    """Compare `a[n]` with `b[n]`, where a[i] and b[i] belong together (the same seed, the same user).

    Without variation beyond rounding, or with fewer than `FEWEST` pairs, there is no test.
    """
    first, second = _vector(a), _vector(b)
    if len(first) != len(second):
        raise ValueError(f"paired values: {len(first)} against {len(second)}; each needs its partner")
    mean, error = mean_and_error(first - second)
    if not error or len(first) < FEWEST or error <= _ROUNDING * np.abs([first, second]).max():
        return PairedDifference(mean, error, None, None)
    t = mean / error
    return PairedDifference(mean, error, t, 2 * float(stdtr(len(first) - 1, -abs(t))))


def holm(p: Sequence[float]) -> list[float]:
    """Correct the p values of several tests by Holm (1979), which bounds the chance of any false alarm.

    The k-th smallest of n is multiplied by n − k + 1; it is at least the corrected smaller ones, at most 1.
    """
    found, least = [0.0] * len(p), 0.0
    for done, place in enumerate(sorted(range(len(p)), key=lambda each: p[each])):
        least = max(least, min(1.0, (len(p) - done) * p[place]))
        found[place] = least
    return found


def correlation(first: Floats, second: Floats) -> float | None:
    """Pearson correlation of `first[n]` and `second[n]`; None if one of them is constant."""
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return None
    return float(np.corrcoef(first, second)[0, 1])


def _vector(values: npt.ArrayLike) -> Floats:
    """Check that `values` are one or more finite numbers: float64 [n]."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not len(array) or not np.isfinite(array).all():
        raise ValueError(f"values: expected a vector of one or more finite numbers, got {array}")
    return array
