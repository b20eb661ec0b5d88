"""The sections of a report: the frontier, the methods, what was withheld, and three people as examples.

Each table of what was withheld has a row per group: `group` (its label), `interactions` (how many),
`withheld` (the share of them) and `unwillingness` (its mean).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import polars as pl

from assent.game.reasons import Reason
from assent.report.data import ReportData, charted, mean, reference
from assent.report.facts import between, frontier_facts
from assent.results.records import ALL, ENDS, METHOD, Flat, described, name, named, way_of
from assent.results.table import Amount, Column, Table, metric_columns, tabulate
from assent.results.words import (
    NONE,
    decimals_for,
    fixed,
    listed,
    minded,
    not_given,
    number,
    percent,
    plural,
    share,
)
from assent.results.writers import Html, bullets, grid, header, html, join, tag

TOP_CATEGORIES = 10
_BANDS = 10
_POPULARITY = {0: "nobody else", 1: "1 other", 2: "2–4 others", 5: "5–9 others", 10: "10 or more others"}
"""Label of each popularity band by the smallest number of others in it."""
MOST_ROWS = 12
"""Interactions shown of one person; people with 4 to 12 are preferred."""
_TARGETS = (0.8, 0.5, 0.2)
"""Shares of their interactions that the examples have disclosed, as nearly as can be: mostly, half, hardly.
Not 1 and 0, so that each has decisions of both kinds to look at."""

_TRIED = "tried on validation rows"

_DECIDED = {
    (Reason.WORTH, True): "expected to help {whom} more than its owner minds",
    (Reason.COST, False): "expected to help {whom}, but less than its owner minds",
    (Reason.NO_HELP, False): "not expected to help {whom}",
    (Reason.CATEGORY, True): "its category as a whole is expected to help {whom} more than its owner minds",
    (Reason.CATEGORY, False): "its category as a whole is expected to help {whom} less than its owner minds",
    (Reason.FLOOR, True): "its owner wants so many to be used that {what} is needed",
    (Reason.OWN_BUDGET, False): "its owner’s limit has no room left for {what}",
    (Reason.BUDGET, True): "not expected to be worth it, but the limit for everybody had room for {what}",
    (Reason.BUDGET, False): "the limit for everybody was used up before {what}",
    (Reason.LOT, True): "drawn by lot",
    (Reason.LOT, False): "the lot left it out",
    (Reason.SEARCH, True): "part of the best choice that was found",
    (Reason.SEARCH, False): "not part of the best choice that was found",
}
"""Why an interaction was decided on so, by the reason and if it is disclosed."""
_BY_WORTH = (Reason.WORTH, Reason.COST, Reason.NO_HELP)
"""Reasons that are about the worth of a single interaction."""
UNSURE = "too uncertain to tell"
"""Said of a worth whose error exceeds its size."""


class Section(NamedTuple):
    """A part of the report."""

    title: str
    content: Html
    researchers: Sequence[str] = ()
    """Sentences that are folded away."""


def by_category(selection: pl.DataFrame) -> pl.DataFrame:
    """The categories with the most interactions, most withheld first; an item counts in each of its own."""
    each = selection.select(
        pl.col("category").list.unique().alias("group"), "unwillingness", "disclosed"
    ).explode("group")
    groups = _summary(each.drop_nulls("group"))
    top = groups.sort("interactions", "group", descending=[True, False]).head(TOP_CATEGORIES)
    return top.sort("withheld", "interactions", "group", descending=[True, True, False])


def by_unwillingness(selection: pl.DataFrame) -> pl.DataFrame:
    """Ten equal bands, each with its lower bound, the last with 1 too; empty bands are left out."""
    band = (pl.col("unwillingness") * _BANDS).floor().clip(0, _BANDS - 1).cast(pl.Int64)
    labels = {low: f"{low / _BANDS:g}–{(low + 1) / _BANDS:g}" for low in range(_BANDS)}
    return _banded(selection, band, labels)


def by_popularity(selection: pl.DataFrame) -> pl.DataFrame:
    """By how many others have the same item among their training interactions; empty bands are left out."""
    others = pl.len().over("item").cast(pl.Int64) - 1
    band = pl.max_horizontal(pl.when(others >= low).then(low) for low in _POPULARITY)
    return _banded(selection, band, _POPULARITY)


def _banded(selection: pl.DataFrame, band: pl.Expr, labels: Mapping[int, str]) -> pl.DataFrame:
    groups = _summary(selection.select(band.alias("group"), "unwillingness", "disclosed")).sort("group")
    return groups.with_columns(pl.col("group").replace_strict(labels, return_dtype=pl.String))


def _summary(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.group_by("group", maintain_order=True).agg(
        interactions=pl.len(),
        withheld=(~pl.col("disclosed")).mean(),
        unwillingness=pl.col("unwillingness").mean(),
    )


FINDINGS = {
    "By category": (
        "{first[group]}, the only category, was withheld in {first[withheld]} of the cases.",
        "Of the largest categories, {first[group]} was withheld most often ({first[withheld]}; mean "
        "unwillingness {first[minded]}) and {last[group]} least often ({last[withheld]}; {last[minded]}). "
        "Over all interactions the mean unwillingness is {average}.",
    ),
    "By unwillingness": (
        "All unwillingness lies in {first[group]}; {first[withheld]} was withheld.",
        "Of what people mind least ({first[group]}) {first[withheld]} was withheld, of what they mind most "
        "({last[group]}) {last[withheld]}.",
    ),
    "By how many others have the item": (
        "Every item is one that {first[group]} {first[have]}; {first[withheld]} was withheld.",
        "Items that {first[group]} {first[have]} were withheld in {first[withheld]} of the cases, items that "
        "{last[group]} {last[have]} in {last[withheld]}.",
    ),
}
"""What a table of groups shows, by its heading: where it has one row, and the first against the last row."""


def finding(heading: str, groups: pl.DataFrame, average: float) -> str:
    """What one of the tables shows; `average` is the mean unwillingness of all interactions."""
    first, last = (
        {
            "group": row["group"],
            "withheld": share(row["withheld"]),
            "minded": fixed(row["unwillingness"], 2),
            "have": "has" if row["group"] in (_POPULARITY[0], _POPULARITY[1]) else "have",
        }
        for row in (groups.row(0, named=True), groups.row(-1, named=True))
    )
    said = FINDINGS[heading][groups.height > 1]
    return said.format(first=first, last=last, average=fixed(average, 2))


def frontier_section(data: ReportData) -> Section:
    """Quality against violation: the frontier where it was measured, and what the run itself measured."""
    from assent.results.plot import Look, Series, quality_chart

    kept, measured = data.kept or data.reached, mean(data.of(data.way), "violation_share")
    chart = quality_chart(charted(data), name="measured", ours=data.way, run=(measured, kept))
    series, label = chart.series, f"quality ({data.metric})"
    if data.kept is not None:
        # All's quality is the unit, so that its own error means nothing here.
        series = [replace(each, y=[Amount(1.0)]) if each.of == ALL else each for each in series]
        label = "quality, share of All’s"
        if tried := _tried(data):
            budgets, found = [each["budget"] for each in tried], [Amount(each["kept"]) for each in tried]
            series = [Series(_TRIED, budgets, found, Look("grey", ".", ":")), *series]
    chart = replace(
        chart,
        x="disclosed, share of what people mind",
        y=label,
        series=series,
        whole=not data.frontier,
    )
    spoken = "; ".join(
        f"{each.label} {percent(y.mean or 0.0, 1)} at {share(float(x))}"
        for each in chart.series
        for x, y in each.known
    )
    run = f"this run {percent(kept.mean, 1)}, {between(kept)}, at {share(measured)}"
    figure = chart.html(f"{chart.y} by what is disclosed: {spoken}; {run}.")
    facts = bullets(frontier_facts(data)) if data.frontier else _how_to_measure()
    drawn = tag("figure", figure, tag("figcaption", " ".join(_caption(data, measured))))
    return Section("What quality costs in disclosure", join([drawn, facts]))


def _tried(data: ReportData) -> list[Mapping[str, float]]:
    """The budgets that were tried to find the least that keeps the quality, rising."""
    return sorted(data.quality["operating_point"]["tried"], key=lambda each: each["budget"])


def _caption(data: ReportData, measured: float) -> list[str]:
    """What the chart shows."""
    words = ["Up is better, left is kinder. The ring is this run; its bar is the 95 % interval."]
    if share(measured) != share(data.violation_share):
        words.append(f"On the split, where that was measured, it discloses {share(measured)}.")
    if data.frontier:
        words.append("Other bars are standard errors over seeds.")
        seeds = [sorted({each["seed"] for each in records}) for records in (data.frontier, data.records)]
        if seeds[0] != seeds[1]:
            said = [f"{'seed' if len(each) == 1 else 'seeds'} {listed([*map(str, each)])}" for each in seeds]
            words.append(f"Curves are measured with {said[0]}, this run with {said[1]}.")
    if _tried(data):
        words.append(
            "The small points are budgets that were tried to find this one, judged by other interactions "
            "than the ring."
        )
    return words


def _how_to_measure() -> Html:
    command = tag("code", "assent fit … --frontier 0.75,0.5,0.25")
    return tag("p", command, " trains a model at each of these budgets and draws the measured curve here.")


def method_tables(data: ReportData) -> dict[str, Table]:
    """Tables by heading: All and Nothing, the run's own price or budget, then the frontier by falling point.

    Only methods at the same point of the frontier answer the same question, so the best is marked only
    there; the best reward only where all have the same price.
    """
    measured = [record for record in data.frontier if way_of(record) not in ENDS]
    groups = {
        "For reference": [record for way in ENDS for record in reference(data, way)],
        "The run’s own price or budget": [record for record in data.records if way_of(record) not in ENDS],
    }
    unranked = list(groups)
    for point in sorted({record["point"] for record in measured}, reverse=True):
        at_point = [record for record in measured if record["point"] == point]
        groups[f"Up to {share(point)} of All’s violation"] = at_point
    columns = _columns([record for group in groups.values() for record in group])
    unranked_rewards = [
        replace(each, better=0) if each.key.startswith("reward") else each for each in columns
    ]
    return {
        heading: tabulate(
            [{**record, "decided": _decided(record)} for record in named(records)],
            {METHOD: "Method"},
            columns if len({record.get("price") for record in records}) == 1 else unranked_rewards,
            among=() if heading in unranked else (METHOD,),
        )
        for heading, records in groups.items()
        if records
    }


def _columns(records: list[Flat]) -> list[Column]:
    """The columns of the table of methods, with three digits of each column's largest mean."""
    metrics = [
        replace(column, heading=column.heading.removesuffix(" %"))
        for metric in ("ndcg", "recall", "hit", "f1", "mrr")
        for column in metric_columns(metric, records)
    ]
    columns = [
        Column("violation_share", "Violation", 100),
        *metrics,
        Column("reward_sum", "Reward (sum)", better=1),
        Column("reward_mean", "Reward (mean)", better=1),
        Column("seconds", "Seconds"),
    ]
    digits = [
        replace(each, decimals=max(1, decimals_for(each.factor * record[each.key] for record in records)))
        for each in columns
    ]
    return [*digits, Column("decided", "Price", decimals=None)]


