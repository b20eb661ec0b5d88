"""Which anchor is nearest when everybody decides at random and independently.

The total distances D_1 … D_T to the anchors are sums of many independent bits: nearly normal, with

    mean_t = Σ_k P(o_k ≠ õ_tk)      cov_st = Σ_k c_sk c_tk p_k (1 − p_k),   c = 1 − 2õ
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.stats import norm, qmc

from assent.game.estimates import Estimates
from assent.support.arrays import Floats, Ints

_LOG2_DRAWS, _LOG2_FEWER, _MANY = 11, 9, 32
"""Draws for a few anchors, and for many: their cells are small, and their pairs many."""
_SETTLED = 1e-9
"""Variance of a difference of distances below which it counts as certain; the least of one bit is p(1−p)."""
_FAR = 6.0
"""Standard deviations of a difference of distances beyond which the farther anchor is out of the question."""
_NEGLIGIBLE = 1e-9


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
    mean, cov = estimates.moments(strategy)
    distinct = normal_cells(mean[first], cov[np.ix_(first, first)])
    # Anchors that coincide share their cell; rounding alone would tell them apart.
    share = 1 / copies[which]
    slopes = distinct.slopes[np.ix_(which, which)] * np.outer(share, share)
    return Cells(distinct.probability[which] * share, slopes)


def normal_cells(mean: Floats, cov: Floats) -> Cells:
    """The cells for distances that are normal with `mean[T]` and `cov[T, T]`."""
    n = len(mean)
    probability, slopes = np.zeros(n), np.zeros((n, n))
    some = _contenders(mean, cov)
    mean, cov = mean[some], cov[np.ix_(some, some)]
    draws = _normal_draws(mean, cov)
    probability[some] = _nearest_share(draws)
    found = np.zeros((len(some), len(some)))
    for t in range(len(some)):
        for s in range(t):
            found[t, s] = found[s, t] = _tie_density(mean, cov, draws, s, t)
    np.fill_diagonal(found, -found.sum(axis=1))
    slopes[np.ix_(some, some)] = found
    return Cells(probability, slopes)


def _contenders(mean: Floats, cov: Floats) -> Ints:
    """The anchors that are not certainly farther than the one with the least mean distance."""
    least = int(mean.argmin())
    spread = np.sqrt(np.maximum(np.diag(cov) + cov[least, least] - 2 * cov[least], 0))
    return np.flatnonzero(mean - mean[least] <= _FAR * spread + _SETTLED)


def _tie_density(mean: Floats, cov: Floats, draws: Floats, s: int, t: int) -> float:
    """Density of D_s = D_t at 0, times the probability that no other anchor is nearer then.

    Moving mean_s up by δ hands δ times this from cell s to cell t. Draws become draws under the condition
    D_s = D_t by taking from each what its own difference D_s − D_t explains.
    """
    variance = cov[s, s] + cov[t, t] - 2 * cov[s, t]
    if variance < _SETTLED:
        return 0.0
    spread = np.sqrt(variance)
    density = float(np.exp(-(((mean[s] - mean[t]) / spread) ** 2) / 2) / (np.sqrt(2 * np.pi) * spread))
    if len(mean) == 2 or density * spread < _NEGLIGIBLE:
        return density
    tilt = (cov[:, s] - cov[:, t]) / variance
    level = (1 + tilt[t]) * draws[:, t] - tilt[t] * draws[:, s]
    tied = draws - np.outer(draws[:, s] - draws[:, t], tilt)
    tied[:, [s, t]] = np.inf
    free = (tied >= level[:, None]).all(axis=1)
    return density * float(free.mean())


def _nearest_share(draws: Floats) -> Floats:
    """How often each column is the smallest of its row; ties are shared."""
    smallest = draws <= draws.min(axis=1, keepdims=True) + _SETTLED
    share: Floats = (smallest / smallest.sum(axis=1, keepdims=True)).mean(axis=0)
    return share


def _normal_draws(mean: Floats, cov: Floats) -> Floats:
    """Quasi-random draws, [2^11, T] or [2^9, T]: the same on every call, so that results are smooth."""
    values, vectors = np.linalg.eigh(cov)
    root = vectors * np.sqrt(np.maximum(values, 0))
    draws: Floats = mean + _standard_draws(len(mean)) @ root.T
    return draws


@cache
def _standard_draws(dimension: int) -> Floats:
    points = qmc.Sobol(dimension, seed=0).random_base2(_LOG2_DRAWS if dimension <= _MANY else _LOG2_FEWER)
    return np.asarray(norm.ppf(np.clip(points, 1e-12, 1 - 1e-12)), dtype=np.float64)
