"""How much to believe each source of values, by trial, and the values that result.

There are three sources (`Kind`): unwillingness alone, measured influence, and structure (paths). Each is an
`Opinion` on the same Z interactions, in shares of the mean, so that they can be compared.

Each source selects by itself within a budget, a model is trained on the selection, and the validation rows
tell how well it ranks (`judge`). A source that is z standard errors behind the best gets weight

    w_s ∝ exp(−z_s),    z_s = (q_best − q_s) / standard error of the difference between people

A source that adds nothing to unwillingness gets weight 0: measured influence if its model ranks exactly as
that of unwillingness, structure if it is not ahead by two standard errors.

Values are combined by a weighted geometric mean, Π_s x_s^w_s, so that a single source cannot make an
interaction valuable that all others think little of (`combine`).
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
"""Lower limit of a source's values, as a share of the mean: no source alone can rule an interaction out."""

ValueAt = Callable[[Bools], Floats]
"""Values, [Z], while `kept[Z]` are disclosed; called with fewer and fewer kept."""


class Opinion(Protocol):
    """What one source says about Z interactions, in shares of the mean value while all are disclosed."""

    def values(self) -> ValueAt:
        """The values, none below `LEAST`."""

    def untold(self) -> ValueAt:
        """The values without what the validation rows say, so that these can judge them."""

    def errors(self) -> Floats:
        """Standard errors of the values while all are disclosed: [Z]."""


@dataclass(frozen=True)
class Alike:
    """All interactions are worth the same, so unwillingness alone decides."""

    off: Floats
    """[Z], standard errors."""

    def values(self) -> ValueAt:
        """1 for each."""
        return lambda kept: np.ones(len(self.off))

    untold = values

    def errors(self) -> Floats:
        """The given ones: [Z]."""
        return self.off


@dataclass(frozen=True)
class FromInfluence:
    """Measured influence after shrinkage; it does not depend on what else is disclosed."""

    level: Level

    def values(self) -> ValueAt:
        """The values in shares of their mean size; all 1 if nothing is significant."""
        return self._shares(self.level.values)

    def untold(self) -> ValueAt:
        """The values by the folds alone."""
        return self._shares(self.level.held_values)

    def errors(self) -> Floats:
        """Standard errors of empirical Bayes: [Z]."""
        return relative(self.level.errors, self.worth, least=0.0)

    def spread(self) -> Floats:
        """Standard errors of the mean as an estimate of each value: [Z]."""
        everything = np.ones(len(self.level.values), dtype=np.bool_)
        return np.hypot(self.errors(), self.values()(everything) - 1)

    @property
    def worth(self) -> float:
        """The mean value in loss units; above 0, unless all are 0."""
        values = self.level.values
        return max(float(values.mean()), LEAST * float(np.abs(values).mean()))

    def _shares(self, values: Floats) -> ValueAt:
        reliability = self.level.shrunk.reliability
        is_told = reliability.explained > 0 or reliability.measurement > 0
        found = relative(values, float(np.abs(values).mean())) if is_told else np.ones(len(values))
        return lambda kept: found


@dataclass(frozen=True)
class FromPaths:
    """Structure: the paths over each interaction; fewer as others are withheld."""

    paths: Paths
    worth_of: Callable[[Paths], Floats]
    """`Paths.own` or `Paths.social`."""
    variance_of: Callable[[Paths], Floats]

    def values(self) -> ValueAt:
        """The values by the paths that `kept` leaves."""
        left, mean = self.paths, self.mean

        def value_at(kept: Bools) -> Floats:
            nonlocal left
            left = left.among(kept)
            return relative(self.worth_of(left), mean)

        return value_at

    untold = values

    def errors(self) -> Floats:
        """Standard errors, because pairs come true by chance: [Z]."""
        return relative(np.sqrt(self.variance_of(self.paths)), self.mean, least=0.0)

    @property
    def mean(self) -> float:
        """The mean value in units of Q (`paths`)."""
        return float(self.worth_of(self.paths).mean())


def relative(values: Floats, size: float, least: float = LEAST) -> Floats:
    """`values[Z]` as shares of `size`, none below `least`; all 1 if `size` is 0: [Z]."""
    return np.maximum(values / size, least) if size > 0 else np.ones(len(values))


class Kind(StrEnum):
    """The sources of values."""

    UNWILLINGNESS = "unwillingness"
    """All interactions are worth the same."""
    MEASURED = "measured"
    """Influence after shrinkage."""
    STRUCTURE = "structure"
    """Paths between people."""


SURE = 2.0
"""Standard errors by which structure must be ahead of unwillingness alone to get weight."""
BUDGETS = (0.5, 0.2)
"""Budgets of the trials, as shares of All's violation, falling."""


@dataclass(frozen=True)
class Trial:
    """The result of trying each source within one budget."""

    budget: float
    qualities: Mapping[Kind, float]
    """Mean NDCG@5 over people with validation rows."""
    weights: Mapping[Kind, float]

    def facts(self) -> dict[str, object]:
        """The trial's figures, for the certificate."""
        kinds = {kind.value: {"ndcg": self.qualities[kind], "weight": self.weights[kind]} for kind in Kind}
        return {"budget": self.budget, **kinds}


def judge(budget: float, qualities: Mapping[Kind, Floats]) -> Trial:
    """Weights of the sources from the ranking quality of their models for n people, `qualities[kind][n]`."""
    means = {kind: float(each.mean()) if len(each) else 0.0 for kind, each in qualities.items()}
    heard = [kind for kind in Kind if _is_heard(kind, qualities)]
    best = qualities[max(heard, key=lambda kind: means[kind])]
    odds = {kind: np.exp(-_in_errors(best - qualities[kind])) if kind in heard else 0.0 for kind in Kind}
    total = sum(odds.values())
    return Trial(budget, means, {kind: float(each / total) for kind, each in odds.items()})


def _is_heard(kind: Kind, qualities: Mapping[Kind, Floats]) -> bool:
    """Whether a source adds anything to unwillingness."""
    ahead = qualities[kind] - qualities[Kind.UNWILLINGNESS]
    match kind:
        case Kind.UNWILLINGNESS:
            return True
        case Kind.MEASURED:
            return bool(ahead.any())
        case Kind.STRUCTURE:
            return _in_errors(ahead) >= SURE


def _in_errors(differences: Floats) -> float:
    """The mean of `differences[n]` in standard errors; 0 if all are 0 or n < 2."""
    if len(differences) < 2 or not differences.any():
        return 0.0
    error = float(differences.std(ddof=1)) / np.sqrt(len(differences))
    mean = float(differences.mean())
    return mean / error if error > 0 else float(np.copysign(np.inf, mean))


def weights_at(share: float, trials: Sequence[Trial]) -> dict[Kind, float]:
    """The weights while the share `share` of All's violation is disclosed.

    Linear in log(share) between the budgets that were tried, constant beyond them.
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
    """Values with the given mean: the geometric mean of all sources at every stage of withdrawal: [Z].

    None is negative: what seems to do harm is withheld first, but disclosed at price 0.
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
    """Standard errors of combined `values[Z]`: [Z].

    √(Σ_s w_s (σ_s² + (x_s − value)²)) with the weight w, the value x and the standard error σ of each source
    while all is disclosed.
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
