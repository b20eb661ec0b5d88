"""Own and social influence of every training interaction at an anchor.

    g_k = ∇Lᵀ H⁻¹ ∇ℓ_k

is how much disclosing interaction k lowers the validation loss L, to first order (Theorem 1). *Own* influence
takes the loss of the interaction's owner, *social* influence the sum of everybody's. Both are in units of the
loss summed over T^u. Around an anchor õ they predict L(o) ≈ L(õ) − Σ_k (o_k − õ_k) g_k: centred, which
agrees with the paper's formula at the optimum and is more accurate at a model that stopped before it.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor
from torch.nn import functional as F

from assent.arrays import Bools, Floats
from assent.data.problem import Problem
from assent.errors import AssentError
from assent.influence.curvature import Curvature
from assent.influence.lissa import along_lissa_stars, lissa_social, lissa_stars, sampled_rows
from assent.influence.own import Stars
from assent.influence.samples import ValidSamples, train_samples, valid_samples
from assent.influence.solvers import Dot, Operator, Solution, conjugate_gradients, one_system, system_per_row
from assent.losses import Loss
from assent.models.mf import MF
from assent.training import Trained, disclose


class Estimator(StrEnum):
    """What stands for H⁻¹."""

    TRUNCATED = "truncated"
    """The full Hessian, inverted by conjugate gradients that are cut off after a few steps: each carries a
    change one step further, from user to item to user, as a training run that stops early would."""
    GAUSS_NEWTON = "gauss-newton"
    """Gauss-Newton with damping, inverted by preconditioned conjugate gradients."""
    LISSA = "lissa"
    """As in the paper: N_J recursions with the Hessian of one sampled row each."""
    GRADIENT_DOT = "gradient-dot"
    """No curvature at all: the inner product of the gradients."""


class InfluenceSettings(BaseModel):
    """How influence is computed; the defaults were chosen by LDS on validation losses (docs/influence.md)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    estimator: Estimator = Field(Estimator.TRUNCATED, description="what stands for the inverse Hessian")
    loss: Loss = Field(Loss.PAIRWISE, description="validation loss that value is measured on")
    damping: float = Field(0.5, gt=0, description="added to the Hessian's diagonal; one sample adds l2")
    draws: int | None = Field(
        None,
        ge=1,
        description="negatives per row that stand for all of training's; default: 4, above 200k rows 1",
    )
    truncation: int = Field(4, ge=1, description="conjugate-gradient steps of the truncated inverse")
    tolerance: float = Field(1e-4, gt=0, description="relative residual at which conjugate gradients stop")
    iterations: int = Field(100, ge=1, description="largest number of steps for Gauss-Newton")
    lissa_steps: int = Field(20, ge=1, description="N_J, recursions of LiSSA")

    def draws_for(self, rows: int) -> int:
        """Negatives per row: where rows are many, the noise of one each averages out."""
        return self.draws or (4 if rows <= 200_000 else 1)


@dataclass(frozen=True)
class Influence:
    """What is known at one anchor."""

    own: Floats
    """[Z], on the owner's loss."""
    social: Floats
    """[Z], on the sum of all users' losses."""
    losses: Floats
    """[n_users], L_u of the anchor's model."""
    residual_own: float
    """Largest relative residual of the users' systems."""
    residual_social: float
    """Relative residual of the one system of the sum."""


def influence(
    problem: Problem,
    anchor: Bools,
    trained: Trained,
    *,
    negatives: int,
    settings: InfluenceSettings,
    seed: int,
) -> Influence:
    """Own and social influence of all training rows at the model `trained` on the rows of `anchor`.

    The model's vocabulary must be that of all training rows; `negatives` is how many each row had in
    training.
    """
    curvature, valid = prepare(problem, anchor, trained, negatives=negatives, settings=settings, seed=seed)
    b = valid_gradient(curvature.model, valid, settings.loss)
    users = b.vector[: curvature.n_users]
    own, own_residual = _own(curvature, users, settings, seed)
    social, social_residual = _social(curvature, b.vector, settings, seed)
    return Influence(
        own=own.double().numpy(),
        social=social.double().numpy(),
        losses=valid.per_user(b.losses),
        residual_own=own_residual,
        residual_social=social_residual,
    )


def prepare(
    problem: Problem,
    anchor: Bools,
    trained: Trained,
    *,
    negatives: int,
    settings: InfluenceSettings,
    seed: int,
) -> tuple[Curvature, ValidSamples]:
    """The curvature at an anchor's model, and the validation samples in the model's indices."""
    model = trained.model
    if not isinstance(model, MF):
        raise AssentError(f"influence: not available for model {model.name}; accepted: {MF.name}")
    everything = np.ones(len(problem.train), dtype=np.bool_)
    data = disclose(problem, everything)
    if not (
        np.array_equal(data.user_ids, trained.user_ids) and np.array_equal(data.item_ids, trained.item_ids)
    ):
        raise ValueError("influence: the anchor's model must know the users and items of all training rows")
    samples = train_samples(
        data,
        anchor,
        draws=settings.draws_for(len(problem.train)),
        per_row=negatives,
        seed=seed,
        dtype=model.user_table.dtype,
    )
    valid = valid_samples(problem, np.unique(problem.train.users), np.unique(problem.train.items))
    full = settings.estimator is not Estimator.GAUSS_NEWTON
    return Curvature(model, samples, full=full, damping=settings.damping), valid


