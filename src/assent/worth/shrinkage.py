"""Empirical Bayes: noisy measurements are shrunk towards what is expected, by how reliable they are.

What interaction k does to one row, τ_k, is measured twice on disjoint rows: on n validation rows, v = n τ +
noise, and on n' held-out training rows, f = n' τ + noise. Rows count alike, so both together give

    y = (v + f) / (n + n')

The expectation m is the regression of y on `features` (counts of who else has the item and where that leads),
with coefficients that are not negative, shrunk by its adjusted R². Coefficients must not be negative because
interactions with one item replace each other: each of many is worth little while all others stay, though
together they are worth most.

The noises of different rows at different anchors are independent. So the residuals of v and of f give the
variance of τ around m, ω², and the residuals of y that of the noise, σ²:

    E[τ | y] = m + r (y − m),    r = ω² (n + n') / (ω² (n + n') + σ²)
    ω² = Σ Cov(v, f) / Σ n n',   σ² = E[(n + n') (y − m)²] − ω² E[n + n']

What is not significant (two standard errors) counts as 0: ω², and what features learnt on one set of rows
explain of the other. Standard errors are clustered by user and by item, whose rows share their noise. Without
a signal both weights are 0: every interaction is worth the same, and unwillingness alone decides. Values are
c τ, the effect on all validation rows of the level; their number c is n but for rows that judge themselves.

The mean squared error of m + w (y − m), for any w, is ω² (1 − 2w) + w² Var(y − m). Both variances are taken
among interactions with about the same m; ω², which may be 0 by chance, with one standard error added.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from assent.support.arrays import Floats, Ints, slices, sum_by
from assent.support.statistics import correlation

LEAST = 0.03
"""Lower limit of a source's values, as a share of the mean: no source alone can rule an interaction out."""
_SURE = 2.0
"""Standard errors above 0 from which an estimate is significant."""
ROUNDING = 1e-9
"""Relative differences below this are rounding errors; small logs often have them."""
_AT_ONCE = 2**20
"""Rows that a regression takes at once, to bound memory."""
_GROUPS, _LEAST = 20, 1000
"""Most groups of interactions with about the same m, and the least size of a group."""


def fit_rising(design: Floats, target: Floats) -> Floats:
    """Least-squares coefficients of `target[n]` on `design[n, p]`, none below 0: [p]."""
    sizes = np.sqrt(np.sum(design**2, axis=0))
    sizes[sizes == 0] = 1.0
    found: Floats = nnls(design / sizes, target)[0] / sizes
    return found


def condensed(design: Floats, target: Floats, scale: Floats) -> tuple[Floats, Floats]:
    """The regression of `target[n]` on `scale[n]` times `design[n, p]`; of many rows, one of few.

    It has the same solutions and takes less memory: with [A, b] = Q R, |A x − b| = |R (x, −1)| for every x. R
    is taken of blocks of rows, and of all their R.
    """
    if len(target) <= _AT_ONCE:
        return scale[:, None] * design, target
    triangles = [
        np.linalg.qr(np.column_stack([scale[rows, None] * design[rows], target[rows]]), mode="r")
        for rows in slices(len(target), _AT_ONCE)
    ]
    triangle: Floats = np.asarray(np.linalg.qr(np.concatenate(triangles), mode="r"))
    return triangle[:, :-1], triangle[:, -1]


def is_sure(products: Floats, clusters: Sequence[Ints]) -> bool:
    """Whether the mean of `products[Z]` is significantly above 0, for each of the `clusters` ([Z] each)."""
    mean = float(products.mean())
    left = products - mean
    errors = [np.sqrt(np.sum(np.bincount(each, weights=left) ** 2)) / len(left) for each in clusters]
    return bool(mean > _SURE * (1 + ROUNDING) * max(errors))


