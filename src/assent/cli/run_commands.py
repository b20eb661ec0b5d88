"""`assent explain`: what a run means for one person; what all commands about a run are given."""

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import polars as pl
import typer

from assent.cli.command import OutputOptions, spread
from assent.cli.console import say, show_table
from assent.data.interactions import NEVER
from assent.data.unwillingness import in_words as source_in_words
from assent.report.sections import WORTHS, in_words, worth_in_words
from assent.results.words import minded, not_given, number, plural
from assent.runs.folder import Run, open_run

RunFolder = Annotated[Path, typer.Argument(help="A folder that assent fit made.", show_default=False)]
OwnModel = Annotated[
    str | None,
    typer.Option(
        metavar="MODULE:CLASS",
        help="The run's recommender, if it is one of your own. Its code is run.",
        show_default=False,
    ),
]
User = Annotated[str, typer.Option(help="The user's id.", show_default=False)]
_ALIKE = 1e-9
"""Difference, as a share, up to which values are one."""
_WIDTH = 13
"""Of what is said of worth: narrow enough for a terminal of 80 columns."""


@spread
def explain(run: RunFolder, *, user: User, output: OutputOptions) -> None:
    """Print what was used of a user's interactions, what was not, and why.

    What was never used is listed too, and so is what measured the quality of recommendations.

    Examples:

    ```
    assent explain runs/steam --user 76561198
    ```
    """
    output.check()
    opened = open_run(run)
    held_out, sealed = (each.filter(pl.col("user") == user) for each in (opened.held_out, opened.sealed))
    # With a given split, somebody may have no interaction to train on; others may have said never to all.
    table = opened.rows_of(user, needed=held_out.is_empty() and sealed.is_empty())
    rows = _rows(opened, table, held_out, sealed)
    columns = ["interaction", "unwilling-\nness", "worth to\nits owner", "worth to\neverybody"]
    show_table(f"interactions of {user}", columns, [_explained(row, opened) for row in rows], ruled=True)
    for sentence in _summary(opened, table, held_out, sealed):
        say(sentence)
    output.write([_finite(row) for row in rows], private=True)


def _rows(
    run: Run, table: pl.DataFrame, held_out: pl.DataFrame, sealed: pl.DataFrame
) -> list[dict[str, Any]]:
    """Every interaction of a person once: decided on, or only measured quality by, or not read."""
    words = in_words(table, run.settings["objective"])
    key, measured = ["user", "item"], held_out.select("user", "item", "held_out_for")
    decided = table.with_columns(pl.Series("words", words, dtype=pl.String)).join(
        measured, on=key, how="left"
    )
    apart = held_out.join(table, on=key, how="anti").with_columns(words=pl.lit("not decided on"))
    limit = run.settings["closed"]
    above = f"withheld unread, above the limit{'' if limit is None else f' {limit:g}'}"
    reason = pl.when(pl.col("reason") == NEVER).then(pl.lit("never used")).otherwise(pl.lit(above))
    unread = sealed.select(pl.exclude("reason"), words=reason)
    return pl.concat([decided, apart, unread], how="diagonal").to_dicts()


def _summary(run: Run, table: pl.DataFrame, held_out: pl.DataFrame, sealed: pl.DataFrame) -> Iterator[str]:
    """Sentences below the table: what is used in all, what worth means, what else was done with the rows."""
    disclosed = table.filter("disclosed")
    paid, total = (float(each["unwillingness"].sum()) for each in (disclosed, table))
    if table.height:
        used = f"{disclosed.height} of {_count(table)} are used"
        yield f"{used}; they carry {number(paid)} of {number(total)} unwillingness."
    for whose, told in WORTHS.items():
        if table[whose].null_count() < table.height and _are_alike(run.selection[whose]):
            yield f"{told}: all alike, measuring could not tell them apart."
    price = run.certificate.get("price")
    if isinstance(price, float) and table.height:
        yield "Worth is counted as loss that the model is spared."
        yield f"One unit of unwillingness costs {number(price)} of that."
    if held_out.height:
        yield f"To measure the quality of recommendations, in aggregate: {_count(held_out)}."
        if not run.is_live:
            yield "Nobody decided on them, and the model has not learnt from them."
    if sealed.height:
        yield f"Not read: {_count(sealed)}. Nobody else is shown this."
        yield "Nothing in this run depends on what was not read."
    if not disclosed.height:
        why = "all of it is marked never or above the limit"
        if table.height:
            why = "all that was decided on is withheld"
        elif held_out.height:
            why = "all that may be read only measured the quality"
        yield f"Nothing of theirs is used: {why}."
        yield "The model does not know them, like an unknown person."
    yield from grade_of(run)


def _are_alike(values: pl.Series) -> bool:
    """Whether measuring left one value for all interactions of a run, up to rounding."""
    found = values.drop_nulls().to_numpy()
    return len(found) > 1 and float(np.ptp(found)) <= _ALIKE * abs(float(found[0]))


def grade_of(run: Run) -> list[str]:
    """Say of a prompt run that it is one, and how old that is which it keeps; an exact run is as a fit."""
    grade = run.settings.get("grade")  # an exact run has none, and needs no other file for this
    return [] if grade is None else [f"Grade: {grade}. {run.quality['age']}"]


def _count(rows: pl.DataFrame) -> str:
    return plural(rows.height, "interaction")


def _explained(row: dict[str, Any], run: Run) -> list[str | tuple[str, ...]]:
    """A line of the table: the item, below it what was decided and why, and who says what is minded."""
    decision = {True: "disclosed: ", False: "withheld: ", None: ""}[row["disclosed"]]
    kind, _, rest = row["source"].partition(":")
    source = "" if kind == "rest" else source_in_words(row["source"])
    if source and row["said"]:
        source += f" ({row['said'][:10]})"
    also = "also " if row["disclosed"] is not None else ""
    measured = f"{also}measured the quality of recommendations, in aggregate" if row["held_out_for"] else ""
    expected = "new: its worth is what others' lead to expect, until it is measured"
    about = [measured, expected if row.get("expected") else "", source]
    worths = (worth_in_words(row, whose) for whose in WORTHS)
    return [
        tuple(filter(None, [row["title"] or row["item"], f"{decision}{row['words']}", *about])),
        (minded(row["unwillingness"]), *([not_given(rest)] if kind == "rest" else [])),
        *(tuple(part for each in worth for part in textwrap.wrap(each, _WIDTH)) for worth in worths),
    ]


def _finite(record: dict[str, Any]) -> dict[str, Any]:
    """JSON has no infinity: the break-even price of what costs nothing is written as null."""
    return {key: None if value == float("inf") else value for key, value in record.items()}
