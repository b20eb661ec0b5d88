"""Unwillingness where people gave none: stated for part of a history, it has to hold for the rest somehow.

Never silently 0: who said nothing of an interaction did not say "use it freely". Nor 1: only a person can say
"never".
"""

from typing import Final

import numpy as np
import polars as pl

from assent.data.rules import Quantity
from assent.errors import AssentError

RESTS: Final = "own-mean, mean, or a number such as 0.5"
_WEIGHT: Final = 2.0
"""So many of her own interactions count as much as everybody's mean."""


def fill_rest(users: pl.Series, values: pl.Series, rest: str | None) -> pl.Series:
    """The unwillingness `values` of interactions of `users`, with `rest`, one of `RESTS`, where it is null.

    With m the mean of all that is given and Σ_u the sum of what user u gave for n_u interactions:
        own-mean   (Σ_u + 2 m) / (n_u + 2): her own mean, drawn towards everybody's where she gave little
        mean       m
    """
    if rest not in (None, "mean", "own-mean"):
        values = values.fill_null(Quantity("unwillingness", 1, RESTS).parse(rest, "--rest"))
    if not values.null_count():
        return values
    if rest is None:
        raise AssentError(
            f"unwillingness: {values.null_count()} interactions have none; accepted: one each, or --rest: "
            f"{RESTS}"
        )
    everybody = values.mean()
    if not isinstance(everybody, float):
        raise AssentError(
            f"--rest {rest}: nobody gave any unwillingness to take a mean of; accepted: a number"
        )
    if rest == "mean":
        filled = values.fill_null(everybody)
    else:
        table = pl.DataFrame({"user": users, "value": values})
        given, total = pl.col("value").count().over("user"), pl.col("value").sum().over("user")
        own = (total + _WEIGHT * everybody) / (given + _WEIGHT)
        filled = table.select(pl.col("value").fill_null(own))["value"]
    below = pl.Series(np.minimum(filled.to_numpy(), np.nextafter(1.0, 0.0)))
    return values.zip_with(values.is_not_null(), below)
