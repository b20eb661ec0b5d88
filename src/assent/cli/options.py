"""The options that say what is read: the log, its split, people's wishes."""

import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from assent.cli.command import between, option
from assent.cli.console import notice
from assent.data.columns import Scale
from assent.data.databases import USUAL_TABLE, database, is_url
from assent.data.door import RESTS
from assent.data.interactions import NEVER, OWN_COLUMN, Interactions
from assent.data.live import live_problem
from assent.data.problem import Problem, Protocol, make_problem, make_problem_from_parts, parts_of, too_short
from assent.data.readers import Duplicates, read_interactions
from assent.data.roles import GUESSES
from assent.data.rules import read_wishes
from assent.data.unwillingness import SOURCES, WISH_ROLES
from assent.data.wishes import USUAL_PRIOR
from assent.methods import Method
from assent.methods.ifrqe import IFRQEpp
from assent.results.records import DEAREST
from assent.support.errors import AssentError
from assent.support.progress import Progress

_wish = partial(option, "Wishes")
_rules = partial(_wish, metavar="NUMBER|RULES|FILE")
_read = partial(option, "Reading DATA")
_split = partial(option, "Split and unwillingness")
_how = partial(option, "How")

Seed = Annotated[int, _how("Seed of everything random.", min=0, show_default=True)]
Price = Annotated[
    float,
    _how(
        "Cost of a unit of unwillingness, in loss units; 0 or more.",
        callback=between(0, DEAREST),
        show_default=True,
    ),
]
Budget = Annotated[
    float | None,
    typer.Option(
        callback=between(0, 1), help="Share of what people mind that may be disclosed. Default: 0.5."
    ),
]
Closed = Annotated[
    float | None,
    _split("Interactions of unwillingness above this are withheld unread, e.g. 0.8.", metavar="LIMIT"),
]


def instead_price(units: str) -> Any:
    """Return the option of a price instead of a budget, in these units."""
    text = f"Instead: what one unit of unwillingness costs, in units of {units}."
    return typer.Option(callback=between(0, DEAREST), help=text)


@dataclass(frozen=True)
class WishOptions:
    """What people ask for beyond their unwillingness."""

    by_category: Annotated[
        bool, _wish("One decision for all of a person's interactions with a category.", "--by-category")
    ] = False
    user_budget: Annotated[
        str | None, _rules("The most unwillingness to disclose of a person: 3, or ann=2,*=5, or a file.")
    ] = None
    user_floor: Annotated[
        str | None, _rules("The least number of interactions to disclose of a person, given likewise.")
    ] = None
    prior: Annotated[
        str | None,
        _rules(
            "Probability of disclosing that `nash`, or a table, starts from, given likewise, or by user and "
            f"item. Default: {USUAL_PRIOR:g}."
        ),
    ] = None
    utility: Annotated[
        str,
        _wish(
            "What disclosing costs a person: price times their violation (`linear`), its square "
            "(`quadratic`) or another power (`power:1.5`).",
            show_default=True,
        ),
    ] = "linear"

    def check(self, methods: Sequence[Method]) -> None:
        """Refuse a prior that no method starts from."""
        starts = (method for method in methods if isinstance(method, IFRQEpp) and method.starts_from_prior)
        if self.prior is not None and not any(starts):
            raise AssentError("--prior: only ifrqe++ starts from it, with the objective nash or with tables")

    def added(self, log: Interactions, problem: Problem, *, allow_unmatched: bool = False) -> Problem:
        """Return the problem with these wishes; if `allow_unmatched`, also of people whom the log lacks."""
        wishes = read_wishes(log, problem, **vars(self), allow_unmatched=allow_unmatched)
        return replace(problem, wishes=wishes)


@dataclass(frozen=True)
class LogOptions:
    """How DATA is read."""

    data: Annotated[
        str,
        typer.Argument(
            help="A csv, tsv, jsonl, parquet or RecBole .inter file, a folder with one, or the URL of a "
            "database: sqlite:///FILE or postgresql://USER@HOST/DATABASE.",
            show_default=False,
        ),
    ]
    query: Annotated[
        str | None,
        _read(f"What to read from a database: SQL, or the name of a table. Default: {USUAL_TABLE}."),
    ] = None
    columns: Annotated[
        str | None,
        _read(
            "What columns are called: user=, item=, time=, unwillingness= or, for one that says the reverse, "
            "willingness=, category=, title=, rating=, and split= for one that says train, valid or test. "
            "Usual names are found without; a column called split only where every row says one of these.",
            metavar="ROLE=NAME,...",
        ),
    ] = None
    min_rating: Annotated[
        float | None,
        _read("Use only rows that are rated at least this. Without it, ratings make no difference."),
    ] = None
    items: Annotated[Path | None, _read("File with titles and categories of the items.")] = None
    duplicates: Annotated[
        Duplicates, _read("What to do with a (user, item) pair on several rows.", show_default=True)
    ] = "error"
    scale: Annotated[
        Scale,
        _read(
            "How unwillingness is written, in DATA, a file of wishes, rules or a constant.",
            show_default=True,
        ),
    ] = Scale.UNIT

    def read(self, progress: Progress, **consent: Any) -> Interactions:
        """Return the log; `consent` says where unwillingness comes from, and whether it may be missing."""
        columns = parse_columns(self.columns)
        name = database(self.data).name if is_url(self.data) else Path(self.data).name
        with progress.task(f"reading {name}", 1):
            return read_interactions(
                self.data,
                query=self.query,
                columns=columns,
                min_rating=self.min_rating,
                items=self.items,
                duplicates=self.duplicates,
                scale=self.scale,
                **consent,
            )


