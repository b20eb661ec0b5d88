"""The frontier as the estimates predict it, for runs that did not measure it."""

from dataclasses import dataclass

import numpy as np
import polars as pl

from assent.arrays import Floats
from assent.game.prices import price_path

_POINTS = 300
"""Points of the curve that is drawn."""


@dataclass(frozen=True)
class Predicted:
    """Predicted gain against violation along falling break-even prices, from nothing to All.

    `violation` is a share of All's, `gain` the sum of the disclosed values as a share of the largest that
    any selection has: it rises to 1 and falls where interactions follow that are estimated to do harm.
    """

    violation: Floats
    gain: Floats
    run: tuple[float, float]
    """The run's own (violation, gain)."""


def predicted_path(selection: pl.DataFrame) -> Predicted | None:
    """The path of a selection's estimates; None where there are none, or nothing to gain or to pay."""
    values = selection["value"].fill_null(0.0).to_numpy()
    unwillingness = selection["unwillingness"].to_numpy()
    most, everything = values[values > 0].sum(), unwillingness.sum()
    if most == 0 or everything == 0:
        return None
    path = price_path(values, unwillingness)
    violation = np.concatenate([[0.0], path.paid / everything])
    gain = np.concatenate([[0.0], np.cumsum(values[path.order]) / most])
    shown = np.unique(np.linspace(0, len(values), _POINTS).astype(np.int64))
    disclosed = selection["disclosed"].to_numpy()
    run = (float(unwillingness[disclosed].sum() / everything), float(values[disclosed].sum() / most))
    return Predicted(violation[shown], gain[shown], run)
