"""The figures that tell what a log is like before anything is done with it."""

from collections.abc import Mapping

import polars as pl

from assent.data.interactions import Interactions
from assent.data.split import NEEDED

Figure = str | int | float | bool | None | list[str] | list[float]
"""One entry of a description; None where the log does not say."""

TOP_CATEGORIES = 5
"""How many categories are named."""


def describe(interactions: Interactions) -> dict[str, Figure]:
    """Figures of a log, as a record that can be written as JSON.

    Items are those that occur in the log. `density` is interactions / (users · items). `*_share` is a share
    in [0, 1]: of the items for titles and categories, of the interactions for unwillingness. So are
    `top_category_shares`, of the interactions, in the order of `top_categories`; an item in several
    categories counts in each. Times are in the log's own unit.
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
        "users_with_fewer_than_3_interactions": int((per_user < NEEDED).sum()),
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
    """Figures of what is known, from one row (item, title, category) per interaction."""
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
    if "unwillingness" not in table.columns:
        absent = ("unwillingness_mean", "never_share", "use_freely_share")
        return {"has_unwillingness": False, **dict.fromkeys(absent)}
    values = table["unwillingness"]
    return {
        "has_unwillingness": True,
        "unwillingness_mean": _mean(values),
        "never_share": _mean(values == 1),
        "use_freely_share": _mean(values == 0),
    }


def _mean(values: pl.Series) -> float | None:
    mean = values.cast(pl.Float64).mean()
    return mean if isinstance(mean, float) else None
