from collections import defaultdict

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assent.game.prices import price_path
from assent.game.reasons import Reason
from assent.report.data import predicted_path
from assent.report.sections import (
    FINDINGS,
    MOST_ROWS,
    by_category,
    by_popularity,
    by_unwillingness,
    example_users,
    finding,
    in_words,
)
from assent.results.words import THIN

from .cases import selection, without_estimates

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


Decision = tuple[float, float, float, bool]
"""Influence, unwillingness, cost, disclosed."""
HELPS: Decision = (0.42, 0.16, 0.08, True)


def said_of(decision: Decision, reason: str | None, together: int = 1, objective: str = "welfare") -> str:
    names = ("value", "unwillingness", "cost", "disclosed", "reason", "together")
    row = dict(zip(names, (*decision, reason, together), strict=True))
    return in_words(pl.DataFrame([row], schema_overrides={"reason": pl.String}), objective)[0]


@pytest.mark.parametrize(
    ("decision", "reason", "said"),
    [
        (HELPS, Reason.WORTH, "worth 0.420 loss units, costs 0.0800 at this price"),
        ((0.42, 0.0, 0.0, True), Reason.WORTH, "worth 0.420 loss units, costs nothing"),
        ((0.01, 0.33, 0.165, False), Reason.COST, "worth 0.0100 loss units, would cost 0.165 at this price"),
        ((-0.1, 0.3, 0.15, False), Reason.NO_HELP, "estimated not to help on the whole"),
        ((-0.1, 0.3, 0.15, False), None, "no estimate"),
    ],
)
def test_worth_against_cost_in_words(decision: Decision, reason: str, said: str) -> None:
    assert said_of(decision, reason) == said


@pytest.mark.parametrize(
    ("reason", "disclosed", "withheld"),
    [
        (Reason.FLOOR, "its owner's floor asks for it", None),
        (Reason.OWN_BUDGET, None, "its owner's budget has no room left for it"),
        (Reason.BUDGET, "the budget for all has room for it", "the budget for all was used up before it"),
        (Reason.LOT, "drawn by lot", "the lot left it out"),
        (
            Reason.CATEGORY,
            "its category is worth its cost on the whole",
            "its category is not worth its cost on the whole",
        ),
        (
            Reason.SEARCH,
            "part of the best selection that was found",
            "no part of the best selection that was found",
        ),
    ],
)
def test_what_else_decided_is_said_alone(reason: Reason, disclosed: str | None, withheld: str | None) -> None:
    if disclosed:
        told = said_of((-0.1, 0.3, 0.15, True), reason)
        assert told == f"estimated not to help on the whole, costs 0.150 at this price; {disclosed}"
    if withheld:
        told = said_of((0.9, 0.1, 0.05, False), reason)
        assert told == f"worth 0.900 loss units, would cost 0.0500 at this price; {withheld}"


def test_limits_that_a_category_meets_are_said_of_the_category() -> None:
    assert said_of((0.9, 0.1, 0.05, False), Reason.OWN_BUDGET, 3).endswith("no room left for its category")
    assert said_of((0.9, 0.1, 0.05, True), Reason.FLOOR, 3).endswith("floor asks for its category")


def test_the_words_of_the_equilibrium_speak_of_the_owner() -> None:
    said = said_of((-1.0, 0.5, 0.5, False), Reason.NO_HELP, objective="nash")
    assert said == "estimated not to help its owner"


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 200).map(lambda n: n / 100), st.integers(0, 5))
def test_a_run_at_a_price_lies_on_the_predicted_path(price: float, seed: int) -> None:
    table = selection(rows=200, seed=seed)
    influence, unwillingness = table["value"].to_numpy(), table["unwillingness"].to_numpy()
    chosen = price_path(influence, unwillingness).at_price(price)
    found = predicted_path(table.with_columns(disclosed=chosen))
    assert found is not None
    assert found.violation[0] == found.gain[0] == 0
    assert found.violation[-1] == pytest.approx(1)
    assert found.gain[-1] == pytest.approx(influence.sum() / influence[influence > 0].sum())
    assert found.gain.max() == pytest.approx(1)
    assert (np.diff(found.violation) >= 0).all()
    nearest = np.hypot(found.violation - found.run[0], found.gain - found.run[1]).min()
    assert nearest == pytest.approx(0, abs=1e-12)


def test_no_path_without_estimates_gain_or_cost() -> None:
    assert predicted_path(without_estimates(selection())) is None
    assert predicted_path(selection().with_columns(value=-pl.col("value").abs())) is None
    assert predicted_path(selection().with_columns(unwillingness=pl.lit(0.0))) is None
