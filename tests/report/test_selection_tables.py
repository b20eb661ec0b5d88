from collections import defaultdict

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assent.game.reasons import Reason
from assent.report.sections import (
    FINDINGS,
    MOST_ROWS,
    by_category,
    by_popularity,
    by_unwillingness,
    example_users,
    finding,
    in_words,
    worth_in_words,
)
from assent.results.words import NONE, THIN, number

from .cases import selection

rows = st.lists(
    st.tuples(
        st.sampled_from("abcdefghijkl"),
        st.integers(0, 100).map(lambda n: n / 100),
        st.booleans(),
        st.lists(st.sampled_from(["x", "y", "z"]), max_size=3),
    ),
    min_size=1,
    max_size=60,
)


def table_of(drawn: list[tuple[str, float, bool, list[str]]]) -> pl.DataFrame:
    items, unwillingness, disclosed, category = zip(*drawn, strict=True)
    return pl.DataFrame(
        {"item": items, "unwillingness": unwillingness, "disclosed": disclosed, "category": category},
        schema_overrides={"category": pl.List(pl.String)},
    )


def grouped(pairs: list[tuple[str, float, bool]]) -> dict[str, tuple[int, float, float]]:
    """Count, share withheld and mean unwillingness of each group, the slow way."""
    groups: dict[str, list[tuple[float, bool]]] = defaultdict(list)
    for group, unwillingness, disclosed in pairs:
        groups[group].append((unwillingness, not disclosed))
    return {
        group: (len(them), sum(w for _, w in them) / len(them), sum(b for b, _ in them) / len(them))
        for group, them in groups.items()
    }


def agree(table: pl.DataFrame, expected: dict[str, tuple[int, float, float]]) -> bool:
    """Whether a table has the same groups with the same figures."""
    found = {group: pytest.approx(figures) for group, *figures in table.iter_rows()}
    return found.keys() == expected.keys() and all(list(expected[group]) == found[group] for group in found)


