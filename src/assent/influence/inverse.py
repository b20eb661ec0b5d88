"""Settings of influence, and H⁻¹ b where only products with H are cheap: conjugate gradients or LiSSA.

Conjugate gradients solve many independent systems at once. The last axes of a tensor hold one system; `dot`
says which, by summing over them and keeping the dimensions, so that every system has its own step length.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from assent.influence.linearised import Linearised, TrainSamples
from assent.models.losses import Loss
from assent.support.arrays import Ints
from assent.support.draws import Purpose, lots

Operator = Callable[[Tensor], Tensor]
"""A symmetric linear map."""
Dot = Callable[[Tensor, Tensor], Tensor]
"""Inner products of the systems in two tensors."""
_TINY = 1e-30
"""Keeps 0 / 0 of systems with b = 0 at 0."""


class Estimator(StrEnum):
    """How H⁻¹ is approximated."""

    TRUNCATED = "truncated"
    """The full Hessian, by conjugate gradients that stop after a few steps. Each step carries a change one
    step further, from user to item to user, like a training run that stops early."""
    GAUSS_NEWTON = "gauss-newton"
    """Damped Gauss-Newton, by preconditioned conjugate gradients until convergence."""
    LISSA = "lissa"
    """The paper's: N_J recursions with the Hessian of one sampled row each."""
    GRADIENT_DOT = "gradient-dot"
    """The identity: influence is the inner product of the gradients."""

    @property
    def solves(self) -> bool:
        """Whether it solves systems with the Hessian."""
        return self in (Estimator.TRUNCATED, Estimator.GAUSS_NEWTON)


class Divisor(StrEnum):
    """What LiSSA and the plain gradient, which are about the mean training loss, are divided by."""

    DISCLOSED = "disclosed"
    """The rows that the anchor discloses: the mean is over these."""
    ALL = "all"
    """All training rows: the paper's Z."""


