"""`assent fit`, `assent demo` and `assent settings`."""

from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import BaseModel

from assent.cli import options as o
from assent.cli import options as w
from assent.cli.console import notice, out, say, show_table, watcher
from assent.cli.judge_commands import parse_points, show_frontier
from assent.cli.options import read_pairs, read_settings, spread
from assent.data.problem import Protocol
from assent.data.simulate import simulate
from assent.data.split import make_problem
from assent.game.estimates import Objective
from assent.methods import METHODS, make_method
from assent.models import MODELS
from assent.report.facts import certificate_facts
from assent.results.records import METHOD, named
from assent.results.table import Column, metric_columns, tabulate
from assent.results.writers import terminal
from assent.runs.frontier import parse_methods
from assent.runs.records import merged
from assent.runs.run import Run, RunPlan, fit
from assent.settings import Settings
from assent.support.files import read_json

DEMO_SEED = 7
"""Any seed tells the same story; this one is what the pictures in the docs show."""
_SEEDS = 2
"""Of the report's frontier."""


@spread
def fit_command(
    *,
    out: Annotated[Path, typer.Option(help="The run folder to make.", show_default=False)],
    method: Annotated[str, typer.Option(help=f"How to choose: {', '.join(METHODS)}.")] = "ifrqe++",
    objective: Annotated[
        Objective, typer.Option(help="`nash`: each for herself (the paper); `welfare`: the sum of rewards.")
    ] = Objective.WELFARE,
    price: o.Price = 0.1,
    budget: Annotated[
        float | None,
        typer.Option(
            min=0, max=1, help="Share of All's violation to keep within, instead of deciding at a price."
        ),
    ] = None,
    frontier: Annotated[
        str | None,
        typer.Option(metavar="POINTS", help="Also compare all methods at these budgets in the report."),
    ] = None,
    frontier_seeds: Annotated[int, typer.Option(min=1, help="Seeds of that comparison.")] = _SEEDS,
    frontier_methods: o.Methods = None,
    model: o.Model = "mf",
    anchors: o.Anchors = None,
    value: o.Value = None,
    set_: o.Set = None,
    given: o.ProblemOptions,
    wishes: w.WishOptions,
    output: o.OutputOptions,
) -> None:
    """Choose what is worth disclosing, train on that alone, and report what it costs.

    A killed fit goes on where it was when the same command is given again.

    Examples:

    ```
    assent fit data/steam --model mf --method ifrqe++ --price 0.1 --out runs/steam
    assent fit data/steam --budget 0.5 --out runs/half
    assent fit log.csv --columns user=member,item=film --unwillingness file:wishes.csv --out runs/films
    assent fit log.csv --unwillingness category:Health=0.9,*=0.1 --frontier 0.75,0.5,0.25 --out runs/shop
    assent fit log.csv --rest own-mean --by-category --user-budget 2 --user-floor 3 --out runs/wishes
    ```
    """
    output.check()
    made = make_method(method, objective)
    if made.objectives and made.objective is not objective:
        notice(f"{method}: plays for {made.objective} alone")
    settings = read_settings(model, anchors, set_, value)
    points = tuple(parse_points(frontier, "--frontier")) if frontier else ()
    parse_methods(frontier_methods, "--frontier-methods", pooled=settings.value.is_pooled)
    if not points:
        options = {name for name, option in (("anchors", anchors), ("value", value)) if option is not None}
        asked = options.union(read_pairs(set_ or [], {}))
        if idle := sorted(asked & made.ignores - settings.idle):
            notice(f"no effect on {method}: {' and '.join(idle)}")
        if frontier_seeds != _SEEDS or frontier_methods is not None:
            notice("no effect without --frontier: --frontier-seeds and --frontier-methods")
    progress = watcher()
    wishes.warn_if_idle([made], settings)
    log, problem, source = given.make(progress, wishes)
    plan = RunPlan(
        method=method,
        objective=objective,
        price=price,
        seed=given.seed,
        unwillingness=source,
        points=points,
        frontier_seeds=frontier_seeds,
        frontier_methods=frontier_methods,
        budget=budget,
        rest=given.rest,
    )
    run = fit(log, problem, out, plan, settings, replace=output.replace, progress=progress)
    compared = read_json(out / "frontier.json") if points else []
    if compared:
        show_frontier(compared, f"{problem.name}, all methods within budgets", settings.reward)
    _show_run(run)
    output.write(merged(run.records, compared))


