"""Which anchor is nearest: how likely each is, and what a player could gain by changing it alone.

**Random decisions.** If everybody decides at random and independently, the distances D_1 … D_T to the anchors
are sums of many independent bits, so nearly normal, with

    mean_t = Σ_k P(o_k ≠ õ_tk)      cov_st = Σ_k c_sk c_tk p_k (1 − p_k),   c = 1 − 2õ

The *cell* of an anchor is the set of joint selections to which it is the nearest. `cells` returns the
probability of each cell, π_t, and its slopes. With them, disclosing interaction k adds to its owner's payoff

    v_k − price · β_k,     v_k = Σ_t π_t g_tk + Σ_s (Σ_t c_t ∂π_t/∂D_s) (1 − 2õ_sk)

where g is the influence that the objective counts and c_t the owner's expected payoff if t is nearest. The
first sum is the value of k; the second is the gain from moving everybody towards a better cell.

**Deviations.** At a certain joint selection o with nearest anchor t, `regret_of` bounds what each player
could gain alone. A deviation within the cell gains what g_t says. A player leaves the cell for that of s by
changing interactions on which t and s differ and o agrees with t; each shortens D_s − D_t by 2. If that is
enough, the gain is at most

    c_s − c_t + the best response to g_s,     c_t the payoff that anchor t predicts for o

because that response need not lie in the cell of s. Without effects on single users c is an estimate, and so
is the gain (`unsure`).
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.special import ndtri

from assent.game.estimates import BLOCK, Estimates, Objective
from assent.support.arrays import Bools, Floats, Ints, Signs, slices

_LOG2_DRAWS, _LOG2_FEWER, _MANY = 11, 9, 32
"""Log2 of the number of draws, for few anchors and for more than `_MANY`."""
_SETTLED = 1e-9
"""A difference of distances with a smaller variance is certain; a single bit has p(1−p)."""
_FAR = 6.0
"""An anchor farther than the nearest by so many standard deviations is never the nearest."""
_NEGLIGIBLE = 1e-9


@dataclass(frozen=True)
class Cells:
    """`probability[T]` that each anchor is the nearest, and `slopes[T, T]`, ∂ probability_t / ∂ mean_s."""

    probability: Floats
    slopes: Floats


def cells(estimates: Estimates, strategy: Floats) -> Cells:
    """The cells if interactions are disclosed independently with probabilities `strategy[Z]`."""
    return cells_of(*estimates.moments(strategy), estimates.alike)


def cells_of(mean: Floats, cov: Floats, which: Ints) -> Cells:
    """The cells for distances with `mean[T]` and `cov[T, T]`, of anchors of which some are `alike`."""
    first, copies = np.unique(which, return_index=True)[1], np.bincount(which)
    distinct = normal_cells(mean[first], cov[np.ix_(first, first)])
    # Anchors that coincide share their cell; rounding alone would tell them apart.
    share = 1 / copies[which]
    slopes = distinct.slopes[np.ix_(which, which)] * np.outer(share, share)
    return Cells(distinct.probability[which] * share, slopes)


def normal_cells(mean: Floats, cov: Floats) -> Cells:
    """The cells for normal distances with `mean[T]` and `cov[T, T]`.

    They are computed from quasi-random draws, the same on every call, so that results are smooth.
    """
    n, least = len(mean), int(mean.argmin())
    probability, slopes = np.zeros(n), np.zeros((n, n))
    spread = np.sqrt(np.maximum(np.diag(cov) + cov[least, least] - 2 * cov[least], 0))
    some = np.flatnonzero(mean - mean[least] <= _FAR * spread + _SETTLED)
    mean, cov = mean[some], cov[np.ix_(some, some)]
    values, vectors = np.linalg.eigh(cov)
    draws = mean + _standard_draws(len(mean)) @ (vectors * np.sqrt(np.maximum(values, 0))).T
    smallest = draws <= draws.min(axis=1, keepdims=True) + _SETTLED
    probability[some] = (smallest / smallest.sum(axis=1, keepdims=True)).mean(axis=0)
    found = np.zeros(cov.shape)
    for t in range(len(some)):
        for s in range(t):
            found[t, s] = found[s, t] = _tie_density(mean, cov, draws, s, t)
    np.fill_diagonal(found, -found.sum(axis=1))
    slopes[np.ix_(some, some)] = found
    return Cells(probability, slopes)


def _tie_density(mean: Floats, cov: Floats, draws: Floats, s: int, t: int) -> float:
    """The density of D_s − D_t at 0, times the probability that then no other anchor is nearer.

    Raising mean_s by δ moves δ times this from cell s to cell t. To condition a draw on D_s = D_t, subtract
    from it what its own difference D_s − D_t explains.
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
    return density * float((tied >= level[:, None]).all(axis=1).mean())


