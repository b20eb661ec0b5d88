"""How influence is computed."""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field

from assent.models.losses import Loss


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
    groups: int = Field(16, ge=1, description="groups of users that own influence is solved for together")

    def draws_for(self, rows: int) -> int:
        """Negatives per row: where rows are many, the noise of one each averages out."""
        return self.draws or (4 if rows <= 200_000 else 1)