@spread
def demo(
    *,
    out: Annotated[Path, typer.Option(help="The run folder to make.")] = Path("demo"),
    seed: o.Seed = DEMO_SEED,
    output: o.OutputOptions,
) -> None:
    """The whole way on simulated data: choose, train, compare with other methods, report.

    Examples:

    ```
    assent demo
    assent demo --out runs/demo --replace
    ```
    """
    output.check()
    progress = watcher()
    log = simulate(preference="learnable", users=2400, items=500, noise=0.3, seed=seed)
    problem = make_problem(log, Protocol.PAPER_TABLES, seed=seed)
    plan = RunPlan(
        objective=Objective.NASH,
        price=0.7,
        seed=seed,
        unwillingness="simulated",
        points=(0.75, 0.5, 0.25),
        frontier_seeds=3,
        frontier_methods="random,threshold,occurrence,ifrqe++",
    )
    settings = Settings.model_validate({"model_settings": {"dimension": 16}, "training": {"epochs": 50}})
    run = fit(log, problem, out, plan, settings, replace=output.replace, progress=progress)
    compared = read_json(run.folder / "frontier.json")
    show_frontier(compared, "the demo's frontier", settings.reward)
    _show_run(run)
    output.write(merged(run.records, compared))


@spread
def settings_command(*, model: o.Model = "mf", output: o.OutputOptions) -> None:
    """List every setting that `--set` takes, with its default.

    Examples:

    ```
    assent settings
    assent settings --model mine:Mine
    assent fit data/steam --set training.epochs=30 --set model_settings.dimension=32 --out runs/small
    ```
    """
    output.check()
    rows = _settings_rows(read_settings(model))
    title = f"settings of {model} (models: {', '.join(MODELS)})"
    show_table(title, ["setting", "default", "meaning"], rows, texts=("meaning",))
    output.write([{"setting": key, "default": value, "meaning": text} for key, value, text in rows])


def _settings_rows(settings: BaseModel, prefix: str = "") -> list[list[str]]:
    rows: list[list[str]] = []
    for setting, field in type(settings).model_fields.items():
        value: Any = getattr(settings, setting)
        if isinstance(value, BaseModel):
            rows += _settings_rows(value, f"{prefix}{setting}.")
        else:
            rows.append([f"{prefix}{setting}", str(value), field.description or ""])
    return rows


def _show_run(run: Run) -> None:
    form = run.settings["reward"]
    budget, price = run.settings["budget"], f"price {run.settings['price']:g}"
    how = price if budget is None else f"within {budget:.0%} of the violation, rewards at {price}"
    title = f"{run.settings['dataset']}, {run.settings['protocol']}, {how}"
    columns = [
        Column("violation_share", "violation %", 100),
        *metric_columns("ndcg", run.records),
        *metric_columns("recall", run.records),
        Column(f"reward_{form}", f"reward ({form})", decimals=3),
        Column("seconds", "seconds", decimals=1),
    ]
    show_table(*terminal(tabulate(named(run.records), {METHOD: "method"}, columns, title=title)))
    disclosed = int(run.selection["disclosed"].sum())
    out.print(f"{disclosed:,} of {run.selection.height:,} interactions are disclosed.", highlight=False)
    for fact in certificate_facts(run.certificate):
        say(fact)
    notice(f"Report: {run.folder / 'report.html'}")
