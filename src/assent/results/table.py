"""Tables of means over repeats: standard errors, paired t-tests against one row, and the best of each place.

Any flat records will do that agree on some labels and have a `seed`.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from assent.results.records import METHOD, Flat, metric_keys, metric_name
from assent.results.words import listed
from assent.support.statistics import FEWEST, holm, mean_and_error, paired_difference

LEVELS = ((0.01, "**"), (0.05, "*"))
"""Largest p of each mark."""


@dataclass(frozen=True)
class Column:
    """A figure of a table: the key of the records, its heading, how it is written."""

    key: str
    heading: str
    factor: float = 1.0
    """100 for percent."""
    decimals: int | None = 2
    """None: three significant digits."""
    better: int = 0
    """1 where large is good, -1 where small is; 0 where rows are neither tested nor ranked."""
    spread: bool = True
    """Whether the standard error is written too."""
    signed: bool = False
    """Whether positive numbers have a plus."""


@dataclass(frozen=True)
class Amount:
    """A figure of a row."""

    mean: float | None
    error: float | None = None
    runs: int | None = None
    """How many repeats it is the mean of; None where it is no mean."""
    difference: float | None = None
    """From the reference: the mean over the repeats that both have; None where there is none."""
    difference_error: float | None = None
    """Standard error of the difference; None for a single pair."""
    p: float | None = None
    """Of the paired t-test against the reference."""
    best: bool = False
    """Whether it reads as the best mean of its place does, and others read worse."""

    @property
    def sign(self) -> str:
        """↑ or ↓ where it is significantly above or below the reference, with its stars; else empty."""
        stars = mark(self.p)
        return f"{'↑' if (self.difference or 0.0) > 0 else '↓'}{stars}" if stars else ""


@dataclass(frozen=True)
class Row:
    """A line: its labels, then its figures by key, over `runs` repeats."""

    labels: Mapping[str, Any]
    amounts: Mapping[str, Amount]
    runs: int


@dataclass(frozen=True)
class Table:
    """A table; its name is that of its files."""

    name: str
    title: str
    labels: Mapping[str, str]
    """The keys of the labels, and their headings."""
    columns: Sequence[Column]
    rows: Sequence[Row]
    note: str = ""
    """What its marks mean."""
    reference: Mapping[str, Any] | None = None
    """Labels of the rows that the others are tested against."""

    @property
    def repeats(self) -> int:
        """The largest number of repeats of a row."""
        return max((row.runs for row in self.rows), default=0)

    @property
    def legend(self) -> str:
        """What the figures are the means of, and what the marks mean."""
        over = f"Means ± standard errors over {self.repeats} repeats, fewer where said."
        return f"{over if self.repeats > 1 else 'One repeat.'} {self.note}".rstrip()

    @property
    def caption(self) -> str:
        """The title and the legend."""
        return f"{self.title}. {self.legend}"

    @property
    def texts(self) -> list[str]:
        """The labels that are text, not numbers."""
        return [key for key in self.labels if any(isinstance(row.labels[key], str) for row in self.rows)]

    def row(self, **labels: Any) -> Row | None:
        """The row with these labels, if there is one."""
        wanted = labels.items()
        return next((row for row in self.rows if wanted <= dict(row.labels).items()), None)


def rows_by(rows: Sequence[Row], *labels: str) -> dict[tuple[Any, ...], list[Row]]:
    """Rows that agree on these labels, in order of first appearance."""
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row.labels[label] for label in labels), []).append(row)
    return found


def mark(p: float | None) -> str:
    """** for p ≤ 0.01, * for p ≤ 0.05, nothing otherwise."""
    return next((sign for level, sign in LEVELS if p is not None and p <= level), "")


def shown(label: Any) -> str:
    """A label as text."""
    return f"{label:g}" if isinstance(label, float) else str(label)


def metric_columns(metric: str, records: Sequence[Flat], **how: Any) -> list[Column]:
    """A column in percent per k at which the records have a metric."""
    keys = metric_keys(metric, records)
    return [Column(key, f"{metric_name(key, records)} %", 100, better=1, **how) for key in keys]


def tabulate(
    records: Sequence[Flat],
    labels: Mapping[str, str],
    columns: Sequence[Column],
    *,
    reference: Mapping[str, Any] | None = None,
    among: Collection[str] = (),
    corrected: bool = True,
    name: str = "",
    title: str = "",
) -> Table:
    """Means over the repeats of records that agree on `labels`, in order of first appearance.

    Rows that agree on all labels but those of `reference` (or, without a reference, `among`) are one place.
    In each place the best mean of a column is marked, and every row is tested against the reference's, paired
    by seed. `corrected` p are Holm's for all tests of the table. A figure that is None counts as missing.
    """
    free = tuple(reference or among)
    groups: dict[tuple[Any, ...], list[Flat]] = {}
    for record in records:
        groups.setdefault(tuple(record.get(key) for key in labels), []).append(record)
    rows = []
    for values, group in groups.items():
        by_key = {column.key: [*_by_seed(group, column.key).values()] for column in columns}
        amounts = {
            key: Amount(*mean_and_error(values), runs=len(values)) if values else Amount(None)
            for key, values in by_key.items()
        }
        rows.append(Row(dict(zip(labels, values, strict=True)), amounts, len(group)))
    if not free:
        return Table(name, title, labels, columns, rows)
    places = rows_by(rows, *(key for key in labels if key not in free))
    compared = []
    for row in rows:
        rivals = places[tuple(value for key, value in row.labels.items() if key not in free)]
        against = groups.get(tuple({**row.labels, **(reference or {})}.values())) if reference else None
        own = groups[tuple(row.labels.values())]
        amounts = {
            column.key: _compared(column, row, rivals, own, None if against is own else against)
            for column in columns
        }
        compared.append(replace(row, amounts=amounts))
    if corrected:
        tested = [amount for row in compared for amount in row.amounts.values() if amount.p is not None]
        p = {
            id(amount): p for amount, p in zip(tested, holm([each.p or 0.0 for each in tested]), strict=True)
        }
        compared = [
            replace(row, amounts={key: replace(each, p=p.get(id(each))) for key, each in row.amounts.items()})
            for row in compared
        ]
    table = Table(name, title, labels, columns, compared, reference=reference)
    return replace(table, note=_note(table, free, corrected=corrected))


def _by_seed(group: Sequence[Flat], key: str) -> dict[int, float]:
    """A figure by seed, of the records that have it."""
    return {each["seed"]: each[key] for each in group if each.get(key) is not None}


def _compared(
    column: Column, row: Row, rivals: Sequence[Row], own: Sequence[Flat], against: Sequence[Flat] | None
) -> Amount:
    """A figure of a row, with its own test and whether it is the best of its place."""
    amount = row.amounts[column.key]
    if amount.mean is None or not column.better:
        return amount
    means = [each.amounts[column.key].mean for each in rivals]
    ranked = [column.better * _read(mean, column) for mean in means if mean is not None]
    best = column.better * _read(amount.mean, column) == max(ranked) > min(ranked)
    amount = replace(amount, best=best)
    ours, theirs = (_by_seed(group, column.key) for group in (own, against or ()))
    pairs = [(value, theirs[seed]) for seed, value in ours.items() if seed in theirs]
    if not pairs:
        return amount
    found = paired_difference(*zip(*pairs, strict=True))
    return replace(amount, difference=found.mean, difference_error=found.error, p=found.p)


def _read(mean: float, column: Column) -> float:
    """A mean as it is written."""
    return mean if column.decimals is None else round(column.factor * mean, column.decimals)


def _note(table: Table, free: Collection[str], *, corrected: bool) -> str:
    """What the marks of a table mean."""
    tested = ""
    if table.reference:
        against = ", ".join(
            str(value) if key == METHOD else f"{table.labels[key]} = {shown(value)}"
            for key, value in table.reference.items()
        )
        how = "corrected for all tests of the table (Holm)" if corrected else "not corrected for their number"
        tested = (
            f"↑ above, ↓ below {against}: * p ≤ 0.05, ** p ≤ 0.01, paired t-test over repeats, {how}. "
            if table.repeats >= FEWEST
            else f"Not tested: that takes {FEWEST} repeats. "
        )
    place = listed([heading for key, heading in table.labels.items() if key not in free])
    ranked = [column.heading for column in table.columns if column.better]
    some = f" {'Tested and ranked' if table.reference else 'Ranked'}: {listed(ranked)}."
    return (
        f"{tested}In bold or with ‹: the best mean of each {place or 'column'}."
        f"{some if len(ranked) < len(table.columns) else ''}"
    )
