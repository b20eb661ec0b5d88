"""What counts as certain, and least squares where more of a feature is never worth less.

What an interaction's place among the others says: who else has the item, and whom that leads to.

A recommender carries knowledge from a user to an item, to others who have it, and to their items (`paths`).
These counts are what influence is expected to follow. More of each is never taken for a sign of less worth:
interactions with one item stand in for each other, so that of many each is worth little while all others
stay, though together they are worth most.

Empirical Bayes: a noisy measurement drawn towards what is expected, by how reliable it is.

What interaction k does to one row, τ_k, is measured twice on disjoint rows: on n validation rows, v = n τ +
noise, and on n' held-out training rows, f = n' τ + noise. Rows count alike, so both together are

    y = (v + f) / (n + n')

What counts lead to expect, m, is the regression of y on features of which more is never worth less,
shrunk by its adjusted R². The noises of different rows at different anchors are independent, so what is
left of v and f after a regression of each gives the variance of τ around m, and what is left of y that of the
noise:

    E[τ | y] = m + r (y − m),    r = ω² (n + n') / (ω² (n + n') + σ²)
    ω² = Σ Cov(v, f) / Σ n n',   σ² = E[(n + n') (y − m)²] − ω² E[n + n']

An estimate that is not twice its standard error counts as 0, for ω² as for what counts learn on one set
of rows and explain on the other. Rows of a user, or of an item, share their noise, so whole users and whole
items are what is counted. Without a signal both weights are 0: every interaction is worth the same, and
unwillingness alone decides. Values are n τ: the effect on all validation rows that the level is about.

How far τ may be from m + w (y − m), whatever w, is ω² (1 − 2w) + w² Var(y − m) in the mean of squares. Both
variances are taken among the interactions of about the same m, and of ω², which may come out as 0 by chance,
one standard error more.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from assent.support.arrays import Floats, Ints, sum_by
from assent.support.statistics import correlation

_SURE = 2.0
"""Standard errors above 0 from which an estimate counts."""
ROUNDING = 1e-9
"""Differences below this share are rounding, which decides nothing; few interactions often have them."""


def fit_rising(design: Floats, target: Floats) -> Floats:
    """Least-squares coefficients, none below 0: [p]. What is left is orthogonal to the fit."""
    sizes = np.sqrt(np.sum(design**2, axis=0))
    sizes[sizes == 0] = 1.0
    found: Floats = nnls(design / sizes, target)[0] / sizes
    return found


def is_sure(products: Floats, clusters: Sequence[Ints]) -> bool:
    """Whether the mean of `products[Z]` is above 0 for certain, by whole clusters of each numbering."""
    mean = float(products.mean())
    left = products - mean
    errors = [np.sqrt(np.sum(np.bincount(each, weights=left) ** 2)) / len(left) for each in clusters]
    return bool(mean > _SURE * (1 + ROUNDING) * max(errors))


FEATURES = ("shared", "others", "reached", "linked")


def features(users: Ints, items: Ints) -> Floats:
    """The `FEATURES` of rows (`users[Z]`, `items[Z]`), each log(1 + count): [Z, 4].

    shared   whether anybody else has the item (0 or 1, no logarithm)
    others   how many others have it
    reached  how many further interactions those others have: what one step from the item leads to
    linked   how many others share the user's other items: whom the item can be recommended to because of her
    """
    of_user, of_item = (np.bincount(each).astype(np.float64) for each in (users, items))
    others, history = of_item[items] - 1, of_user[users] - 1
    reached = sum_by(items, history, len(of_item))[items] - history
    linked = sum_by(users, others, len(of_user))[users] - others
    return np.stack([others > 0, np.log1p(others), np.log1p(reached), np.log1p(linked)], axis=1)


_GROUPS, _LEAST = 20, 1000
"""Groups of interactions of about the same m, at most, and how many interactions each has at least."""


@dataclass(frozen=True)
class Twice:
    """What Z interactions do to two sets of rows; arrays [Z]."""

    valid: Floats
    """v: on validation rows, the mean over anchors."""
    held: Floats
    """f: on rows that an anchor withheld, the mean over anchors."""
    joint: Floats
    """The mean of v f over pairs of different anchors, of the same ones where there is one only."""
    n_valid: Floats
    """n: validation rows that v is about."""
    n_held: Floats
    """n': the mean number of withheld rows that f is about."""


@dataclass(frozen=True)
class Reliability:
    """How much of the differences between values is explained by what; all from validation and training."""

    explained: float
    """Share of the variance of y that counts explain, adjusted for their number."""
    measurement: float
    """r: what a measured difference from the expectation counts, in the mean."""
    agreement: float
    """Correlation of the two measurements."""


@dataclass(frozen=True)
class Shrunk:
    """The values of Z interactions; arrays [Z], in units of the loss."""

    measured: Floats
    """n y."""
    held: Floats
    """n f / n': measured without validation rows."""
    expected: Floats
    """n m."""
    weight: Floats
    """r."""
    held_weight: Floats
    """r where f alone is known."""
    signal: Floats
    """n² ω² among interactions of about the same m."""
    spread: Floats
    """n² Var(y − m) among them."""
    reliability: Reliability

    def value(self, weight: Floats | float) -> Floats:
        """n (m + weight · (y − m)); with `self.weight` it is n E[τ | y]."""
        return self.expected + weight * (self.measured - self.expected)

    @property
    def held_value(self) -> Floats:
        """n E[τ | f]: what is known of it but for the validation rows, which can judge it then."""
        return self.expected + self.held_weight * (self.held - self.expected)

    def error(self, weight: Floats | float) -> Floats:
        """Standard deviation of n τ around `value(weight)`."""
        squared = self.signal * (1 - 2 * weight) + weight**2 * self.spread
        return np.sqrt(np.maximum(squared, 0.0))