@dataclass(frozen=True)
class ValidGradient:
    """The validation rows' losses, [n], their slopes by score, [n, 1 + m], and the gradient of their sum."""

    losses: Tensor
    slopes: Tensor
    vector: Tensor
    """[n_users + n_items, d]; the user rows hold each user's own ∇_{p_u} L_u."""


def valid_gradient(model: MF, valid: ValidSamples, loss: Loss) -> ValidGradient:
    """∇ Σ_u L_u with respect to the embeddings, in chunks that bound memory."""
    user_table, item_table = model.user_table.detach(), model.item_table.detach()
    to_users, to_items = torch.zeros_like(user_table), torch.zeros_like(item_table)
    all_losses, all_slopes = [], []
    for start in range(0, len(valid.users), 4096):
        here = slice(start, start + 4096)
        users, items = valid.users[here], valid.items[here]
        p, q = F.embedding(users, user_table), F.embedding(items, item_table)
        scores = (q @ p.unsqueeze(-1)).squeeze(-1).requires_grad_()
        losses = loss.of(scores)
        (slopes,) = torch.autograd.grad(losses.sum(), scores)
        to_users.index_add_(0, users, (slopes.unsqueeze(1) @ q).squeeze(1))
        to_items.index_add_(0, items.flatten(), (slopes.unsqueeze(-1) * p.unsqueeze(1)).flatten(0, 1))
        all_losses.append(losses.detach())
        all_slopes.append(slopes)
    # The last row of a table is the unknown user or item: not a parameter.
    vector = torch.cat([to_users[:-1], to_items[:-1]])
    return ValidGradient(torch.cat(all_losses), torch.cat(all_slopes), vector)


def _social(curvature: Curvature, b: Tensor, settings: InfluenceSettings, seed: int) -> tuple[Tensor, float]:
    """∇Lᵀ H⁻¹ ∇ℓ_k for the sum of losses with gradient `b`, and the residual of the solve."""
    solution = inverse_product(curvature, b, settings, seed)
    return curvature.along(solution.x), solution.residual


def inverse_product(curvature: Curvature, b: Tensor, settings: InfluenceSettings, seed: int) -> Solution:
    """H⁻¹ b over all parameters, with H the Hessian of the *summed* loss, as the estimator stands for it."""
    match settings.estimator:
        case Estimator.GRADIENT_DOT:
            return Solution(b / _anchor_size(curvature), 0.0, 0)
        case Estimator.LISSA:
            rows = sampled_rows(curvature, steps=settings.lissa_steps, seed=seed)
            return Solution(lissa_social(curvature, b, rows) / _anchor_size(curvature), 0.0, len(rows))
        case _:
            return _solve(curvature.product, curvature.precondition, b, one_system, settings)


def _own(curvature: Curvature, b: Tensor, settings: InfluenceSettings, seed: int) -> tuple[Tensor, float]:
    """The same with each user's own gradient `b[n_users, d]`, in the stars around them."""
    stars = Stars(curvature)
    match settings.estimator:
        case Estimator.GRADIENT_DOT:
            items_fixed = torch.cat([b, torch.zeros_like(curvature.tables[1])])
            return curvature.along(items_fixed) / _anchor_size(curvature), 0.0
        case Estimator.LISSA:
            rows = sampled_rows(curvature, steps=settings.lissa_steps, seed=seed)
            solved = along_lissa_stars(curvature, lissa_stars(curvature, b, rows))
            return solved / _anchor_size(curvature), 0.0
        case _:
            solution = solve_stars(stars, b, settings)
            return stars.along(solution.x), solution.residual


def solve_stars(stars: Stars, b: Tensor, settings: InfluenceSettings) -> Solution:
    """x_u of every user for her own gradient in `b[n_users, d]`."""
    return _solve(stars.product, stars.precondition, b, system_per_row, settings)


def _solve(
    product: Operator, precondition: Operator, b: Tensor, dot: Dot, settings: InfluenceSettings
) -> Solution:
    """H⁻¹ b: to convergence for Gauss-Newton, cut off for the full Hessian."""
    truncated = settings.estimator is Estimator.TRUNCATED
    return conjugate_gradients(
        product,
        b,
        precondition=precondition,
        dot=dot,
        tolerance=settings.tolerance,
        iterations=settings.truncation if truncated else settings.iterations,
    )


def _anchor_size(curvature: Curvature) -> float:
    """Z: the identity and LiSSA stand for the inverse Hessian of the mean loss, not of the sum."""
    return float(curvature.samples.anchor.sum())
