"""`assent frontier` and `assent lds`: what methods and estimators are worth, by retraining."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from assent.cli import options as o
from assent.cli.command import OutputOptions, between, spread
from assent.cli.console import notice, number, percent, show_table, watcher
from assent.cli.console import out as terminal
from assent.cli.how import HowOptions, Methods, Model, Set, WorkOptions, read_asked
from assent.evaluation.evaluate import HeldOut
from assent.evaluation.metrics import RewardForm
from assent.lab.store import Store
from assent.methods import GameMethod, Method
from assent.methods.worth import WorthMethod
from assent.report import frontier_lines, frontier_svg
from assent.report.data import way_of
from assent.report.words import name
from assent.runs.compare import frontier
from assent.runs.lds import AVERAGED, LdsPlan, predict_orders
from assent.runs.records import FIGURES
from assent.support.errors import AssentError
from assent.support.files import refuse_to_overwrite, write_text
from assent.support.statistics import summarise

CELLS = "cells"
"""Folder of the records that are done."""
PICTURE = "frontier.svg"
"""Them, drawn."""


def no_file(path: Path | None) -> Path | None:
    """Refuse a file where a folder is asked for, before the work begins."""
    if path is not None and path.exists() and not path.is_dir():
        raise AssentError(f"--out {path}: is a file; accepted: a folder, or the name of a new one")
    return path


OutFolder = Annotated[
    Path | None,
    typer.Option(
        "--out",
        callback=no_file,
        help="Folder that keeps what is done, so that a killed command goes on.",
    ),
]


@spread
def frontier_command(
    *,
    points: Annotated[str, typer.Option(help="Budgets, as shares of All's violation.")] = "0.75,0.5,0.25,0.1",
    seeds: Annotated[int, typer.Option(min=1, help="Training seeds, from --seed on.")] = 4,
    methods: Methods = None,
    price: o.Price = 0.1,
    how: HowOptions,
    work: WorkOptions,
    given: o.ProblemOptions,
    wishes: o.WishOptions,
    out: OutFolder = None,
    output: OutputOptions,
) -> None:
    """Measure quality against violation for every method, the budget reached by moving the price.

    Each method chooses within each budget, a model is trained on its choice and tested, for every seed.
    With --out, a picture of it is kept as well: frontier.svg.

    Examples:

    ```
    assent frontier data/steam --points 0.75,0.5,0.25,0.1 --seeds 4
    assent frontier log.csv --methods threshold,worth:welfare --unwillingness random --out front
    assent frontier log.csv --points 0.5,0.25 --by-category --user-budget 2
    ```
    """
    output.check()
    if out:
        _check_picture(out, replace=output.replace)
    asked = how.read()
    chosen = asked.methods(methods)
    wishes.check(chosen)
    budgets = parse_points(points, "--points")
    progress = watcher()
    _, problem, _ = given.make(progress, wishes)
    with work.executor() as executor:
        records = frontier(
            problem,
            asked.settings,
            methods=chosen,
            points=budgets,
            seeds=[given.seed + s for s in range(seeds)],
            price=price,
            k=how.ks,
            store=Store(out / CELLS) if out else None,
            executor=executor,
            progress=progress,
        )
    title = f"{problem.name}, {how.model}, {problem.protocol}, {seeds} seeds from {given.seed}"
    show_frontier(records, title, reward_form(chosen))
    output.write(records)
    if out:
        write_text(out / PICTURE, frontier_svg(frontier_lines(records), title))
        notice(f"Picture: {out / PICTURE}")


def reward_form(methods: Sequence[Method]) -> RewardForm:
    """Return the form of the reward that the first of the methods that knows one plays for."""
    return next((method.reward for method in methods if isinstance(method, GameMethod)), RewardForm.SUM)


def _check_picture(out: Path, *, replace: bool) -> None:
    """Refuse to draw over a picture of unknown records; where there are cells, it can be drawn again."""
    if not (out / CELLS).is_dir():
        refuse_to_overwrite(out / PICTURE, replace=replace)


def parse_points(text: str, option: str) -> list[float]:
    """Budgets from text like 0.75,0.5, given to `option`."""
    try:
        points = [float(part) for part in text.split(",")]
    except ValueError:
        points = []
    if not points or not all(0 < point <= 1 for point in points):
        raise AssentError(f"{option} {text}: accepted: numbers in (0, 1], for instance 0.75,0.5,0.25,0.1")
    return points


def show_frontier(records: list[dict[str, Any]], title: str, form: RewardForm) -> None:
    """Print mean and standard error over seeds of every method at every point; the records have the rest."""
    labels = ("method", "objective", "point")
    summary = summarise(records, by=labels, keys=FIGURES)
    summary.sort(key=lambda row: (-row["point"], row["method"], row["objective"]))
    rows = [
        [
            name(way_of(row)),
            f"{100 * row['point']:g}",
            percent(row["violation_share"]),
            percent(row["ndcg"], row["ndcg_error"]),
            number(row[f"reward_{form}"], row[f"reward_{form}_error"]),
        ]
        for row in summary
    ]
    show_table(title, ["method", "budget %", "violation %", "NDCG@5 %", f"reward ({form})"], rows)


@spread
def lds_command(
    *,
    selections: Annotated[int, typer.Option(min=10, help="R, random selections to retrain on.")] = 32,
    rate: Annotated[
        float, typer.Option(callback=between(0.01, 0.99), help="Share that each discloses, 0.01 to 0.99.")
    ] = 0.8,
    truth_seeds: Annotated[int, typer.Option(min=1, help="Trainings averaged into the truth.")] = 3,
    rows: Annotated[
        HeldOut, typer.Option(help="Whose losses are ordered: those that estimates rest on, or rows to come.")
    ] = HeldOut.VALIDATION,
    model: Model = "mf",
    set_: Set = None,
    work: WorkOptions,
    given: o.ProblemOptions,
    out: OutFolder = None,
    output: OutputOptions,
) -> None:
    """Print the linear datamodeling score of each influence estimator: how well it orders selections.

    1 is perfect, 0 is no better than chance. `another seed` is a retraining instead of an estimate. Level
    `own` orders selections for each user by her predicted loss, `social` by the sum of all losses. `averaged`
    is what assent measures, `cross-fitted` the values made of that, `combined` those that decide by default,
    with structure among them; beside them stands every estimator at one anchor. With `--rows test` the losses
    of rows that no estimate has seen are ordered: what is left of it where it matters.
    With --out, losses, models and predictions are kept there, which know interactions that a selection would
    withhold.

    Examples:

    ```
    assent lds data/steam
    assent lds log.parquet --selections 16 --truth-seeds 2 --out lds-cache --json lds.json
    ```
    """
    output.check()
    asked = read_asked(model, set_)
    method = asked.method("worth")
    assert isinstance(method, WorthMethod)
    if "source" in method.model_fields_set:
        raise AssentError("--set worth.source: all sources are judged in any case; accepted: leave it out")
    progress = watcher()
    _, problem, _ = given.make(progress)
    plan = LdsPlan(selections, rate, truth_seeds, rows=rows, method=method)
    with work.executor() as executor:
        orders = predict_orders(
            problem,
            asked.settings,
            plan,
            seed=given.seed,
            store=Store(out) if out else None,
            executor=executor,
            progress=progress,
        )
    records = orders.records()
    table = [
        [
            record["estimator"],
            record["level"],
            number(record["lds"]),
            f"{number(record['low'])} .. {number(record['high'])}",
            number(record["behind"]),
            f"{number(record['behind_low'])} .. {number(record['behind_high'])}",
        ]
        for record in sorted(records, key=lambda record: (record["level"], -(record["lds"] or -1.0)))
    ]
    show_table(
        f"{problem.name}, {model}, {method.influence_for(model).loss} loss of {rows} rows, R = {selections}, "
        f"seed {given.seed}",
        ["estimator", "level", "LDS", "95 % interval", f"behind {AVERAGED}", "95 % interval"],
        table,
        texts=("level",),
    )
    for verdict in orders.verdicts():
        terminal.print(verdict, highlight=False, soft_wrap=True)
    output.write(records)
