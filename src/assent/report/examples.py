"""Three people as examples: whom to show, and the reason for each of their decisions in words."""

from typing import Any

import polars as pl

from assent.report.numbers import number

MOST_ROWS = 12
"""Interactions shown of one person; people with 4 to 12 are preferred."""
_TARGETS = (0.8, 0.5, 0.2)
"""Shares of their interactions that the examples have disclosed, as nearly as can be: mostly, half, hardly.
Not 1 and 0, so that each has decisions of both kinds to look at."""


def example_users(selection: pl.DataFrame) -> list[str]:
    """The ids of the (up to three) users nearest to the targets; ties go to the smallest id."""
    users = selection.group_by("user").agg(rows=pl.len(), share=pl.col("disclosed").mean())
    chosen: list[str] = []
    for target in _TARGETS:
        # Rounded, so that 4 of 5 and 8 of 10 are equally near whatever their last bits say.
        distance = (pl.col("share") - target).abs().round(9)
        rest = users.filter(~pl.col("user").is_in(chosen))
        nearest = rest.sort(~pl.col("rows").is_between(4, MOST_ROWS), distance, "user")
        chosen += nearest["user"].head(1).to_list()
    return chosen


def in_words(rows: pl.DataFrame, price: float | None, objective: str = "") -> list[str]:
    """Why each row of a selection was disclosed or withheld, in words.

    `price` is the run's. At a price, an interaction is disclosed iff its influence exceeds price ·
    unwillingness; a budget may also disclose what is not worth its cost, or leave out what is.
    """
    columns = ("unwillingness", "disclosed", "influence", "price")
    return [_reason(row, price, objective) for row in rows.select(columns).iter_rows(named=True)]


def _reason(row: dict[str, Any], price: float | None, objective: str) -> str:
    influence = row["influence"]
    if influence is None:
        return "no estimate"
    if influence <= 0:
        return f"{_no_help(objective)}{_in_spite(row)}"
    if row["disclosed"]:
        return f"worth {number(influence)} loss units, {_cost(row, price)}"
    if price is not None and row["price"] > price:
        return f"would pay up to a price of {number(row['price'])}, yet was not chosen"
    return f"would only pay below a price of {number(row['price'])}"


def _no_help(objective: str) -> str:
    return "estimated not to help its owner" if objective == "nash" else "estimated not to help on the whole"


def _in_spite(row: dict[str, Any]) -> str:
    if not row["disclosed"]:
        return ""
    return ", costs nothing" if row["unwillingness"] == 0 else ", but within the budget"


def _cost(row: dict[str, Any], price: float | None) -> str:
    if row["unwillingness"] == 0:
        return "costs nothing"
    if price is None:
        return f"pays up to a price of {number(row['price'])}"
    cost = price * row["unwillingness"]
    spared = "" if row["influence"] > cost else ", within the budget"
    return f"costs {number(cost)} at this price{spared}"