def _decided(record: Flat) -> float | None:
    """The price at which a method decided, if it knows a finite one."""
    price = record.get("decision_price", record.get("price"))
    return price if price is not None and math.isfinite(price) else None


def methods_section(data: ReportData) -> Section:
    """Every figure of every method."""
    records = (*data.records, *data.frontier)
    ways = list(dict.fromkeys(map(way_of, records)))
    prices = {record.get("price") for record in records}
    compared = "Rewards compare only at the same price."
    if len(prices) == 1 and (price := prices.pop()) is not None:
        compared = f"Both are at a price of {number(price)}."
    notes = [
        "Means with standard errors over seeds; violation, as a share of All’s, and metrics in percent. The "
        "best at each point is in bold, which means little where another is within the standard error.",
        "Reward (sum) counts each person’s validation loss summed over their samples, as the definition "
        "says; reward (mean) counts the mean, as published tables do, and puts Nothing ahead whenever the "
        f"price is large. {compared} The column Price has the price at which a method decided, "
        "where it knows one.",
    ]
    meanings = (join([tag("b", label), f" {text}"]) for label, text in described(ways))
    content = [
        html(method_tables(data), "Figures of every method", ours={METHOD: name(data.way)}),
        *(tag("p", note, class_="note") for note in notes),
        tag("ul", *(tag("li", meaning) for meaning in meanings), class_="note"),
    ]
    return Section("The methods in figures", join(content))


