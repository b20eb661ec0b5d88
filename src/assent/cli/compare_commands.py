"""`assent frontier`, `assent compare` and `assent lds`: methods and estimators, judged by retraining."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from assent.cli import options as o
from assent.cli.command import OutputOptions, between, option, spread
from assent.cli.console import notice, say, show_table, watcher
from assent.cli.how import (
    Anchors,
    Asked,
    EstimatorOption,
    HowOptions,
    Methods,
    Model,
    Set,
    TuneOption,
    WorkOptions,
    read_asked,
)
from assent.data.problem import Problem
from assent.data.unwillingness import for_the_record
from assent.evaluation.evaluate import HeldOut
from assent.evaluation.metrics import RewardForm
from assent.lab.store import Store
from assent.methods import GameMethod, Method
from assent.methods.exploring import ExploringMethod
from assent.methods.ifrqe import IFRQE
from assent.methods.worth import WorthMethod
from assent.models import IALS
from assent.models.losses import Loss
from assent.results.comparison import Comparison
from assent.results.records import METHOD, REFERENCES, Way, check_price, name, named
from assent.results.table import Column, metric_columns, rows_by, tabulate
from assent.results.words import NONE, fixed
from assent.results.writers import terminal
from assent.runs.compare import USUAL, compare, frontier
from assent.runs.lds import AVERAGED, LdsPlan, predict_orders
from assent.support.errors import AssentError
from assent.support.files import refuse_to_overwrite, write_text
from assent.support.progress import phases
from assent.worth.estimate import Source

CELLS = "cells"
"""Folder of the records that are done."""
PICTURE = "frontier.svg"
_WEIGHTS = {"reading": 1, "measuring": 30}
"""The phases of these commands, and roughly how long each takes."""


def no_file(path: Path | None) -> Path | None:
    """Refuse a file where a folder is asked for, before the work begins."""
    if path is not None and path.exists() and not path.is_dir():
        raise AssentError(f"--out {path}: is a file; accepted: a folder, or the name of a new one")
    return path


def check_result(out: Path, name: str, *, replace: bool) -> None:
    """Refuse to write over a result of unknown records; where there are cells, it can be made again."""
    if not (out / CELLS).is_dir():
        refuse_to_overwrite(out / name, replace=replace)


_option = partial(option, "Options")
_shown = partial(_option, show_default=True)
OutFolder = Annotated[
    Path | None,
    _option("Folder that keeps what is done, so that a killed command goes on.", "--out", callback=no_file),
]


@spread
def frontier_command(
    *,
    points: Annotated[str, _shown("Budgets, as shares of All's violation.")] = "0.75,0.5,0.25,0.1",
    seeds: Annotated[int, _shown("Training seeds, from --seed on.", min=1)] = 4,
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
    assent frontier data/steam --unwillingness random --points 0.75,0.5,0.25,0.1 --seeds 4
    assent frontier log.csv --methods threshold,worth:welfare --unwillingness random --out front
    assent frontier log.csv --points 0.5,0.25 --by-category --user-budget 2
    ```
    """
    output.check()
    if out:
        check_result(out, PICTURE, replace=output.replace)
    asked = how.read()
    chosen = asked.methods(methods)
    asked.check(chosen)
    wishes.check(chosen)
    budgets = parse_points(points, "--points")
    progress = watcher()
    with phases(progress, _WEIGHTS) as phase:
        with phase("reading"):
            _, problem, _ = given.make(progress, wishes)
        with phase("measuring"), work.executor() as executor:
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
        from assent.results.plot import quality_chart

        write_text(out / PICTURE, quality_chart(records, title=title).svg())
        notice(f"Picture: {out / PICTURE}")


def reward_form(methods: Sequence[Method]) -> RewardForm:
    """Return the form of the reward that the first of the methods that knows one plays for."""
    return next((method.reward for method in methods if isinstance(method, GameMethod)), RewardForm.SUM)


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
    ordered = sorted(named(records), key=lambda each: (-each["point"], each["method"], each["objective"]))
    table = tabulate(
        [{**each, "budget": 100 * each["point"]} for each in ordered],
        {METHOD: "method", "budget": "budget %"},
        [
            Column("violation_share", "violation %", 100, spread=False),
            *metric_columns("ndcg", records),
            Column(f"reward_{form}", f"reward ({form})", decimals=3),
        ],
        title=title,
    )
    show_table(*terminal(table))


