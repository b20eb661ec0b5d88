"""Which anchor is nearest when everybody decides at random and independently.

The total distances D_1 … D_T to the anchors are sums of many independent bits: nearly normal, with

    mean_t = Σ_k P(o_k ≠ õ_tk)      cov_st = Σ_k c_sk c_tk p_k (1 − p_k),   c = 1 − 2õ
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.stats import norm, qmc

from assent.arrays import Floats
from assent.game.estimates import Estimates

_LOG2_DRAWS = 11
_SETTLED = 1e-9
"""Variance of a difference of distances below which it counts as certain; the least of one bit is p(1−p)."""


@dataclass(frozen=True)
class Cells:
    """The probability that each anchor is nearest, [T], and how it moves with the distances, [T, T].

    `slopes[t, s]` is ∂ probability_t / ∂ mean_s: getting farther from anchor s makes t more likely.
    """

    probability: Floats
    slopes: Floats


def cells(estimates: Estimates, strategy: Floats) -> Cells:
    """The cells under independent disclosure with probabilities `strategy[Z]`."""
    which = estimates.alike
    first, copies = np.unique(which, return_index=True)[1], np.bincount(which)
    mean = estimates.distances(strategy)
    sign = np.where(estimates.anchors, -1.0, 1.0)
    cov = (sign * (strategy * (1 - strategy))) @ sign.T
    distinct = normal_cells(mean[first], cov[np.ix_(first, first)])
    # Anchors that coincide share their cell; rounding alone would tell them apart.
    share = 1 / copies[which]
    slopes = distinct.slopes[np.ix_(which, which)] * np.outer(share, share)
    return Cells(distinct.probability[which] * share, slopes)


def normal_cells(mean: Floats, cov: Floats) -> Cells:
    """The cells for distances that are normal with `mean[T]` and `cov[T, T]`."""
    n = len(mean)
    slopes = np.zeros((n, n))
    for t in range(n):
        for s in range(t):
            slopes[t, s] = slopes[s, t] = _tie_density(mean, cov, s, t)
    np.fill_diagonal(slopes, -slopes.sum(axis=1))
    return Cells(_nearest_share(_normal_draws(mean, cov)), slopes)


def _tie_density(mean: Floats, cov: Floats, s: int, t: int) -> float:
    """Density of D_s = D_t at 0, times the probability that no other anchor is nearer then.

    Moving mean_s up by δ hands δ times this from cell s to cell t.
    """
    variance = cov[s, s] + cov[t, t] - 2 * cov[s, t]
    if variance < _SETTLED:
        return 0.0
    spread = np.sqrt(variance)
    gap = mean[s] - mean[t]
    density = float(norm.pdf(gap / spread) / spread)
    if len(mean) == 2:
        return density
    tilt = (cov[:, s] - cov[:, t]) / variance
    draws = _normal_draws(mean - tilt * gap, cov - np.outer(tilt, tilt) * variance)
    others = np.delete(draws, [s, t], axis=1)
    return density * float((others >= draws[:, [t]]).all(axis=1).mean())


def _nearest_share(draws: Floats) -> Floats:
    """How often each column is the smallest of its row; ties are shared."""
    smallest = draws <= draws.min(axis=1, keepdims=True) + _SETTLED
    share: Floats = (smallest / smallest.sum(axis=1, keepdims=True)).mean(axis=0)
    return share


def _normal_draws(mean: Floats, cov: Floats) -> Floats:
    """Quasi-random draws, [2^11, T]: the same ones on every call, so that results are smooth in the input."""
    values, vectors = np.linalg.eigh(cov)
    root = vectors * np.sqrt(np.maximum(values, 0))
    draws: Floats = mean + _standard_draws(len(mean)) @ root.T
    return draws


@cache
def _standard_draws(dimension: int) -> Floats:
    points = qmc.Sobol(dimension, seed=0).random_base2(_LOG2_DRAWS)
    return np.asarray(norm.ppf(np.clip(points, 1e-12, 1 - 1e-12)), dtype=np.float64)
