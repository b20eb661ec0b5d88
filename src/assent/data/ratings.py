"""Ratings in a log: assent learns from who met what, so that a poor rating counts like a good one."""

import warnings

import polars as pl

from assent.data.columns import Table, quoted
from assent.data.roles import GUESSES, Roles
from assent.support.errors import AssentError


def rated_enough(table: Table, roles: Roles, kept: pl.Series, least: float | None) -> pl.Series:
    """Return which of the rows `kept`, which may be read, are rated at least `least`: [rows].

    Without a limit these are all, and a warning says that ratings make no difference. Cells of other rows are
    not read.
    """
    readable = table.only(kept)
    name = roles.find(readable, "rating")
    if least is None:
        if name is not None:
            about = "ratings are not looked at, every row counts alike"
            option = "min_rating=NUMBER keeps rows of at least that"
            warnings.warn(f"{table.origin}: column {quoted(name)}: {about}; {option}", stacklevel=4)
        return kept
    if name is None:
        usual = f"{', '.join(GUESSES['rating'])}, or name it with {roles.naming('rating', 'NAME')}"
        raise AssentError(f"min_rating={least:g}: {table.origin} has no column of ratings; accepted: {usual}")
    enough = readable.ratings(name) >= least
    below = int((~enough).sum())
    if below and below == len(enough):
        raise AssentError(f"min_rating={least:g}: {table.origin} has no row of at least that; accepted: less")
    if below:
        of = f"{below} of {len(enough)} rows are rated below {least:g} and not used"
        warnings.warn(f"{table.origin}: {of}", stacklevel=4)
    used = kept.to_numpy(writable=True)
    used[used] = enough.to_numpy()
    return pl.Series(used)
