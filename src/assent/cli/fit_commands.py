"""`assent fit`, `assent demo` and `assent settings`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import BaseModel

from assent.cli import options as o
from assent.cli.command import OutputOptions, between, spread
from assent.cli.compare_commands import parse_points, reward_form, show_frontier
from assent.cli.console import notice, say, show_table, watcher
from assent.cli.how import HowOptions, Methods, Model, StoreOption, WorkOptions, read_asked
from assent.data.live import live_problem
from assent.data.problem import Protocol, make_problem
from assent.data.simulate import simulate
from assent.evaluation.metrics import RewardForm
from assent.game.estimates import Objective
from assent.lab.store import Store
from assent.methods import METHODS, Method, influence_settings, make_method
from assent.models import IALS, MODELS
from assent.report.facts import headline, in_figures
from assent.results.records import METHOD, named
from assent.results.table import Column, metric_columns, tabulate
from assent.results.writers import terminal
from assent.runs.calibration import Calibration
from assent.runs.claim import check_out
from assent.runs.folder import REPORT, Run, open_run
from assent.runs.measure import merged
from assent.runs.plan import USUAL_CONFIDENCE, RunPlan
from assent.runs.run import fit, report_of
from assent.support.errors import AssentError
from assent.support.progress import phases

DEMO_SEED = 7
"""Any seed tells the same story; this one is what the pictures in the docs show."""
_SEEDS = 2
"""Of the report's frontier."""


@spread
def fit_command(
    *,
    out: Annotated[Path, typer.Option(help="The run folder to make.", show_default=False)],
    method: Annotated[str, typer.Option(help=f"How to choose: {', '.join(METHODS)}.")] = "worth",
    objective: Annotated[
        Objective,
        typer.Option(help="`nash`: everybody's own reward (the paper); `welfare`: the sum."),
    ] = Objective.WELFARE,
    budget: o.Budget = None,
    keep_quality: Annotated[
        float | None,
        typer.Option(
            callback=between(0, 1),
            help="Instead: disclose as little as keeps this share of the quality, e.g. 0.95.",
        ),
    ] = None,
    confidence: Annotated[
        float,
        typer.Option(callback=between(0, 1), help="Chance with which --keep-quality is to hold."),
    ] = USUAL_CONFIDENCE,
    price: Annotated[float | None, o.instead_price("the model's validation loss")] = None,
    reference: Annotated[
        bool,
        typer.Option(
            "--reference", help="Also measure a model of everything, which uses what people withhold."
        ),
    ] = False,
    experiment: Annotated[
        bool,
        typer.Option(
            "--experiment", help="Keep everybody's latest interactions from all decisions, to test on."
        ),
    ] = False,
    seeds: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Seeds that quality is measured with. Default: 2 or 3; of an experiment, or a large log, 1.",
            show_default=False,
        ),
    ] = None,
    shards: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Deal people into so many parts and decide on each by itself, so that a change touches one.",
            show_default=False,
        ),
    ] = None,
    frontier: Annotated[
        str | None,
        typer.Option(metavar="POINTS", help="Also compare all methods at these budgets in the report."),
    ] = None,
    frontier_seeds: Annotated[int, typer.Option(min=1, help="Seeds of that comparison.")] = _SEEDS,
    frontier_methods: Methods = None,
    calibration: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN",
            help="Decide by the settings and weights that another live run found; nothing is measured.",
        ),
    ] = None,
    store: StoreOption = None,
    how: HowOptions,
    work: WorkOptions,
    given: o.ProblemOptions,
    wishes: o.WishOptions,
    output: OutputOptions,
) -> None:
    """Choose what is worth disclosing, train on that alone, and report what it costs.

    Every interaction is decided on, and the model is trained on all that is disclosed. How good it is, is
    measured on a split of the log. A killed fit goes on where it was when the same command is given again.

    Examples:

    ```
    assent fit log.csv --budget 0.5 --out runs/shop
    assent fit log.csv --keep-quality 0.95 --out runs/good
    assent fit data/steam --unwillingness random --method ifrqe++ --price 0.1 --out runs/paper
    assent fit log.csv --columns user=member,item=film --unwillingness file:wishes.csv --out runs/films
    assent fit log.csv --unwillingness category:Health=0.9,*=0.1 --frontier 0.75,0.5,0.25 --out runs/rules
    assent fit log.csv --rest own-mean --by-category --user-budget 2 --user-floor 3 --out runs/wishes
    ```
    """
    output.check()
    asked, lengths = how.read(), how.ks
    check_out(out, replace=output.replace)
    points = tuple(parse_points(frontier, "--frontier")) if frontier else ()
    if keep_quality is None and confidence != USUAL_CONFIDENCE:
        raise AssentError("--confidence: needs --keep-quality")
    if keep_quality is not None and (budget is not None or price is not None):
        raise AssentError("--keep-quality: accepted: without --budget and --price")
    if shards is not None and (keep_quality is not None or points or experiment):
        raise AssentError("--shards: accepted: without --keep-quality, --frontier and --experiment")
    if not points and (frontier_seeds != _SEEDS or frontier_methods is not None):
        raise AssentError("--frontier-seeds and --frontier-methods: need --frontier")
    made = asked.method(method, objective)
    if made.objectives and made.plays_for != objective:
        notice(f"{method}: plays for {made.plays_for} alone")
    compared_methods = asked.methods(frontier_methods, "--frontier-methods") if points else []
    asked.check([made, *compared_methods])
    wishes.check([made, *compared_methods])
    progress = watcher()
    with phases(progress, {"reading": 1, "fitting": 20}) as phase, work.executor() as executor:
        with phase("reading"):
            log, problem, source = given.make(progress, wishes)
            live = None if experiment else given.live(log, wishes)
        plan = RunPlan(
            method=made,
            price=price,
            budget=budget,
            keep_quality=keep_quality,
            confidence=confidence,
            reference=reference,
            seed=given.seed,
            seeds=seeds,
            k=lengths,
            unwillingness=source,
            rest=given.rest,
            closed=given.closed,
            points=points,
            frontier_seeds=frontier_seeds,
            frontier_methods=tuple(compared_methods),
            shards=shards,
        )
        kept = None if calibration is None else Calibration.of(open_run(calibration))
        with phase("fitting"):
            run = fit(
                log,
                problem,
                out,
                plan,
                asked.settings,
                live=live,
                calibration=kept,
                store=None if store is None else Store(store),
                replace=output.replace,
                executor=executor,
                progress=progress,
            )
    _show(run, output, f"{problem.name}, all methods within budgets", [made])


