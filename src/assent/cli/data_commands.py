"""`assent data describe` and `assent simulate`."""

from pathlib import Path
from typing import Annotated, Any

import polars as pl
import typer

from assent.cli import options as o
from assent.cli.command import OutputOptions, between, spread
from assent.cli.console import notice, say, show_table, watcher
from assent.data.interactions import Interactions, describe
from assent.data.simulate import Preference, simulate, simulate_parts
from assent.lab.store import Store
from assent.support.errors import AssentError
from assent.support.files import refuse_to_overwrite, write_with

app = typer.Typer(help="Look at data.", no_args_is_help=True)


@app.callback()
def _data() -> None:
    """Look at data."""


@app.command("describe")
@spread
def describe_command(given: o.LogOptions, output: OutputOptions) -> None:
    """Print how large and how dense a log is, and what is known of its items.

    Examples:

    ```
    assent data describe ratings.csv --columns user=member,item=film
    assent data describe data/steam --json steam.json
    ```
    """
    output.check()
    figures = describe(given.read(watcher(), gaps=True))
    rows = [[key.replace("_", " "), _shown(value)] for key, value in figures.items() if key != "name"]
    show_table(str(figures["name"]), ["figure", "value"], rows, texts=("value",))
    output.write([figures])


def _shown(value: Any) -> str:
    match value:
        case None:
            return "–"
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:,.4g}" if abs(value) < 1e5 else f"{value:,.0f}"
        case int():
            return f"{value:,}"
        case list():
            return ", ".join(map(_shown, value)) or "–"
        case _:
            return str(value)


@spread
def simulate_command(
    *,
    to: Annotated[
        Path,
        typer.Option(
            help="The csv or parquet file to write; large logs want .parquet. With --partitions, a folder.",
            show_default=False,
        ),
    ],
    preference: Annotated[
        Preference,
        typer.Option(help="`paper`: no signal to learn from; `learnable`: people are shown what they like."),
    ] = "learnable",
    users: Annotated[int, typer.Option(min=1, help="Users.")] = 1000,
    items: Annotated[int, typer.Option(min=20, help="Items.")] = 1000,
    rows: Annotated[
        int | None,
        typer.Option(
            min=5,
            help="Interactions, exactly: 5 or more per user, heavy-tailed (learnable). For large logs.",
            show_default="5 to 20 per user",
        ),
    ] = None,
    partitions: Annotated[
        int | None,
        typer.Option(
            min=1, help="Parquet files to write, one after the other: logs of any size. Needs --rows."
        ),
    ] = None,
    eta: Annotated[
        float, typer.Option(callback=between(0, 1), help="η, threshold of interacting, 0 to 1.")
    ] = 0.5,
    noise: Annotated[
        float,
        typer.Option(callback=between(0, 1), help="Share of accidental interactions, 0 to 1 (learnable)."),
    ] = 0.2,
    sensitivity: Annotated[str, typer.Option(help="a1,a2,a3 of the unwillingness.")] = "0.5,1,1",
    seed: o.Seed = 0,
    output: OutputOptions,
) -> None:
    """Write a simulated log with unwillingness: the paper's recipe, or one with preferences to learn.

    Examples:

    ```
    assent simulate --to sim.parquet
    assent simulate --users 300000 --items 100000 --rows 10000000 --to large.parquet
    assent simulate --users 3000000 --items 100000 --rows 100000000 --partitions 100 --to large
    assent simulate --preference paper --eta 0.3 --sensitivity 0.6,2,1.2 --to paper.csv
    ```
    """
    output.check()
    refuse_to_overwrite(to, replace=output.replace)
    about: dict[str, Any] = {"users": users, "items": items, "eta": eta, "noise": noise, "seed": seed}
    about["sensitivity"] = _three_numbers(sensitivity)
    if partitions is not None:
        if rows is None or preference != "learnable":
            raise AssentError("--partitions: accepted with --rows, for --preference learnable")
        _write_parts(to, partitions, rows, about)
        return
    log = simulate(preference=preference, rows=rows, **about)
    table = _whole(log)
    if to.suffix == ".parquet":
        write_with(to, table.write_parquet)
    elif to.suffix == ".csv":
        flat = table.with_columns(table["category"].list.join("|"))
        write_with(to, flat.write_csv)
    else:
        raise AssentError(f"--to {to}: accepted: a name that ends in .csv or .parquet")
    figures = describe(log)
    count, people, things = (figures[key] for key in ("interactions", "users", "items"))
    say(f"{count:,} interactions of {people:,} users with {things:,} items")
    notice(f"Written: {to}")
    output.write([figures])


def _whole(log: Interactions) -> pl.DataFrame:
    """A log with what is known of its items, as one table."""
    said = log.table.select("user", "item", "time", "unwillingness")
    return said.join(log.items, on="item", how="left", maintain_order="left")


def _write_parts(to: Path, parts: int, rows: int, about: dict[str, Any]) -> None:
    """Write a log as Parquet files, one after the other."""
    for file in to.glob("*.parquet") if to.is_dir() else ():
        file.unlink()
    with watcher().task("partitions", parts) as advance:
        for number, log in enumerate(simulate_parts(parts, rows=rows, **about)):
            write_with(to / f"part-{number:05}.parquet", _whole(log).write_parquet)
            advance()
    say(f"{rows:,} interactions of {about['users']:,} users")
    notice(f"Written: {to}")


def _three_numbers(text: str) -> tuple[float, float, float]:
    try:
        a1, a2, a3 = (float(part) for part in text.split(","))
    except ValueError:
        raise AssentError(f"--sensitivity {text}: accepted: three numbers, for instance 0.5,1,1") from None
    return a1, a2, a3


def store_command(
    folder: Annotated[Path, typer.Argument(help="A folder that --out or a reproduction keeps results in.")],
    *,
    prune: Annotated[
        float | None,
        typer.Option(min=0, metavar="DAYS", help="Delete what nobody has written for so many days."),
    ] = None,
) -> None:
    """Say how large a store of kept results is; with --prune, delete old ones.

    Stores hold models that may know withheld interactions.

    Examples:

    ```
    assent store front/cells
    assent store reproduced-quick/cells --prune 30
    ```
    """
    if not folder.is_dir():
        raise AssentError(f"{folder}: no such folder")
    store = Store(folder)
    if prune is not None:
        say(f"{store.prune(days=prune):,} bytes deleted")
    say(f"{store.size():,} bytes")
