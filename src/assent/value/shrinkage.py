"""Empirical Bayes: a noisy measurement drawn towards what is expected, by how reliable it is.

The true value τ_k of interaction k is measured twice on disjoint rows, which neither the model nor the other
measurement has seen: on the validation rows, v = τ + noise, and on held-out training rows, f = c τ + noise,
with c the number of those for each validation row. Rows count alike, so both together are

    y = (v + f) / (1 + c)

What structure leads to expect, m, is the regression of y on the features, shrunk by its adjusted R². The two
noises are independent, so the covariance of what is left of v and f gives the variance of τ around m, and

    E[τ | y] = m + r (y − m),    r = ω² / Var(y − m),    ω² = Cov(v − m, f − c m) / c,    0 ≤ r ≤ 1

Without a signal both weights are 0: every interaction is worth the same, and unwillingness alone decides.
"""

from dataclasses import dataclass

import numpy as np

from assent.arrays import Floats


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
    error: float
    """Standard deviation of τ around `value`: ω √(1 − r)."""
    reliability: Reliability


def shrink(valid: Floats, held: Floats, ratio: float, features: Floats) -> Shrunk:
    """From `valid[Z]` (v), `held[Z]` (f), `ratio` (c) and `features[Z, p]` to values."""
    measured = (valid + held) / (1 + ratio)
    expected, share = _regress(measured, features)
    left_valid, left_held, left = valid - expected, held - ratio * expected, measured - expected
    spread = float(np.mean(left**2))
    signal = max(0.0, float(np.mean(left_valid * left_held)) / ratio)
    weight = min(1.0, signal / spread) if spread > 0 else 0.0
    return Shrunk(
        measured=measured,
        expected=expected,
        value=expected + weight * left,
        error=float(np.sqrt(min(signal, spread) * (1 - weight))),
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


def _correlation(a: Floats, b: Floats) -> float:
    spread = float(a.std() * b.std())
    return float(((a - a.mean()) * (b - b.mean())).mean()) / spread if spread > 0 else 0.0
