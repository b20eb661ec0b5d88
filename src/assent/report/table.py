"""The table of methods: every figure with its standard error, grouped by how much may be disclosed."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assent.report.data import ALL, NOTHING, Record, ReportData, Way, reference, way_of
from assent.report.html import Html, header, scrolling, tag
from assent.report.words import METRIC, NONE, decimals_for, fixed, name, number, share
from assent.support.statistics import summarise


@dataclass(frozen=True)
class Column:
    """A figure of the records, shown as `scale` times itself."""

    key: str
    title: str
    scale: float


_PERCENT = 100.0
_METRICS = (
    Column("ndcg", METRIC, _PERCENT),
    Column("recall", "Recall@5", _PERCENT),
    Column("hit", "Hit@5", _PERCENT),
    Column("f1", "F1@5", _PERCENT),
    Column("mrr", "MRR@5", _PERCENT),
)
_REWARDS = (Column("reward_sum", "Reward (sum)", 1.0), Column("reward_mean", "Reward (mean)", 1.0))
_COLUMNS = (
    Column("violation_share", "Violation", _PERCENT),
    *_METRICS,
    *_REWARDS,
    Column("seconds", "Seconds", 1.0),
)

Row = Mapping[str, Any]
"""A record of `summarise` with the mean `price` at which its records decided, None where they know none."""


@dataclass(frozen=True)
class Group:
    """Rows under a heading; `compared` lists the columns in which the best of them is marked."""

    heading: str
    rows: Sequence[Row]
    compared: Sequence[Column]


def method_groups(data: ReportData) -> list[Group]:
    """All and Nothing, the run's own table, then the frontier by falling point.

    Only at one point of the frontier do the methods answer the same question, so only there is one the best;
    by reward only where all have the same price.
    """
    ends = (ALL, NOTHING)
    measured = [record for record in data.frontier if way_of(record) not in ends]
    own = [record for record in data.records if way_of(record) not in ends]
    groups = [Group("For reference", _rows([record for way in ends for record in reference(data, way)]), ())]
    if own:
        groups.append(Group("The run’s own price or budget", _rows(own), ()))
    for point in sorted({record["point"] for record in measured}, reverse=True):
        records = [record for record in measured if record["point"] == point]
        priced_alike = len({record.get("price") for record in records}) == 1
        rows = _rows(records)
        compared = (*_METRICS, *(_REWARDS if priced_alike else ())) if len(rows) > 1 else ()
        groups.append(Group(f"Up to {share(point)} of All’s violation", rows, compared))
    return groups


def method_table(groups: Sequence[Group], run: Way) -> Html:
    """The groups as a table in a box that scrolls; the rows of the run's method are marked."""
    rows = [row for group in groups for row in group.rows]
    decimals = {
        column.key: max(
            1, decimals_for(column.scale * row[column.key] for row in rows if row[column.key] is not None)
        )
        for column in _COLUMNS
    }
    titles = ["Method", *(column.title for column in _COLUMNS), "Price"]
    head = tag("thead", tag("tr", *(header(title) for title in titles)))
    bodies = (_body(group, decimals, run) for group in groups)
    return scrolling(tag("table", head, *bodies, class_="figures"), "Figures of every method")


def _rows(records: Sequence[Record]) -> list[Row]:
    """One row per method and objective."""
    plain = [{**record, "objective": way_of(record)[1]} for record in records]
    rows = summarise(plain, ["method", "objective"], [column.key for column in _COLUMNS])
    return [
        row | {"price": _mean_price([record for record in plain if way_of(record) == way_of(row)])}
        for row in rows
    ]


def _mean_price(records: Sequence[Record]) -> float | None:
    prices = [record.get("decision_price", record.get("price")) for record in records]
    finite = [price for price in prices if price is not None and math.isfinite(price)]
    return sum(finite) / len(finite) if finite else None


def _body(group: Group, decimals: Mapping[str, int], run: Way) -> Html:
    heading = header(
        tag("span", group.heading), scope="rowgroup", colspan=str(len(_COLUMNS) + 2), class_="group"
    )
    columns = [_cells(group, column, decimals[column.key]) for column in _COLUMNS]
    rows = (
        tag(
            "tr",
            header(name(way_of(row)), scope="row"),
            *cells,
            tag("td", NONE if row["price"] is None else number(row["price"])),
            class_="ours" if way_of(row) == run else "other",
        )
        for row, *cells in zip(group.rows, *columns, strict=True)
    )
    return tag("tbody", tag("tr", heading), *rows)


def _cells(group: Group, column: Column, decimals: int) -> list[Html]:
    """One column of a group; the best is bold with whatever reads the same, unless all do."""
    values = [row[column.key] for row in group.rows]
    texts = [NONE if value is None else fixed(column.scale * value, decimals) for value in values]
    known = [value for value in values if value is not None]
    best = texts[values.index(max(known))] if known and column in group.compared else None
    bold = best if len(set(texts)) > 1 else None
    return [
        tag(
            "td",
            tag("b", text) if text == bold else text,
            *_spread(row[f"{column.key}_error"], column, decimals),
        )
        for text, row in zip(texts, group.rows, strict=True)
    ]


def _spread(error: float | None, column: Column, decimals: int) -> list[Html]:
    return [] if error is None else [tag("small", f" ±{fixed(column.scale * error, decimals)}")]
