"""The interactions table: who did what, when, and how unwilling they are; the door; figures of a log."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import polars as pl

from assent.support.errors import AssentError

PARTS: Final = ("train", "valid", "test")
"""Values of a column `split`."""
Figure = str | int | float | bool | None | list[str] | list[float]
"""One entry of a description; None if the log does not say."""

TOP_CATEGORIES = 5
"""Number of categories that are named."""

NEVER: Final = "never"
CLOSED: Final = "closed"
OWN_COLUMN: Final = "column"
"""The source of unwillingness that a log came with."""
NO_ITEMS: Final = pl.DataFrame(schema={"item": pl.String, "title": pl.String, "category": pl.List(pl.String)})
"""The `items` of a log about which nothing is known."""
NO_ROWS: Final = pl.DataFrame(
    schema={
        "user": pl.String,
        "item": pl.String,
        "title": pl.String,
        "unwillingness": pl.Float64,
        "source": pl.String,
        "said": pl.String,
        "reason": pl.String,
    }
)
"""The `sealed` of a log of which nothing was turned away."""


def turned_away(unwillingness: pl.Series, closed: float | None = None) -> pl.Series:
    """The door: why each row may not be read, `NEVER` or `CLOSED`; null if it may. [rows]

    Above the limit `closed`, rows are withheld unread. Rows of unknown unwillingness are not turned away.
    """
    never, above = unwillingness == 1, pl.lit(value=False) if closed is None else unwillingness > closed
    return pl.select(
        pl.when(never).then(pl.lit(NEVER)).when(above).then(pl.lit(CLOSED)).otherwise(pl.lit(None, pl.String))
    ).to_series()


@dataclass(frozen=True)
class Told:
    """What a file of later wishes said about a log (`data.later`)."""

    source: str
    """The source of the rows whose unwillingness the file says, as the record keeps it."""
    minded: pl.DataFrame
    """user and item of these rows."""
    withdrawn: pl.DataFrame
    """user and item of what it withdraws, in the log or not; the item * of people who are not in the log."""


@dataclass(frozen=True)
class Interactions:
    """A log of interactions in the order of its file, with what is known of the items.

    `table` has one row per interaction and these columns:
        user           String, never null
        item           String, never null
        time           Float64; null if the log has no times (then the order of rows counts)
        unwillingness  Float64 from 0 to below 1; absent until it is read or assigned
        source         String; where the unwillingness comes from; absent if it is the log's own column
        said           String; when it was said, in UTC, null if nobody knows; absent likewise
        split          String; absent unless the log says which part each row belongs to
    A (user, item) pair occurs at most once.

    `items` has one row per known item: item (String), title (String, may be null) and
    category (List[String], may be empty). Items of the log may be missing, and others may be present.

    `sealed` lists what was turned away at the door, for its owners alone: user, item, title, unwillingness,
    source, said, and the reason, `NEVER` or `CLOSED`. Rows of unwillingness 1 go there however a log is made.

    `told` is what a file of later wishes was about; None if the log was read without one.
    """

    name: str
    table: pl.DataFrame
    items: pl.DataFrame
    sealed: pl.DataFrame = field(default_factory=lambda: NO_ROWS)
    told: Told | None = None

    def __post_init__(self) -> None:
        if "unwillingness" in self.table.columns:
            reason = turned_away(self.table["unwillingness"])
            if reason.null_count() < len(reason):
                object.__setattr__(self, "sealed", pl.concat([self.sealed, self._sealed(self.table, reason)]))
                object.__setattr__(self, "table", self.table.filter(reason.is_null()))

    def __len__(self) -> int:
        return self.table.height

    @property
    def minded(self) -> pl.DataFrame:
        """The user, item and unwillingness of each row, with the source and the time of the last."""
        return _minded(self.table)

    @property
    def pairs(self) -> pl.DataFrame:
        """The user and item of every interaction, sealed ones included: what people's wishes may be about."""
        return pl.concat(each.select("user", "item") for each in (self.table, self.sealed))

    def with_unwillingness(self, values: pl.Series, source: str = OWN_COLUMN) -> "Interactions":
        """Return this log with `values` (Float64 in [0, 1], one per row) as its unwillingness."""
        table = self.table.drop("source", "said", strict=False).with_columns(values.alias("unwillingness"))
        if source != OWN_COLUMN:
            table = table.with_columns(source=pl.lit(source), said=pl.lit(None, pl.String))
        return replace(self, table=table)

    def judged(self, verdicts: pl.DataFrame) -> "Interactions":
        """Return this log with the `verdicts` on its rows: unwillingness, source, said, and the reason.

        Rows whose reason is not null are turned away.
        """
        said, reason = verdicts.drop("reason"), verdicts["reason"]
        table = self.table.drop(said.columns, strict=False).hstack(said)
        sealed = pl.concat([self.sealed, self._sealed(table, reason)])
        return replace(self, table=table.filter(reason.is_null()), sealed=sealed)

    def _sealed(self, table: pl.DataFrame, reason: pl.Series) -> pl.DataFrame:
        """The rows of `table` that have a reason, as rows of `sealed`."""
        away = _minded(table).with_columns(reason=reason).filter(reason.is_not_null())
        titles = self.items.select("item", "title")
        return away.join(titles, on="item", how="left", maintain_order="left").select(NO_ROWS.columns)

    def categories_of(self, items: pl.Series) -> pl.Series:
        """The first category of each item, null if it has none; an `AssentError` if none has any."""
        first = self.items.select("item", first=pl.col("category").list.first())
        wanted = pl.DataFrame({"item": items})
        found = wanted.join(first, on="item", how="left", maintain_order="left")["first"]
        if found.null_count() == len(items):
            raise AssentError(f"{self.name}: no item has a category; accepted: a log whose items do")
        return found


def known_items(ids: pl.Series, titles: pl.Series, categories: pl.Series) -> pl.DataFrame:
    """The `Interactions.items` of rows that tell of items: the rows of an item are merged into one.

    An item has the first title and all categories of its rows.
    """
    return (
        pl.DataFrame({"item": ids, "title": titles, "category": categories})
        .group_by("item", maintain_order=True)
        .agg(
            pl.col("title").drop_nulls().first(),
            pl.col("category").explode().drop_nulls().unique(maintain_order=True),
        )
    )


def describe(interactions: Interactions) -> dict[str, Figure]:
    """Describe a log as a record that can be written as JSON.

    Items are those of the log. `density` is interactions / (users · items). `*_share` is in [0, 1]: a share
    of the items for titles and categories, of the interactions for unwillingness. `top_category_shares` are
    shares of the interactions, in the order of `top_categories`; an item of several categories counts in
    each. Times have the log's unit. `never` counts interactions that are in no other figure.
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
        "never": int((interactions.sealed["reason"] == NEVER).sum()),
    }


def _minded(table: pl.DataFrame) -> pl.DataFrame:
    absent = {"source": pl.lit(OWN_COLUMN), "said": pl.lit(None, pl.String)}
    added = [value.alias(name) for name, value in absent.items() if name not in table.columns]
    return table.with_columns(added).select("user", "item", "unwillingness", "source", "said")


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
        "use_freely_share": _mean(values == 0),
    }


def _mean(values: pl.Series) -> float | None:
    mean = values.cast(pl.Float64).mean()
    return mean if isinstance(mean, float) else None
