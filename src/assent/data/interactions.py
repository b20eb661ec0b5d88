"""The interactions table: who did what, when, and how unwilling they are; figures that describe it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import polars as pl

from assent.support.errors import AssentError

PARTS: Final = ("train", "valid", "test")
"""Values of a column `split`."""
Figure = str | int | float | bool | None | list[str] | list[float]
"""One entry of a description; None if the log does not say."""

TOP_CATEGORIES = 5
"""Number of categories that are named."""


@dataclass(frozen=True)
class Interactions:
    """A log of interactions in the order of its file, with what is known of the items.

    `table` has one row per interaction and these columns:
        user           String, never null
        item           String, never null
        time           Float64; null if the log has no times (then the order of rows counts)
        unwillingness  Float64 in [0, 1]; absent until it is read or assigned
        given          Boolean; false if the unwillingness was filled in; absent if all of it was given
        split          String; absent unless the log says which part each row belongs to
    A (user, item) pair occurs at most once.

    `items` has one row per known item: item (String), title (String, may be null) and
    category (List[String], may be empty). Items of the log may be missing, and others may be present.
    """

    name: str
    table: pl.DataFrame
    items: pl.DataFrame

    def __len__(self) -> int:
        return self.table.height

    def with_unwillingness(self, values: pl.Series, given: pl.Series | None = None) -> "Interactions":
        """Return this log with `values` (Float64 in [0, 1], one per row) as its unwillingness.

        `given` (Boolean, one per row) is false for values that nobody gave; None means that all are given.
        """
        columns = [values.alias("unwillingness"), *([] if given is None else [given.alias("given")])]
        return replace(self, table=self.table.drop("given", strict=False).with_columns(columns))

    def without_never(self) -> "Interactions":
        """Return this log without the rows of unwillingness 1; without any unwillingness it is an error."""
        if "unwillingness" not in self.table.columns:
            raise AssentError(f"{self.name}: no column 'unwillingness'; accepted: a log that has one")
        return replace(self, table=self.table.filter(self.table["unwillingness"] < 1.0))

    def categories_of(self, items: pl.Series) -> pl.Series:
        """The first category of each item, null if it has none; an `AssentError` if none has any."""
        first = self.items.select("item", first=pl.col("category").list.first())
        wanted = pl.DataFrame({"item": items})
        found = wanted.join(first, on="item", how="left", maintain_order="left")["first"]
        if found.null_count() == len(items):
            raise AssentError(f"{self.name}: no item has a category; accepted: a log whose items do")
        return found


NO_ITEMS = pl.DataFrame(schema={"item": pl.String, "title": pl.String, "category": pl.List(pl.String)})
"""The `items` of a log about which nothing is known."""


def describe(interactions: Interactions) -> dict[str, Figure]:
    """Describe a log as a record that can be written as JSON.

    Items are those of the log. `density` is interactions / (users · items). `*_share` is in [0, 1]: a share
    of the items for titles and categories, of the interactions for unwillingness. `top_category_shares` are
    shares of the interactions, in the order of `top_categories`; an item of several categories counts in
    each. Times have the log's unit.
    """
    table = interactions.table
    known = table.select("item").join(interactions.items, on="item", how="left", maintain_order="left")
    per_user, per_item = (table.group_by(column).len()["len"] for column in ("user", "item"))
    return {
        "name": interactions.name,
        "users": len(per_user),
        "items": len(per_item),
        "interactions": len(interactions),
        "density": len(interactions) / (len(per_user) * len(per_item)) if len(interactions) else 0.0,
        **_spread("interactions_per_user", per_user),
        **_spread("interactions_per_item", per_item),
        "users_with_fewer_than_3_interactions": int((per_user < 3).sum()),
        **_of_items(known),
        **_of_times(table["time"]),
        **_of_unwillingness(table),
    }


def _spread(name: str, counts: pl.Series) -> Mapping[str, Figure]:
    summary = pl.DataFrame({"n": counts}).select(
        min=pl.col("n").min(), median=pl.col("n").median(), mean=pl.col("n").mean(), max=pl.col("n").max()
    )
    return {f"{name}_{statistic}": value for statistic, value in summary.row(0, named=True).items()}


def _of_items(known: pl.DataFrame) -> Mapping[str, Figure]:
    """Figures of titles and categories, from one row (item, title, category) per interaction."""
    items = known.unique("item")
    lists = known.select(pl.col("category").list.unique().explode().drop_nulls())["category"]
    top = lists.value_counts().sort("count", "category", descending=[True, False]).head(TOP_CATEGORIES)
    return {
        "items_with_title_share": _mean(items["title"].is_not_null()),
        "items_with_category_share": _mean(items["category"].list.len().fill_null(0) > 0),
        "categories": lists.n_unique(),
        "top_categories": top["category"].to_list(),
        "top_category_shares": [count / known.height for count in top["count"]],
    }


def _of_times(time: pl.Series) -> Mapping[str, Figure]:
    first, last = pl.DataFrame({"time": time}).select(pl.min("time"), last=pl.max("time")).row(0)
    return {"has_time": first is not None, "time_first": first, "time_last": last}


def _of_unwillingness(table: pl.DataFrame) -> Mapping[str, Figure]:
    has_any = "unwillingness" in table.columns
    values = table["unwillingness"] if has_any else pl.Series([], dtype=pl.Float64)
    return {
        "has_unwillingness": has_any,
        "unwillingness_mean": _mean(values),
        "never_share": _mean(values == 1),
        "use_freely_share": _mean(values == 0),
    }


def _mean(values: pl.Series) -> float | None:
    mean = values.cast(pl.Float64).mean()
    return mean if isinstance(mean, float) else None
