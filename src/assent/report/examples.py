"""Three people as examples: whom to show, and the reason for each of their interactions in words."""

from collections.abc import Callable

import polars as pl

from assent.report.numbers import number

MOST_ROWS = 12
"""Interactions shown of one person; people with 4 to 12 are preferred."""
_TARGETS = {"Mostly disclosed": 0.8, "In between": 0.5, "Mostly withheld": 0.2}
"""What each example is to show, by the share of her interactions that is disclosed: not 1 and 0, so that
there is something of both to see."""


def choose(selection: pl.DataFrame) -> dict[str, str]:
    """The user id of each example by what it shows: the one nearest to its target, ties by id; each user once."""
    users = selection.group_by("user").agg(rows=pl.len(), share=pl.col("disclosed").mean())
    users = users.with_columns(fits=pl.col("rows").is_between(4, MOST_ROWS))
    chosen: dict[str, str] = {}
    for label, target in _TARGETS.items():
        rest = users.filter(~pl.col("user").is_in(list(chosen.values())))
        # Rounded, so that 4 of 5 and 8 of 10 are equally near whatever the last bit says.
        distance = (pl.col("share") - target).abs().round(9)
        nearest = rest.sort(~pl.col("fits"), distance, "user").head(1)
        chosen |= dict.fromkeys([label], *nearest["user"]) if nearest.height else {}
    return {_label(users, user): user for user in chosen.values()}