def features(users: Ints, items: Ints) -> Floats:
    """Four features of rows (`users[Z]`, `items[Z]`), each log(1 + count): [Z, 4].

    shared   whether anybody else has the item (0 or 1, no logarithm)
    others   how many others have it
    reached  how many further interactions those others have
    linked   how many others share the user's other items: to whom the user's item can be recommended
    """
    of_user, of_item = (np.bincount(each).astype(np.float64) for each in (users, items))
    others, history = of_item[items] - 1, of_user[users] - 1
    reached = sum_by(items, history, len(of_item))[items] - history
    linked = sum_by(users, others, len(of_user))[users] - others
    return np.stack([others > 0, np.log1p(others), np.log1p(reached), np.log1p(linked)], axis=1)


@dataclass(frozen=True)
class Twice:
    """Influence of Z interactions on two sets of rows; arrays [Z]."""

    valid: Floats
    """v, on validation rows, mean over anchors."""
    held: Floats
    """f, on rows that an anchor withheld, mean over anchors."""
    joint: Floats
    """Mean of v f over pairs of different anchors; of the same anchor if there is only one."""
    n_valid: Floats
    """n, number of validation rows."""
    n_held: Floats
    """n', mean number of withheld rows."""
    counted: Floats
    """Number of validation rows that a value is for: n, or more where v leaves some out."""


@dataclass(frozen=True)
class Shrunk:
    """The values of Z interactions to their owners, or to everybody; arrays [Z], in loss units."""

    measured: Floats
    """c y."""
    held: Floats
    """c f / n', measured without validation rows."""
    expected: Floats
    """c m."""
    weight: Floats | float
    """r."""
    held_weight: Floats
    """r if f alone is known."""
    signal: Floats
    """c² ω² among interactions with about the same m."""
    spread: Floats
    """c² Var(y − m) among them."""
    explained: float
    """Share of the variance of y that features explain (adjusted R²)."""
    measurement: float
    """Mean of r, the weight of a measured difference from the expectation."""
    agreement: float
    """Correlation of v and f."""
    count: float = 0.0
    """A value added to every interaction alike, in units of `error` (see `folds.pooled`)."""

    @property
    def values(self) -> Floats:
        """c E[τ | y], and the value that all have alike: [Z]."""
        return self.expected + self.weight * (self.measured - self.expected) + self.count * self.error

    @property
    def mean(self) -> float:
        """The mean value; above 0, unless all are 0."""
        return max(float(self.values.mean()), LEAST * float(np.abs(self.values).mean()))

    @property
    def held_values(self) -> Floats:
        """The values without the validation rows, c E[τ | f], so that these can judge them: [Z]."""
        return self.expected + self.held_weight * (self.held - self.expected) + self.count * self.error

    @property
    def errors(self) -> Floats:
        """Standard errors of the values: [Z]."""
        squared = self.signal * (1 - 2 * self.weight) + self.weight**2 * self.spread
        return np.sqrt(np.maximum(squared, 0.0))

    @property
    def error(self) -> float:
        """Root mean square of `errors`."""
        return float(np.sqrt(np.mean(self.errors**2)))

    def facts(self) -> dict[str, float]:
        """How reliable the values are, for the certificate."""
        names = ("explained", "measurement", "agreement", "count", "error")
        return {name: getattr(self, name) for name in names}


def shrink(twice: Twice, features: Floats, clusters: Sequence[Ints]) -> Shrunk:
    """Values from two measurements and `features[Z, p]`, of which more is never worth less.

    `clusters` number the interactions that share their noise, [Z] each.
    """
    rows = twice.n_valid + twice.n_held
    measured = _ratio(twice.valid + twice.held, rows)
    centred = features - _mean(rows, features)
    if is_sure(_carried(twice, centred), clusters):
        expected, share = _expect(measured, rows, centred)
    else:
        expected, share = np.full(len(measured), _mean(rows, measured)), 0.0
    del centred
    products = _products(twice, features)
    shared = twice.n_valid * twice.n_held
    signal = _ratio(products.mean(), shared.mean()) if is_sure(products, clusters) else 0.0
    left = measured - expected
    total = float(np.mean(rows * left**2))
    noise = max(0.0, total - signal * float(rows.mean()))
    weight, held_weight = (_ratio(signal * n, signal * n + noise) for n in (rows, twice.n_held))
    signals, spread = _among_alike(expected, left, products, shared)
    del left, products, shared, rows
    return Shrunk(
        measured=twice.counted * measured,
        held=_ratio(twice.counted * twice.held, twice.n_held),
        expected=twice.counted * expected,
        weight=weight,
        held_weight=held_weight,
        signal=twice.counted**2 * signals,
        spread=twice.counted**2 * spread,
        explained=share,
        measurement=float(weight.mean()),
        agreement=correlation(twice.valid, twice.held) or 0.0,
    )


