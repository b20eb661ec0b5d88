import json
from dataclasses import replace

import polars as pl
import pytest

from assent.data.interactions import NO_ITEMS, Interactions, describe

LOG = Interactions(
    "tiny",
    pl.DataFrame(
        {
            "user": ["a", "a", "a", "b", "b", "c"],
            "item": ["1", "2", "3", "1", "4", "1"],
            "time": [5.0, 1.0, 2.0, 9.0, 3.0, 4.0],
        }
    ),
    pl.DataFrame(
        {
            "item": ["1", "2", "3", "99"],
            "title": ["One", None, None, "Beyond the log"],
            "category": [["x", "y"], ["y", "y"], [], ["z"]],
        }
    ),
)


def test_every_figure_by_hand() -> None:
    never = pl.DataFrame({"user": ["d", "a"], "item": ["5", "4"], "time": [99.0, -1.0]})
    whole = replace(LOG, table=pl.concat([LOG.table, never]))
    minded = whole.with_unwillingness(pl.Series([0.0, 0.5, 0.75, 0.75, 0.0, 0.5, 1.0, 1.0]))
    assert describe(minded) == {
        "name": "tiny",
        "users": 3,
        "items": 4,
        "interactions": 6,
        "density": 0.5,
        "interactions_per_user_min": 1,
        "interactions_per_user_median": 2.0,
        "interactions_per_user_mean": 2.0,
        "interactions_per_user_max": 3,
        "interactions_per_item_min": 1,
        "interactions_per_item_median": 1.0,
        "interactions_per_item_mean": 1.5,
        "interactions_per_item_max": 3,
        "users_with_fewer_than_3_interactions": 2,
        "items_with_title_share": 0.25,
        "items_with_category_share": 0.5,
        "categories": 2,
        "top_categories": ["y", "x"],
        "top_category_shares": [4 / 6, 0.5],
        "has_time": True,
        "time_first": 1.0,
        "time_last": 9.0,
        "has_unwillingness": True,
        "unwillingness_mean": pytest.approx(2.5 / 6),
        "use_freely_share": pytest.approx(1 / 3),
        "never": 2,
    }


def test_what_the_log_does_not_say_is_none() -> None:
    bare = Interactions("bare", LOG.table.with_columns(time=pl.lit(None, pl.Float64)), NO_ITEMS)
    figures = describe(bare)
    assert figures["has_time"] is False
    assert figures["has_unwillingness"] is False
    for absent in ("time_first", "time_last", "unwillingness_mean", "use_freely_share"):
        assert figures[absent] is None
    assert figures["items_with_title_share"] == 0.0
    assert (figures["categories"], figures["top_categories"], figures["top_category_shares"]) == (0, [], [])
    json.dumps(figures, allow_nan=False)


def test_only_the_five_largest_categories_in_a_fixed_order() -> None:
    items = pl.DataFrame({"item": ["1", "4"], "title": [None, None], "category": [list("gfedcba"), ["g"]]})
    top = describe(Interactions("many", LOG.table, items.cast({"title": pl.String})))["top_categories"]
    assert top == ["g", "a", "b", "c", "d"]


def test_a_log_without_rows() -> None:
    figures = describe(Interactions("none", LOG.table.head(0), NO_ITEMS))
    assert (figures["users"], figures["density"], figures["interactions_per_user_mean"]) == (0, 0.0, None)
    json.dumps(figures, allow_nan=False)
