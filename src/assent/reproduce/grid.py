"""A table of means with standard errors, and how it is written: CSV, parquet, LaTeX, Markdown.

Tables from records: means over repeats, tested against the row that they are held against.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from assent.report.data import Record
from assent.report.words import MINUS, NONE, listed, plural
from assent.runs.outcome import mark
from assent.support.files import write_text, write_with
from assent.support.statistics import FEWEST, holm, mean_and_error, paired_difference


@dataclass(frozen=True)
class Column:
    """A figure of a table: the key of the records, its heading, how it is written."""

    key: str
    heading: str
    factor: float = 1.0
    """100 for percent."""
    decimals: int = 2
    better: int = 0
    """1 where large is good, -1 where small is; 0 where rows are neither tested nor ranked."""


@dataclass(frozen=True)
class Amount:
    """A figure of a row."""

    mean: float | None
    error: float | None
    p: float | None = None
    """Of the paired t-test against the reference, corrected for all tests of the table, if there is one."""
    best: bool = False
    """Whether no other row of the place is better, and some are worse."""
    runs: int | None = None
    """How many repeats it is the mean of; None where it is no mean."""
    difference: float | None = None
    """From the reference: the mean over the repeats that both have; None where there is none."""

    @property
    def sign(self) -> str:
        """Whether it is surely above (↑) or below (↓) the reference, and how surely; empty otherwise."""
        stars = mark(self.p)
        return f"{'↑' if (self.difference or 0.0) > 0 else '↓'}{stars}" if stars else ""


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
    note: str = ""
    """What its marks mean."""

    @property
    def repeats(self) -> int:
        """The largest number of repeats of a row."""
        return max((row.runs for row in self.rows), default=0)

    @property
    def legend(self) -> str:
        """What the figures are the means of, and what the marks mean."""
        over = f"Means (standard errors) over {self.repeats} repeats, fewer where said."
        return f"{over if self.repeats > 1 else 'One repeat.'} {self.note}".rstrip()

    @property
    def caption(self) -> str:
        """The title and the legend."""
        return f"{self.title}. {self.legend}"

    def row(self, **labels: Any) -> Row | None:
        """The row with these labels, if there is one."""
        wanted = labels.items()
        return next((row for row in self.rows if wanted <= dict(row.labels).items()), None)

    def frame(self) -> pl.DataFrame:
        """The rows with mean, error, difference from the reference and p of every figure.

        All but p are in the units of the headings.
        """
        lines = []
        for row in self.rows:
            line = {key: row.labels[key] for key in self.labels} | {"runs": row.runs}
            for column in self.columns:
                amount = row.amounts[column.key]
                line[column.key] = _times(amount.mean, column.factor)
                line[f"{column.key}_error"] = _times(amount.error, column.factor)
                line[f"{column.key}_difference"] = _times(amount.difference, column.factor)
                line[f"{column.key}_p"] = amount.p
            lines.append(line)
        ends = ("", "_error", "_difference", "_p")
        figures = [f"{column.key}{end}" for column in self.columns for end in ends]
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
            figures = [_markdown(row.amounts[column.key], column, self.repeats) for column in self.columns]
            lines.append([*(shown(row.labels[key]) for key in self.labels), *figures])
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        return f"### {self.title}\n\n{table}\n\n{_starred(self.caption)}\n"

    def latex(self) -> str:
        """The same with booktabs and longtable, which goes on over pages."""
        lines = [
            " & ".join(
                [
                    *(_escaped(shown(row.labels[key])) for key in self.labels),
                    *(_latex(row.amounts[column.key], column, self.repeats) for column in self.columns),
                ]
            )
            for row in self.rows
        ]
        names = [*self.labels.values(), *(column.heading for column in self.columns)]
        top = f"\\toprule\n{' & '.join(map(_escaped, names))} \\\\\n\\midrule\n"
        layout = "l" * len(self.labels) + "r" * len(self.columns)
        return (
            "% \\usepackage{booktabs,longtable}\n"
            f"\\begin{{longtable}}{{{layout}}}\n\\caption{{{_escaped(self.caption)}}} \\\\\n"
            f"{top}\\endfirsthead\n{top}\\endhead\n\\bottomrule\n\\endfoot\n"
            + "".join(f"{line} \\\\\n" for line in lines)
            + "\\end{longtable}\n"
        )


def text(amount: Amount, column: Column) -> str:
    """mean (standard error) and the mark of its difference from the reference."""
    if amount.mean is None:
        return NONE
    mean = fixed(column.factor * amount.mean, column.decimals)
    error = "" if amount.error is None else f" ({column.factor * amount.error:.{column.decimals}f})"
    return f"{mean}{error} {amount.sign}".rstrip()


def fewer_runs(runs: int | None, repeats: int) -> str:
    """How many runs a figure is the mean of, where it is not that of all repeats."""
    return "" if runs in (None, repeats) else f", {plural(runs or 0, 'run')}"


def fixed(value: float, decimals: int) -> str:
    """A number with a true minus."""
    return f"{value:.{decimals}f}".replace("-", MINUS)


def shown(label: Any) -> str:
    """A label as text."""
    return f"{label:g}" if isinstance(label, float) else str(label)


def _markdown(amount: Amount, column: Column, repeats: int) -> str:
    written = _starred(text(amount, column) + fewer_runs(amount.runs, repeats))
    return f"**{written}**" if amount.best else written


def _starred(words: str) -> str:
    return words.replace("*", r"\*")


def _latex(amount: Amount, column: Column, repeats: int) -> str:
    if amount.mean is None:
        return "--"
    mean = f"{column.factor * amount.mean:.{column.decimals}f}"
    bold = f"\\mathbf{{{mean}}}" if amount.best else mean
    error = "" if amount.error is None else f"_{{({column.factor * amount.error:.{column.decimals}f})}}"
    arrows = amount.sign.replace("↑", r"\uparrow ").replace("↓", r"\downarrow ")
    return f"${bold}{error}{f'^{{{arrows}}}' if arrows else ''}${fewer_runs(amount.runs, repeats)}"


def _escaped(label: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in label)


_LATEX = {
    "%": r"\%",
    "_": r"\_",
    "&": r"\&",
    "#": r"\#",
    "η": r"$\eta$",
    "λ": r"$\lambda$",
    "≤": r"$\le$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    MINUS: "$-$",
}


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else factor * value


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
