"""The effect of everybody's interactions on their owners, from a few solves over all parameters.

A right-hand side per user would be exact and far too many. Users are dealt into groups, each user with a
random sign ε, and one solve gives the influence on Σ_u ε_u L_u of a group. Read at the rows of user u and
multiplied by ε_u it is

    −dL_u/do_k  +  Σ_{v ≠ u} ε_u ε_v (what k does to L_v)

Her own effect in full, plus noise of mean 0: what one interaction does to each of the others is small, and
more groups make the others fewer. It holds for any model, through everything that its scores depend on.

Own and social influence of every training interaction at an anchor.

    g_k = −dL/do_k = ∇Lᵀ H⁻¹ ∂²F/∂θ∂o_k − ∂L/∂o_k

is how much disclosing interaction k lowers the validation loss L, to first order; for a model that does not
read the interactions as input this is ∇Lᵀ H⁻¹ ∇ℓ_k, Theorem 1 of the paper. *Own* influence takes the loss of
the interaction's owner, *social* influence the sum of everybody's. Both are in units of the loss summed over
T^u. Around an anchor õ they predict L(o) ≈ L(õ) − Σ_k (o_k − õ_k) g_k: centred, which agrees with the paper's
formula at the optimum and is more accurate at a model that stopped before it.

Everybody's validation loss under selections, without training on them: one solve each for all users.

L_u(o) ≈ L_u(θ̃, õ) + ∇L_uᵀ Δ + Σ_k (o_k − õ_k) ∂L_u/∂o_k,     Δ = −H⁻¹ Σ_k (o_k − õ_k) ∂²F/∂θ∂o_k
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from assent.data.problem import Problem
from assent.influence.autodiff import Autodiff
from assent.influence.linearised import (
    Linearised,
    ValidSamples,
    inverse_product,
    train_samples,
    valid_samples,
)
from assent.influence.mf_curvature import Curvature
from assent.influence.mf_effects import own_in_stars
from assent.influence.settings import Estimator, InfluenceSettings
from assent.models import MF
from assent.models.losses import Loss
from assent.support.arrays import Bools, Floats, Ints, slices
from assent.support.runtime import flushed
from assent.training import Trained, disclose


def own_by_groups(
    model: Linearised, settings: InfluenceSettings, seed: int, of_rows: Tensor | None = None
) -> tuple[Tensor, float | None]:
    """The effect of each training row on its owner's loss, [Z], and the largest residual of the solves.

    `of_rows[n]` is what each validation row counts in its owner's loss; default: 1.
    """
    owners, judged = model.samples.users, model.valid.users
    n_users = 1 + int(max(owners.max(), judged.max()))
    rng = np.random.default_rng((seed, 5))
    count = min(settings.groups, n_users)
    group = torch.from_numpy(rng.permutation(n_users) % count)
    sign = torch.from_numpy(rng.integers(2, size=n_users) * 2 - 1).to(model.samples.anchor)
    own, residuals = torch.zeros_like(model.samples.anchor), []
    for number in range(count):
        weights = torch.where(group == number, sign, 0)[judged] * (1 if of_rows is None else of_rows)
        if not weights.any():
            continue
        b, direct = model.valid_gradient(weights)
        solution = inverse_product(model, b, settings, seed)
        hers = group[owners] == number
        own[hers] = (sign[owners] * (model.along(solution.x) - direct))[hers]
        if solution.residual is not None:
            residuals.append(solution.residual)
    return own, max(residuals, default=None)


@dataclass(frozen=True)
class Influence:
    """What is known at one anchor."""

    own: Floats
    """[Z], on the owner's loss."""
    social: Floats
    """[Z], on the sum of all users' losses, weighted where weights were given."""
    losses: Floats
    """[n_users], L_u of the anchor's model."""
    residual_own: float | None
    """Largest relative residual of the users' systems; None for estimators that solve none."""
    residual_social: float | None
    """Relative residual of the one system of the sum."""


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
    """The model `trained` on the rows of `anchor[Z]` (or shares of them), ready to be differentiated.

    The model's vocabulary must be that of all training rows; `negatives` is how many each had in training.
    The training rows `targets`, which the anchor withholds, follow the validation rows as further ones.
    """
    data = disclose(problem, np.ones(len(problem.train), dtype=np.bool_))
    if not (
        np.array_equal(data.user_ids, trained.user_ids) and np.array_equal(data.item_ids, trained.item_ids)
    ):
        raise ValueError("influence: the anchor's model must know the users and items of all training rows")
    model = trained.model.eval()
    samples = train_samples(
        data,
        anchor,
        draws=settings.draws_for(len(problem.train)),
        per_row=negatives,
        seed=seed,
        dtype=next(model.parameters()).dtype,
    )
    valid = valid_samples(problem, np.unique(problem.train.users), np.unique(problem.train.items))
    if targets is not None:
        valid = valid.followed_by(problem, data, targets, seed=seed)
    full = settings.estimator is not Estimator.GAUSS_NEWTON
    plain: Curvature | Autodiff
    if type(model) is MF:  # a subclass may score otherwise
        plain = Curvature(model, samples, valid, settings.loss, full, settings.damping)
    else:
        plain = Autodiff(model, samples, valid, settings.loss, full, settings.damping)
    if settings.loss is not Loss.CALIBRATED:
        return plain
    return replace(plain, valid=_calibrated(plain, len(problem.valid)))


