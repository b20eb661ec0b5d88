"""Settings of influence."""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field

from assent.models.losses import Loss


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
    groups: int = Field(16, ge=1, description="groups of users that own influence is solved for together")

    def draws_for(self, rows: int) -> int:
        """Return the negatives per row; with many rows, one each is enough."""
        return self.draws or (4 if rows <= 200_000 else 1)
