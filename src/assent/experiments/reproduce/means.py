"""Tables from records: means over repeats, tested against the row that they are held against."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from assent.experiments.reproduce.grid import Amount, Column, Grid, Row, shown
from assent.report.data import Record
from assent.report.numbers import listed
from assent.statistics import FEWEST, holm, mean_and_error, paired_difference


def grid(
    name: str,
    title: str,
    records: Sequence[Record],
    *,
    labels: Mapping[str, str],
    columns: Sequence[Column],
    reference: Mapping[str, Any] | None = None,
) -> Grid:
    """Means over the repeats of records that agree on `labels`, in order of first appearance.

    Rows that agree on all labels but those of `reference` are one place: in each, rows are tested against the
    one with these labels, paired by seed, and the best mean of each column is marked. Holm's correction makes
    it unlikely (5 % at the level 0.05) that any mark of the whole table is chance.
    """
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for record in records:
        groups.setdefault(tuple(record[key] for key in labels), []).append(record)
    compared = dict(reference or {})
    rows = []
    for values, group in groups.items():
        own = dict(zip(labels, values, strict=True))
        rivals = [
            others
            for place, others in groups.items()
            if compared
            and all(
                value == own[key] for key, value in zip(labels, place, strict=True) if key not in compared
            )
        ]
        against = groups.get(tuple((own | compared).values()))
        amounts = {
            column.key: _amount(column, group, rivals, None if against is group else against)
            for column in columns
        }
        rows.append(Row(own, amounts, len(group)))
    table = Grid(name, title, labels, columns, _corrected(rows))
    return replace(table, note=_note(table, compared)) if compared else table


def _amount(
    column: Column,
    group: Sequence[Record],
    rivals: Sequence[Sequence[Record]],
    against: Sequence[Record] | None,
) -> Amount:
    """A figure of a row; p is that of its own test."""
    ours = _by_seed(group, column.key)
    if not ours:
        return Amount(None, None)
    mean, error = mean_and_error(list(ours.values()))
    difference = p = None
    if against is not None and column.better:
        theirs = _by_seed(against, column.key)
        pairs = [(value, theirs[seed]) for seed, value in ours.items() if seed in theirs]
        if pairs:
            found = paired_difference(*zip(*pairs, strict=True))
            difference, p = found.mean, found.p
    means = [mean_and_error(list(each.values()))[0] for each in _known(rivals, column.key)]
    ranked = [column.better * each for each in means]
    best = bool(ranked) and column.better * mean == max(ranked) > min(ranked)
    return Amount(mean, error, p, best, len(ours), difference)


def _by_seed(group: Iterable[Record], key: str) -> dict[int, float]:
    """A figure by seed, of the records that have it."""
    return {each["seed"]: each[key] for each in group if each.get(key) is not None}


def _known(groups: Iterable[Sequence[Record]], key: str) -> list[dict[int, float]]:
    return [found for found in (_by_seed(group, key) for group in groups) if found]


def _corrected(rows: Sequence[Row]) -> list[Row]:
    """The rows with each p corrected for all tests of the table."""
    own = [amount.p for row in rows for amount in row.amounts.values() if amount.p is not None]
    corrected = iter(holm(own))
    return [
        replace(
            row,
            amounts={
                key: amount if amount.p is None else replace(amount, p=next(corrected))
                for key, amount in row.amounts.items()
            },
        )
        for row in rows
    ]


def _note(table: Grid, compared: Mapping[str, Any]) -> str:
    """What the marks of a table mean."""
    against = ", ".join(f"{table.labels[key]} = {shown(value)}" for key, value in compared.items())
    places = [heading for key, heading in table.labels.items() if key not in compared]
    tested = (
        f"↑ above, ↓ below {against}: * p ≤ 0.05, ** p ≤ 0.01, paired t-test over repeats, corrected for all "
        "tests of the table (Holm)."
        if table.repeats >= FEWEST
        else f"Not tested: that takes {FEWEST} repeats."
    )
    neither = listed([column.heading for column in table.columns if not column.better])
    unranked = f" Neither tested nor ranked: {neither}." if neither else ""
    return f"{tested} In bold: the best mean of each {listed(places)}.{unranked}"
