"""Options that belong together, as one parameter of a command.

Typer reads the parameters of a function. A command that takes a dataclass gets a parameter for each of its
fields in place of it, so that what many commands ask for is written down once.

The options for what people ask for beyond their unwillingness.

From options and `--set` pairs to settings.

The options that several commands have, and what they mean.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from assent.cli.console import notice
from assent.data import unwillingness
from assent.data.interactions import Interactions
from assent.data.problem import Problem, Protocol
from assent.data.readers import GUESSES, Duplicates, read_interactions
from assent.data.rules import read_wishes
from assent.data.split import make_problem, make_problem_from_parts, parts_of, too_short
from assent.data.unwillingness import RESTS
from assent.data.wishes import USUAL_PRIOR
from assent.game.estimates import Objective
from assent.game.paper.tables import Strategy
from assent.methods import Method
from assent.methods.ifrqe_pp import IFRQEpp
from assent.models import MODELS
from assent.runs.records import DEAREST
from assent.settings import Settings
from assent.support.errors import AssentError
from assent.support.files import refuse_to_overwrite, write_json
from assent.support.progress import Progress
from assent.worth.settings import Source

Command = Callable[..., None]


def spread(command: Command) -> Command:
    """The command with every dataclass among its parameters spread out; all are given by keyword."""
    parameters: list[Parameter] = []
    groups: dict[str, type[Any]] = {}
    for each in signature(command).parameters.values():
        if isinstance(each.annotation, type) and is_dataclass(each.annotation):
            groups[each.name] = each.annotation
            parameters += signature(each.annotation).parameters.values()
        else:
            parameters.append(each)

    @wraps(command)
    def called(**given: Any) -> None:
        together = {
            name: group(**{field.name: given.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        command(**given, **together)

    called.__annotations__ = {each.name: each.annotation for each in parameters}
    in_any_order = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in parameters]
    called.__signature__ = Signature(in_any_order)  # type: ignore[attr-defined]
    return called


_WISHES = "Wishes"

ByCategory = Annotated[
    bool,
    typer.Option(
        "--by-category",
        help="One decision for all of a person's interactions with a category.",
        rich_help_panel=_WISHES,
    ),
]
UserBudget = Annotated[
    str | None,
    typer.Option(
        metavar="NUMBER|RULES|FILE",
        help="The most unwillingness to disclose of a person: 3, or ann=2,\\*=5, or a file.",
        rich_help_panel=_WISHES,
        show_default=False,
    ),
]
UserFloor = Annotated[
    str | None,
    typer.Option(
        metavar="NUMBER|RULES|FILE",
        help="The least number of interactions to disclose of a person, given likewise.",
        rich_help_panel=_WISHES,
        show_default=False,
    ),
]
Prior = Annotated[
    str | None,
    typer.Option(
        metavar="NUMBER|RULES|FILE",
        help="Probability of disclosing that `nash`, or a table, starts from, given likewise, or by user and "
        f"item. Default: {USUAL_PRIOR:g}.",
        rich_help_panel=_WISHES,
        show_default=False,
    ),
]
Utility = Annotated[
    str,
    typer.Option(
        help="What disclosing costs a person: price times her violation (`linear`), its square "
        "(`quadratic`) or another power (`power:1.5`).",
        rich_help_panel=_WISHES,
    ),
]


@dataclass(frozen=True)
class WishOptions:
    """What people ask for beyond their unwillingness."""

    by_category: ByCategory = False
    user_budget: UserBudget = None
    user_floor: UserFloor = None
    prior: Prior = None
    utility: Utility = "linear"

    def warn_if_idle(self, methods: Sequence[Method], settings: Settings) -> None:
        """Say so where a prior is given and no method starts from it."""
        is_table = settings.strategy is Strategy.TABLE
        start = [
            each
            for each in methods
            if isinstance(each, IFRQEpp) and (is_table or each.objective is Objective.NASH)
        ]
        is_one_game = settings.anchors + settings.adaptive == 1 or settings.value.is_pooled
        if self.prior is not None and (not start or is_one_game):
            notice(
                "--prior changes nothing here: ifrqe++ alone starts from it, with nash or tables, several "
                "anchors and --value influence"
            )

    def added(self, log: Interactions, problem: Problem) -> Problem:
        """The problem with these wishes."""
        return replace(problem, wishes=read_wishes(log, problem, **vars(self)))


def read_settings(
    model: str,
    anchors: int | None = None,
    overrides: list[str] | None = None,
    value: Source | None = None,
) -> Settings:
    """The settings from the options and from `--set` pairs like training.epochs=30."""
    named = {"model": model, "anchors": anchors, "value.source": value}
    options = {key: given for key, given in named.items() if given is not None}
    given = read_pairs(overrides or [], options)
    settings = checked(lambda: Settings.model_validate(given), model)
    tell_idle(settings, given)
    return settings


def read_pairs(texts: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """Nested settings from `options` by their names and from pairs like training.epochs=30.

    A pair that contradicts an option is refused.
    """
    values: dict[str, Any] = {}
    for key, option in options.items():
        _put(values, key, option)
    for text in texts:
        key, equals, given = (part.strip() for part in text.partition("="))
        if not equals:
            raise AssentError(f"--set {text}: accepted: KEY=VALUE, for instance training.epochs=30")
        if key in options and given != str(options[key]):
            name = key.partition(".")[0]
            raise AssentError(f"--set {text}: contradicts --{name} {options[key]}; accepted: --{name} alone")
        _put(values, key, given)
    return values


def _put(values: dict[str, Any], key: str, given: Any) -> None:
    """Put a setting into nested ones."""
    *path, last = key.split(".")
    place: Any = values
    for part in path:
        place = place.setdefault(part, {})
        if not isinstance(place, dict):
            raise AssentError(f"--set {key}: {part!r} has no settings of its own; see assent settings")
    place[last] = given


def checked(make: Callable[[], Settings], model: str) -> Settings:
    """The settings of `model` that `make` returns; what is wrong with them, in one line."""
    try:
        settings = make()
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"])) or "settings"
        listed = f"see assent settings --model {model}"
        if first["type"] == "extra_forbidden":
            raise AssentError(f"unknown setting {name}; {listed}") from None
        raise AssentError(f"setting {name}: {first['msg']}, got {first['input']!r}; {listed}") from None
    estimator, source = settings.influence.estimator, settings.value.source
    if "estimator" in settings.influence.model_fields_set and estimator != settings.linearisation.estimator:
        raise AssentError(
            f"influence.estimator={estimator}: contradicts value.source={source}; accepted: one of them"
        )
    return settings


def tell_idle(settings: Settings, given: Collection[str]) -> None:
    """Say which of the settings that were `given` the others leave nothing to say."""
    if idle := " and ".join(sorted(settings.idle.intersection(given))):
        notice(f"no effect where values are pooled over folds: {idle}; see value.source=influence")


_COLUMNS = "Reading DATA"
_SPLIT = "Split and unwillingness"
_HOW = "How"
_OUTPUT = "Output"


def between(low: float, high: float) -> Callable[[typer.CallbackParam, float], float]:
    """A check of an option's number, in one line: from `low` to `high`."""

    def check(param: typer.CallbackParam, value: float) -> float:
        if not low <= value <= high:
            raise AssentError(f"{param.opts[0]} {value:g}: accepted: a number from {low:g} to {high:g}")
        return value

    return check


