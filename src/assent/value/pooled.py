"""One measured value for each interaction from all folds."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from assent.arrays import Floats, Ints
from assent.data.problem import Rows
from assent.value.counts import features
from assent.value.crossfit import Measured, pool
from assent.value.shrinkage import Shrunk, shrink


@dataclass(frozen=True)
class Level:
    """The values of Z interactions on one level, own or social, with what they rest on."""

    shrunk: Shrunk
    count: float
    """What each interaction is worth beyond that for being one more, in units of `error`."""

    @property
    def values(self) -> Floats:
        """[Z], in units of the loss."""
        return self.shrunk.value(self.shrunk.weight) + self.count * self.error

    @property
    def held_values(self) -> Floats:
        """The same as far as they can be known without the validation rows: [Z]."""
        return self.shrunk.held_value + self.count * self.error

    @property
    def errors(self) -> Floats:
        """How far the truth may be from them, as a standard deviation: [Z]."""
        return self.shrunk.error(self.shrunk.weight)

    @property
    def error(self) -> float:
        """The same of all of them together."""
        return float(np.sqrt(np.mean(self.errors**2)))

    def facts(self) -> dict[str, float]:
        """How reliable they are, for the certificate."""
        return asdict(self.shrunk.reliability) | {"count": self.count, "error": self.error}


@dataclass(frozen=True)
class Pooled:
    """Values on both levels."""

    own: Level
    social: Level


def pooled(measured: Sequence[Measured], fold: Ints, rows: Rows, *, cost: float) -> Pooled:
    """Values of `rows` from the anchors of all folds; `fold[Z]` is that of each.

    Influence is what one interaction does while all others stay. Withholding a fold of them costs more than
    the sum of that: `cost` an interaction, by how much the models of the folds fall behind one of everything.
    What is missing is added to all of them alike, but at most as much as values may be wrong: the benefit of
    the doubt. More would drown them: a loss also grows because scores shrink, which changes no ranking.
    """
    placed, clusters = features(rows.users, rows.items), (rows.users, rows.items)
    n_valid, n_held = measured[0].n_valid, np.array([each.n_held for each in measured])

    def level(parts: list[tuple[Floats, Floats]], n_valid: Floats, n_held: Floats) -> Level:
        return Level(shrink(pool(parts, fold, n_valid, n_held), placed, clusters), count=0.0)

    everybody = np.ones(len(fold))
    own = level([each.own for each in measured], n_valid[rows.users], n_held[:, rows.users])
    social = level(
        [each.social for each in measured],
        n_valid.sum() * everybody,
        n_held.sum(axis=1)[:, None] * everybody,
    )
    missing = max(cost - float(social.values.mean()), 0.0)
    count = min(missing / social.error, 1.0) if social.error > 0 else 0.0
    return Pooled(replace(own, count=count), replace(social, count=count))
