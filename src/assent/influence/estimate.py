"""Own and social influence of every training interaction at an anchor, and losses predicted from it.

    g_k = −dL/do_k = ∇Lᵀ H⁻¹ ∂²F/∂θ∂o_k − ∂L/∂o_k

is how much disclosing interaction k lowers the validation loss L, to first order. For a model that does not
read interactions as input it is ∇Lᵀ H⁻¹ ∇ℓ_k, Theorem 1 of the paper. *Own* influence is on the loss of the
interaction's owner, *social* influence on the sum of all users' losses; both in units of the loss summed over
T^u. Around an anchor õ they predict L(o) ≈ L(õ) − Σ_k (o_k − õ_k) g_k. Centred like this, the prediction
equals the paper's at the optimum and is more accurate at a model that stopped before it.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from assent.data.problem import Problem
from assent.influence.autodiff import Autodiff
from assent.influence.closed_form import Curvature, effect_matrix, own_in_stars
from assent.influence.inverse import Estimator, InfluenceSettings, inverse_product
from assent.influence.least_squares import LeastSquares
from assent.influence.linearised import Linearised, train_samples, valid_samples
from assent.influence.recursion import effects_by_recursion, own_by_recursion
from assent.models import IALS, MF
from assent.models.losses import Loss
from assent.support.arrays import Bools, Floats, Ints, below, mix, slices
from assent.support.draws import Purpose
from assent.support.runtime import flushed
from assent.support.sparse import SparseMatrix
from assent.training import Trained, disclose

_AT_ONCE = 16
"""Selections per block of `predicted_losses`."""


@dataclass(frozen=True)
class Influence:
    """Influence at one anchor."""

    own: Floats  # on the owner's loss: [Z]
    social: Floats  # on the (weighted) sum of all users' losses: [Z]
    losses: Floats  # L_u of the anchor's model: [n_users]
    residual_own: float | None
    """Largest relative residual of the solves for own influence; None for estimators that solve nothing."""
    residual_social: float | None  # relative residual of the solve for social influence


def linearise(
    problem: Problem,
    anchor: Bools | Floats,
    trained: Trained,
    *,
    negatives: int,
    settings: InfluenceSettings,
    seed: int,
    targets: Ints | None = None,
) -> Linearised:
    """Return the derivatives of the model `trained` on `anchor[Z]`, a selection or shares of rows.

    The model must know the users and items of all training rows; `negatives` is the number per row in
    training. The training rows `targets`, which the anchor withholds, are appended to the validation rows.
    """
    data = disclose(problem, np.ones(len(problem.train), dtype=np.bool_))
    known = (data.user_ids, trained.user_ids), (data.item_ids, trained.item_ids)
    if not all(np.array_equal(ours, theirs) for ours, theirs in known):
        raise ValueError("influence: the anchor's model must know the users and items of all training rows")
    model = trained.model.eval()
    draws, dtype = settings.draws_for(len(problem.train)), next(model.parameters()).dtype
    samples = train_samples(data, anchor, draws=draws, per_row=negatives, seed=seed, dtype=dtype)
    no_rows = np.zeros(0, dtype=np.int64)
    valid = valid_samples(problem, data, no_rows if targets is None else targets, seed=seed)
    full = settings.estimator is not Estimator.GAUSS_NEWTON
    rest = samples, valid, settings.loss, full, settings.damping
    found: Linearised = Autodiff(model, *rest)
    if type(model) is MF:  # a subclass may score otherwise
        found = Curvature(model, *rest)
    elif type(model) is IALS:
        found = LeastSquares(model, *rest)
    if settings.loss is not Loss.CALIBRATED:
        return found
    # The validation rows have one scale, the targets another.
    scores, n_valid = found.valid_scores(), len(problem.valid)
    parts = [part for part in (scores[:n_valid], scores[n_valid:]) if len(part)]
    scale = torch.cat([torch.full((len(part), 1), settings.loss.scale(part)) for part in parts])
    return replace(found, valid=replace(valid, scale=scale.to(scores)))


def influence(
    model: Linearised, settings: InfluenceSettings, seed: int, weights: Floats | None = None
) -> Influence:
    """Return own and social influence of all training rows at an anchor.

    `weights[n_users]` weigh the users' losses in the sum that social influence is about; default: 1 each.
    """
    own, residual_own = own_influence(model, settings, seed)
    of_rows = None if weights is None else weights[model.valid.owners.numpy()]
    social, residual_social = social_influence(model, settings, seed, of_rows)
    losses = model.valid.per_user(model.valid_losses())
    return Influence(own.double().numpy(), social.double().numpy(), losses, residual_own, residual_social)


@flushed()
def social_influence(
    model: Linearised, settings: InfluenceSettings, seed: int, weights: Floats | None = None
) -> tuple[Tensor, float | None]:
    """Return the effect of each row on the sum of all validation losses, [Z], and the residual of the solve.

    `weights[n]` weigh the validation rows in that sum; default: 1 each.
    """
    b, direct = model.valid_gradient(_of_rows(model, weights))
    solution = inverse_product(model, b, settings, seed)
    return model.along(solution.x) - direct, solution.residual


@flushed()
def own_influence(
    model: Linearised, settings: InfluenceSettings, seed: int, weights: Floats | None = None
) -> tuple[Tensor, float | None]:
    """Return the effect of each row on its owner's loss, [Z], and the largest residual of the solves.

    `weights[n]` weigh the validation rows in their owners' losses; default: 1 each. For iALS it is exact, not
    of first order, with the estimators that solve systems.
    """
    if isinstance(model, LeastSquares) and settings.estimator.solves:
        return model.own(_of_rows(model, weights)), None
    return first_order_own(model, settings, seed, weights)


@flushed()
def first_order_own(
    model: Linearised, settings: InfluenceSettings, seed: int, weights: Floats | None = None
) -> tuple[Tensor, float | None]:
    """Return the first-order effect of each row on its owner's loss, as `predicted_losses` has it."""
    if isinstance(model, Curvature):
        if settings.estimator.solves:
            return own_in_stars(model, settings, _of_rows(model, weights))
        return own_by_recursion(model, settings, seed, _of_rows(model, weights)), None
    return own_by_groups(model, settings, seed, _of_rows(model, weights))