def _calibrated(model: Linearised, n_valid: int) -> ValidSamples:
    """The validation rows, the first `n_valid` and the others each at the scale that is best for them."""
    scores = model.valid_scores()
    parts = [part for part in (scores[:n_valid], scores[n_valid:]) if len(part)]
    scale = [torch.full((len(part), 1), Loss.CALIBRATED.scale(part)) for part in parts]
    return replace(model.valid, scale=torch.cat(scale).to(scores))


def influence(
    model: Linearised, settings: InfluenceSettings, seed: int, weights: Floats | None = None
) -> Influence:
    """Own and social influence of all training rows at an anchor.

    `weights[n_users]` say what each user's loss counts in the sum that social influence is about; default: 1.
    """
    own, own_residual = own_influence(model, settings, seed)
    of_rows = None if weights is None else weights[model.valid.owners.numpy()]
    social, social_residual = social_influence(model, settings, seed, of_rows)
    return Influence(
        own=own.double().numpy(),
        social=social.double().numpy(),
        losses=model.valid.per_user(model.valid_losses()),
        residual_own=own_residual,
        residual_social=social_residual,
    )


@flushed()
def social_influence(
    model: Linearised, settings: InfluenceSettings, seed: int, weights: Floats | None = None
) -> tuple[Tensor, float | None]:
    """The effect of each row on the sum of all validation losses, [Z], and the residual of its one solve.

    `weights[n]` say what the loss of each validation row counts in that sum; default: 1.
    """
    b, direct = model.valid_gradient(_of_rows(model, weights))
    solution = inverse_product(model, b, settings, seed)
    return model.along(solution.x) - direct, solution.residual


@flushed()
def own_influence(
    model: Linearised, settings: InfluenceSettings, seed: int, weights: Floats | None = None
) -> tuple[Tensor, float | None]:
    """The effect of each row on its owner's loss, [Z], and the largest residual of the solves.

    `weights[n]` say what each validation row counts in its owner's loss; default: 1.
    """
    of_rows = _of_rows(model, weights)
    if isinstance(model, Curvature):
        return own_in_stars(model, settings, seed, of_rows)
    return own_by_groups(model, settings, seed, of_rows)


def _of_rows(model: Linearised, weights: Floats | None) -> Tensor:
    given = torch.ones(len(model.valid.users)) if weights is None else torch.from_numpy(weights)
    return given.to(model.samples.anchor)


_AT_ONCE = 16
"""Selections whose moves are held together."""


@flushed()
def predicted_losses(model: Linearised, selections: Bools, settings: InfluenceSettings, seed: int) -> Floats:
    """L_u of every user, [R, n_users], under `selections[R, Z]`, predicted around the anchor of `model`."""
    before, found = model.valid_losses(), []
    for part in slices(len(selections), _AT_ONCE):
        changes = torch.from_numpy(selections[part]).to(model.samples.anchor) - model.samples.anchor
        moves = torch.stack([inverse_product(model, model.pull(-each), settings, seed).x for each in changes])
        found += [model.valid.per_user(before + each) for each in model.valid_changes(moves, changes)]
    return np.array(found)