@settings(deadline=None, max_examples=50)
@given(rows)
def test_the_tables_agree_with_counting(drawn: list[tuple[str, float, bool, list[str]]]) -> None:
    table = table_of(drawn)
    count = {item: sum(row[0] == item for row in drawn) for item in "abcdefghijkl"}

    def others(item: str) -> str:
        n = count[item] - 1
        bands = [
            (10, "10 or more others"),
            (5, "5–9 others"),
            (2, "2–4 others"),
            (1, "1 other"),
            (0, "nobody else"),
        ]
        return next(label for low, label in bands if n >= low)

    def band(unwillingness: float) -> str:
        low = min(round(100 * unwillingness) // 10, 9)
        return f"{low / 10:g}–{(low + 1) / 10:g}"

    in_categories = [(name, b, d) for _, b, d, categories in drawn for name in set(categories)]
    assert agree(by_category(table), grouped(in_categories))
    assert agree(by_popularity(table), grouped([(others(item), b, d) for item, b, d, _ in drawn]))
    assert agree(by_unwillingness(table), grouped([(band(b), b, d) for _, b, d, _ in drawn]))


def test_the_largest_categories_are_shown_most_withheld_first() -> None:
    table = pl.DataFrame(
        {
            "category": [[f"c{n:02d}"] for n in range(14) for _ in range(n + 1)],
            "unwillingness": 0.5,
            "disclosed": [k >= n % 4 for n in range(14) for k in range(n + 1)],
        }
    )
    found = by_category(table)
    assert set(found["group"]) == {f"c{n:02d}" for n in range(4, 14)}
    assert found["withheld"].is_sorted(descending=True)


def test_findings_quote_the_ends_of_their_tables() -> None:
    groups = pl.DataFrame(
        {
            "group": ["nobody else", "1 other"],
            "interactions": [3, 4],
            "withheld": [0.75, 0.2],
            "unwillingness": [0.6, 0.1],
        }
    )
    category, unwillingness, popularity = (
        finding(heading, groups, 0.3).replace(THIN, " ") for heading in FINDINGS
    )
    assert popularity == (
        "Items that nobody else has were withheld in 75 % of the cases, items that 1 other has in 20 %."
    )
    assert unwillingness.endswith("(1 other) 20 %.")
    assert "(75 %; mean unwillingness 0.60)" in category
    for heading in FINDINGS:
        assert "75" in finding(heading, groups.head(1), 0.3)


def test_the_examples_are_mostly_disclosed_half_and_hardly() -> None:
    table = selection(rows=900, users=150)
    shares = dict(table.group_by("user").agg(pl.col("disclosed").mean()).iter_rows())
    sizes = dict(table.group_by("user").len().iter_rows())
    users = example_users(table)
    assert len(set(users)) == 3
    assert all(4 <= sizes[user] <= MOST_ROWS for user in users)
    assert [round(shares[user], 1) for user in users] == [0.8, 0.5, 0.2]
    assert users == example_users(table.sample(fraction=1, shuffle=True, seed=1))


@pytest.mark.parametrize("users", [1, 2])
def test_few_users_are_few_examples(users: int) -> None:
    assert sorted(example_users(selection(users=users))) == [f"u{n:03d}" for n in range(users)]


def said_of(
    reason: str | None,
    *,
    disclosed: bool,
    unwillingness: float = 0.3,
    together: int = 1,
    objective: str = "welfare",
    uncertainty: float = 0.1,
) -> str:
    row = {"unwillingness": unwillingness, "disclosed": disclosed, "reason": reason, "together": together}
    row |= {"value": 0.5, "uncertainty": uncertainty}
    return in_words(pl.DataFrame([row], schema_overrides={"reason": pl.String}), objective)[0]


@pytest.mark.parametrize(
    ("reason", "disclosed", "said"),
    [
        (Reason.WORTH, True, "expected to help everybody more than its owner minds"),
        (Reason.COST, False, "expected to help everybody, but less than its owner minds"),
        (Reason.NO_HELP, False, "not expected to help everybody"),
        (None, False, "this method does not estimate what it is worth"),
        (Reason.FLOOR, True, "its owner wants so many to be used that it is needed"),
        (Reason.OWN_BUDGET, False, "its owner’s limit has no room left for it"),
        (Reason.BUDGET, True, "not expected to be worth it, but the limit for everybody had room for it"),
        (Reason.BUDGET, False, "the limit for everybody was used up before it"),
        (Reason.LOT, True, "drawn by lot"),
        (Reason.LOT, False, "the lot left it out"),
        (
            Reason.CATEGORY,
            True,
            "its category as a whole is expected to help everybody more than its owner minds",
        ),
        (
            Reason.CATEGORY,
            False,
            "its category as a whole is expected to help everybody less than its owner minds",
        ),
        (Reason.SEARCH, True, "part of the best choice that was found"),
        (Reason.SEARCH, False, "not part of the best choice that was found"),
    ],
)
def test_decisions_are_said_in_plain_words(reason: Reason, disclosed: bool, said: str) -> None:
    assert said_of(reason, disclosed=disclosed) == said


def test_what_nobody_minds_is_said_so() -> None:
    said = said_of(Reason.WORTH, disclosed=True, unwillingness=0.0)
    assert said == "expected to help everybody, and its owner does not mind"


def test_limits_that_a_category_meets_are_said_of_the_category() -> None:
    assert said_of(Reason.OWN_BUDGET, disclosed=False, together=3).endswith("no room left for its category")
    assert said_of(Reason.FLOOR, disclosed=True, together=3).endswith("its category is needed")


@pytest.mark.parametrize("reason", [Reason.WORTH, Reason.COST, Reason.NO_HELP, Reason.LOT])
def test_a_worth_that_is_too_uncertain_to_tell_is_not_said_to_be_sure(reason: Reason) -> None:
    said = said_of(reason, disclosed=reason is Reason.WORTH, uncertainty=0.6)
    assert said.startswith("as far as can be told, ") is (reason is not Reason.LOT)


def test_the_words_of_the_equilibrium_speak_of_the_owner() -> None:
    said = said_of(Reason.NO_HELP, disclosed=False, objective="nash")
    assert said == "not expected to help its owner"


@given(st.floats(-5, 5), st.floats(0, 5))
def test_worth_is_told_unless_its_error_exceeds_it(value: float, error: float) -> None:
    row = {"worth_owner": value, "error_owner": error, "worth_everybody": value, "error_everybody": 2 * error}
    unsure = ["too uncertain to tell"]
    figure, known = [number(value), f"± {number(error)}"], error <= abs(value)
    assert worth_in_words(row, "worth_owner") == (figure if known else unsure)
    assert (worth_in_words(row, "worth_everybody") == unsure) is (2 * error > abs(value))
    bare = row | {"error_everybody": None, "worth_owner": None}
    assert worth_in_words(bare, "worth_everybody") == [number(value)]
    assert worth_in_words(bare, "worth_owner") == [NONE]
