"""Three people as examples: whom to show, and the reason for each of their decisions in words."""

from collections.abc import Sequence
from typing import Any

import polars as pl

from assent.game.reasons import Reason
from assent.report.data import ReportData
from assent.results.html import Html, header, join, paragraph, scrolling, tag
from assent.results.words import NONE, minded, not_given, number, plural

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


def examples_section(data: ReportData) -> Html:
    """Three people with the reason for each decision."""
    private = (
        "Whoever reads this sees these people’s interactions, the withheld ones too: "
        "keep this file as closely as the log itself."
    )
    users = example_users(data.selection)
    title = ("One person as an example", "Two people as examples", "Three people as examples")[len(users) - 1]
    return tag("section", tag("h2", title), paragraph(private), *(_person(data, user) for user in users))


def _person(data: ReportData, user: str) -> Html:
    theirs = data.selection.filter(pl.col("user") == user)
    disclosed = int(theirs["disclosed"].sum())
    shown = theirs.head(MOST_ROWS).sort(
        "price", "unwillingness", descending=[True, False], nulls_last=True, maintain_order=True
    )
    titles = ["Interaction", "Decision", "Unwillingness"]
    titles += ["Value", "Break-even price"] if data.estimated else []
    head = tag("thead", tag("tr", *(header(title) for title in titles)))
    words = in_words(shown, data.objective) if data.estimated else [""] * shown.height
    rows = zip(shown.iter_rows(named=True), words, strict=True)
    body = tag("tbody", *(_decision(row, text, data) for row, text in rows))
    rest = theirs.height - shown.height
    summary = f": {disclosed:,} of {plural(theirs.height, 'interaction')} disclosed"
    return join(
        [
            tag("h3", "User ", tag("bdi", user), summary),
            scrolling(tag("table", head, body, class_="person"), f"Interactions of user {user}"),
            tag("p", f"and {rest:,} more", class_="note") if rest else "",
        ]
    )


def _decision(row: dict[str, Any], words: str, data: ReportData) -> Html:
    decision = "disclosed" if row["disclosed"] else "withheld"
    pill = tag("span", decision, class_=f"pill {decision}")
    unsaid = [] if row["given"] else [tag("small", not_given(data.settings.get("rest")))]
    cells = [
        header(tag("bdi", row["title"] or row["item"]), *_categories(row["category"]), scope="row"),
        tag("td", pill, *([tag("small", words)] if words else []), class_="decision"),
        tag("td", minded(row["unwillingness"]), *unsaid),
    ]
    if data.estimated:
        known = row["uncertainty"] is not None
        uncertain = [tag("small", f"± {number(row['uncertainty'])}")] if known else []
        cells += [tag("td", _or_none(row["value"]), *uncertain), tag("td", _or_none(row["price"]))]
    return tag("tr", *cells)


def _or_none(value: float | None) -> str:
    return NONE if value is None else number(value)


def _categories(categories: Sequence[str] | None) -> list[Html]:
    return [tag("small", tag("bdi", ", ".join(categories)))] if categories else []
