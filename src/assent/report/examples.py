"""Three people as examples: whom to show, and the reason for each of their decisions in words."""

from typing import Any

import polars as pl

from assent.game.reasons import Reason
from assent.report.numbers import number

MOST_ROWS = 12
"""Interactions shown of one person; people with 4 to 12 are preferred."""
_TARGETS = (0.8, 0.5, 0.2)
"""Shares of their interactions that the examples have disclosed, as nearly as can be: mostly, half, hardly.
Not 1 and 0, so that each has decisions of both kinds to look at."""

_DECIDED = {
    (Reason.CATEGORY, True): "its category is worth its cost on the whole",
    (Reason.CATEGORY, False): "its category is not worth its cost on the whole",
    (Reason.FLOOR, True): "its owner's floor asks for {}",
    (Reason.OWN_BUDGET, False): "its owner's budget has no room left for {}",
    (Reason.BUDGET, True): "the budget for all has room for {}",
    (Reason.BUDGET, False): "the budget for all has no room left for {}",
    (Reason.LOT, True): "drawn by lot",
    (Reason.LOT, False): "the lot left it out",
    (Reason.SEARCH, True): "part of the best selection that was found",
    (Reason.SEARCH, False): "no part of the best selection that was found",
}
"""What is said beside worth and cost where these do not explain a decision: by reason, and if disclosed."""


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


def in_words(rows: pl.DataFrame, objective: str = "") -> list[str]:
    """Why each row of a selection was disclosed or withheld, in words; `objective` is the run's."""
    columns = ("unwillingness", "disclosed", "value", "reason", "cost", "together")
    return [_in_words(row, objective) for row in rows.select(columns).iter_rows(named=True)]


def _in_words(row: dict[str, Any], objective: str) -> str:
    if row["reason"] is None:
        return "no estimate"
    reason, worth = Reason(row["reason"]), _worth(row["value"], objective)
    if reason is Reason.NO_HELP:
        return worth
    what = "its category" if row["together"] > 1 else "it"
    decided = _DECIDED.get((reason, row["disclosed"]))
    return f"{worth}, {_cost(row)}" + (f"; {decided.format(what)}" if decided else "")


def _worth(value: float, objective: str) -> str:
    if value > 0:
        return f"worth {number(value)} loss units"
    return "estimated not to help its owner" if objective == "nash" else "estimated not to help on the whole"


def _cost(row: dict[str, Any]) -> str:
    costs = "costs" if row["disclosed"] else "would cost"
    return f"{costs} nothing" if row["unwillingness"] == 0 else f"{costs} {number(row['cost'])} at this price"