def _among_alike(expected: Floats, left: Floats, products: Floats, shared: Floats) -> tuple[Floats, Floats]:
    """ω² plus one standard error, and Var(y − m), among interactions with about the same m: [Z] each."""
    groups = min(_GROUPS, max(1, len(left) // _LEAST)) if np.ptp(expected) > 0 else 1
    among = np.empty(len(left), dtype=np.int64)
    among[np.argsort(-expected, kind="stable")] = np.arange(len(left)) * groups // len(left)
    sizes = np.bincount(among)
    spread, mean, rows = (sum_by(among, each, 0) / sizes for each in (left**2, products, shared))
    error = np.sqrt(sum_by(among, (products - mean[among]) ** 2, 0) / sizes / sizes)
    return np.clip(_ratio(mean + error, rows), 0.0, spread)[among], spread[among]


def _expect(measured: Floats, rows: Floats, centred: Floats) -> tuple[Floats, float]:
    """m, [Z], and the share of the variance of y that it explains.

    The least-squares prediction, weighted by rows, is shrunk towards the mean by the adjusted R².
    """
    mean, root = _mean(rows, measured), np.sqrt(rows)
    explained = centred @ fit_rising(*condensed(centred, root * (measured - mean), root))
    total, freedom = _mean(rows, (measured - mean) ** 2), len(measured) - 1 - centred.shape[1]
    plain = float(_ratio(_mean(rows, explained**2), total))
    if plain == 0 or freedom <= 0:
        return np.full(len(measured), mean), 0.0
    adjusted = min(max(1 - (1 - plain) * (len(measured) - 1) / freedom, 0.0), 1.0)
    return mean + adjusted / plain * explained, adjusted


def _mean(rows: Floats, values: Floats) -> Floats:
    """The mean of `values[Z, ...]`, weighted by `rows[Z]`."""
    return _ratio(rows @ values, rows.sum())


def _carried(twice: Twice, centred: Floats) -> Floats:
    """What features explain of one measurement times the other measurement, both ways: [Z]."""
    products = np.zeros(len(twice.valid))
    sets = ((twice.held, twice.n_held), (twice.valid, twice.n_valid))
    for (learnt, n_learnt), (judged, n_judged) in (sets, sets[::-1]):
        above = learnt - n_learnt * _ratio(learnt.sum(), n_learnt.sum())
        explained = centred @ fit_rising(*condensed(centred, above, n_learnt))
        products += explained * (judged - n_judged * _ratio(judged.sum(), n_judged.sum()))
    rates = [_ratio(np.abs(part).max(), n.max()) for part, n in sets]
    return _rounded(products, rates[0] * rates[1] * max(n.max() for _, n in sets))


def _products(twice: Twice, features: Floats) -> Floats:
    """Products of the residuals of v and f at different anchors: [Z]."""
    design = np.concatenate([np.ones((len(features), 1)), features], axis=1)
    left_valid, left_held = (
        part - n * (design @ np.linalg.lstsq(*condensed(design, part, n), rcond=None)[0])
        for part, n in ((twice.valid, twice.n_valid), (twice.held, twice.n_held))
    )
    products: Floats = twice.joint - twice.valid * twice.held + left_valid * left_held
    return _rounded(products, np.abs(twice.valid).max() * np.abs(twice.held).max())


def _rounded(products: Floats, scale: float) -> Floats:
    """`products[Z]` with rounding errors, relative to `scale`, set to 0."""
    return np.where(np.abs(products) > ROUNDING * scale, products, 0.0)


def _ratio(above: Floats, below: Floats) -> Floats:
    """`above` / `below`; 0 where `below` is not positive."""
    nothing = np.zeros(np.broadcast(above, below).shape)
    return np.divide(above, below, out=nothing, where=np.asarray(below) > 0)