class InfluenceSettings(BaseModel):
    """How influence is computed (docs/influence.md says how the defaults were chosen)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    estimator: Estimator = Field(Estimator.TRUNCATED, description="approximation of the inverse Hessian")
    loss: Loss = Field(Loss.PAIRWISE, description="validation loss that influence is on")
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
    lissa_damping: float = Field(0.0, ge=0, lt=1, description="share of its last result that LiSSA drops")
    lissa_scale: float = Field(1.0, gt=0, description="what LiSSA divides Hessians and its result by")
    divisor: Divisor = Field(Divisor.DISCLOSED, description="what LiSSA and gradient-dot are divided by")
    centred: bool = Field(
        True, description="predict from the change of the anchor, not from all rows as the paper prints"
    )
    groups: int = Field(16, ge=1, description="groups of users that own influence is solved for together")

    def draws_for(self, rows: int) -> int:
        """Return the negatives per row; with many rows, one each is enough."""
        return self.draws or (4 if rows <= 200_000 else 1)


@dataclass(frozen=True)
class Solution:
    """x ≈ H⁻¹ b."""

    x: Tensor
    residual: float | None
    """|b − H x| / |b| of the worst system; None where no system was solved."""
    iterations: int  # products with H


def one_system(a: Tensor, b: Tensor) -> Tensor:
    """Return the inner product that takes the whole tensor as one system."""
    return (a * b).sum().reshape((1,) * a.dim())


def system_per_row(a: Tensor, b: Tensor) -> Tensor:
    """Return the inner products that take each row of a matrix as a system."""
    return (a * b).sum(1, keepdim=True)


def conjugate_gradients(
    matvec: Operator, b: Tensor, *, precondition: Operator, dot: Dot, tolerance: float, iterations: int
) -> Solution:
    """Iterate until every relative residual is below `tolerance`, or for `iterations` steps.

    A system stops when it has converged, when b = 0, and where the curvature along its next direction is not
    positive (Steihaug's rule). H need not be definite; x then goes along flat directions only as far as the
    steps before, like a training run that stopped early.
    """
    x = torch.zeros_like(b)
    residual = b.clone()
    direction = precondition(residual)
    gain = dot(residual, direction)
    size = dot(b, b)
    active = size > 0
    done = 0
    while done < iterations and active.any():
        image = matvec(direction)
        curvature = dot(direction, image)
        active = active & (curvature > 0)
        step = torch.where(active, gain / curvature.clamp_min(_TINY), 0)
        x = x + step * direction
        residual = residual - step * image
        corrected = precondition(residual)
        renewed = dot(residual, corrected)
        direction = corrected + torch.where(active, renewed / gain.clamp_min(_TINY), 0) * direction
        gain = renewed
        active = active & (dot(residual, residual) > tolerance**2 * size)
        done += 1
    worst = (dot(residual, residual) / size.clamp_min(_TINY)).sqrt().max()
    return Solution(x, float(worst), done)


def solve(
    product: Operator, precondition: Operator, b: Tensor, dot: Dot, settings: InfluenceSettings
) -> Solution:
    """Return H⁻¹ b by conjugate gradients: cut off for TRUNCATED, otherwise to convergence."""
    steps = settings.truncation if settings.estimator is Estimator.TRUNCATED else settings.iterations
    return conjugate_gradients(
        product, b, precondition=precondition, dot=dot, tolerance=settings.tolerance, iterations=steps
    )


def sampled_rows(samples: TrainSamples, *, steps: int, seed: int) -> Ints:
    """Draw the disclosed row of each step of LiSSA, with replacement: the first by lot, [steps]."""
    rows = np.flatnonzero(samples.anchor.numpy())
    keys = samples.row_keys[rows]
    found = [rows[lots(keys, seed, Purpose.LISSA, step).argmin()] for step in range(steps)]
    return np.array(found, dtype=np.int64)


def lissa_rows(model: Linearised, settings: InfluenceSettings, seed: int) -> Ints:
    """Return the row of each step of LiSSA; none for the plain gradient."""
    steps = settings.lissa_steps if settings.estimator is Estimator.LISSA else 0
    return sampled_rows(model.samples, steps=steps, seed=seed)


def lissa(
    row_product: Callable[[int, Tensor], Tensor],
    b: Tensor,
    rows: Ints,
    *,
    damping: float = 0.0,
    scale: float = 1.0,
) -> Tensor:
    """Return c H⁻¹ b by LiSSA, one step per row s of `rows`, where `row_product(s, x)` = ∇²ℓ_s x.

        x_j = b + ((1 − d) I − ∇²ℓ_s / c) x_{j−1}

    H is the Hessian of the mean training loss. The paper has d = 0 and c = 1; the authors' code has others.
    It is here for comparison: one row touches so few parameters that the result is nearly a multiple of b.
    """
    x = b
    for row in rows:
        x = b + (1 - damping) * x - row_product(int(row), x) / scale
    return x


def inverse_product(model: Linearised, b: Tensor, settings: InfluenceSettings, seed: int) -> Solution:
    """Return H⁻¹ b by the estimator of `settings`, where H is the Hessian of the *summed* training loss."""
    if settings.estimator.solves:
        return solve(model.product, model.precondition, b, one_system, settings)
    rows = lissa_rows(model, settings, seed)
    x = lissa(model.row_product, b, rows, damping=settings.lissa_damping, scale=settings.lissa_scale)
    return Solution(x / lissa_divisor(model, settings), None, len(rows))


def lissa_divisor(model: Linearised, settings: InfluenceSettings) -> float:
    """Return the number of rows that the mean loss is over: H of the sum is so many times H of the mean.

    LiSSA's result is also divided by its scale.
    """
    anchor = model.samples.anchor
    rows = float(anchor.sum() if settings.divisor is Divisor.DISCLOSED else len(anchor))
    return rows * settings.lissa_scale if settings.estimator is Estimator.LISSA else rows
