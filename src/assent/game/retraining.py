"""Settings of the rivals, which learn what to disclose by training a model on everything that they try."""

from pydantic import BaseModel, ConfigDict, Field

from assent.data.wishes import USUAL_PRIOR


class RetrainingSettings(BaseModel):
    """What both have."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    start: float = Field(USUAL_PRIOR, gt=0, lt=1, description="probability of disclosing at the start")
    warm_epochs: int | None = Field(
        None,
        ge=1,
        description="epochs of trainings that go on from the one before; default: each is from scratch",
    )


class ProactiveSettings(RetrainingSettings):
    """A Bernoulli policy per interaction, learnt by REINFORCE (re-implementation; docs/methods.md)."""

    rounds: int = Field(300, ge=1, description="largest number of rounds, each of which trains a model")
    learning_rate: float = Field(0.2, gt=0, description="Adam's, on the log-odds of disclosing")
    memory: float = Field(
        0.9, ge=0, lt=1, description="decay of the running mean that a reward is held against"
    )
    window: int = Field(10, ge=1, description="rounds whose mean reward is compared to tell convergence")
    patience: int = Field(3, ge=1, description="windows without a gain before it has converged")
    tolerance: float = Field(
        0.02, ge=0, description="a gain is more than this share of what all windows gained"
    )


class ScratchSettings(RetrainingSettings):
    """SCR: the game with every explored selection trained on (docs/methods.md)."""

    selections: int = Field(100, ge=2, description="L, joint selections that are explored, a training each")
    rounds: int = Field(4, ge=1, description="responses to what the others do; L is divided among them")
    ridge: float = Field(
        1.0, gt=0, description="shrinks values, as if so many selections had shown no effect"
    )
