"""Where the value of an interaction comes from."""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field


class Source(StrEnum):
    """What the game is played with."""

    COMBINED = "combined"
    """What was measured and structure, each by how well its selections did on validation rows."""
    CROSS_FITTED = "cross-fitted"
    """Influence on validation rows and on held-out folds of the training rows, drawn towards what the place
    of an interaction among the others leads to expect, by how reliable it is."""
    STRUCTURE = "structure"
    """The paths that an interaction is part of, alone: no influence, no trial, one training."""
    INFLUENCE = "influence"
    """Influence on the validation rows at random anchors, each for itself: the game of the paper."""
    LISSA = "lissa"
    """The same with the paper's estimator, LiSSA."""


class ValueSettings(BaseModel):
    """How interactions are valued; the default was chosen as docs/value.md tells."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: Source = Field(Source.COMBINED, description="where values come from")
    folds: int = Field(3, ge=2, description="parts that the training rows are dealt into")

    @property
    def is_pooled(self) -> bool:
        """Whether every interaction has one value, around everything, whatever the anchors."""
        return self.source not in (Source.INFLUENCE, Source.LISSA)
