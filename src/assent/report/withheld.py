"""What kind of interaction was withheld: by category, by unwillingness, by how many others have the item.

Each table has one row per group: `group` (its label), `interactions` (how many), `withheld` (the share of
them) and `unwillingness` (its mean).
"""

from typing import Any

import polars as pl

from assent.report.numbers import fixed, share

TOP_CATEGORIES = 10
_BANDS = 10
_POPULARITY = {0: "nobody else", 1: "1 other", 2: "2–4 others", 5: "5–9 others", 10: "10 or more others"}
"""Label of each popularity band by the smallest number of others in it."""


def by_category(selection: pl.DataFrame) -> pl.DataFrame:
    """The categories with the most interactions, most withheld first; an item counts in each of its own."""
    listed = selection.select(
        pl.col("category").list.unique().alias("group"), "unwillingness", "disclosed"
    ).explode("group")
    groups = _summary(listed.drop_nulls("group"))
    top = groups.sort("interactions", "group", descending=[True, False]).head(TOP_CATEGORIES)
    return top.sort("withheld", "interactions", "group", descending=[True, True, False])


def by_unwillingness(selection: pl.DataFrame) -> pl.DataFrame:
    """Ten equal bands, each with its lower bound, the last with 1 too; empty bands are left out."""
    band = (pl.col("unwillingness") * _BANDS).floor().clip(0, _BANDS - 1).cast(pl.Int64)
    groups = _summary(selection.select(band.alias("group"), "unwillingness", "disclosed")).sort("group")
    labels = [f"{low / _BANDS:g}–{(low + 1) / _BANDS:g}" for low in range(_BANDS)]
    return groups.with_columns(
        pl.col("group").replace_strict(dict(enumerate(labels)), return_dtype=pl.String)
    )


def by_popularity(selection: pl.DataFrame) -> pl.DataFrame:
    """By how many others have the same item among their training interactions; empty bands are left out."""
    others = pl.len().over("item").cast(pl.Int64) - 1
    lows = list(_POPULARITY)
    band = pl.max_horizontal(pl.when(others >= low).then(low) for low in lows)
    groups = _summary(selection.select(band.alias("group"), "unwillingness", "disclosed")).sort("group")
    return groups.with_columns(pl.col("group").replace_strict(_POPULARITY, return_dtype=pl.String))


def _summary(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.group_by("group", maintain_order=True).agg(
        interactions=pl.len(),
        withheld=(~pl.col("disclosed")).mean(),
        unwillingness=pl.col("unwillingness").mean(),
    )


def category_finding(groups: pl.DataFrame, mean_unwillingness: float) -> str:
    """The categories most and least often withheld, with how much people mind."""
    first, last = _ends(groups)
    if groups.height == 1:
        return (
            f"{first['group']}, the only category, was withheld in {share(first['withheld'])} of the cases."
        )
    return (
        f"Of the largest categories, {first['group']} was withheld most often ({share(first['withheld'])}; "
        f"mean unwillingness {fixed(first['unwillingness'], 2)}) and {last['group']} least often "
        f"({share(last['withheld'])}; {fixed(last['unwillingness'], 2)}). "
        f"Over all interactions the mean unwillingness is {fixed(mean_unwillingness, 2)}."
    )


def unwillingness_finding(groups: pl.DataFrame) -> str:
    """The lowest band against the highest."""
    first, last = _ends(groups)
    if groups.height == 1:
        return f"All unwillingness lies in {first['group']}; {share(first['withheld'])} was withheld."
    return (
        f"Of what people mind least ({first['group']}) {share(first['withheld'])} was withheld, "
        f"of what they mind most ({last['group']}) {share(last['withheld'])}."
    )


def popularity_finding(groups: pl.DataFrame) -> str:
    """The rarest items against the most common."""
    first, last = _ends(groups)
    if groups.height == 1:
        return f"Every item is one that {_have(first)}; {share(first['withheld'])} was withheld."
    return (
        f"Items that {_have(first)} were withheld in {share(first['withheld'])} of the cases, "
        f"items that {_have(last)} in {share(last['withheld'])}."
    )


def _have(group: dict[str, Any]) -> str:
    return f"{group['group']} {'has' if group['group'] in list(_POPULARITY.values())[:2] else 'have'}"


def _ends(groups: pl.DataFrame) -> tuple[dict[str, Any], dict[str, Any]]:
    return groups.row(0, named=True), groups.row(-1, named=True)
