"""Where the value of an interaction comes from."""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field

_LARGE = 200_000
"""Rows above which three folds are enough."""


class Source(StrEnum):
    """What the game is played with."""

    COMBINED = "combined"
    """Influence on validation rows and on held-out folds of the training rows, drawn towards what the place
    of an interaction among the others leads to expect, by how reliable it is."""
    CROSS_FITTED = "cross-fitted"
    """The same without being drawn anywhere."""
    STRUCTURE = "structure"
    """What the place of an interaction among the others leads to expect, alone."""
    INFLUENCE = "influence"
    """Influence on the validation rows at random anchors, each for itself: the game of the paper."""
    LISSA = "lissa"
    """The same with the paper's estimator, LiSSA."""


class ValueSettings(BaseModel):
    """How interactions are valued; the default was chosen as docs/value.md tells."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: Source = Field(Source.COMBINED, description="where values come from")
    folds: int | None = Field(
        None, ge=2, description="parts that the training rows are dealt into; default: 5, above 200k rows 3"
    )

    @property
    def is_pooled(self) -> bool:
        """Whether every interaction has one value, from anchors that withhold a fold each."""
        return self.source not in (Source.INFLUENCE, Source.LISSA)

    def folds_for(self, rows: int) -> int:
        """How many folds so many rows are dealt into."""
        return self.folds or (5 if rows <= _LARGE else 3)
