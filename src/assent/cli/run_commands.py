"""`assent explain`: what a run means for one person; what all commands about a run are given."""

from pathlib import Path
from typing import Annotated, Any

import polars as pl
import typer

from assent.cli.command import OutputOptions, spread
from assent.cli.console import say, show_table
from assent.data.interactions import NEVER
from assent.data.unwillingness import in_words as source_in_words
from assent.report.sections import in_words
from assent.results.words import minded, not_given, number
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
_HIGH = 1e6


@spread
def explain(run: RunFolder, *, user: User, output: OutputOptions) -> None:
    """Print what was used of a user's interactions, what was not, and why.

    What is held out for validation and test is shown too: nobody decides on it. So is what was never used.

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
    own = opened.records[0]
    price = float(own["price"] if own["decision_price"] is None else own["decision_price"])
    words = in_words(table, own["objective"])
    decided = table.with_columns(pl.Series("words", words, dtype=pl.String))
    kept_out = held_out.select(pl.exclude("held_out_for"), words=pl.format("held out for {}", "held_out_for"))
    unread = pl.when(pl.col("reason") == NEVER).then(pl.lit("never used")).otherwise(pl.lit(_unread(opened)))
    unused = sealed.select(pl.exclude("reason"), words=unread)
    rows = pl.concat([decided, kept_out, unused], how="diagonal").to_dicts()
    columns = ["interaction", "unwilling-\nness", "value", "break-even\nprice"]
    lines = [_explained(row) for row in rows]
    show_table(f"interactions of {user}, price {price:g}", columns, lines, ruled=True)
    disclosed = table.filter(pl.col("disclosed"))
    paid, total = (float(each["unwillingness"].sum()) for each in (disclosed, table))
    used = f"{disclosed.height} of {table.height} interactions are used"
    say(f"{used}; they carry {number(paid)} of {number(total)} unwillingness.")
    if held_out.height:
        say(f"{held_out.height} more are held out, to validate and test on.")
    if sealed.height:
        say(f"{sealed.height} more are shown to nobody else: nothing in this run depends on them.")
    output.write([_finite(row) for row in rows], private=True)


def _unread(run: Run) -> str:
    """Why interactions above the limit are not used, in words."""
    limit = run.settings["closed"]
    return f"withheld unread, above the limit{'' if limit is None else f' {limit:g}'}"


def _explained(row: dict[str, Any]) -> list[str | tuple[str, ...]]:
    """A line of the table: the item, below it what was decided and why, and who says what is minded."""
    decision = {True: "disclosed: ", False: "withheld: ", None: ""}[row["disclosed"]]
    kind, _, rest = row["source"].partition(":")
    source = "" if kind == "rest" else source_in_words(row["source"])
    if source and row["said"]:
        source += f" ({row['said'][:10]})"
    return [
        tuple(filter(None, [row["title"] or row["item"], f"{decision}{row['words']}", source])),
        (minded(row["unwillingness"]), *([not_given(rest)] if kind == "rest" else [])),
        "–" if row["value"] is None else (f"{row['value']:+.3f}", *_give_or_take(row)),
        "–" if row["price"] is None else _priced(row["price"]),
    ]


def _priced(price: float) -> str:
    """A break-even price with three decimals; a very high one in powers of ten."""
    return f"{price:.3f}" if price < _HIGH else number(price)


def _give_or_take(row: dict[str, Any]) -> list[str]:
    return [] if row["uncertainty"] is None else [f"± {row['uncertainty']:.3f}"]


def _finite(record: dict[str, Any]) -> dict[str, Any]:
    """JSON has no infinity: the break-even price of what costs nothing is written as null."""
    return {key: None if value == float("inf") else value for key, value in record.items()}
