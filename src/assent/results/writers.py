"""How tables are written: as CSV, parquet, Markdown, LaTeX, HTML and for the terminal; and HTML at large.

HTML is made by small functions. Text that is not `Html` is escaped, so that no id or title can break out.
Markdown, LaTeX and the terminal have a function each that escapes text (`in_markdown`, `in_latex`,
`words.printable`). In CSV, text that a spreadsheet would compute gets an apostrophe before it (`inert`).
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, TypeVar

import polars as pl
from rich.text import Text

from assent.results.table import Amount, Column, Table, shown
from assent.results.words import MINUS, NONE, fixed, number, plural, printable
from assent.support.files import write_text, write_with

T = TypeVar("T")


class Html(str):
    """Text that is HTML already; a plain `str` is text that still needs escaping."""

    __slots__ = ()


def tag(name: str, /, *parts: str, **attributes: str) -> Html:
    """An element with its content; `class_` and `aria_label` stand for `class` and `aria-label`."""
    return Html(f"{_opening(name, attributes)}{join(parts)}</{name}>")


def void(name: str, /, **attributes: str) -> Html:
    """An element that has no content, such as `meta`."""
    return Html(_opening(name, attributes))


def join(parts: Iterable[str]) -> Html:
    """The parts one after the other."""
    return Html("".join(part if isinstance(part, Html) else escape(part) for part in parts))


def section(title: str, *parts: str, **attributes: str) -> Html:
    """A section under its heading."""
    return tag("section", tag("h2", title), *parts, **attributes)


def bullets(items: Iterable[str]) -> Html:
    """An unordered list."""
    return tag("ul", *(tag("li", item) for item in items))


def header(*parts: str, scope: str = "col", **attributes: str) -> Html:
    """A header cell of a column, a row or a group of rows."""
    return tag("th", *parts, scope=scope, **attributes)


def grid(top: Iterable[str], bodies: Iterable[Iterable[Html]], label: str, class_: str) -> Html:
    """A table in a box of its own, which scrolls (also by keyboard) where the page is narrower.

    `top` has header cells, or their text; each of the `bodies` has rows.
    """
    cells = (each if isinstance(each, Html) else header(each) for each in top)
    rows = (tag("tbody", *body) for body in bodies)
    table = tag("table", tag("thead", tag("tr", *cells)), *rows, class_=class_)
    return tag("div", table, class_="scroll", role="region", aria_label=label, tabindex="0")


def _opening(name: str, attributes: dict[str, str]) -> str:
    given = (f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"' for key, value in attributes.items())
    return f"<{name}{''.join(given)}>"


def write(table: Table, folder: Path) -> list[Path]:
    """Write NAME.csv, .parquet, .md and .tex: those files."""
    files = [folder / f"{table.name}.{kind}" for kind in ("csv", "parquet", "md", "tex")]
    found = frame(table)
    write_with(files[0], inert(found).write_csv)
    write_with(files[1], found.write_parquet)
    heading, caption = in_markdown(table.title), in_markdown(table.caption)
    write_text(files[2], f"### {heading}\n\n{markdown(table)}\n\n{caption}\n")
    write_text(files[3], latex(table))
    return files


def frame(table: Table) -> pl.DataFrame:
    """The rows with mean, error, difference from the reference and p of every figure.

    All but p are in the units of the headings.
    """
    lines = []
    for row in table.rows:
        line = {key: row.labels[key] for key in table.labels} | {"runs": row.runs}
        for column in table.columns:
            amount = row.amounts[column.key]
            figures = {"": amount.mean, "_error": amount.error, "_difference": amount.difference}
            for end, value in figures.items():
                line[f"{column.key}{end}"] = None if value is None else column.factor * value
            line[f"{column.key}_p"] = amount.p
        lines.append(line)
    ends = ("", "_error", "_difference", "_p")
    floats = {f"{column.key}{end}": pl.Float64() for column in table.columns for end in ends}
    return pl.DataFrame(lines, schema_overrides=floats, infer_schema_length=None)


def inert(table: pl.DataFrame) -> pl.DataFrame:
    """Return a table with an apostrophe before text that a spreadsheet would take for a formula.

    That is text that begins with =, +, -, @ or white space that is skipped; numbers stay numbers.
    """
    return table.with_columns(pl.col(pl.String).str.replace(r"^([=+\-@\t\r\n])", "'$1"))


def headings(table: Table) -> list[str]:
    """Of the labels, then of the figures."""
    return [*table.labels.values(), *(column.heading for column in table.columns)]


def fewer_runs(runs: int | None, repeats: int) -> str:
    """How many runs a figure is the mean of, where these are not all `repeats`."""
    return "" if runs in (None, repeats) else f", {plural(runs or 0, 'run')}"


def _mean_and_error(amount: Amount, column: Column) -> tuple[str, str]:
    """Both as text; the error is empty where there is none to write."""
    if amount.mean is None:
        return NONE, ""
    value, decimals = column.factor * amount.mean, column.decimals
    mean = number(value) if decimals is None else fixed(value, decimals)
    is_plus = column.signed and not mean.startswith(MINUS)
    has_error = amount.error is not None and decimals is not None and column.spread
    error = fixed(column.factor * (amount.error or 0.0), decimals or 0) if has_error else ""
    return f"+{mean}" if is_plus else mean, error


def text(amount: Amount, column: Column, repeats: int) -> str:
    """mean ±error, the mark of the test, and how many runs it is of if these are not all."""
    mean, error = _mean_and_error(amount, column)
    parts = [mean, f"±{error}" if error else "", amount.sign]
    return " ".join(filter(None, parts)) + fewer_runs(amount.runs, repeats)


def markdown(table: Table) -> str:
    """The table alone, with the best in bold."""

    def cell(amount: Amount, column: Column) -> str:
        written = in_markdown(text(amount, column, table.repeats))
        return f"**{written}**" if amount.best else written

    sides = ["---" if key in table.texts else "--:" for key in table.labels] + ["--:"] * len(table.columns)
    lines = [[*map(in_markdown, headings(table))], sides, *_cells(table, in_markdown, cell)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cells(table: Table, label: Callable[[str], T], figure: Callable[[Amount, Column], T]) -> list[list[T]]:
    """Row by row, the labels and then the figures, each as it is written."""
    return [
        [
            *(label(shown(row.labels[key])) for key in table.labels),
            *(figure(row.amounts[column.key], column) for column in table.columns),
        ]
        for row in table.rows
    ]


_MARKDOWN = re.compile(r"[\\`*\[\]<>|~&$]|(?<!\w)_|_(?!\w)")
"""What means something in Markdown; an underscore within a word does not."""


def in_markdown(words: str) -> str:
    """Text as Markdown that shows just this text, in one line."""
    return _MARKDOWN.sub(lambda found: f"\\{found[0]}", printable(words))


def latex(table: Table) -> str:
    """The table with its caption, for booktabs and longtable, which goes on over pages."""
    top = f"\\toprule\n{_latex_row(map(in_latex, headings(table)))}\\midrule\n"
    lines = _cells(table, in_latex, lambda amount, column: _latex(amount, column, table.repeats))
    return (
        "% \\usepackage{booktabs,longtable}\n"
        f"\\begin{{longtable}}{{{'l' * len(table.labels)}{'r' * len(table.columns)}}}\n"
        f"\\caption{{{in_latex(table.caption)}}} \\\\\n"
        f"{top}\\endfirsthead\n{top}\\endhead\n\\bottomrule\n\\endfoot\n"
        + "".join(map(_latex_row, lines))
        + "\\end{longtable}\n"
    )


def _latex_row(cells: Iterable[str]) -> str:
    """A row; one that began with a bracket or a star would be taken for an option of the row before."""
    row = " & ".join(cells)
    return f"{'{}' if row[:1] in ('[', '*') else ''}{row} \\\\\n"


def _latex(amount: Amount, column: Column, repeats: int) -> str:
    if amount.mean is None:
        return "--"
    mean, error = (each.replace(MINUS, "-").replace(",", "{,}") for each in _mean_and_error(amount, column))
    bold = f"\\mathbf{{{mean}}}" if amount.best else mean
    below = f"_{{({error})}}" if error else ""
    arrows = amount.sign.replace("↑", r"\uparrow ").replace("↓", r"\downarrow ")
    above = f"^{{{arrows}}}" if arrows else ""
    return f"${bold}{below}{above}${fewer_runs(amount.runs, repeats)}"


_LATEX = str.maketrans(
    {"%": r"\%", "_": r"\_", "&": r"\&", "#": r"\#", "$": r"\$", "{": r"\{", "}": r"\}",
     "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
     "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
     "η": r"$\eta$", "λ": r"$\lambda$", "≤": r"$\le$", "±": r"$\pm$", "‹": r"$\langle$",
     "↑": r"$\uparrow$", "↓": r"$\downarrow$", MINUS: "$-$"}
)  # fmt: skip


def in_latex(words: str) -> str:
    """Text as LaTeX that shows just this text."""
    return printable(words).translate(_LATEX)


def html(groups: Mapping[str, Table] | Table, label: str, *, ours: Mapping[str, Any] | None = None) -> Html:
    """A table in a box that scrolls; tables with the same columns may stand in it as groups, by heading.

    The rows with the labels `ours` are set off.
    """
    tables = {"": groups} if isinstance(groups, Table) else groups
    first = next(iter(tables.values()))
    names = (header(name, class_="label") for name in first.labels.values())
    bodies = (_html_rows(heading, table, ours) for heading, table in tables.items())
    return grid([*names, *(column.heading for column in first.columns)], bodies, label, "figures")


def _html_rows(heading: str, table: Table, ours: Mapping[str, Any] | None) -> Iterator[Html]:
    if heading:
        width = str(len(table.labels) + len(table.columns))
        yield tag("tr", header(tag("span", heading), scope="rowgroup", colspan=width, class_="group"))
    for row in table.rows:
        cells = [*row_labels([shown(row.labels[key]) for key in table.labels])]
        for column in table.columns:
            amount = row.amounts[column.key]
            mean, error = _mean_and_error(amount, column)
            parts = [tag("b", mean) if amount.best else mean, tag("small", f" ±{error}") if error else ""]
            mark = f" {amount.sign}" if amount.sign else ""
            cells.append(tag("td", *parts, mark, fewer_runs(amount.runs, table.repeats)))
        own = ours is not None and ours.items() <= dict(row.labels).items()
        yield tag("tr", *cells, **({} if ours is None else {"class_": "ours" if own else "other"}))


def row_labels(labels: Sequence[str]) -> Iterator[Html]:
    """The first label as the header of its row, the others as text."""
    yield header(labels[0], scope="row")
    yield from (tag("td", label, class_="label") for label in labels[1:])


def terminal(table: Table) -> tuple[str, list[str], list[list[Text]], tuple[str, ...]]:
    """Title, headings, rows and the headings of text columns, as the terminal shows them.

    The best is bold and has a ‹, which files and pipes keep.
    """

    def cell(amount: Amount, column: Column) -> Text:
        written = text(amount, column, table.repeats)
        return Text(f"{written} ‹", style="bold") if amount.best else Text(written)

    texts = tuple(table.labels[key] for key in table.texts)
    return table.title, headings(table), _cells(table, lambda label: Text(printable(label)), cell), texts
