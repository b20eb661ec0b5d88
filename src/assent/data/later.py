"""Wishes that came later: a file of what people say now, over what the log or another source says.

A line is about one interaction, or with the item * about everything of a person that no other line names:

    user,item,unwillingness
    ann,f31,1            never
    ann,f17,0.2          changed, also back from never
    bob,*,withdraw       taken out of the log, as if it had never been there

A line about everybody is refused: these are people's own words.
"""

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl

from assent.data.formats import LOG_FILES, read_table
from assent.data.roles import Roles
from assent.data.rules import EVERYTHING_ELSE, once_each
from assent.data.unwillingness import COLUMN, NAMING, WISH_ROLES, Consent, modified, said_at
from assent.support.errors import AssentError

WITHDRAW: Final = "withdraw"
"""Stands in the place of a number: the interaction is to be taken out of the log."""
_PAIR: Final = ["user", "item"]
_GONE: Final = -1.0


@dataclass(frozen=True)
class Later:
    """What people said later, each pair of user and item once; the item * is for the rest of a person's."""

    origin: str
    lines: pl.DataFrame
    """user, item, unwillingness (`_GONE` where it is withdrawn) and when it was said."""

    def withdrawn(self, ids: pl.DataFrame, gone: pl.DataFrame) -> pl.DataFrame:
        """Return every pair that is withdrawn: `gone` of the log's `ids`, and lines about nothing in it."""
        lines = self.lines.filter(pl.col(COLUMN) == _GONE).select(_PAIR)
        is_rest = pl.col("item") == EVERYTHING_ELSE
        absent = lines.filter(is_rest).join(ids, on="user", how="anti")
        return pl.concat([gone.select(_PAIR), lines.filter(~is_rest), absent]).unique()

    def of(self, ids: pl.DataFrame, *, allow_unmatched: bool) -> pl.DataFrame:
        """Return what is said of each row of `ids` (user, item): unwillingness, said, withdrawn.

        Both are null where nothing is said. Lines about nothing in the log are an error, or a warning if they
        are allowed: a mistyped id would else leave something in the log that its owner takes for gone.
        """
        is_rest = self.lines["item"] == EVERYTHING_ELSE
        pairs, people = self.lines.filter(~is_rest), self.lines.filter(is_rest).drop("item")
        unknown = pl.concat(
            [
                pairs.join(ids, on=_PAIR, how="anti", maintain_order="left").select(_PAIR),
                people.join(ids, on="user", how="anti", maintain_order="left").select(
                    "user", item=pl.lit(EVERYTHING_ELSE)
                ),
            ]
        )
        if unknown.height:
            user, item = unknown.row(0)
            lines = "1 line" if unknown.height == 1 else f"{unknown.height:,} lines"
            about = f"{lines} about nothing in the log, first user {user!r}, item {item!r}"
            if not allow_unmatched:
                raise AssentError(f"{self.origin}: {about}; accepted: what it has, or allow_unmatched=True")
            warnings.warn(f"{self.origin}: ignored {about}", stacklevel=5)
        found = ids.select(_PAIR).join(pairs, on=_PAIR, how="left", maintain_order="left")
        found = found.join(people, on="user", how="left", maintain_order="left", suffix="_rest")
        named = pl.col(COLUMN).is_not_null()
        value = pl.when(named).then(COLUMN).otherwise(f"{COLUMN}_rest")
        return found.select(
            pl.when(value != _GONE).then(value).alias(COLUMN),
            said=pl.when(named).then("said").otherwise("said_rest"),
            withdrawn=(value == _GONE).fill_null(value=False),
        )


def read_later(path: str | Path, consent: Consent) -> Later:
    """Read a file of later wishes; its columns are found like those of a file of wishes."""
    origin, roles = str(path), Roles(consent.columns, NAMING, WISH_ROLES)
    table = read_table(Path(path), LOG_FILES)
    users, items = (table.ids(roles.find_needed(table, role)) for role in _PAIR)
    everybody = (users == EVERYTHING_ELSE).arg_true()
    if len(everybody):
        place = f"{origin}: row {table.number(everybody[0])}, column 'user'"
        raise AssentError(f"{place} is '*'; accepted: a person's id, because nobody speaks for others")
    column = roles.find_minded(table)
    if column is None:
        named = NAMING.format(role=COLUMN, name="NAME")
        accepted = f"the columns user, item and {COLUMN}, or name it with {named}"
        raise AssentError(f"{origin}: no column {COLUMN!r}; accepted: {accepted}")
    name, is_reversed = column
    gone = (table.texts(name).str.strip_chars().str.to_lowercase() == WITHDRAW).fill_null(value=False)
    values = pl.repeat(_GONE, table.height, dtype=pl.Float64, eager=True).to_numpy(writable=True)
    if not gone.all():
        kept = table.only(~gone)
        try:
            said = kept.unwillingness(name, scale=consent.scale, is_reversed=is_reversed)
        except AssentError as error:
            raise AssentError(f"{error}, or {WITHDRAW}") from None
        values[(~gone).to_numpy()] = said
    time = roles.find(table, "time")
    when = pl.repeat(modified(origin), len(users), dtype=pl.String, eager=True)
    when = when if time is None else said_at(table.times(time), origin)
    lines = pl.DataFrame({"user": users, "item": items, COLUMN: values, "said": when})
    return Later(origin, once_each(lines, origin, {_GONE: WITHDRAW}))