@cache
def _standard_draws(dimension: int) -> Floats:
    """Standard normal draws: [2^11, T], or [2^9, T] for many anchors."""
    from scipy.stats import qmc

    points = qmc.Sobol(dimension, seed=0).random_base2(_LOG2_DRAWS if dimension <= _MANY else _LOG2_FEWER)
    return np.asarray(ndtri(np.clip(points, 1e-12, 1 - 1e-12)), dtype=np.float64)


def response_values(
    estimates: Estimates, strategy: Floats, objective: Objective, here: Cells | None = None
) -> tuple[Floats, Floats]:
    """v_k of every interaction if the others play `strategy[Z]`, [Z]; the cells' probabilities, [T].

    `here` are the cells, if they are known.
    """
    influence = estimates.values(objective)
    if estimates.n_anchors == 1:
        return influence[0], np.ones(1)
    here = here or cells(estimates, strategy)
    values: Floats = here.probability @ influence
    if not here.slopes.any():
        return values, here.probability
    incentive = estimates.payoffs(strategy, objective) @ here.slopes
    for some in slices(len(values), BLOCK):
        owners = estimates.owners[some] if objective is Objective.NASH else 0
        sign = np.where(estimates.anchors[:, some], -1.0, 1.0)
        values[some] += np.einsum("kt,tk->k", np.atleast_2d(incentive[owners]), sign)
    return values, here.probability


def regret_of(
    estimates: Estimates,
    selection: Bools,
    *,
    objective: Objective,
    price: float,
    payments: Floats | None = None,
) -> Floats:
    """At most what each player could gain by deviating alone from `selection[Z]`, at least 0: [N].

    `payments[T]`, μ ≥ 0, tighten the bound for selections that were held in their cell (`steering`): within
    it, nobody gains more than the values g_tk + Σ_s μ_s (õ_tk − õ_sk) allow, plus Σ_s μ_s times half of what
    the lead D_s − D_t could shrink.
    """
    players, influence = estimates.players(price), estimates.values(objective)
    leads = estimates.distances_of(selection)
    t = int(leads.argmin())
    leads = leads - leads[t]
    gains = players.gains(influence[t], selection)
    if payments is not None and payments.any():
        spare = (leads - only_just(estimates, t)) / 2
        held = influence[t] + sum(
            payments[s] * pull(estimates.anchors, t, s) for s in np.flatnonzero(payments).tolist()
        )
        gains = np.minimum(gains, players.gains(held, selection) + float(payments @ np.maximum(spare, 0)))
    crossers = _crossers(estimates, t, leads, selection)
    if crossers.any():
        payoffs = estimates.payoffs(selection, objective)
        for s in np.flatnonzero(crossers.any(axis=1)).tolist():
            crossing = payoffs[:, s] - payoffs[:, t] + players.gains(influence[s], selection)
            gains = np.where(crossers[s], np.maximum(gains, crossing), gains)
    return gains


def unsure(estimates: Estimates, selection: Bools, objective: Objective) -> Bools:
    """Whose regret is an estimate, no bound: they can leave the cell, and effects are unknown: [N]."""
    if objective is Objective.WELFARE or estimates.effects:
        return np.zeros(estimates.n_users, dtype=np.bool_)
    distances = estimates.distances_of(selection)
    t = int(distances.argmin())
    return np.asarray(_crossers(estimates, t, distances - distances[t], selection).any(axis=0))


def _crossers(estimates: Estimates, t: int, leads: Ints, selection: Bools) -> Bools:
    """Who alone can make s the nearest anchor, not t; `leads[T]` = D_s − D_t at `selection[Z]`: [T, N]."""
    able = np.zeros((estimates.n_anchors, estimates.n_users), dtype=np.bool_)
    longest = 2 * int(np.bincount(estimates.owners).max(initial=0))
    for s in np.flatnonzero((estimates.alike != estimates.alike[t]) & (leads <= longest)).tolist():
        able[s] = reach(estimates, t, s, selection) > leads[s] - only_just(estimates, t)[s]
    return able


def reach(estimates: Estimates, t: int, s: int, selection: Bools) -> Ints:
    """By how much each player can shorten D_s − D_t from `selection[Z]`: [N]."""
    free = (estimates.anchors[t] != estimates.anchors[s]) & (selection == estimates.anchors[t])
    return 2 * np.bincount(estimates.owners[free], minlength=estimates.n_users)


def pull(anchors: Bools, t: int, s: int) -> Signs:
    """õ_tk − õ_sk, half of what disclosing an interaction adds to D_s − D_t: [Z]."""
    difference: Signs = anchors[t].astype(np.int8) - anchors[s]
    return difference


def only_just(estimates: Estimates, t: int) -> Ints:
    """The least D_s − D_t with which t is the nearest anchor; ties go to the first anchor: [T]."""
    return (np.arange(estimates.n_anchors) < t).astype(np.int64)


def safe(estimates: Estimates, t: int, selection: Bools) -> Ints:
    """The least D_s − D_t that no single player can make up for from about `selection[Z]`: [T]."""
    reaches = [int(reach(estimates, t, s, selection).max()) for s in range(estimates.n_anchors)]
    return 1 + np.array(reaches)
