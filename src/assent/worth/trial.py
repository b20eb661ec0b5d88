"""What each source thinks of interactions, behind one interface: a value of each, and how far it may be off.

All speak of the same Z interactions, either to their owners or to everybody, in shares of the mean, so that
they can be weighed against each other (`combined`) and tried one by one (`trial`).

Which source of values to believe, by trial.

Each source selects by itself within a budget, a model is trained on that, and the validation rows tell how
well it ranks. A source that is z standard errors behind the best counts e^−z of it:

    w_s ∝ exp(−z_s),    z_s = (q_best − q_s) / error of the difference between people

Values are combined as geometric means, Π_s x_s^w_s, so that what all sources but one think nothing of is not
carried by that one. Unwillingness alone, for which all are worth the same, is one of the sources: where it
ranks best it counts most. Who has nothing to say is not heard, so that it decides alone where there is no
signal: what was measured is the same of all then (`shrinkage` has its own test), and structure, which has no
test but this one, has to be ahead of unwillingness by twice the standard error.

The value of an interaction from all sources, each by how far it proved itself (`trial`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import numpy as np

from assent.support.arrays import Bools, Floats
from assent.worth.folds import Level
from assent.worth.paths import Paths
from assent.worth.withdrawal import withdrawn

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


class Kind(StrEnum):
    """What is tried."""

    UNWILLINGNESS = "unwillingness"
    """All are worth the same."""
    MEASURED = "measured"
    """Influence, drawn towards what counts lead to expect (`shrinkage`)."""
    STRUCTURE = "structure"
    """Paths (`paths`)."""


SURE = 2.0
"""Standard errors that structure has to be ahead of unwillingness alone to be heard."""
BUDGETS = (0.5, 0.2)
"""Shares of All's violation at which sources are tried, falling."""


@dataclass(frozen=True)
class Trial:
    """What came of trying each source within one budget."""

    budget: float
    qualities: Mapping[Kind, float]
    """Mean NDCG@5 over people with validation rows."""
    weights: Mapping[Kind, float]

    def facts(self) -> dict[str, object]:
        """For the certificate."""
        kinds = {kind.value: {"ndcg": self.qualities[kind], "weight": self.weights[kind]} for kind in Kind}
        return {"budget": self.budget, **kinds}


def judge(budget: float, qualities: Mapping[Kind, Floats]) -> Trial:
    """Weigh the sources by how well their models rank for each of n people: `qualities[kind][n]`."""
    means = {kind: float(each.mean()) if len(each) else 0.0 for kind, each in qualities.items()}
    heard = [kind for kind in Kind if _is_heard(kind, qualities)]
    best = qualities[max(heard, key=lambda kind: means[kind])]
    odds = {kind: np.exp(-_in_errors(best - qualities[kind])) if kind in heard else 0.0 for kind in Kind}
    total = sum(odds.values())
    return Trial(budget, means, {kind: float(each / total) for kind, each in odds.items()})


def _is_heard(kind: Kind, qualities: Mapping[Kind, Floats]) -> bool:
    """Whether a source has anything to say beside unwillingness."""
    ahead = qualities[kind] - qualities[Kind.UNWILLINGNESS]
    match kind:
        case Kind.UNWILLINGNESS:
            return True
        case Kind.MEASURED:
            return bool(ahead.any())
        case Kind.STRUCTURE:
            return _in_errors(ahead) >= SURE


def _in_errors(differences: Floats) -> float:
    """Their mean in standard errors; 0 where there is none."""
    if len(differences) < 2 or not differences.any():
        return 0.0
    error = float(differences.std(ddof=1)) / np.sqrt(len(differences))
    mean = float(differences.mean())
    return mean / error if error > 0 else float(np.copysign(np.inf, mean))


def weights_at(share: float, trials: Sequence[Trial]) -> dict[Kind, float]:
    """The weights while the share `share` of the violation is disclosed.

    Between the budgets that were tried they go from one to the next with log(share); beyond, they stay.
    """
    falling = np.log([each.budget for each in trials])
    at = np.log(max(share, np.exp(falling[-1])))
    return {
        kind: float(np.interp(at, falling[::-1], [each.weights[kind] for each in trials][::-1]))
        for kind in Kind
    }


def combine(
    opinions: Mapping[Kind, Opinion], trials: Sequence[Trial], unwillingness: Floats, *, mean: float
) -> Floats:
    """Values with the mean `mean`: the geometric mean of all sources at every stage of withdrawal: [Z].

    None is below 0: an interaction that seems to do harm is the first to be withheld, but at price 0 it is
    disclosed.
    """
    said, total = {kind: each.values() for kind, each in opinions.items()}, float(unwillingness.sum())

    def value_at(kept: Bools) -> Floats:
        weights = weights_at(float(unwillingness[kept].sum()) / total if total else 1.0, trials)
        product: Floats = np.prod([worth(kept) ** weights[kind] for kind, worth in said.items()], axis=0)
        return product

    found = withdrawn(value_at, unwillingness)
    here = float(found.mean()) if len(found) else 0.0
    return found * (mean / here if here > 0 else 0.0)


def errors(opinions: Mapping[Kind, Opinion], trials: Sequence[Trial], values: Floats) -> Floats:
    """How far the truth may be from combined `values[Z]`, as a standard deviation: [Z].

    The root of Σ w (σ² + (x − value)²), with the weight w of each source where all is disclosed, what it
    says, x, and how far that may be off, σ.
    """
    weights, unit = weights_at(1.0, trials), float(values.mean()) if len(values) else 0.0
    everything = np.ones(len(values), dtype=np.bool_)
    squares = [
        weights[kind] * ((unit * each.errors()) ** 2 + (unit * each.values()(everything) - values) ** 2)
        for kind, each in opinions.items()
        if weights[kind] > 0
    ]
    found: Floats = np.sqrt(np.sum(squares, axis=0))
    return found
