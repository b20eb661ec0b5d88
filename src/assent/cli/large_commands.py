"""`assent train`: decide and train on a log in partitions that no machine needs to hold."""

from pathlib import Path
from typing import Annotated

import typer

from assent.cli import options as o
from assent.cli.command import OutputOptions, spread
from assent.cli.console import notice, say, watcher
from assent.cli.how import Set, WorkOptions, read_asked
from assent.models import IALS
from assent.runs.folder import KINDS
from assent.runs.large import METHODS, LargePlan, fit_large
from assent.support.errors import AssentError


@spread
def train_command(
    partitions: Annotated[
        Path,
        typer.Argument(
            help="A folder of Parquet files with the columns user, item, unwillingness and, if known, time.",
            show_default=False,
        ),
    ],
    *,
    out: Annotated[Path, typer.Option(help="The folder to make.", show_default=False)],
    method: Annotated[str, typer.Option(help=f"How to choose: {', '.join(METHODS)}.")] = "threshold",
    budget: o.Budget = None,
    values: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="What disclosing a row is worth, for --method value."),
    ] = None,
    price: Annotated[float | None, o.instead_price("the values, for --method value")] = None,
    closed: o.Closed = None,
    shards: Annotated[
        int, typer.Option(min=1, help="About so many shards of people, and as many of items.")
    ] = 8,
    seed: o.Seed = 0,
    set_: Set = None,
    work: WorkOptions,
    output: OutputOptions,
) -> None:
    """Decide and train on a log that is larger than memory: a folder of Parquet partitions.

    iALS is trained over shards of what is disclosed, with its settings as they are given. Decisions are
    written for each partition. A killed command goes on where it was when the same command is given again.

    Examples:

    ```
    assent simulate --users 3000000 --items 100000 --rows 100000000 --partitions 100 --to large
    assent train large --budget 0.5 --shards 32 --out model --executor ray://10.0.0.1:6379
    assent train large --method value --values worth --price 0.1 --set training.epochs=16 --out model
    ```
    """
    output.check()
    plan = LargePlan(method, budget, price, values, closed, shards, seed)
    if any(pair.partition("=")[0].strip() == "model" for pair in set_ or []):
        raise AssentError(f"--set model: large logs are trained with {IALS.name}; accepted: without it")
    asked = read_asked(IALS.name, set_)
    asked.check([])
    progress = watcher()
    with work.executor() as executor:
        made = fit_large(
            partitions,
            out,
            plan,
            asked.settings,
            replace=output.replace,
            executor=executor,
            progress=progress,
        )
    figures = made.figures
    rows = sum(figures[kind] for kind in KINDS)
    say(f"{figures['disclosed']:,} of {rows:,} interactions are disclosed, with "
        f"{100 * figures['violation_share']:.2f} % of what people mind.")  # fmt: skip
    say(f"The model knows {figures['users']:,} people and {figures['items']:,} items.")
    notice(f"Written: {out}")
    output.write([figures])
