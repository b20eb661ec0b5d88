"""The options that say what is read: the log, its split, people's wishes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from assent.cli.command import between
from assent.cli.console import notice
from assent.data import unwillingness
from assent.data.interactions import Interactions
from assent.data.problem import Problem, Protocol
from assent.data.readers import GUESSES, Duplicates, read_interactions
from assent.data.rules import read_wishes
from assent.data.split import make_problem, make_problem_from_parts, parts_of, too_short
from assent.data.unwillingness import RESTS
from assent.data.wishes import USUAL_PRIOR
from assent.methods import Method
from assent.methods.ifrqe import IFRQEpp
from assent.runs.records import DEAREST
from assent.support.errors import AssentError
from assent.support.progress import Progress

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

    def check(self, methods: Sequence[Method]) -> None:
        """Refuse a prior that no method starts from."""
        if self.prior is not None and not any(method.name == IFRQEpp.name for method in methods):
            raise AssentError("--prior: only the method ifrqe++ starts from it")

    def added(self, log: Interactions, problem: Problem) -> Problem:
        """The problem with these wishes."""
        return replace(problem, wishes=read_wishes(log, problem, **vars(self)))


_COLUMNS = "Reading DATA"
_SPLIT = "Split and unwillingness"
_HOW = "How"


def _literally(text: str) -> str:
    """The text as it stands: help is markdown, in which a star is no star."""
    return text.replace("*", r"\*")


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
Price = Annotated[
    float,
    typer.Option(
        callback=between(0, DEAREST),
        help="Cost of a unit of unwillingness, in loss units; 0 or more.",
        rich_help_panel=_HOW,
    ),
]


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
