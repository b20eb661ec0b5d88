"""Ratings make no difference, and a notice says so; or rows of low ratings are not used at all."""

import warnings
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import Assent

from assent import AssentError, Interactions, from_frame, read_interactions
from assent.data.interactions import describe

FRAME = pl.DataFrame(
    {
        "user": ["ann", "ann", "ann", "bob", "bob"],
        "item": ["f1", "f2", "f3", "f1", "f4"],
        "title": ["Heat", "Alien", None, "Heat!", "Brazil"],
        "stars": [5.0, 2.0, 4.0, 3.5, 1.0],
        "unwillingness": [0.1, 0.2, 1.0, 0.3, 0.4],
    }
)


def read(frame: pl.DataFrame, **how: Any) -> tuple[Interactions, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        log = from_frame(frame, name="log", **how)
    return log, [str(each.message) for each in caught]


def refusal(frame: pl.DataFrame, **how: Any) -> str:
    with pytest.raises(AssentError) as caught:
        from_frame(frame, name="log", **how)
    return str(caught.value)


@pytest.mark.parametrize("name", ["stars", "Rating", "score", "star_rating"])
def test_ratings_are_noticed(name: str) -> None:
    log, notices = read(FRAME.rename({"stars": name}))
    assert notices == [
        f"log: column {name!r}: ratings are not looked at, every row counts alike; "
        "min_rating=NUMBER keeps rows of at least that"
    ]
    assert log.table.equals(read(FRAME.drop("stars"))[0].table)


def test_rows_of_low_ratings_are_not_used() -> None:
    log, notices = read(FRAME, min_rating=3.5)
    assert log.table.select("user", "item").rows() == [("ann", "f1"), ("bob", "f1")]
    assert log.items["title"].to_list() == ["Heat"]
    assert log.sealed["item"].to_list() == ["f3"]
    assert notices == ["log: 2 of 4 rows are rated below 3.5 and not used"]
    assert describe(log)["items"] == 1


def test_logs_without_wishes_have_ratings_too() -> None:
    log, _ = read(FRAME.drop("unwillingness"), min_rating=4)
    assert log.table["item"].to_list() == ["f1", "f3"]


cells = st.one_of(st.none(), st.text(max_size=5), st.floats(), st.just("5"))


@given(never=st.lists(cells, min_size=1, max_size=3), least=st.sampled_from([None, 2.0, 4.0]))
def test_ratings_of_never_rows_do_not_matter(never: list[Any], least: float | None) -> None:
    rows = pl.DataFrame(
        {
            "user": ["ann"] * 2 + ["eve"] * len(never),
            "item": ["f1", "f2", *(f"n{number}" for number in range(len(never)))],
            "rating": ["5", "3", *(None if cell is None else str(cell) for cell in never)],
            "unwillingness": [0.1, 0.2, *[1.0] * len(never)],
        }
    )
    log, notices = read(rows, min_rating=least)
    bare, bare_notices = read(rows.head(2), min_rating=least)
    assert log.table.equals(bare.table)
    assert log.sealed.height == len(never)
    assert notices == bare_notices


def test_pairs_that_ratings_leave_once_are_no_repetition() -> None:
    twice = pl.concat([FRAME, FRAME.filter(item="f2").with_columns(stars=5.0, unwillingness=0.0)])
    assert "both have user 'ann' and item 'f2'" in refusal(twice)
    kept = read(twice, min_rating=4)[0].table.filter(item="f2")
    assert kept["unwillingness"].to_list() == [0.2]  # nobody becomes more willing


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (FRAME.drop("stars"), "min_rating=4: log has no column of ratings; accepted: rating, ratings, stars"),
        (FRAME.with_columns(stars=pl.lit("good")), "log: row 1, column 'stars' is 'good'; accepted: a numb"),
        (FRAME.with_columns(stars=pl.lit(None, pl.Int64)), "log: row 1, column 'stars' is empty"),
        (FRAME.with_columns(stars=3.0), "min_rating=4: log has no row of at least that; accepted: less"),
    ],
)
def test_what_cannot_be_is_refused(frame: pl.DataFrame, message: str) -> None:
    assert message in refusal(frame, min_rating=4)


def test_nothing_to_read_is_no_rating_below() -> None:
    log, notices = read(FRAME.with_columns(unwillingness=1.0), min_rating=4)
    assert (len(log), log.sealed.height) == (0, 5)
    assert not any("rated" in notice for notice in notices)


def test_the_option_is_the_argument(tmp_path: Path, assent: Assent) -> None:
    FRAME.rename({"stars": "grade"}).write_csv(tmp_path / "log.csv")
    named = ["--columns", "rating=grade"]
    code, _, err = assent("data", "describe", tmp_path / "log.csv", *named)
    assert (code, err.count("--min-rating NUMBER keeps rows of at least that")) == (0, 1)
    code, out, err = assent("data", "describe", tmp_path / "log.csv", *named, "--min-rating", "4")
    assert (code, "3 of 4 rows are rated below 4 and not used" in err) == (0, True)
    assert next(line for line in out.splitlines() if "interactions " in line).split()[3] == "1"
    code, out, err = assent("data", "describe", tmp_path / "log.csv", "--min-rating", "4")
    assert (code, out) == (2, "")
    assert "or name it with --columns rating=NAME" in err


def test_files_are_read_alike(tmp_path: Path) -> None:
    FRAME.write_ndjson(tmp_path / "log.jsonl")
    log = read_interactions(tmp_path / "log.jsonl", min_rating=4)
    assert log.table["item"].to_list() == ["f1"]
