"""One value for each interaction from all folds: measured, expected, or both."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from assent.arrays import Floats, Ints
from assent.value.crossfit import Measured, pool
from assent.value.settings import Source
from assent.value.shrinkage import Shrunk, shrink


@dataclass(frozen=True)
class Pooled:
    """The values of Z interactions, with what they rest on."""

    own: Shrunk
    social: Shrunk
    source: Source

    def of(self, level: Shrunk) -> Floats:
        """What the source takes of a level: [Z]."""
        match self.source:
            case Source.STRUCTURE:
                return level.expected
            case Source.CROSS_FITTED:
                return level.measured
            case _:
                return level.value

    def errors(self, level: Shrunk) -> Floats:
        """How far the truth may be from that, as a standard deviation: [Z]."""
        match self.source:
            case Source.STRUCTURE:
                return level.error(0.0)
            case Source.CROSS_FITTED:
                return level.error(1.0)
            case _:
                return level.error(level.reliability.measurement)

    def facts(self) -> dict[str, object]:
        """How reliable the values are, for the certificate."""
        return {
            f"value_{name}": asdict(level.reliability)
            | {"error": float(np.sqrt(np.mean(self.errors(level) ** 2)))}
            for name, level in (("own", self.own), ("social", self.social))
        }


def pooled(measured: Sequence[Measured], fold: Ints, features: Floats, source: Source) -> Pooled:
    """Values from the anchors of all folds; `fold[Z]` is that of each row, `features[Z, p]` its place."""
    ratio = float(np.mean([each.ratio for each in measured]))
    own = shrink(*pool([each.own for each in measured], fold), ratio, features)
    social = shrink(*pool([each.social for each in measured], fold), ratio, features)
    return Pooled(own, social, source)
