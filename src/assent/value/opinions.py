"""What each source thinks of interactions, behind one interface: a value of each, and how far it may be off.

All speak of the same Z interactions, either to their owners or to everybody, in shares of the mean, so that
they can be weighed against each other (`combined`) and tried one by one (`trial`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from assent.arrays import Bools, Floats
from assent.value.paths import Paths
from assent.value.pooled import Level

LEAST = 0.03
"""The least that a source thinks of an interaction, as a share of the mean: none can rule out alone."""

ValueAt = Callable[[Bools], Floats]
"""What interactions are worth, [Z], while `kept[Z]` are disclosed; asked for fewer and fewer."""


class Opinion(Protocol):
    """What one source thinks of Z interactions."""

    def values(self) -> ValueAt:
        """In shares of the mean where all are disclosed, none below the least."""

    def untold(self) -> ValueAt:
        """The same, as far as it can be known without the validation rows, which can judge it then."""

    def errors(self) -> Floats:
        """How far the truth may be from that where all are disclosed, as a standard deviation: [Z]."""


@dataclass(frozen=True)
class Alike:
    """Unwillingness alone decides: all are worth the same."""

    off: Floats
    """How far that may be off: [Z]."""

    def values(self) -> ValueAt:
        """1 of each."""
        return lambda kept: np.ones(len(self.off))

    untold = values

    def errors(self) -> Floats:
        """As given."""
        return self.off


@dataclass(frozen=True)
class FromInfluence:
    """Influence, drawn towards what counts lead to expect (`shrinkage`), whatever else is disclosed."""

    level: Level

    def values(self) -> ValueAt:
        """What is known of them, in shares of the mean size; the same of all where nothing is."""
        return self._shares(self.level.values)

    def untold(self) -> ValueAt:
        """What the folds alone tell."""
        return self._shares(self.level.held_values)

    def errors(self) -> Floats:
        """Of empirical Bayes."""
        return relative(self.level.errors, self.worth, least=0.0)

    def spread(self) -> Floats:
        """How far the truth may be from the mean, if nothing but that is known: [Z]."""
        everything = np.ones(len(self.level.values), dtype=np.bool_)
        return np.hypot(self.errors(), self.values()(everything) - 1)

    @property
    def worth(self) -> float:
        """The mean value in units of the loss; above 0, unless all are 0."""
        values = self.level.values
        return max(float(values.mean()), LEAST * float(np.abs(values).mean()))

    def _shares(self, values: Floats) -> ValueAt:
        reliability = self.level.shrunk.reliability
        is_told = reliability.explained > 0 or reliability.measurement > 0
        found = relative(values, float(np.abs(values).mean())) if is_told else np.ones(len(values))
        return lambda kept: found


@dataclass(frozen=True)
class FromPaths:
    """The paths over each interaction that are left."""

    paths: Paths
    worth_of: Callable[[Paths], Floats]
    """`Paths.own` or `Paths.social`."""
    variance_of: Callable[[Paths], Floats]

    def values(self) -> ValueAt:
        """They fall as others are withheld."""
        left, mean = self.paths, self.mean

        def value_at(kept: Bools) -> Floats:
            nonlocal left
            left = left.among(kept)
            return relative(self.worth_of(left), mean)

        return value_at

    untold = values

    def errors(self) -> Floats:
        """Which pairs come true is left to chance."""
        return relative(np.sqrt(self.variance_of(self.paths)), self.mean, least=0.0)

    @property
    def mean(self) -> float:
        """What an interaction is worth, in units of Q."""
        return float(self.worth_of(self.paths).mean())


def relative(values: Floats, size: float, least: float = LEAST) -> Floats:
    """`values[Z]` as shares of `size`, none below the least: [Z].

    Where the size is 0 nothing is known: all are worth the same, and that may be off by as much.
    """
    return np.maximum(values / size, least) if size > 0 else np.ones(len(values))