@spread
def lds_command(
    *,
    selections: Annotated[int, _shown("R, random selections to retrain on.", min=10)] = 32,
    rate: Annotated[
        float, _shown("Share that each discloses, 0.01 to 0.99.", callback=between(0.01, 0.99))
    ] = 0.8,
    truth_seeds: Annotated[int, _shown("Trainings averaged into the truth.", min=1)] = 3,
    rows: Annotated[
        HeldOut, _shown("Whose losses are ordered: those that estimates rest on, or rows to come.")
    ] = HeldOut.VALIDATION,
    model: Model = IALS.name,
    tune: TuneOption = None,
    set_: Set = None,
    work: WorkOptions,
    given: o.ProblemOptions,
    out: OutFolder = None,
    output: OutputOptions,
) -> None:
    """Print the linear datamodeling score of each influence estimator: how well it orders selections.

    1 is perfect, 0 is no better than chance. `another seed` is a retraining instead of an estimate. Level
    `own` orders selections for each user by their predicted loss, `social` by the sum of all losses.

    `averaged` is the influence that assent measures, `cross-fitted` the values made of it, `combined` the
    values that decide by default. Beside them stands every estimator at one anchor. `--rows test` orders the
    losses of rows that no estimate has seen.

    With --out, losses, models and predictions are kept there. They know withheld interactions.

    Examples:

    ```
    assent lds data/steam --unwillingness random
    assent lds log.parquet --selections 16 --truth-seeds 2 --out lds-cache --json lds.json
    ```
    """
    output.check()
    asked = read_asked(model, set_, {"tune": ("tune", tune)})
    method = asked.method("worth")
    assert isinstance(method, WorthMethod)
    asked.check([method])
    if "source" in method.model_fields_set:
        raise AssentError("--set worth.source: all sources are judged in any case; accepted: leave it out")
    progress = watcher()
    plan = LdsPlan(selections, rate, truth_seeds, rows=rows, method=method)
    with phases(progress, _WEIGHTS) as phase:
        with phase("reading"):
            _, problem, _ = given.make(progress)
        with phase("measuring"), work.executor() as executor:
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
            _score(record["lds"]),
            f"{_score(record['low'])} .. {_score(record['high'])}",
            _score(record["behind"]),
            f"{_score(record['behind_low'])} .. {_score(record['behind_high'])}",
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
        say(verdict)
    output.write(records)


def _score(value: float | None) -> str:
    return NONE if value is None else fixed(value, 3)


@spread
def compare_command(
    *,
    models: Annotated[str, _shown("Recommenders, separated by commas.")] = IALS.name,
    tune: TuneOption = None,
    methods: Methods = None,
    prices: Annotated[str, _shown("Prices of a unit of unwillingness.")] = "0.1,0.5,1,2",
    repeats: Annotated[int, _shown("Training seeds, from --seed on.", min=1)] = 10,
    reward: Annotated[
        RewardForm | None,
        _option(
            "Validation loss in the reward: `sum` over a user's samples (eq. 1) or `mean` (the paper's "
            "tables). The game is played for it. Default: sum."
        ),
    ] = None,
    reference: Annotated[
        str | None,
        _option("The method that is tested against all others. Default: worth:nash, if it is among them."),
    ] = None,
    anchors: Anchors = None,
    value: Annotated[
        Source | None, _option("Where worth comes from. Default: cross-fitted, in the reward's loss.")
    ] = None,
    estimator: EstimatorOption = None,
    set_: Set = None,
    work: WorkOptions,
    given: o.ProblemOptions,
    wishes: o.WishOptions,
    out: OutFolder = None,
    output: OutputOptions,
) -> None:
    """Compare methods at prices: each chooses, a model is trained on its choice, true rewards are measured.

    Prints mean and standard error over the repeats, a paired t-test of one method against each other, and
    where withholding everything wins. With --out, tables and pictures are kept as well: compare.csv, .json,
    .md and .svg; a killed command goes on, and a second one beside it shares the work.

    Examples:

    ```
    assent compare data/steam --unwillingness random --methods threshold,worth:nash --repeats 3
    assent compare log.csv --models mf,lightgcn --methods proactive,ifrqe++ --out compared
    assent compare log.csv --prices 0.01,0.1 --reward mean --jobs 2
    assent compare log.csv --user-budget 2 --utility quadratic
    ```
    """
    output.check()
    if out:
        check_result(out, "compare.csv", replace=output.replace)
    options = {
        "tune": ("tune", tune),
        "reward": ("reward", reward),
        "ifrqe++.anchors": ("anchors", anchors),
        "worth.source": ("value", value),
        "influence.estimator": ("estimator", estimator),
    }
    names = dict.fromkeys(map(str.strip, models.split(",")))
    asked = [read_asked(model, set_, options, _DEFAULTS) for model in names]
    at = _parse_prices(prices)
    sets = [_with_reference(each, methods, reference) for each in asked]
    chosen, against = sets[0]
    wishes.check(chosen)
    progress = watcher()
    with phases(progress, _WEIGHTS) as phase:
        with phase("reading"):
            _, problem, source = given.make(progress, wishes)
        with phase("measuring"), work.executor() as executor:
            records = compare(
                problem,
                [(each.settings, members) for each, (members, _) in zip(asked, sets, strict=True)],
                prices=at,
                seeds=[given.seed + r for r in range(repeats)],
                store=Store(out / CELLS) if out else None,
                executor=executor,
                progress=progress,
            )
    notes = [*_notes(asked[0].settings.model, chosen), *_notes_on(problem, source, given.closed)]
    settings = [each.settings for each in asked]
    comparison = Comparison(records, reward_form(chosen), against, notes, settings)
    _show(comparison)
    output.write(records)
    for file in comparison.write(out) if out else []:
        notice(f"Written: {file}")


