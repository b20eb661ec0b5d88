"""`assent recommend` and `assent export`: what a run serves."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import polars as pl
import typer

from assent.cli.command import LogJson, OutputOptions, spread
from assent.cli.console import notice, say, show_table
from assent.cli.run_commands import OwnModel, RunFolder, grade_of
from assent.runs.export import FORMATS, export
from assent.runs.folder import Run, open_run
from assent.runs.recommend import GENERAL, KINDS, check_target, read_people, write_recommendations
from assent.support.errors import AssentError


@spread
def recommend_command(
    run: RunFolder,
    *,
    user: Annotated[
        list[str] | None, typer.Option(help="The id of a person; may be repeated.", show_default=False)
    ] = None,
    users: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="A table with a column of users: these people.", show_default=False
        ),
    ] = None,
    everybody: Annotated[bool, typer.Option("--all", help="Everybody in the run; needs --to.")] = False,
    k: Annotated[int, typer.Option("--k", min=1, help="How many items.")] = 10,
    to: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write the lists there: .csv, .parquet or .jsonl.", show_default=False
        ),
    ] = None,
    include: Annotated[
        str | None,
        typer.Option(
            metavar="KINDS",
            help=f"What people have had and are shown all the same: {', '.join(KINDS)}; several by commas.",
            show_default="nothing",
        ),
    ] = None,
    model: OwnModel = None,
    output: OutputOptions,
) -> None:
    """Print or write the items that are recommended to one person, some people or everybody.

    A list rests on what its owner discloses (basis `own`). Who discloses nothing, or is unknown, gets the
    items that most people disclose (basis `general`). Items that a person has had, withheld ones included,
    are not shown to them.

    Examples:

    ```
    assent recommend runs/steam --user 76561198
    assent recommend runs/steam --all --k 20 --to recs.parquet
    assent recommend runs/steam --users some.csv --include disclosed --to recs.csv
    ```
    """
    output.check()
    if sum([bool(user), users is not None, everybody]) != 1:
        raise AssentError("--user, --users, --all: accepted: one of these")
    if everybody and to is None:
        raise AssentError("--all: needs --to, a file to write to")
    if to is not None:
        check_target(to, replace=output.replace)
    kinds = [kind.strip() for kind in include.split(",")] if include else []
    asked = user if users is None else read_people(users)
    opened = open_run(run, model)
    found = opened.recommend(asked, k, include=kinds)
    if found.is_empty() and not len(opened.trained.item_ids):
        say(
            "Nothing to recommend: no interaction is disclosed in this run, so that the model knows no item. "
            "A larger --budget discloses more."
        )
    elif to is None:
        _show(found, asked or [], opened)
    if to is not None:
        write_recommendations(found, to, replace=output.replace)
        people = found["user"].n_unique()
        general = found.filter(basis=GENERAL)["user"].n_unique()
        say(f"{found.height:,} recommendations to {people:,} people")
        if general:
            say(f"{general:,} of them get the items that most people disclose: {_WHO}.")
        notice(f"Written: {to}")
    for sentence in grade_of(opened):
        notice(sentence)
    if output.json is not None:  # many records take seconds to make
        output.write(found.to_dicts(), private=True)


_WHO = "they disclose nothing, or are not in this run"


def _show(found: pl.DataFrame, asked: Sequence[str], run: Run) -> None:
    """Print a table for each person, or why there is none."""
    lists = found.partition_by("user", as_dict=True)
    for person in dict.fromkeys(asked):
        theirs = lists.get((person,))
        if theirs is None:
            say(f"Nothing to recommend to {person}: they have had every item that the model knows.")
            continue
        rows = [
            [str(row["rank"]), row["item"], row["title"] or "–", f"{row['score']:.4f}"]
            for row in theirs.iter_rows(named=True)
        ]
        columns = ["rank", "item", "title", "score"]
        show_table(f"recommended to {person}", columns, rows, texts=("item", "title"))
        if theirs["basis"][0] == GENERAL:
            say(f"{person} gets the items that most people disclose: {_WHO}.")


@spread
def export_command(
    run: RunFolder,
    *,
    to: Annotated[Path, typer.Option(metavar="FOLDER", help="Where to; a new folder.", show_default=False)],
    formats: Annotated[
        str | None,
        typer.Option(
            metavar="FORMATS", help=f"Of {', '.join(FORMATS)}, by commas. Default: all whose library is here."
        ),
    ] = None,
    model: OwnModel = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace an export that is there.")] = False,
    log_json: LogJson = False,
) -> None:
    """Write the model for programs that serve it: vectors, ONNX graphs, and an index of the items.

    They need no assent, and give the model's own scores and best items. The scores have to be products of
    vectors, as those of ials, mf, lightgcn and cdae are. For neumf and din, write the lists of everybody
    instead (`assent recommend --all`).

    Examples:

    ```
    assent export runs/steam --to steam-model
    assent export runs/steam --to steam-model --formats safetensors,usearch
    ```
    """
    opened = open_run(run, model)
    asked = None if formats is None else [each.strip() for each in formats.split(",")]
    written = export(opened, to, formats=asked, replace=replace)
    rows = [[name, f"{size:,}"] for name, size in written.items()]
    show_table(f"exported to {to}", ["file", "bytes"], rows)
    notice(f"How to use them: {to / 'README.md'}")
