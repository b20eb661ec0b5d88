"""`assent compare`: methods against each other at prices, by true rewards."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import typer

from assent.cli import options as o
from assent.cli.command import OutputOptions, spread
from assent.cli.console import notice, out, show_table, watcher
from assent.cli.how import Anchors, Asked, EstimatorOption, Methods, Set, WorkOptions, read_asked
from assent.cli.judge_commands import CELLS, OutFolder, reward_form
from assent.data.problem import Problem
from assent.data.unwillingness import for_the_record
from assent.evaluation.metrics import RewardForm
from assent.lab.store import Store
from assent.methods import REFERENCES, GameMethod, Method
from assent.methods.exploring import ExploringMethod
from assent.methods.ifrqe import IFRQE
from assent.methods.worth import WorthMethod
from assent.models.losses import Loss
from assent.report.data import Way, way_of
from assent.report.words import name
from assent.runs.compare import USUAL, compare
from assent.runs.outcome import MARKS, Outcome, ahead_text, reward_text
from assent.runs.records import check_price
from assent.support.errors import AssentError
from assent.support.files import refuse_to_overwrite
from assent.worth.estimate import Source


@spread
def compare_command(
    *,
    models: Annotated[str, typer.Option(help="Recommenders, separated by commas.")] = "mf",
    methods: Methods = None,
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
            help="The method that is tested against all others. Default: worth:nash, if it is among them.",
            show_default=False,
        ),
    ] = None,
    anchors: Anchors = None,
    value: Annotated[
        Source | None,
        typer.Option(
            help="Where worth comes from. Default: cross-fitted, in the reward's loss.",
            show_default=False,
        ),
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
    assent compare data/steam --methods random,threshold,worth:nash --repeats 3
    assent compare log.csv --models mf,lightgcn --methods proactive,ifrqe++ --out compared
    assent compare log.csv --prices 0.01,0.1 --reward mean --jobs 2
    assent compare log.csv --user-budget 2 --utility quadratic
    ```
    """
    output.check()
    if out and not (out / CELLS).is_dir():
        refuse_to_overwrite(out / "compare.csv", replace=output.replace)
    options = {
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
    _, problem, source = given.make(progress, wishes)
    notes = [*_notes(asked[0].settings.model, chosen), *_notes_on(problem, source)]
    with work.executor() as executor:
        records = compare(
            problem,
            [(each.settings, members) for each, (members, _) in zip(asked, sets, strict=True)],
            prices=at,
            seeds=[given.seed + r for r in range(repeats)],
            store=Store(out / CELLS) if out else None,
            executor=executor,
            progress=progress,
        )
    settings = [each.settings for each in asked]
    outcome = Outcome(records, reward_form(chosen), against, notes, settings)
    _show(outcome)
    output.write(records)
    for file in outcome.write(out) if out else []:
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
    if text is None or text in REFERENCES:
        found = asked.methods(methods)
        ways = [method.way for method in found] or [("all", "")]
        preferred = [way for way in (("worth", "nash"), ("ifrqe++", "nash")) if way in ways]
        return found, (text, "") if text else [*preferred, ways[0]][0]
    found = asked.methods(f"{methods or ','.join(USUAL)},{text}")
    reference = asked.methods(text, "--reference")[0].way
    return found, reference


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


def _show(outcome: Outcome) -> None:
    """Print a table per model, then what follows."""
    rows = outcome.rows
    for model in dict.fromkeys(str(row["model"]) for row in rows):
        lines = [
            [
                f"{row['price']:g}",
                name(way_of(row)),
                reward_text(row),
                ahead_text(row),
                f"{100 * row['violation_share']:.1f}",
                f"{row['trainings']:.0f}",
            ]
            for row in rows
            if row["model"] == model
        ]
        lines.sort(key=lambda line: float(line[0]))
        columns = ["price", "method", "reward", "ahead by", "viol. %", "trained"]
        show_table(f"{outcome.title}, {model}", columns, lines, texts=("method",))
    ahead = f"Ahead by: the reward of {name(outcome.reference)} minus the row's."
    for sentence in (ahead, MARKS, *outcome.said):
        out.print(sentence, highlight=False, markup=False, soft_wrap=True)
