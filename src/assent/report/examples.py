"""Three people as examples: whom to show, and the reason for each of their decisions in words."""

from collections.abc import Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Terms:
    """What else than its own worth may decide on an interaction."""

    disclosing: tuple[str, ...] = ()
    """What may disclose one that is not worth its cost."""
    withholding: tuple[str, ...] = ()
    """What may withhold one that is."""
    linear: bool = True
    """Whether disclosing one costs the same whatever else is disclosed."""

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> "Terms":
        """Those of a run, from its settings."""
        wishes = settings.get("wishes") or {}
        rules = (
            (settings.get("budget") is not None, "within the budget", "the budget is used up"),
            (wishes.get("groups"), "decided with its category", "its category does not pay"),
            (wishes.get("users_with_floor"), "asked for by the floor", ""),
            (wishes.get("users_with_budget"), "", "its owner's budget leaves no room"),
            (settings.get("strategy") == "table", "drawn by lot", "the lot left it out"),
        )
        told = [words for applies, *words in rules if applies]
        disclosing, withholding = (tuple(each[side] for each in told if each[side]) for side in (0, 1))
        return cls(disclosing, withholding, wishes.get("utility_power", 1) == 1)


def in_words(
    rows: pl.DataFrame, price: float | None, objective: str = "", settings: Mapping[str, Any] | None = None
) -> list[str]:
    """Why each row of a selection was disclosed or withheld, in words.

    `price` and `settings` are the run's. At a price, an interaction is disclosed iff its influence exceeds
    price · unwillingness; whatever else may have decided is named where that is not so.
    """
    columns = ("unwillingness", "disclosed", "influence", "price")
    terms = Terms.of(settings or {})
    return [_reason(row, price, objective, terms) for row in rows.select(columns).iter_rows(named=True)]


def _reason(row: dict[str, Any], price: float | None, objective: str, terms: Terms) -> str:
    influence = row["influence"]
    if influence is None:
        return "no estimate"
    if influence <= 0:
        return f"{_no_help(objective)}{_in_spite(row, terms)}"
    if row["disclosed"]:
        return f"worth {number(influence)} loss units, {_cost(row, price, terms)}"
    if not terms.linear:
        reasons = ("less than it would cost beside what is disclosed", *terms.withholding)
        return f"worth {number(influence)} loss units, {' or '.join(reasons)}"
    if price is not None and row["price"] > price:
        why = " or ".join(terms.withholding) or "was not chosen"
        return f"would pay up to a price of {number(row['price'])}, yet {why}"
    return f"would only pay below a price of {number(row['price'])}"


def _no_help(objective: str) -> str:
    return "estimated not to help its owner" if objective == "nash" else "estimated not to help on the whole"


def _in_spite(row: dict[str, Any], terms: Terms) -> str:
    if not row["disclosed"]:
        return ""
    return ", costs nothing" if row["unwillingness"] == 0 else f", but {_anyway(terms)}"


def _anyway(terms: Terms) -> str:
    return " or ".join(terms.disclosing) or "chosen all the same"


def _cost(row: dict[str, Any], price: float | None, terms: Terms) -> str:
    if row["unwillingness"] == 0:
        return "costs nothing"
    if not terms.linear:
        return " or ".join(("more than it costs beside what else is disclosed", *terms.disclosing))
    if price is None:
        return f"pays up to a price of {number(row['price'])}"
    cost = price * row["unwillingness"]
    spared = "" if row["influence"] > cost else f", {_anyway(terms)}"
    return f"costs {number(cost)} at this price{spared}"