def effects(
    problem: Problem, model: Curvature, own: Floats, settings: InfluenceSettings, seed: int
) -> SparseMatrix:
    """Return the effect of every interaction on every user, by the estimator of `settings`: [n_users, Z].

    The entries of the owners are `own[Z]`.
    """
    if settings.estimator.solves:
        return effect_matrix(problem, model, own, settings)
    return effects_by_recursion(model, own, settings, seed)


def _of_rows(model: Linearised, weights: Floats | None) -> Tensor:
    given = torch.ones(len(model.valid.users)) if weights is None else torch.from_numpy(weights)
    return given.to(model.samples.anchor)


def own_by_groups(
    model: Linearised, settings: InfluenceSettings, seed: int, of_rows: Tensor | None = None
) -> tuple[Tensor, float | None]:
    """Return the effect of each row on its owner's loss, [Z], and the largest residual, for any model.

    One solve per user would be too many. Users are put into groups, each with a random sign ε, and one solve
    gives the influence on Σ_u ε_u L_u of a group. At a row k of user u, multiplied by ε_u, it is

        −dL_u/do_k  +  Σ_{v ≠ u} ε_u ε_v (effect of k on L_v)

    the own effect plus noise of mean 0, which more groups reduce. `of_rows[n]` weigh the validation rows in
    their owners' losses; default: 1 each.
    """
    owners, judged = model.samples.users, model.valid.users
    keys = mix(seed, Purpose.GROUPS, model.samples.user_keys)
    count = min(settings.groups, len(keys))
    # Unknown users, who come last, own no training row: they are in no group.
    dealt = np.arange(count) if count == len(keys) else below(mix(keys), count)
    group = torch.from_numpy(np.append(dealt, -1))
    sign = torch.from_numpy(np.append(below(keys, 2) * 2 - 1, 0)).to(model.samples.anchor)
    own, residuals = torch.zeros_like(model.samples.anchor), []
    for number in range(count):
        weights = torch.where(group == number, sign, 0)[judged] * (1 if of_rows is None else of_rows)
        if not weights.any():
            continue
        b, direct = model.valid_gradient(weights)
        solution = inverse_product(model, b, settings, seed)
        theirs = group[owners] == number
        own[theirs] = (sign[owners] * (model.along(solution.x) - direct))[theirs]
        if solution.residual is not None:
            residuals.append(solution.residual)
    return own, max(residuals, default=None)


@flushed()
def predicted_losses(model: Linearised, selections: Bools, settings: InfluenceSettings, seed: int) -> Floats:
    """Return L_u of every user under `selections[R, Z]`, predicted from the anchor: [R, n_users].

        L_u(o) ≈ L_u(θ̃, õ) + ∇L_uᵀ Δ + Σ_k (o_k − õ_k) ∂L_u/∂o_k,     Δ = −H⁻¹ Σ_k (o_k − õ_k) ∂²F/∂θ∂o_k

    One solve per selection serves all users. Without `settings.centred`, õ_k is left out of both sums: the
    paper's Theorem 1 as printed.
    """
    before, found = model.valid_losses(), []
    start = model.samples.anchor if settings.centred else torch.zeros_like(model.samples.anchor)
    for part in slices(len(selections), _AT_ONCE):
        changes = torch.from_numpy(selections[part]).to(start) - start
        moves = torch.stack([inverse_product(model, model.pull(-each), settings, seed).x for each in changes])
        found += [model.valid.per_user(before + each) for each in model.valid_changes(moves, changes)]
    return np.array(found)