def withheld_section(selection: pl.DataFrame) -> Section:
    """What kind of interaction was withheld."""
    withheld = selection.height - int(selection["disclosed"].sum())
    title = "What was withheld"
    if withheld in (0, selection.height):
        what = "Every interaction was withheld" if withheld else "No interaction was withheld"
        return Section(title, tag("p", f"{what}, so there are no kinds to tell apart."))
    average = float(selection.select(pl.col("unwillingness").mean()).item())
    tables = zip(
        FINDINGS,
        ("Category", "Unwilling\u00adness", "Also had by"),
        (by_category(selection), by_unwillingness(selection), by_popularity(selection)),
        strict=True,
    )
    all_of = plural(selection.height, "interaction")
    content = [
        tag("p", f"{withheld:,} of {all_of} were withheld, {share(withheld / selection.height)} of all.")
    ]
    for heading, first, groups in tables:
        if groups.height:
            said = tag("p", finding(heading, groups, average))
            content += [tag("h3", heading), said, _kinds(heading, first, groups)]
    return Section(title, join(content))


def _kinds(heading: str, first: str, groups: pl.DataFrame) -> Html:
    rows = []
    for row in groups.iter_rows(named=True):
        filled = tag("span", style=f"width:{100 * row['withheld']:.1f}%")
        track = tag("span", filled, class_="track", aria_hidden="true")
        rows.append(
            tag(
                "tr",
                header(tag("bdi", row["group"]), scope="row"),
                tag("td", track, tag("span", share(row["withheld"])), class_="bar"),
                tag("td", f"{row['interactions']:,}"),
                tag("td", fixed(row["unwillingness"], 2)),
            )
        )
    top = (first, "Withheld", "Inter\u00adactions", "Mean unwilling\u00adness")
    return grid(top, [rows], heading, "kinds")


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
    columns = ("unwillingness", "disclosed", "reason", "together", "value", "uncertainty")
    return [_in_words(row, objective) for row in rows.select(columns).iter_rows(named=True)]