def _literally(text: str) -> str:
    """The text as it stands: help is markdown, in which a star is no star."""
    return text.replace("*", r"\*")


Methods = Annotated[
    str | None,
    typer.Option(
        help="Which methods: name or name:objective, separated by commas. "
        "Default: all but proactive and scratch, which train a model for everything they try.",
        show_default=False,
    ),
]
Data = Annotated[
    Path,
    typer.Argument(
        help="A csv, tsv, parquet or RecBole .inter file, or a folder with one.", show_default=False
    ),
]
ColumnsOption = Annotated[
    str | None,
    typer.Option(
        "--columns",
        metavar="ROLE=NAME,...",
        help="What columns are called: user=, item=, time=, unwillingness=, category=, title=, and split= "
        "for one that says train, valid or test. Usual names are found without; a column called split only "
        "where every row says one of these.",
        rich_help_panel=_COLUMNS,
        show_default=False,
    ),
]
Items = Annotated[
    Path | None, typer.Option(help="File with titles and categories of the items.", rich_help_panel=_COLUMNS)
]
DuplicatesOption = Annotated[
    Duplicates,
    typer.Option(help="What to do with a (user, item) pair on several rows.", rich_help_panel=_COLUMNS),
]
Unwillingness = Annotated[
    str | None,
    typer.Option(
        help=f"Where unwillingness comes from: {_literally(unwillingness.SOURCES)}. "
        "Default: the column, else random.",
        rich_help_panel=_SPLIT,
        show_default=False,
    ),
]
Rest = Annotated[
    str | None,
    typer.Option(
        help=f"What holds where unwillingness was given for part of a history only: {RESTS}. "
        "Without it, a gap is an error.",
        rich_help_panel=_SPLIT,
        show_default=False,
    ),
]
ProtocolOption = Annotated[
    Protocol, typer.Option(help="How rows are split and ranked.", rich_help_panel=_SPLIT)
]
Negatives = Annotated[
    int, typer.Option(min=1, help="Sampled negatives per validation and test row.", rich_help_panel=_SPLIT)
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of everything random.", rich_help_panel=_HOW)]
Model = Annotated[
    str,
    typer.Option(
        help=f"The recommender: {', '.join(MODELS)}, or module:Class for one of your own.",
        rich_help_panel=_HOW,
    ),
]
Anchors = Annotated[
    int | None,
    typer.Option(
        min=1,
        help=f"T, anchors of IFRQE++ with --value influence or lissa. Default: {Settings().anchors}.",
        rich_help_panel=_HOW,
        show_default=False,
    ),
]
Value = Annotated[
    Source | None,
    typer.Option(
        help=f"Where the value of an interaction comes from. Default: {Settings().value.source}.",
        rich_help_panel=_HOW,
        show_default=False,
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Any other setting, e.g. training.epochs=30; assent settings lists them.",
        rich_help_panel=_HOW,
    ),
]
Price = Annotated[
    float,
    typer.Option(
        callback=between(0, DEAREST),
        help="Cost of a unit of unwillingness, in loss units; 0 or more.",
        rich_help_panel=_HOW,
    ),
]


@dataclass(frozen=True)
class OutputOptions:
    """Whether figures are written to a file too, and what they may replace."""

    json: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", help="Write the figures there too.", rich_help_panel=_OUTPUT),
    ] = None
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace what is there.", rich_help_panel=_OUTPUT)
    ] = False

    def check(self) -> None:
        """Refuse an existing file before the work begins."""
        if self.json is not None:
            refuse_to_overwrite(self.json, replace=self.replace)

    def write(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Write the records if a file was given: flat ones, lists joined by `|`."""
        if self.json is not None:
            write_json(self.json, [{key: _flat(value) for key, value in each.items()} for each in records])
            notice(f"Records: {self.json}")


def _flat(value: Any) -> Any:
    return "|".join(map(str, value)) if isinstance(value, list) else value


@dataclass(frozen=True)
class LogOptions:
    """How DATA is read."""

    data: Data
    columns: ColumnsOption = None
    items: Items = None
    duplicates: DuplicatesOption = "error"

    def read(self, progress: Progress, *, gaps: bool) -> Interactions:
        """The log, without unwillingness unless it has a column; with `gaps` that may lack some."""
        columns = parse_columns(self.columns)
        with progress.task(f"reading {self.data.name}", 1):
            return read_interactions(
                self.data, columns=columns, items=self.items, duplicates=self.duplicates, gaps=gaps
            )


@dataclass(frozen=True)
class ProblemOptions(LogOptions):
    """How a log becomes a problem."""

    unwillingness: Unwillingness = None
    rest: Rest = None
    protocol: ProtocolOption = Protocol.PAPER_TABLES
    negatives: Negatives = 99
    seed: Seed = 0

    def make(
        self, progress: Progress, wishes: WishOptions | None = None
    ) -> tuple[Interactions, Problem, str]:
        """The log with unwillingness, its problem, and the source of the unwillingness."""
        raw = self.read(progress, gaps=self.rest is not None)
        source = self.unwillingness or unwillingness.default_source(raw)
        if self.unwillingness is None and source != "column":
            notice(
                f"{raw.name}: no column 'unwillingness', so it is drawn at random (seed {self.seed}); "
                "choose another source with --unwillingness"
            )
        with progress.task("assigning unwillingness", 1):
            log = unwillingness.assign(raw, source, self.seed, self.rest)
        with progress.task("splitting", 1):
            problem = self._split(log)
            problem = wishes.added(log, problem) if wishes else problem
        never = unwillingness.without_never(log)[1]
        if never:
            notice(f"{log.name}: {never} interactions are 'never' and were left out before anything else")
        return log, problem, source

    def _split(self, log: Interactions) -> Problem:
        if "split" in log.table.columns:
            if "split" not in parse_columns(self.columns):
                notice(f"{log.name}: column 'split' says train, valid or test in every row and is the split")
            parts = parts_of(log)
            return make_problem_from_parts(*parts, self.protocol, seed=self.seed, negatives=self.negatives)
        problem = make_problem(log, self.protocol, seed=self.seed, negatives=self.negatives)
        if short := too_short(log):
            notice(f"{log.name}: {short} users have fewer than 3 interactions and serve in training only")
        return problem


def parse_columns(text: str | None) -> dict[str, str]:
    """Names of columns by role, from text like user=member,item=film."""
    named = {}
    for part in text.split(",") if text else []:
        role, equals, name = part.partition("=")
        if not (equals and name) or role.strip() not in GUESSES:
            raise AssentError(f"--columns {part}: accepted: ROLE=NAME with a role of {', '.join(GUESSES)}")
        named[role.strip()] = name.strip()
    return named
