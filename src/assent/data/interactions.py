"""The interactions table: who did what, when, and how unwilling they are to have it used."""

from dataclasses import dataclass, replace
from typing import Final

import polars as pl

PARTS: Final = ("train", "valid", "test")
"""What a column `split` may say."""


@dataclass(frozen=True)
class Interactions:
    """A log of interactions, in the order of its file, with what is known of the items.

    `table` has one row per interaction and these columns:
        user           String, never null
        item           String, never null
        time           Float64; null where the log has no order (then file order counts)
        unwillingness  Float64 in [0, 1]; present once `assent.unwillingness` has assigned it
        given          Boolean; present where somebody gave none: false where `data.rest` filled it in
        split          String; present where the file says which part a row belongs to (see `parts_of`)
    A (user, item) pair occurs at most once.

    `items` has one row per known item: item (String), title (String, may be null) and
    category (List[String], may be empty). It may lack items of the log and have items beyond it.
    """

    name: str
    table: pl.DataFrame
    items: pl.DataFrame

    def __len__(self) -> int:
        return self.table.height

    def with_unwillingness(self, values: pl.Series, given: pl.Series | None = None) -> "Interactions":
        """The same log with `values` (Float64, one per row, in [0, 1]) as its unwillingness.

        `given` (Boolean) is false where nobody gave the value; without it, all are given.
        """
        about = [values.alias("unwillingness"), *([] if given is None else [given.alias("given")])]
        return replace(self, table=self.table.drop("given", strict=False).with_columns(about))


NO_ITEMS = pl.DataFrame(schema={"item": pl.String, "title": pl.String, "category": pl.List(pl.String)})
"""An `Interactions.items` that knows nothing."""
