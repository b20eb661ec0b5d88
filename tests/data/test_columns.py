"""How single columns are read: ids as text, unwillingness on a scale; what is told about them."""

import warnings
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assent.data.columns import Scale, Table, normal, table_of
from assent.support.errors import AssentError


def table(**columns: Any) -> Table:
    return table_of(pl.DataFrame(columns), "log")


def told(read: Any) -> list[str]:
    """The warnings while something is read."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        read()
    return [str(each.message) for each in caught]


# Ids


@pytest.mark.parametrize(
    ("cells", "ids", "notices"),
    [
        (["ann", "bob", "ann"], ["ann", "bob", "ann"], []),
        (
            ["ann", "bob ", "\tbob", "bob"],
            ["ann", "bob", "bob", "bob"],
            ["log: column 'user': white space around 2 ids is removed, first in row 2"],
        ),
        (
            ["12", "x", "12.0", "7.0"],
            ["12", "x", "12", "7"],
            ["log: column 'user': 1 ids are written both like 12 and like 12.0: read as the same"],
        ),
        (
            ["01", "1", "001", "2", "x1", "0", "00"],
            ["01", "1", "001", "2", "x1", "0", "00"],
            ["log: column 'user': 3 ids differ from another by zeros in front, like 01 and 1: kept apart"],
        ),
        (["01", "2", "a01", "a1"], ["01", "2", "a01", "a1"], []),
    ],
)
def test_ids_are_read_cell_by_cell_and_what_is_changed_is_told(
    cells: list[str], ids: list[str], notices: list[str]
) -> None:
    read = table(user=cells)
    assert told(lambda: read.ids("user")) == notices
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert read.ids("user").to_list() == ids


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0")), max_size=4))
@settings(max_examples=60)
def test_how_an_id_reads_does_not_depend_on_other_cells(cells: list[str]) -> None:
    cells = [f"{cell}~" for cell in cells] + ["*", " 8.0", "8", "x"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        together = table(user=cells).ids("user").to_list()
        alone = [table(user=[cell]).ids("user").item() for cell in cells]
    assert together == alone
    assert normal(pl.Series(together)).to_list() == together  # nothing is left to change


def test_some_rows_of_a_table_keep_their_numbers() -> None:
    read = table(user=["a", " b", "c", ""], time=[1, 2, 3, 4])
    some = read.only(pl.Series([True, False, True, True]))
    assert some.times("time").to_list() == [1, 3, 4]
    with pytest.raises(AssentError, match="row 4, column 'user' is empty"):
        some.ids("user")
    assert table(user=["a", "b"]).only(pl.Series([False, False])).height == 0


# Scales

FIVE = {"1": 0.0, "2": 0.25, "3": 0.5, "4": 0.75, "5": 1.0}
TRUTHS = {"0": 0, "1": 1, "true": 1, "FALSE": 0, "Yes": 1, "no": 0, " 1.0": 1}


@pytest.mark.parametrize(
    ("scale", "cells", "expected"),
    [
        ("0-1", ["0", "0.25", " 1", "1e-3", ".5"], [0, 0.25, 1, 1e-3, 0.5]),
        ("0-1", [0, 0.25, 1.0], [0, 0.25, 1]),
        ("percent", ["0", "80", "80%", " 12.5 % ", "100"], [0, 0.8, 0.8, 0.125, 1]),
        ("percent", [0, 80, 100], [0, 0.8, 1]),
        ("flag", list(TRUTHS), list(TRUTHS.values())),
        ("flag", [True, False], [1, 0]),
        ("flag", [1, 0, 1], [1, 0, 1]),
        ("five", list(FIVE), list(FIVE.values())),
        ("five", [5.0, 1.0], [1, 0]),
    ],
)
def test_every_scale_reads_its_own_cells(scale: str, cells: list[Any], expected: list[float]) -> None:
    read = table(beta=pl.Series(cells, strict=False))
    assert read.unwillingness("beta", scale=scale).to_list() == expected
    willing = read.unwillingness("beta", scale=scale, is_reversed=True)
    assert willing.to_list() == [1 - value for value in expected]


def test_the_smallest_and_largest_numbers_are_kept_as_they_are() -> None:
    numbers = [1e-310, 5e-324, float(np.nextafter(1.0, 0.0)), 0.5]
    for cells in (numbers, [repr(number) for number in numbers]):
        assert table(beta=cells).unwillingness("beta").to_list() == numbers


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("scale", list(Scale))
@pytest.mark.parametrize("cell", ["", " ", None])
def test_gaps_are_accepted_where_they_are_asked_for(scale: Scale, cell: str | None) -> None:
    read = table(beta=["1", cell, "1"])
    with pytest.raises(AssentError, match=r"row 2, column 'beta' is .*, or gaps=True for empty ones"):
        read.unwillingness("beta", scale=scale)
    assert read.unwillingness("beta", scale=scale, gaps=True).is_null().to_list() == [False, True, False]


@pytest.mark.parametrize(
    ("cells", "scale", "accepted"),
    [
        (
            ["0.5", "80"],
            "0-1",
            "is '80'; accepted: a number from 0 (use freely) to 1 (never), or scale=percent",
        ),
        (["80%"], "0-1", "is '80%'; accepted: a number from 0 (use freely) to 1 (never), or scale=percent"),
        (["0,8"], "0-1", "to 1 (never), with a point for the comma, or scale=percent for 0 to 100"),
        (["True"], "0-1", "to 1 (never), or scale=flag for truth values"),
        (["no"], "0-1", "to 1 (never), or scale=flag for truth values"),
        (
            [False, True],
            "0-1",
            "is False; accepted: a number from 0 (use freely) to 1 (never), or scale=flag",
        ),
        (
            [1, 5, 2],
            "0-1",
            "is 5; accepted: a number from 0 (use freely) to 1 (never), or scale=five for 1 to 5",
        ),
        ([0, 5, 2], "0-1", "is 5; accepted: a number from 0 (use freely) to 1 (never), or scale=percent"),
        (["-0.2"], "0-1", "is '-0.2'; accepted: a number from 0 (use freely) to 1 (never)"),
        (["inf"], "0-1", "is 'inf'; accepted: a number from 0 (use freely) to 1 (never)"),
        (["nan"], "0-1", "is 'nan'; accepted: a number from 0 (use freely) to 1 (never)"),
        (["much"], "0-1", "is 'much'; accepted: a number from 0 (use freely) to 1 (never)"),
        ([[0.5]], "0-1", "is shape"),
        (["101"], "percent", "is '101'; accepted: a percentage from 0 (use freely) to 100 (never)"),
        (["%"], "percent", "is '%'; accepted: a percentage"),
        (["-1%"], "percent", "is '-1%'; accepted: a percentage"),
        (["maybe"], "flag", "is 'maybe'; accepted: 0, false or no (use freely), or 1, true or yes (never)"),
        ([0.5], "flag", "is 0.5; accepted: 0, false or no"),
        (["6"], "five", "is '6'; accepted: a whole number from 1 (use freely) to 5 (never)"),
        ([2.5], "five", "is 2.5; accepted: a whole number"),
        ([0], "five", "is 0; accepted: a whole number"),
        (["0.5"], "six", "scale='six': accepted: 0-1, percent, flag, five"),
    ],
)
@pytest.mark.parametrize("gaps", [False, True])
def test_what_is_not_on_a_scale_is_refused_with_one_that_fits(
    cells: list[Any], scale: str, accepted: str, gaps: bool
) -> None:
    with pytest.raises(AssentError) as caught:
        table(beta=cells).unwillingness("beta", scale=scale, gaps=gaps)
    assert accepted in str(caught.value)
    assert "\n" not in str(caught.value)
    hints = [hint for hint in ("scale=percent", "scale=flag", "scale=five") if hint in str(caught.value)]
    assert hints == [hint for hint in ("scale=percent", "scale=flag", "scale=five") if hint in accepted]


def test_a_reversed_column_is_refused_in_its_own_words() -> None:
    with pytest.raises(AssentError, match=r"accepted: a number from 0 \(never\) to 1 \(use freely\)"):
        table(w=[2]).unwillingness("w", is_reversed=True)


@pytest.mark.parametrize(
    ("cells", "options", "notices"),
    [
        ([0, 1, 1], {}, ["log: column 'beta': nothing but 0 and 1: 1 is read as never, 0 as use freely"]),
        (["1", "", "0"], {"gaps": True}, ["nothing but 0 and 1: 1 is read as never, 0 as use freely"]),
        ([0, 1], {"is_reversed": True}, ["nothing but 0 and 1: 0 is read as never, 1 as use freely"]),
        ([0, 0], {}, []),
        ([0, 1, 0.5], {}, []),
        ([0, 1], {"scale": "flag"}, []),
        ([0.2, 1], {"scale": "percent"}, ["no percentage is above 1: is the scale from 0 to 1?"]),
        (["0.2%", "1%"], {"scale": "percent"}, []),
        ([0, 1, 20], {"scale": "percent"}, []),
    ],
)
def test_what_may_be_meant_otherwise_is_told(
    cells: list[Any], options: dict[str, Any], notices: list[str]
) -> None:
    found = told(lambda: table(beta=pl.Series(cells, strict=False)).unwillingness("beta", **options))
    assert len(found) == len(notices)
    for one, notice in zip(found, notices, strict=True):
        assert notice in one