_DEFAULTS: Mapping[str, Any] = {
    "influence": {"loss": Loss.BCE.value},
    "worth": {"source": Source.CROSS_FITTED.value},
}
"""The game is played for what is judged: influence is measured on the loss of the reward, and worth is what
was measured. Trials by ranking, and structure, which does not know the loss, say nothing of rewards."""


def _parse_prices(text: str) -> list[float]:
    """Prices from text like 0.1,0.5."""
    try:
        prices = [float(part) for part in text.split(",")]
    except ValueError:
        raise AssentError(f"--prices {text}: accepted: numbers from 0 on, for instance 0.1,0.5,1,2") from None
    for price in prices:
        check_price(price)
    return prices


def _with_reference(asked: Asked, methods: str | None, text: str | None) -> tuple[list[Method], Way]:
    """Return the methods, and which of them is tested against the others; a missing one is added."""
    if text is not None and "," in text:
        raise AssentError(f"--reference {text}: accepted: one method, for instance worth:nash")
    reference = [] if text is None else asked.methods(text, "--reference")
    found = asked.methods(methods)
    asked.check([*found, *reference])
    if text is None or text in REFERENCES:
        ways = [method.way for method in found] or [("all", "")]
        preferred = [way for way in (("worth", "nash"), ("ifrqe++", "nash")) if way in ways]
        return found, (text, "") if text else [*preferred, ways[0]][0]
    return asked.methods(f"{methods or ','.join(USUAL)},{text}"), reference[0].way


def _notes(model: str, methods: Sequence[Method]) -> list[str]:
    """Return how each method was run, one sentence each."""
    notes = []
    for method in {each.name: each for each in methods}.values():
        called = name((method.name, ""))
        match method:
            case WorthMethod():
                notes.append(f"{called}: from {method.source}, by the loss {_loss(method, model)}.")
            case IFRQE():
                how = f"T = {method.n_anchors}, strategies: {method.strategy}"
                notes.append(f"{called}: {how}, by the loss {_loss(method, model)}.")
            case ExploringMethod():
                warm = f"after the first, each goes on from the one before for {method.warm_epochs} epochs"
                start = "each from scratch" if method.warm_epochs is None else warm
                notes.append(f"{called}: a re-implementation; explored selections are trained on, {start}.")
    return notes


def _loss(method: GameMethod, model: str) -> str:
    loss = method.influence_for(model).loss
    return f"{loss}, {'the reward’s own' if loss is Loss.BCE else 'not the reward’s'}"


def _notes_on(problem: Problem, source: str, closed: float | None) -> Iterator[str]:
    """What is the same in all repeats, and what people ask for."""
    yield (
        f"Unwillingness: {for_the_record(source)}; split: {problem.protocol}. Both are the same in all "
        "repeats, which train anew: tests are about that alone."
    )
    if closed is not None:
        yield f"Interactions of unwillingness above {closed:g} are withheld unread."
    if problem.wishes.power != 1:
        yield f"Rewards count price · violation^{problem.wishes.power:g}."
    asked = problem.wishes.summary()
    limits = ("groups", "users_with_budget", "mean_user_budget", "users_with_floor", "mean_user_floor")
    listed = [f"{key.replace('_', ' ')} {asked[key]:,}" for key in limits if asked[key] is not None]
    if listed:
        yield f"Wishes: {', '.join(listed)}. All and Nothing heed none."


def _show(comparison: Comparison) -> None:
    """Print a table per model, then what follows."""
    table = comparison.shown("dataset", "model")
    short = {"reward": "reward", "violation_share": "viol. %", "trainings": "trained"}
    columns = [
        replace(each, heading=short.get(each.key, each.heading))
        for each in table.columns
        if each.key in (*short, "ahead")
    ]
    for (model,), rows in rows_by(table.rows, "model").items():
        title = f"{comparison.title}, {model}"
        show_table(*terminal(replace(table, title=title, columns=columns, rows=rows)))
    for sentence in comparison.said:
        say(sentence)
