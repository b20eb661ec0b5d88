"""The value of an interaction from all sources, each by how far it proved itself (`trial`)."""

from collections.abc import Mapping, Sequence

import numpy as np

from assent.arrays import Bools, Floats
from assent.value.opinions import Opinion
from assent.value.trial import Kind, Trial, weights_at
from assent.value.withdrawal import withdrawn


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
