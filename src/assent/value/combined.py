"""The value of an interaction from all sources, each by how far it proved itself (`trial`)."""

from collections.abc import Callable, Sequence

import numpy as np

from assent.arrays import Bools, Floats
from assent.value.paths import Paths
from assent.value.pooled import Level
from assent.value.trial import Kind, Trial, weights_at
from assent.value.withdrawal import withdrawn

_LEAST = 0.03
"""The least that a source thinks of an interaction, as a share of the mean: none can rule out alone."""

OfPaths = Callable[[Paths], Floats]
"""What interactions are worth by the paths over them, to their owners or to everybody: [Z]."""


def relative(values: Floats, mean: float | None = None) -> Floats:
    """`values[Z]` as shares of their `mean` (by default of their sizes), none below the least: [Z].

    Where all are 0, nothing is known, and all are worth the same.
    """
    scale = float(np.abs(values).mean()) if mean is None else mean
    return np.maximum(values / scale, _LEAST) if scale > 0 else np.ones(len(values))


def structural(paths: Paths, of: OfPaths) -> Callable[[Bools], Floats]:
    """What structure says while fewer and fewer are kept, as `withdrawn` asks: in shares of the mean."""
    left, mean = paths, float(of(paths).mean())

    def value_at(kept: Bools) -> Floats:
        nonlocal left
        left = left.among(kept)
        return relative(of(left), mean)

    return value_at


def combine(
    measured: Floats, paths: Paths, of: OfPaths, trials: Sequence[Trial], unwillingness: Floats
) -> Floats:
    """Values in the units of `measured[Z]`, the geometric mean of all sources at every stage: [Z]."""
    unit, fixed, structure = float(np.abs(measured).mean()), relative(measured), structural(paths, of)
    total = float(unwillingness.sum())

    def value_at(kept: Bools) -> Floats:
        weights = weights_at(float(unwillingness[kept].sum()) / total if total else 1.0, trials)
        return unit * fixed ** weights[Kind.MEASURED] * structure(kept) ** weights[Kind.STRUCTURE]

    return withdrawn(value_at, unwillingness)


def errors(level: Level, paths: Paths, of: OfPaths, trials: Sequence[Trial]) -> Floats:
    """How far the truth may be from combined values, as a standard deviation: [Z].

    That of what was measured, and how far the sources are apart, each by its weight where all is disclosed.
    """
    weights, unit = weights_at(1.0, trials), float(np.abs(level.values).mean())
    said = {
        Kind.UNWILLINGNESS: np.ones(len(level.values)),
        Kind.MEASURED: relative(level.values),
        Kind.STRUCTURE: structural(paths, of)(np.ones(len(level.values), dtype=np.bool_)),
    }
    mean = sum((weights[kind] * said[kind] for kind in Kind), np.zeros(len(level.values)))
    apart = sum((weights[kind] * (said[kind] - mean) ** 2 for kind in Kind), np.zeros(len(level.values)))
    return np.sqrt(level.errors**2 + unit**2 * apart)