def _in_words(row: dict[str, Any], objective: str) -> str:
    if row["reason"] is None:
        return "this method does not estimate what it is worth"
    reason, whom = Reason(row["reason"]), "its owner" if objective == "nash" else "everybody"
    said, what = _DECIDED.get((reason, row["disclosed"]), ""), "its category" if row["together"] > 1 else "it"
    if reason is Reason.WORTH and row["unwillingness"] == 0:
        said = "expected to help {whom}, and its owner does not mind"
    if reason in _BY_WORTH and row["uncertainty"] is not None and row["uncertainty"] > abs(row["value"]):
        said = f"as far as can be told, {said}"
    return said.format(whom=whom, what=what)


WORTHS = {"worth_owner": "Worth to its owner", "worth_everybody": "Worth to everybody"}
"""To whom an interaction is worth something: the columns of a selection, and what they are called."""


def worth_in_words(row: Mapping[str, Any], whose: str) -> list[str]:
    """What an interaction is worth to somebody, one of `WORTHS`, with its error.

    Where the error exceeds the size, no figure is told.
    """
    worth, error = row[whose], row[whose.replace("worth", "error")]
    if worth is None:
        return [NONE]
    if error is not None and error > abs(worth):
        return [UNSURE]
    return [number(worth), *([f"± {number(error)}"] if error is not None else [])]


def examples_section(data: ReportData) -> Section:
    """Three people with the reason for each decision."""
    private = (
        "Whoever reads this sees these people’s interactions, the withheld ones too: "
        "keep this file as closely as the log itself."
    )
    users = example_users(data.selection)
    title = ("One person as an example", "Two people as examples", "Three people as examples")[len(users) - 1]
    return Section(title, join([tag("p", private), *(_person(data, user) for user in users)]))


def _person(data: ReportData, user: str) -> Html:
    theirs = data.selection.filter(pl.col("user") == user)
    disclosed = int(theirs["disclosed"].sum())
    shown = theirs.head(MOST_ROWS).sort(
        "price", "unwillingness", descending=[True, False], nulls_last=True, maintain_order=True
    )
    titles = ["Interaction", "Decision", "Unwillingness", *(WORTHS.values() if data.estimated else ())]
    words = in_words(shown, data.objective) if data.estimated else [""] * shown.height
    rows = zip(shown.iter_rows(named=True), words, strict=True)
    decisions = (_decision(row, text, data) for row, text in rows)
    rest = theirs.height - shown.height
    summary = f": {disclosed:,} of {plural(theirs.height, 'interaction')} disclosed"
    return join(
        [
            tag("h3", "User ", tag("bdi", user), summary),
            grid(titles, [decisions], f"Interactions of user {user}", "person"),
            tag("p", f"and {rest:,} more", class_="note") if rest else "",
        ]
    )


def _decision(row: dict[str, Any], words: str, data: ReportData) -> Html:
    decision = "disclosed" if row["disclosed"] else "withheld"
    pill = tag("span", decision, class_=f"pill {decision}")
    unsaid = "" if row["given"] else tag("small", not_given(data.settings.get("rest")))
    categories = tag("small", tag("bdi", ", ".join(row["category"]))) if row["category"] else ""
    cells = [
        header(tag("bdi", row["title"] or row["item"]), categories, scope="row"),
        tag("td", pill, tag("small", words) if words else "", class_="decision"),
        tag("td", minded(row["unwillingness"]), unsaid),
    ]
    for whose in WORTHS if data.estimated else ():
        worth, *error = worth_in_words(row, whose)
        shown = tag("small", worth) if worth == UNSURE else worth
        cells.append(tag("td", shown, *(tag("small", each) for each in error)))
    return tag("tr", *cells)
