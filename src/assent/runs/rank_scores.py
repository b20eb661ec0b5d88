"""How well predictions order what is true: rank correlations, with intervals from resampling both ways.

A column is ordered by itself (a user, say), and its rows (the selections) are shared by all columns. So rows
and columns are drawn again together: rows alone would forget that other users were possible, columns alone
that other selections were. A rank is that among all rows; where a row is drawn twice, so is its rank.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import stats

from assent.support.arrays import Bools, Floats, slices

SCORES = ("lds", "low", "high", "behind", "behind_low", "behind_high")
_RESAMPLED = 2000
"""Draws of the bootstrap."""
_AT_ONCE = 2**21
"""Correlations held in memory by it: 16 MB for each of a handful of arrays."""


class _Lots(NamedTuple):
    """How often each row and each column was drawn: `rows[draws, R]`, `columns[draws, U]`."""

    rows: Floats
    columns: Floats


def rank_correlations(a: Floats, b: Floats) -> Floats:
    """Spearman's correlation of each column of `a[n, m]` with that of `b[n, m]`, 0 for constants: [m]."""
    found: Floats = _correlations(_ranks(a), _ranks(b), np.ones((1, len(a))))[0]
    return found


@dataclass(frozen=True)
class Scored:
    """How well each of several predictions orders what is true, as it is and in every draw."""

    names: Collection[str]
    drawn: Mapping[str, Floats]
    """The mean correlation of each, [1 + draws]; empty where the truth does not vary."""

    def against(self, reference: str) -> dict[str, dict[str, float | None]]:
        """The `SCORES` of each.

        `lds` is the mean over columns of the rank correlation, between `low` and `high` with 95 % confidence.
        `behind` is by how much it falls short of that of `reference`, with the interval of the paired
        difference. Where the truth does not vary, all are None.
        """
        if not self.drawn:
            return {name: dict.fromkeys(SCORES) for name in self.names}
        behind = {name: self.drawn[reference] - values for name, values in self.drawn.items()}
        return {
            name: dict(zip(SCORES, _with_interval(values, 1) + _with_interval(behind[name], 2), strict=True))
            for name, values in self.drawn.items()
        }


def score_orders(predicted: Mapping[str, Floats], truth: Floats, *, seed: int) -> Scored:
    """Score each of `predicted`, all `[R, U]`, against `truth[R, U]`.

    A prediction that does not vary orders nothing and counts as 0. Columns of which the truth does not vary
    have no order and are left out.
    """
    varies: Bools = np.ptp(truth, axis=0) > 0
    if not varies.any():
        return Scored(list(predicted), {})
    y = _ranks(truth[:, varies])
    ranks = {name: _ranks(values[:, varies]) for name, values in predicted.items()}
    as_it_is = _Lots(np.ones((1, len(y))), np.ones((1, y.shape[1])))
    rng = np.random.default_rng(seed)
    parts = [
        {name: _means(x, y, lots) for name, x in ranks.items()}
        for lots in (as_it_is, *_resampled(rng, *y.shape))
    ]
    drawn = {name: np.concatenate([part[name] for part in parts]) for name in ranks}
    return Scored(list(ranks), drawn)


def _ranks(values: Floats) -> Floats:
    """The rank of each row in its column, from the middle: [n, m]; halves at most, so that sums are exact."""
    ranks: Floats = stats.rankdata(values, axis=0) - (len(values) + 1) / 2
    return ranks


def _correlations(x: Floats, y: Floats, rows: Floats) -> Floats:
    """Of the columns of `x[R, U]` and `y[R, U]`, each row as often as in `rows[draws, R]`: [draws, U]."""
    often = rows.sum(axis=1, keepdims=True)
    sum_x, sum_y = rows @ x, rows @ y
    spread = (often * (rows @ x**2) - sum_x**2) * (often * (rows @ y**2) - sum_y**2)
    together = often * (rows @ (x * y)) - sum_x * sum_y
    has_order = spread > 0
    found: Floats = np.where(has_order, together, 0) / np.sqrt(np.where(has_order, spread, 1))
    return found


def _means(x: Floats, y: Floats, lots: _Lots) -> Floats:
    """The mean correlation of the columns drawn: [draws]."""
    means: Floats = np.average(_correlations(x, y, lots.rows), axis=1, weights=lots.columns)
    return means


def _resampled(rng: np.random.Generator, rows: int, columns: int) -> Iterator[_Lots]:
    """All draws of the bootstrap, as many at once as memory takes."""
    at_once = max(1, _AT_ONCE // columns)
    for lot in slices(_RESAMPLED, at_once):
        draws = lot.stop - lot.start
        yield _Lots(_counts(rng, rows, draws), _counts(rng, columns, draws))


def _counts(rng: np.random.Generator, n: int, draws: int) -> Floats:
    """How often each of `n` is drawn in n draws with replacement: [draws, n]."""
    drawn = rng.integers(n, size=(draws, n)) + n * np.arange(draws)[:, None]
    return np.bincount(drawn.ravel(), minlength=n * draws).reshape(draws, n).astype(np.float64)


def _with_interval(values: Floats, most: float) -> tuple[float, float, float]:
    """The first of `values[1 + draws]`, and the 95 % interval of the rest around it, within ± `most`.

    Correlations of rows that were drawn twice are a little smaller, by 1 % or so for 32 rows, which the mean
    over many columns brings out: the interval is moved by that.
    """
    first, rest = values[0], values[1:]
    low, high = np.clip(np.quantile(rest, [0.025, 0.975]) + first - rest.mean(), -most, most)
    return float(first), float(low), float(high)
