"""A log from a data frame: the same as from a file with these columns."""

import datetime
import importlib.util
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from assent.data.readers import from_frame, read_interactions
from assent.support.errors import AssentError

KINDS = ["polars", "pandas"]
NAMES: dict[str, Any] = {
    "user": "member",
    "item": "film",
    "time": "seen",
    "unwillingness": "mind",
    "category": "kind",
    "title": "called",
    "split": "part",
}
LOG = {
    "member": ["007", "7", "7"],
    "film": [12, 12, 13],
    "seen": ["2024-05-31", "2024-06-01T12:00Z", "2024-06-02"],
    "mind": [0.0, None, 1.0],
    "kind": ["a|b", None, "c"],
    "called": ["One", None, "Two"],
    "part": ["train", "valid", "test"],
}


def frame(kind: str, columns: dict[str, Any]) -> Any:
    if kind == "polars":
        return pl.DataFrame(columns)
    return pytest.importorskip("pandas").DataFrame(columns)


@pytest.mark.parametrize("kind", KINDS)
def test_a_frame_is_read_like_a_file_with_these_columns(kind: str, tmp_path: Path) -> None:
    pl.DataFrame(LOG).write_parquet(tmp_path / "log.parquet")
    file = read_interactions(tmp_path / "log.parquet", columns=NAMES, gaps=True)
    found = from_frame(frame(kind, LOG | {"more": [object()] * 3}), **NAMES, gaps=True, name="log")
    assert found.name == file.name
    assert found.table.schema == file.table.schema
    assert found.table.drop("said").equals(file.table.drop("said"))
    assert set(found.table["said"]) == {None}
    assert found.items.equals(file.items)
    assert found.sealed.drop("said").equals(file.sealed.drop("said"))
    assert found.sealed["title"].to_list() == ["Two"]


@pytest.mark.parametrize("kind", KINDS)
def test_usual_names_are_guessed_and_items_may_be_a_frame(kind: str) -> None:
    items = frame(kind, {"id": [1, 2], "name": ["One", None], "genres": [["x", "y"], []]})
    found = from_frame(frame(kind, {"User ID": [5, 6], "item": [1, 2]}), items=items)
    assert found.name == "frame"
    assert found.table.rows() == [("5", "1", None), ("6", "2", None)]
    assert found.items.rows() == [("1", "One", ["x", "y"]), ("2", None, [])]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ({"item": ["x"]}, {}, "frame: which column is the user? columns: 'item'; accepted: userid, "),
        ({"item": ["x"]}, {}, "or name it with user='NAME'"),
        ({"who": ["a"], "item": ["x"]}, {"user": "member"}, "no column 'member' (user='member'); columns: "),
        ({"user": ["a", None], "item": ["x", "y"]}, {}, "frame: row 2, column 'user' is empty; accepted: "),
        (
            {"user": ["a", "b"], "item": ["x", "y"], "beta": [0.5, 1.5]},
            {"name": "views"},
            "views: row 2, column 'beta' is 1.5; accepted: a number from 0 (use freely) to 1 (never)",
        ),
        (
            {"user": ["a", "b"], "item": ["x", "y"], "beta": [0.5, None]},
            {},
            "frame: row 2, column 'beta' is empty; accepted: a number from 0 (use freely) to 1 (never), "
            "or gaps=True for empty ones",
        ),
        (
            {"user": ["a"] * 3, "item": ["x", "y", "x"]},
            {},
            "frame: rows 1 and 3 both have user 'a' and item 'x'",
        ),
        ({"user": [], "item": []}, {}, "frame: there are no rows"),
        ({"user": [True], "item": [1]}, {}, "frame: column 'user' has the type Boolean"),
    ],
)
def test_what_is_wrong_with_a_frame_is_named(
    kind: str, columns: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(AssentError) as caught:
        from_frame(frame(kind, columns), **options)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "wrong", [None, {"user": ["a"], "item": ["x"]}, pl.LazyFrame({"user": ["a"]})], ids=type
)
def test_what_is_no_frame_is_refused(wrong: Any) -> None:
    with pytest.raises(AssentError, match=r"frame: is of type .*; accepted: a DataFrame of polars"):
        from_frame(wrong)


# Types that only pandas has

pandas_only = pytest.mark.skipif(importlib.util.find_spec("pandas") is None, reason="needs pandas")


def of_pandas(**columns: Any) -> Any:
    return pytest.importorskip("pandas").DataFrame(columns)


@pandas_only
@pytest.mark.parametrize(
    ("values", "dtype", "texts"),
    [
        ([12.0, 7.0], "float64", ["12", "7"]),
        ([12, 7], "Int64", ["12", "7"]),
        (["b", "a"], "category", ["b", "a"]),
        ([3, 4], "category", ["3", "4"]),
        (["b", "a"], "string", ["b", "a"]),
        (["b", "a"], "object", ["b", "a"]),
        ([2, 3], "int8", ["2", "3"]),
    ],
)
def test_ids_of_pandas_types(values: list[Any], dtype: str, texts: list[str]) -> None:
    log = of_pandas(user=values, item=["x", "y"]).astype({"user": dtype})
    assert from_frame(log).table["user"].to_list() == texts


@pandas_only
@pytest.mark.parametrize("dtype", ["float64", "Int64", "category", "string", "object"])
def test_what_pandas_calls_missing_is_empty(dtype: str) -> None:
    log = of_pandas(user=[1, None], item=["x", "y"])
    log = log.astype({"user": "Int64"}).astype({"user": dtype})
    with pytest.raises(AssentError, match="row 2, column 'user' is empty"):
        from_frame(log)


@pandas_only
@pytest.mark.parametrize(
    "dtype", ["datetime64[ns]", "datetime64[s]", "datetime64[us, Europe/Berlin]", "object"]
)
def test_times_of_pandas_are_seconds(dtype: str) -> None:
    log = of_pandas(user=["a"], item=["x"], time=[datetime.datetime(2024, 5, 31, 18, 30)])
    if "Berlin" in dtype:
        log["time"] = log["time"].dt.tz_localize("UTC")
    assert from_frame(log.astype({"time": dtype})).table["time"].to_list() == [1717180200.0]


@pandas_only
def test_frames_of_pandas_that_mean_no_one_thing() -> None:
    log = of_pandas(user=["a", "b"], item=["x", 1], more=[1, 2])
    with pytest.raises(AssentError, match="frame: column 'item' mixes types of values; accepted: one type"):
        from_frame(log)
    log.columns = ["user", "item", "item"]
    with pytest.raises(AssentError, match="frame: column 'item' occurs twice"):
        from_frame(log)


@pandas_only
def test_rows_of_pandas_are_counted_whatever_its_index_says() -> None:
    log = of_pandas(user=["a", "a", "b"], item=["x", "y", "x"], beta=[0.1, 0.2, 2.0])
    log.index = [7, 8, 9]
    with pytest.raises(AssentError, match=r"row 3, column 'beta' is 2\.0"):
        from_frame(log)