def _show(run: Run, output: OutputOptions, title: str, methods: Sequence[Method]) -> None:
    """Print a run and its frontier, if it has one, and write their records."""
    compared = run.frontier
    form = reward_form(methods)
    if compared:
        show_frontier(compared, title, form)
    _show_run(run, form)
    output.write(merged(run.records, compared))


@spread
def demo(
    *,
    out: Annotated[Path, typer.Option(help="The run folder to make.")] = Path("demo"),
    seed: o.Seed = DEMO_SEED,
    work: WorkOptions,
    output: OutputOptions,
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
    method = make_method("worth")
    plan = RunPlan(
        method=method,
        budget=0.5,
        reference=True,
        seed=seed,
        unwillingness="simulated",
        points=(0.75, 0.5, 0.25),
        frontier_seeds=3,
    )
    with work.executor() as executor:
        run = fit(
            log,
            problem,
            out,
            plan,
            live=live_problem(log, seed=seed),
            replace=output.replace,
            executor=executor,
            progress=progress,
        )
    _show(run, output, "the demo's frontier", [method])


@spread
def settings_command(*, model: Model = IALS.name, output: OutputOptions) -> None:
    """List every setting that `--set` takes, with its default.

    Settings of the base model come first, then those of influence, then those of each method.

    Examples:

    ```
    assent settings
    assent settings --model mine:Mine
    assent fit log.csv --set training.epochs=30 --set worth.folds=5 --out runs/small
    ```
    """
    output.check()
    settings = read_asked(model, []).settings
    rows = _settings_rows(settings) + _settings_rows(influence_settings(model), "influence.")
    for name_of, kind in METHODS.items():
        rows += _settings_rows(kind(), f"{name_of}.")
    title = f"settings of {model} (models: {', '.join(MODELS)})"
    show_table(title, ["setting", "default", "meaning"], rows, texts=("meaning",))
    output.write([{"setting": key, "default": value, "meaning": text} for key, value, text in rows])


def _settings_rows(settings: BaseModel, prefix: str = "") -> list[list[str]]:
    rows: list[list[str]] = []
    for setting, field in type(settings).model_fields.items():
        value: Any = getattr(settings, setting)
        if setting in ("influence", "trials"):  # listed apart, and found
            continue
        if isinstance(value, BaseModel):
            rows += _settings_rows(value, f"{prefix}{setting}.")
        else:
            rows.append([f"{prefix}{setting}", str(value), field.description or ""])
    return rows


def _show_run(run: Run, form: RewardForm) -> None:
    """Print the headline, the figures and the settings found; the report has the rest."""
    about = report_of(run)
    say(f"{headline(about)}.")
    for fact in in_figures(about):
        say(fact)
    title = f"{run.settings['dataset']}, {run.settings['protocol']}"
    columns = [
        Column("violation_share", "violation %", 100),
        *metric_columns("ndcg", run.records),
        *metric_columns("recall", run.records),
        Column("seconds", "seconds", decimals=1),
    ]
    if run.settings["budget"] is None and run.settings["keep_quality"] is None:
        title = f"{title}, price {run.settings['price']:g}"
        columns.insert(-1, Column(f"reward_{form}", f"reward ({form})", decimals=3))
    show_table(*terminal(tabulate(named(run.records), {METHOD: "method"}, columns, title=title)))
    disclosed = int(run.selection["disclosed"].sum())
    say(f"{disclosed:,} of {run.selection.height:,} interactions are disclosed.")
    if settings := _settings_found(run.tuning["disclosed"]):
        say(settings)
    notice(f"Report: {run.folder / REPORT}")


def _settings_found(search: Mapping[str, Any]) -> str | None:
    """A sentence that says which settings of the final model were found on disclosed rows."""
    tried = [each["settings"] for each in search["attempts"]]
    names = [name for name in search["found"] if len({str(each[name]) for each in tried}) > 1]
    values = ", ".join(f"{name} {search['found'][name]:g}" for name in names)
    return f"Settings found for the model, in {len(tried)} attempts: {values}." if values else None
