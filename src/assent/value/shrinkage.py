"""Empirical Bayes: a noisy measurement drawn towards what is expected, by how reliable it is.

The true value τ_k of interaction k is measured twice on disjoint rows, which neither the model nor the other
measurement has seen: on the validation rows, v = τ + noise, and on held-out training rows, f = c τ + noise,
with c the number of those for each validation row. Rows count alike, so both together are

    y = (v + f) / (1 + c)

What structure leads to expect, m, is the regression of y on the features, shrunk by its adjusted R². The two
noises are independent, so the covariance of what is left of v and f gives the variance of τ around m, and

    E[τ | y] = m + r (y − m),    r = ω² / Var(y − m),    ω² = Cov(v − m, f − c m) / c,    0 ≤ r ≤ 1

Without a signal both weights are 0: every interaction is worth the same, and unwillingness alone decides.

How far τ may be from m + w (y − m), whatever w, is ω² (1 − 2w) + w² Var(y − m) in the mean of squares. Both
variances are taken among the interactions of about the same m: what is worth much is less certain.
"""

from dataclasses import dataclass

import numpy as np

from assent.arrays import Floats, Ints


@dataclass(frozen=True)
class Reliability:
    """How much of the differences between values is explained by what; all from validation and training."""

    structure: float
    """Share of the variance of y that structure explains, adjusted for the number of features."""
    measurement: float
    """r: what a measured difference from the expectation counts."""
    agreement: float
    """Correlation of the two measurements."""


@dataclass(frozen=True)
class Shrunk:
    """The values of Z interactions."""

    measured: Floats
    """[Z], y."""
    expected: Floats
    """[Z], m."""
    value: Floats
    """[Z], E[τ | y]."""
    signal: Floats
    """[Z], ω² among interactions of about the same m."""
    spread: Floats
    """[Z], Var(y − m) among them."""
    reliability: Reliability

    def error(self, weight: float) -> Floats:
        """Standard deviation of τ around m + weight · (y − m), of each interaction: [Z]."""
        squared = self.signal * (1 - 2 * weight) + weight**2 * self.spread
        return np.sqrt(np.maximum(squared, 0.0))


def shrink(valid: Floats, held: Floats, ratio: float, features: Floats) -> Shrunk:
    """From `valid[Z]` (v), `held[Z]` (f), `ratio` (c) and `features[Z, p]` to values."""
    measured = (valid + held) / (1 + ratio)
    expected, share = _regress(measured, features)
    left = measured - expected
    squares, products = left**2, (valid - expected) * (held - ratio * expected) / ratio
    spread, signal = float(squares.mean()), max(0.0, float(products.mean()))
    weight = min(1.0, signal / spread) if spread > 0 else 0.0
    among = _alike(expected)
    spread_among = _means(squares, among)
    return Shrunk(
        measured=measured,
        expected=expected,
        value=expected + weight * left,
        signal=np.clip(_means(products, among), 0.0, spread_among),
        spread=spread_among,
        reliability=Reliability(share, weight, _correlation(valid, held)),
    )


def _regress(target: Floats, features: Floats) -> tuple[Floats, float]:
    """The least-squares prediction of `target[Z]`, drawn to its mean by the adjusted R²; that R²."""
    rows = len(target)
    centred = features - features.mean(axis=0)
    coefficients = np.linalg.lstsq(centred, target - target.mean(), rcond=None)[0]
    explained = centred @ coefficients
    total = float(np.var(target))
    freedom = rows - 1 - features.shape[1]
    if total == 0 or freedom <= 0:
        return np.full(rows, target.mean()), 0.0
    plain = float(np.var(explained)) / total
    adjusted = max(0.0, 1 - (1 - plain) * (rows - 1) / freedom)
    kept = adjusted / plain if plain > 0 else 0.0
    return target.mean() + kept * explained, adjusted


def _alike(expected: Floats) -> Ints:
    """Interactions in at most 20 groups of equal size, at least 1,000 each, by falling m: numbers [Z]."""
    rows = len(expected)
    groups = min(20, max(1, rows // 1000))
    ranks = np.empty(rows, dtype=np.int64)
    ranks[np.argsort(-expected, kind="stable")] = np.arange(rows)
    return ranks * groups // rows


def _means(values: Floats, among: Ints) -> Floats:
    """The mean of `values[Z]` in the group of each: [Z]."""
    means: Floats = (np.bincount(among, weights=values) / np.bincount(among))[among]
    return means


def _correlation(a: Floats, b: Floats) -> float:
    spread = float(a.std() * b.std())
    return float(((a - a.mean()) * (b - b.mean())).mean()) / spread if spread > 0 else 0.0
