"""Numbers and names in words."""

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.results.words import minded, number, printable


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (5e-324, "4.9·10⁻³²⁴"),
        (1e-310, "1.0·10⁻³¹⁰"),
        (-1e-5, "−1.0·10⁻⁵"),
        (9.99e-5, "1.0·10⁻⁴"),
        (1e-4, "0.000100"),
        (12_345.6, "12,346"),
        (1e100, "1.0·10¹⁰⁰"),
        (sys.float_info.max, "1.8·10³⁰⁸"),
        (float("inf"), "∞"),
    ],
)
def test_numbers_of_any_size_are_short(value: float, said: str) -> None:
    assert number(value) == said


@given(st.floats(0, 1, exclude_max=True))
def test_unwillingness_never_reads_as_another_extreme(value: float) -> None:
    said = minded(value)
    assert (said == "0") == (value == 0)
    assert said != "1"
    assert len(said) <= 10


@given(st.text())
def test_printable_text_is_one_line_without_controls(text: str) -> None:
    found = printable(text)
    acting = [each for each in found if unicodedata.category(each) in ("Cc", "Cf", "Cs", "Zl", "Zp")]
    assert set(acting) <= {"\u200c", "\u200d"}
    assert len(found.splitlines()) <= 1
    assert printable(found) == found


@given(st.text(st.characters(categories=("L", "N", "P", "S", "Zs"))))
def test_plain_text_stays_as_it_is(text: str) -> None:
    assert printable(text) == text