@dataclass(frozen=True)
class ProblemOptions(LogOptions):
    """How a log becomes a problem."""

    unwillingness: Annotated[
        str | None,
        _split(f"Where unwillingness comes from: {SOURCES}. Default: the log's own column."),
    ] = None
    wishes: Annotated[
        Path | None,
        _split(
            "A file of what people said later, over all that: user, item (or * for everything of theirs), "
            "unwillingness or the word withdraw."
        ),
    ] = None
    wishes_columns: Annotated[
        str | None,
        _split(
            "What columns of files of wishes are called: user=, item=, time=, unwillingness= or, for one "
            "that says the reverse, willingness=.",
            metavar="ROLE=NAME,...",
        ),
    ] = None
    rest: Annotated[
        str | None,
        _split(
            "What holds where unwillingness was given for part of a history only: "
            f"{RESTS}. Without it, a gap is an error."
        ),
    ] = None
    closed: Closed = None
    allow_unmatched: Annotated[
        bool,
        _split("Go on where rules or wishes are about nothing in the log.", "--allow-unmatched"),
    ] = False
    protocol: Annotated[Protocol, _split("How rows are split and ranked.", show_default=True)] = (
        Protocol.PAPER_TABLES
    )
    negatives: Annotated[
        int, _split("Sampled negatives per validation and test row.", min=1, show_default=True)
    ] = 99
    seed: Seed = 0

    def make(
        self, progress: Progress, wishes: WishOptions | None = None
    ) -> tuple[Interactions, Problem, str]:
        """Return the log with unwillingness, its problem, and the source of the unwillingness."""
        log = self.log(progress)
        problem = self.split(log, progress, wishes)
        self.tell(log)
        return log, problem, self.unwillingness or OWN_COLUMN

    def log(self, progress: Progress) -> Interactions:
        """Return the log with unwillingness."""
        return self.read(
            progress,
            unwillingness=self.unwillingness or OWN_COLUMN,
            wishes=self.wishes,
            wishes_columns=parse_columns(self.wishes_columns, "--wishes-columns", WISH_ROLES),
            rest=self.rest,
            closed=self.closed,
            seed=self.seed,
            allow_unmatched=self.allow_unmatched,
        )

    def tell(self, log: Interactions) -> None:
        """Say what was noticed when the log was read."""
        if log.table["time"].null_count() == log.table.height:
            notice(f"{log.name}: no column of times was found; the order of rows counts")
        never = int((log.sealed["reason"] == NEVER).sum())
        if never:
            notice(f"{log.name}: {never} interactions are never to be used and were left out before all else")
        if unread := log.sealed.height - never:
            notice(f"{log.name}: {unread} interactions are above --closed {self.closed:g}: withheld unread")

    def split(self, log: Interactions, progress: Progress, wishes: WishOptions | None = None) -> Problem:
        """Return the log's split, with the wishes."""
        with progress.task("splitting", 1):
            problem = self._split(log)
            if wishes:
                problem = wishes.added(log, problem, allow_unmatched=self.allow_unmatched)
        return problem

    def live(self, log: Interactions, wishes: WishOptions) -> Problem:
        """Return the log's live problem, with the wishes."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of few unseen items, which the split has told
            problem = live_problem(log, seed=self.seed, negatives=self.negatives)
        return wishes.added(log, problem, allow_unmatched=self.allow_unmatched)

    def _split(self, log: Interactions) -> Problem:
        if "split" in log.table.columns:
            if "split" not in parse_columns(self.columns):
                notice(f"{log.name}: column 'split' says train, valid or test in every row and is the split")
            parts = parts_of(log)
            return make_problem_from_parts(*parts, self.protocol, seed=self.seed, negatives=self.negatives)
        problem = make_problem(log, self.protocol, seed=self.seed, negatives=self.negatives)
        alone, held_out = too_short(log)
        if alone:
            notice(f"{log.name}: {alone} users have one interaction, which serves in training only")
        if held_out:
            notice(f"{log.name}: {held_out} users have two interactions, which validate and test only")
        return problem


def parse_columns(
    text: str | None, option: str = "--columns", roles: Collection[str] = GUESSES
) -> dict[str, str]:
    """Return the names of columns by role, from text like user=member,item=film, given to `option`."""
    named = {}
    for part in text.split(",") if text else []:
        role, equals, name = part.partition("=")
        if not (equals and name) or role.strip() not in roles:
            raise AssentError(f"{option} {part}: accepted: ROLE=NAME with a role of {', '.join(roles)}")
        named[role.strip()] = name.strip()
    return named
