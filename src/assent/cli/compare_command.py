"""`assent compare`: methods against each other at prices, by true rewards."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated

import typer

from assent.cli import options as o
from assent.cli import options as w
from assent.cli.console import notice, say, show_table, watcher
from assent.cli.judge_commands import CELLS, OutFolder
from assent.cli.options import read_settings, spread
from assent.data.problem import Problem
from assent.data.rules import for_the_record
from assent.evaluation.metrics import RewardForm
from assent.game.estimates import Objective
from assent.methods import Method
from assent.models.losses import Loss
from assent.results.comparison import Comparison
from assent.results.records import Way, name
from assent.results.table import rows_by
from assent.results.writers import terminal
from assent.runs.compare import compare
from assent.runs.frontier import parse_methods
from assent.runs.pool import cores
from assent.runs.records import REFERENCES, check_price
from assent.settings import Settings
from assent.support.errors import AssentError
from assent.support.files import refuse_to_overwrite
from assent.worth.settings import Source


@spread
def compare_command(
    *,
    models: Annotated[str, typer.Option(help="Recommenders, separated by commas.")] = "mf",
    methods: o.Methods = None,
    prices: Annotated[str, typer.Option(help="Prices of a unit of unwillingness.")] = "0.1,0.5,1,2",
    repeats: Annotated[int, typer.Option(min=1, help="Training seeds, from --seed on.")] = 10,
    reward: Annotated[
        RewardForm | None,
        typer.Option(
            help="Validation loss in the reward: `sum` over a user's samples (eq. 1) or `mean` (the paper's "
            "tables). The game is played for it. Default: sum.",
            show_default=False,
        ),
    ] = None,
    reference: Annotated[
        str | None,
        typer.Option(
            help="The method that is tested against all others. Default: ifrqe++:nash, if it is among them.",
            show_default=False,
        ),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Processes at once. Default: the cores.", show_default=False)
    ] = None,
    anchors: o.Anchors = None,
    value: Annotated[
        Source | None,
        typer.Option(
            help="Where the value of an interaction comes from. Default: cross-fitted, in the reward's loss.",
            show_default=False,
        ),
    ] = None,
    set_: o.Set = None,
    given: o.ProblemOptions,
    wishes: w.WishOptions,
    out: OutFolder = None,
    output: o.OutputOptions,
) -> None:
    """Compare methods at prices: each chooses, a model is trained on its choice, true rewards are measured.

    Prints mean and standard error over the repeats, a paired t-test of one method against each other, and
    where withholding everything wins. With --out, tables and pictures are kept as well: compare.csv, .json,
    .md and .svg; a killed command goes on, and a second one beside it shares the work.

    Examples:

    ```
    assent compare data/steam --methods random,threshold,ifrqe++:nash --repeats 3
    assent compare log.csv --models mf,lightgcn --methods proactive,ifrqe++ --out compared
    assent compare log.csv --prices 0.01,0.1 --reward mean --jobs 2
    assent compare log.csv --user-budget 2 --utility quadratic
    ```
    """
    output.check()
    if out and not (out / CELLS).is_dir():
        refuse_to_overwrite(out / "compare.csv", replace=output.replace)
    settings = _settings_of_all(models, anchors, set_, reward, value)
    asked = _parse_prices(prices)
    all_of_them = parse_methods(methods, pooled=settings[0].value.is_pooled)
    chosen, against = _with_reference(all_of_them, reference)
    progress = watcher()
    wishes.warn_if_idle(chosen, settings[0])
    _, problem, source = given.make(progress, wishes)
    notes = [*_notes(settings[0], chosen), *_notes_on(problem, source)]
    records = compare(
        problem,
        settings,
        methods=chosen,
        prices=asked,
        seeds=[given.seed + r for r in range(repeats)],
        jobs=jobs or cores(),
        folder=out and out / CELLS,
        progress=progress,
    )
    comparison = Comparison(records, settings[0].reward, against, notes, settings)
    _show(comparison)
    output.write(records)
    for file in comparison.write(out) if out else []:
        notice(f"Written: {file}")


def _settings_of_all(
    models: str,
    anchors: int | None,
    overrides: list[str] | None,
    reward: RewardForm | None,
    value: Source | None,
) -> list[Settings]:
    """The settings of each model, so that the game is played for what is judged unless asked otherwise.

    Influence is measured on the loss of the reward, and values are what was measured: trials by ranking, and
    structure, which does not know the loss, say nothing of rewards.
    """
    given = list(overrides or [])
    named = {text.partition("=")[0].strip(): text.partition("=")[2].strip() for text in given}
    if reward is not None and named.get("reward", reward) != reward:
        raise AssentError(
            f"--set reward={named['reward']}: contradicts --reward {reward}; accepted: --reward alone"
        )
    given += [] if reward is None else [f"reward={reward}"]
    given += [] if "influence.loss" in named else [f"influence.loss={Loss.BCE}"]
    if value is None and "value.source" not in named:
        value = Source.CROSS_FITTED
    return [
        read_settings(model, anchors, given, value)
        for model in dict.fromkeys(map(str.strip, models.split(",")))
    ]


def _parse_prices(text: str) -> list[float]:
    """Prices from text like 0.1,0.5."""
    try:
        prices = [float(part) for part in text.split(",")]
    except ValueError:
        raise AssentError(f"--prices {text}: accepted: numbers from 0 on, for instance 0.1,0.5,1,2") from None
    for price in prices:
        check_price(price)
    return prices


def _with_reference(methods: list[Method], text: str | None) -> tuple[list[Method], Way]:
    """The methods, and which of them is tested against the others; one that is not among them is added."""
    if text in REFERENCES:
        return methods, (text, "")
    if text is None:
        ways = [_way(method) for method in methods] or [("all", "")]
        preferred = ("ifrqe++", Objective.NASH.value)
        return methods, preferred if preferred in ways else ways[0]
    if "," in text:
        raise AssentError(f"--reference {text}: accepted: one method, for instance ifrqe++:nash")
    method = parse_methods(text, "--reference")[0]
    known = {_way(each) for each in methods}
    return (methods if _way(method) in known else [*methods, method]), _way(method)


def _way(method: Method) -> Way:
    return method.name, method.objective.value if method.objectives else ""


def _notes(settings: Settings, methods: Sequence[Method]) -> list[str]:
    """How the game was played, where that is not what other commands do."""
    names = {method.name for method in methods}
    notes = []
    if names & {"ifrqe", "ifrqe++"}:
        why = "the reward's own" if settings.influence.loss is Loss.BCE else "not the reward's"
        notes.append(f"IFRQE and IFRQE++ value interactions by the loss {settings.influence.loss}, {why}.")
        notes.append(_game(settings))
    for method, how in (("proactive", settings.proactive), ("scratch", settings.scratch)):
        if method in names:
            warm = f"after the first, each goes on from the one before for {how.warm_epochs} epochs"
            start = "each from scratch" if how.warm_epochs is None else warm
            notes.append(
                f"{name((method, ''))}: a re-implementation; explored selections are trained on, {start}."
            )
    return notes


def _notes_on(problem: Problem, source: str) -> Iterator[str]:
    """What is the same in all repeats, and what people ask for."""
    yield (
        f"Unwillingness: {for_the_record(source)}; split: {problem.protocol}. Both are the same in all "
        "repeats, which train anew: tests are about that alone."
    )
    if problem.wishes.power != 1:
        yield f"Rewards count price · violation^{problem.wishes.power:g}."
    asked = problem.wishes.summary()
    limits = ("groups", "users_with_budget", "mean_user_budget", "users_with_floor", "mean_user_floor")
    listed = [f"{key.replace('_', ' ')} {asked[key]:,}" for key in limits if asked[key] is not None]
    if listed:
        yield f"Wishes: {', '.join(listed)}. All and Nothing heed none."


def _game(settings: Settings) -> str:
    """Which game IFRQE and IFRQE++ play with the values."""
    source = settings.value.source
    if settings.value.is_pooled:
        return (
            f"Values: {source}, one for each interaction, so that IFRQE and IFRQE++ are the same; "
            "--value influence is the paper's game with T anchors."
        )
    anchors = f"T = {settings.anchors} of IFRQE++, 1 of IFRQE"
    return f"Values: {source} at each anchor for itself ({anchors}), strategies: {settings.strategy}."


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
