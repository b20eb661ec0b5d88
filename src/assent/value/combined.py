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
    """Values with the mean of `measured[Z]`, the geometric mean of all sources at every stage: [Z].

    None is below 0: an interaction that seems to do harm is the first to be withheld, but at price 0 it is
    disclosed.
    """
    fixed, structure, total = relative(measured), structural(paths, of), float(unwillingness.sum())

    def value_at(kept: Bools) -> Floats:
        weights = weights_at(float(unwillingness[kept].sum()) / total if total else 1.0, trials)
        return fixed ** weights[Kind.MEASURED] * structure(kept) ** weights[Kind.STRUCTURE]

    found = withdrawn(value_at, unwillingness)
    size = max(float(measured.mean()), _LEAST * float(np.abs(measured).mean()))
    return found * _ratio(size, float(found.mean()))


def errors(level: Level, values: Floats, paths: Paths, of: OfPaths, trials: Sequence[Trial]) -> Floats:
    """How far the truth may be from combined `values[Z]`, as a standard deviation: [Z].

    That of what was measured, and how far from them each source is, by its weight, where all is disclosed.
    """
    weights, unit = weights_at(1.0, trials), float(values.mean())
    said = {
        Kind.UNWILLINGNESS: np.ones(len(values)),
        Kind.MEASURED: relative(level.values),
        Kind.STRUCTURE: structural(paths, of)(np.ones(len(values), dtype=np.bool_)),
    }
    apart = [weights[kind] * (unit * said[kind] - values) ** 2 for kind in Kind]
    found: Floats = np.sqrt(level.errors**2 + np.sum(apart, axis=0))
    return found


def structural_errors(paths: Paths, variance: OfPaths, of: OfPaths) -> Floats:
    """The same of structure alone, in shares of the mean: which pairs come true is left to chance: [Z]."""
    return np.sqrt(variance(paths)) * _ratio(1.0, float(of(paths).mean()))


def _ratio(above: float, below: float) -> float:
    """`above` / `below`; 0 where that is no number."""
    return float(above / below) if below > 0 else 0.0
