"""One value for each interaction from all folds: measured, expected, or both."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from assent.arrays import Floats, Ints
from assent.data.problem import Rows
from assent.value.crossfit import Measured, pool
from assent.value.settings import Source
from assent.value.shrinkage import Shrunk, shrink
from assent.value.structure import features


@dataclass(frozen=True)
class Level:
    """The values of Z interactions on one level, own or social, with what they rest on."""

    shrunk: Shrunk
    source: Source
    count: float
    """What each interaction is worth beyond that for being one more, in standard deviations of the values."""

    @property
    def values(self) -> Floats:
        """[Z], in units of the loss."""
        values = self.shrunk.value(self._weight)
        return values + self.count * float(values.std())

    @property
    def errors(self) -> Floats:
        """How far the truth may be from them, as a standard deviation: [Z]."""
        return self.shrunk.error(self._weight)

    @property
    def _weight(self) -> Floats | float:
        """What a measured difference from the expectation counts."""
        match self.source:
            case Source.STRUCTURE:
                return 0.0
            case Source.CROSS_FITTED:
                return 1.0
            case _:
                return self.shrunk.weight

    def facts(self) -> dict[str, float]:
        """How reliable they are, for the certificate."""
        error = float(np.sqrt(np.mean(self.errors**2)))
        return asdict(self.shrunk.reliability) | {"count": self.count, "error": error}


@dataclass(frozen=True)
class Pooled:
    """Values on both levels."""

    own: Level
    social: Level


def pooled(measured: Sequence[Measured], fold: Ints, rows: Rows, source: Source, *, cost: float) -> Pooled:
    """Values of `rows` from the anchors of all folds; `fold[Z]` is that of each.

    Influence is what one interaction does while all others stay. Withholding a fifth of them costs more than
    the sum of that: `cost` an interaction, by how much the models of the folds fall behind one of everything.
    What is missing is added to all of them alike, but at most one standard deviation of the social values,
    which would drown in it otherwise: a loss also grows because scores shrink, which changes no ranking.
    """
    placed, clusters = features(rows.users, rows.items), (rows.users, rows.items)
    n_valid, n_held = measured[0].n_valid, np.array([each.n_held for each in measured])

    def level(parts: list[tuple[Floats, Floats]], n_valid: Floats, n_held: Floats) -> Level:
        return Level(shrink(pool(parts, fold, n_valid, n_held), placed, clusters), source, count=0.0)

    everybody = np.ones(len(fold))
    own = level([each.own for each in measured], n_valid[rows.users], n_held[:, rows.users])
    social = level(
        [each.social for each in measured],
        n_valid.sum() * everybody,
        n_held.sum(axis=1)[:, None] * everybody,
    )
    spread = float(social.values.std())
    count = min(max((cost - float(social.values.mean())) / spread, 0.0), 1.0) if spread > 0 else 0.0
    return Pooled(replace(own, count=count), replace(social, count=count))
