"""A table of means with standard errors, and how it is written: CSV, parquet, LaTeX, Markdown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from assent.experiments.standings import mark
from assent.files import write_text, write_with
from assent.report.data import Record
from assent.report.numbers import MINUS, NONE
from assent.statistics import mean_and_error, paired_difference


@dataclass(frozen=True)
class Column:
    """A figure of a table: the key of the records, its heading, how it is written."""

    key: str
    heading: str
    factor: float = 1.0
    """100 for percent."""
    decimals: int = 2
    better: int = 0
    """1 where large is good, -1 where small is; 0 where there is no better."""


@dataclass(frozen=True)
class Amount:
    """A figure of a row."""

    mean: float | None
    error: float | None
    p: float | None = None
    """Of the paired t-test against the reference; None where there is none."""
    best: bool = False
    """Whether no other row of the place is better."""
    runs: int | None = None
    """How many repeats it is the mean of; None where it is no mean."""


@dataclass(frozen=True)
class Row:
    """A line: its labels, then its figures by key, over `runs` repeats."""

    labels: Mapping[str, Any]
    amounts: Mapping[str, Amount]
    runs: int


@dataclass(frozen=True)
class Grid:
    """A table; its name is that of its files."""

    name: str
    title: str
    labels: Mapping[str, str]
    """The keys of the labels, and their headings."""
    columns: Sequence[Column]
    rows: Sequence[Row]

    def row(self, **labels: Any) -> Row | None:
        """The row with these labels, if there is one."""
        wanted = labels.items()
        return next((row for row in self.rows if wanted <= dict(row.labels).items()), None)

    def frame(self) -> pl.DataFrame:
        """The rows with mean, error and p of every figure, in the units of the headings."""
        lines = []
        for row in self.rows:
            line = {key: row.labels[key] for key in self.labels} | {"runs": row.runs}
            for column in self.columns:
                amount = row.amounts[column.key]
                line[column.key] = _times(amount.mean, column.factor)
                line[f"{column.key}_error"] = _times(amount.error, column.factor)
                line[f"{column.key}_p"] = amount.p
            lines.append(line)
        figures = [f"{column.key}{end}" for column in self.columns for end in ("", "_error", "_p")]
        floats = dict.fromkeys(figures, pl.Float64())
        return pl.DataFrame(lines, schema_overrides=floats, infer_schema_length=None)

    def write(self, folder: Path) -> list[Path]:
        """Write NAME.csv, .parquet, .md and .tex: those files."""
        csv, parquet, markdown, latex = (
            folder / f"{self.name}.{kind}" for kind in ("csv", "parquet", "md", "tex")
        )
        frame = self.frame()
        write_with(csv, frame.write_csv)
        write_with(parquet, frame.write_parquet)
        write_text(markdown, self.markdown())
        write_text(latex, self.latex())
        return [csv, parquet, markdown, latex]

    def markdown(self) -> str:
        """A table for people: mean (standard error), marks of significance, the best in bold."""
        header = [*self.labels.values(), *(column.heading for column in self.columns)]
        aligned = ["---"] * len(self.labels) + ["--:"] * len(self.columns)
        lines = [header, aligned]
        for row in self.rows:
            figures = [text(row.amounts[column.key], column) for column in self.columns]
            bold = [
                f"**{figure.replace('*', chr(92) + '*')}**"
                if row.amounts[column.key].best
                else figure.replace("*", r"\*")
                for figure, column in zip(figures, self.columns, strict=True)
            ]
            lines.append([*(shown(row.labels[key]) for key in self.labels), *bold])
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        return f"### {self.title}\n\n{table}\n"

    def latex(self) -> str:
        """The same with booktabs."""
        lines = [
            " & ".join(
                [
                    *(_escaped(shown(row.labels[key])) for key in self.labels),
                    *(_latex(row.amounts[column.key], column) for column in self.columns),
                ]
            )
            for row in self.rows
        ]
        header = " & ".join(
            map(_escaped, [*self.labels.values(), *(column.heading for column in self.columns)])
        )
        body = " \\\\\n".join(lines)
        layout = "l" * len(self.labels) + "r" * len(self.columns)
        return (
            f"\\begin{{table}}\n\\caption{{{_escaped(self.title)}}}\n\\begin{{tabular}}{{{layout}}}\n\\toprule\n"
            f"{header} \\\\\n\\midrule\n{body} \\\\\n\\bottomrule\n\\end{{tabular}}\n\\end{{table}}\n"
        )


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
    one with these labels, paired by seed, and the best mean of each column is marked.
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
    return Grid(name, title, labels, columns, rows)


def _amount(
    column: Column,
    group: Sequence[Record],
    rivals: Sequence[Sequence[Record]],
    against: Sequence[Record] | None,
) -> Amount:
    mean, error = _mean(group, column.key)
    if mean is None:
        return Amount(None, None)
    p = None
    if against is not None and column.better:
        theirs = {each["seed"]: each[column.key] for each in against if each.get(column.key) is not None}
        ours = {each["seed"]: each[column.key] for each in group if each.get(column.key) is not None}
        pairs = [(value, theirs[seed]) for seed, value in ours.items() if seed in theirs]
        p = paired_difference(*zip(*pairs, strict=True)).p if pairs else None
    means = [found for found in (_mean(each, column.key)[0] for each in rivals) if found is not None]
    best = bool(column.better and means) and column.better * mean >= max(
        column.better * each for each in means
    )
    return Amount(mean, error, p, best, sum(each.get(column.key) is not None for each in group))


def _mean(group: Sequence[Record], key: str) -> tuple[float | None, float | None]:
    values = [each[key] for each in group if each.get(key) is not None]
    return mean_and_error(values) if values else (None, None)


def text(amount: Amount, column: Column) -> str:
    """mean (standard error) and the mark of its difference from the reference."""
    if amount.mean is None:
        return NONE
    mean = fixed(column.factor * amount.mean, column.decimals)
    error = "" if amount.error is None else f" ({column.factor * amount.error:.{column.decimals}f})"
    return f"{mean}{error}{mark(amount.p)}"


def fixed(value: float, decimals: int) -> str:
    """A number with a true minus."""
    return f"{value:.{decimals}f}".replace("-", MINUS)


def shown(label: Any) -> str:
    """A label as text."""
    return f"{label:g}" if isinstance(label, float) else str(label)


def _latex(amount: Amount, column: Column) -> str:
    if amount.mean is None:
        return "--"
    mean = f"{column.factor * amount.mean:.{column.decimals}f}"
    error = "" if amount.error is None else f"_{{({column.factor * amount.error:.{column.decimals}f})}}"
    stars = f"^{{{mark(amount.p)}}}" if mark(amount.p) else ""
    return f"$\\mathbf{{{mean}}}{error}{stars}$" if amount.best else f"${mean}{error}{stars}$"


def _escaped(label: str) -> str:
    known = {"%": r"\%", "_": r"\_", "&": r"\&", "#": r"\#", "η": r"$\eta$", "λ": r"$\lambda$"}
    return "".join(known.get(letter, letter) for letter in label)


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else factor * value