def shrink(twice: Twice, features: Floats, clusters: Sequence[Ints]) -> Shrunk:
    """From two measurements and `features[Z, p]`, of which more is never worth less, to values.

    `clusters` are numberings [Z] of interactions that share their noise.
    """
    rows = twice.n_valid + twice.n_held
    measured = _ratio(twice.valid + twice.held, rows)
    centred = features - _mean(rows, features)
    if is_sure(_carried(twice, centred), clusters):
        expected, share = _expect(measured, rows, centred)
    else:
        expected, share = np.full(len(measured), _mean(rows, measured)), 0.0
    products = _products(twice, features)
    shared = twice.n_valid * twice.n_held
    signal = _ratio(products.mean(), shared.mean()) if is_sure(products, clusters) else 0.0
    left = measured - expected
    total = float(np.mean(rows * left**2))
    noise = max(0.0, total - signal * float(rows.mean()))
    weight, held_weight = (_ratio(signal * n, signal * n + noise) for n in (rows, twice.n_held))
    among = _alike(expected)
    spread = _means(left**2, among)
    signals = _ratio(_means(products, among) + _errors(products, among), _means(shared, among))
    return Shrunk(
        measured=twice.n_valid * measured,
        held=_ratio(twice.n_valid * twice.held, twice.n_held),
        expected=twice.n_valid * expected,
        weight=weight,
        held_weight=held_weight,
        signal=twice.n_valid**2 * np.clip(signals, 0.0, spread),
        spread=twice.n_valid**2 * spread,
        reliability=Reliability(share, float(weight.mean()), correlation(twice.valid, twice.held) or 0.0),
    )


def _expect(measured: Floats, rows: Floats, centred: Floats) -> tuple[Floats, float]:
    """m, and the share of the variance of y that it explains.

    The least-squares prediction, rows counting alike, is drawn to the mean by the adjusted R².
    """
    mean, root = _mean(rows, measured), np.sqrt(rows)
    explained = centred @ fit_rising(root[:, None] * centred, root * (measured - mean))
    total, freedom = _mean(rows, (measured - mean) ** 2), len(measured) - 1 - centred.shape[1]
    plain = float(_ratio(_mean(rows, explained**2), total))
    if plain == 0 or freedom <= 0:
        return np.full(len(measured), mean), 0.0
    adjusted = min(max(1 - (1 - plain) * (len(measured) - 1) / freedom, 0.0), 1.0)
    return mean + adjusted / plain * explained, adjusted


def _mean(rows: Floats, values: Floats) -> Floats:
    """The mean of `values[Z, ...]`, each counting as its `rows[Z]`."""
    return _ratio(rows @ values, rows.sum())


def _carried(twice: Twice, centred: Floats) -> Floats:
    """How far what features explain of one measurement goes with the other, of each interaction: [Z]."""
    products = np.zeros(len(twice.valid))
    sets = ((twice.held, twice.n_held), (twice.valid, twice.n_valid))
    for (learnt, n_learnt), (judged, n_judged) in (sets, sets[::-1]):
        design = n_learnt[:, None] * centred
        explained = centred @ fit_rising(design, learnt - n_learnt * _ratio(learnt.sum(), n_learnt.sum()))
        products += explained * (judged - n_judged * _ratio(judged.sum(), n_judged.sum()))
    rates = [_ratio(np.abs(part).max(), n.max()) for part, n in sets]
    return _rounded(products, rates[0] * rates[1] * max(n.max() for _, n in sets))


def _products(twice: Twice, features: Floats) -> Floats:
    """What is left of v times what is left of f, across different anchors: [Z]."""
    design = np.concatenate([np.ones((len(features), 1)), features], axis=1)
    left_valid, left_held = (
        part - n * (design @ np.linalg.lstsq(n[:, None] * design, part, rcond=None)[0])
        for part, n in ((twice.valid, twice.n_valid), (twice.held, twice.n_held))
    )
    products: Floats = twice.joint - twice.valid * twice.held + left_valid * left_held
    return _rounded(products, np.abs(twice.valid).max() * np.abs(twice.held).max())


def _rounded(products: Floats, scale: float) -> Floats:
    """`products[Z]`, those next to nothing beside `scale` taken for 0, as they are where a fit is perfect."""
    return np.where(np.abs(products) > ROUNDING * scale, products, 0.0)


def _alike(expected: Floats) -> Ints:
    """Interactions in groups of equal size by falling m, one group where all have the same: numbers [Z]."""
    rows = len(expected)
    groups = min(_GROUPS, max(1, rows // _LEAST)) if np.ptp(expected) > 0 else 1
    ranks = np.empty(rows, dtype=np.int64)
    ranks[np.argsort(-expected, kind="stable")] = np.arange(rows)
    return ranks * groups // rows


def _means(values: Floats, among: Ints) -> Floats:
    """The mean of `values[Z]` in the group of each: [Z]."""
    means: Floats = (np.bincount(among, weights=values) / np.bincount(among))[among]
    return means


def _errors(values: Floats, among: Ints) -> Floats:
    """The standard error of that mean: [Z]."""
    variance = _means((values - _means(values, among)) ** 2, among)
    errors: Floats = np.sqrt(variance / np.bincount(among)[among])
    return errors


def _ratio(above: Floats, below: Floats) -> Floats:
    """`above` / `below`; 0 where both are."""
    return np.divide(
        above, below, out=np.zeros(np.broadcast(above, below).shape), where=np.asarray(below) > 0
    )
