"""How a player's strategy is held, and the settings of the paper's own."""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field

from assent.data.wishes import USUAL_PRIOR


class Strategy(StrEnum):
    """The form of a strategy."""

    FACTORED = "factored"
    """A probability per interaction; best responses in closed form (`solve`)."""
    TABLE = "table"
    """The paper's α^u: a probability for each of the 2^|S| selections, learnt from samples (`algorithms`)."""


class Gradient(StrEnum):
    """What step 6 of Algorithm 3 puts at the selection that was sampled; zero everywhere else."""

    WRITTEN = "written"
    """The reward itself, B of eq. (9): to the letter."""
    RELATIVE = "relative"
    """The reward less that of a draw from her last round's strategy against the same others."""
    UNBIASED = "unbiased"
    """That gain divided by the probability of the sample: unbiased, as Theorem 5 supposes, and very noisy."""


class TableSettings(BaseModel):
    """How Algorithms 2 and 3 are run; the figures are those of the paper where it has one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rounds: int = Field(10, ge=1, description="M, largest number of rounds of Algorithm 2")
    samples: int = Field(1000, ge=1, description="L, samples that a strategy is learnt from in each round")
    step: float = Field(0.01, gt=0, description="γ, learning rate of Algorithm 3")
    threshold: float = Field(1e-3, ge=0, description="κ: stop when no strategy moves farther, Σ|Δα|")
    prior: float = Field(USUAL_PRIOR, gt=0, lt=1, description="s of the binomial prior without --prior")
    gradient: Gradient = Field(Gradient.RELATIVE, description="what a sample adds to its selection")
