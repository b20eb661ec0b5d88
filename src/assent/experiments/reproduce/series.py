"""Rows of a table as the series of charts."""

from collections.abc import Mapping, Sequence
from typing import Any

from assent.experiments.reproduce.charts import Series
from assent.experiments.reproduce.grid import Row, shown
from assent.methods import METHODS
from assent.report.data import Way
from assent.report.words import name as way_name

METHOD = "method_name"
"""The label of methods, which have looks of their own."""
WAYS: Mapping[str, Way] = {
    way_name(way): way
    for name, method in METHODS.items()
    for way in ([(name, each.value) for each in method.objectives] or [(name, "")])
}
"""Every method with each of its objectives, by the name that readers see."""


def rows_by(rows: Sequence[Row], *labels: str) -> dict[tuple[Any, ...], list[Row]]:
    """Rows that agree on these labels, in order of first appearance."""
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row.labels[label] for label in labels), []).append(row)
    return found


def series_by(rows: Sequence[Row], label: str, *, along: str, key: str) -> list[Series]:
    """A series per value of a label: the figure `key` at each value of the label `along`."""
    return [
        Series(
            WAYS[value] if label == METHOD else shown(value),
            [row.labels[along] for row in own],
            [row.amounts[key] for row in own],
        )
        for (value,), own in rows_by(rows, label).items()
    ]


def series_of(rows: Sequence[Row], figures: Mapping[str, str], *, along: str) -> list[Series]:
    """A series per figure, by key and name, at each value of the label `along`."""
    x = [row.labels[along] for row in rows]
    return [Series(name, x, [row.amounts[key] for row in rows]) for key, name in figures.items()]
