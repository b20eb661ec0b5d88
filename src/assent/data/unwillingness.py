"""Where unwillingness comes from.

A new source is a function from a `Request` to an `Answer`, and one entry of `_SOURCES`. Draws are keyed by
ids: a row keeps its unwillingness however the log is sorted, filtered or cut. They are below 1: only a person
can say "never".
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from assent.data.columns import Scale, no_values
from assent.data.draws import PAPER_SENSITIVITY, keys_of, simulated
from assent.data.formats import LOG_FILES, kind_of, read_table
from assent.data.interactions import OWN_COLUMN, known_items, turned_away
from assent.data.roles import Roles
from assent.data.rules import (
    EVERYTHING_ELSE,
    FILES,
    Quantity,
    Rules,
    once_each,
    parse_number,
    read_rules,
    unwillingness_on,
)
from assent.support.arrays import Keys, uniforms
from assent.support.errors import AssentError

COLUMN: Final = "unwillingness"
WISH_ROLES: Final = ("user", "item", "unwillingness", "willingness", "time")
"""What columns of a file of wishes may hold."""
NAMING: Final = "wishes_columns={{{role!r}: {name!r}}}"
_CLOCK: Final = "%Y-%m-%dT%H:%M:%SZ"
_LATEST: Final = 253_402_300_799.0
"""The last second of the year 9999: later times are no seconds since 1970."""


@dataclass(frozen=True)
class Consent:
    """How people's unwillingness is asked for."""

    source: str | None = None
    """One of `SOURCES`; None is the log's own column."""
    seed: int = 0
    """Of draws."""
    rest: str | None = None
    """What stands for interactions about which the source says nothing, one of `RESTS`; None: an error."""
    closed: float | None = None
    """The limit above which interactions are withheld unread."""
    scale: Scale = Scale.UNIT
    """How unwillingness is written in the log's column, a file of wishes, rules or a constant."""
    allow_unmatched: bool = False
    """Whether rules and wishes may be about nothing that is in the log."""
    gaps: bool = False
    """Whether interactions about which nothing is said have no unwillingness, instead of `rest`."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Columns of files of wishes that the caller named, by role, one of `WISH_ROLES`."""
    later: str | None = None
    """A file of wishes that came later, over what the source says (`data.later`)."""

    @classmethod
    def asked(
        cls,
        source: str | None,
        *,
        scale: Scale | str = Scale.UNIT,
        wishes_columns: Mapping[str, str] | None = None,
        wishes: str | Path | None = None,
        **how: Any,
    ) -> "Consent":
        """Return what a caller asks for, by the names that readers have; `how` are fields as they are."""
        later = None if wishes is None else str(wishes)
        return cls(source, scale=Scale(scale), columns=dict(wishes_columns or {}), later=later, **how)

    @property
    def is_demanded(self) -> bool:
        """Whether there has to be unwillingness."""
        asked = any(each is not None for each in (self.source, self.rest, self.closed, self.later))
        return asked or self.scale is not Scale.UNIT

    @property
    def has_gaps(self) -> bool:
        """Whether a source may say nothing of some rows."""
        return self.gaps or self.rest is not None or self.later is not None

    def __post_init__(self) -> None:
        check_limit(self.closed)
        if self.columns and self.later is None and not (self.source or "").startswith("file:"):
            how = ", ".join(NAMING.format(role=role, name=name) for role, name in self.columns.items())
            accepted = "with unwillingness=file:PATH or wishes=PATH"
            raise AssentError(f"{how}: there is no file of wishes; accepted: {accepted}")


def check_limit(closed: float | None) -> None:
    """Refuse a limit above which rows are withheld unread that is no unwillingness."""
    if closed is not None and not 0 <= closed <= 1:
        accepted = "a number from 0 to 1; interactions above it are withheld unread"
        raise AssentError(f"closed={closed}: accepted: {accepted}")


@dataclass(frozen=True)
class Answer:
    """What a source says of n rows."""

    values: pl.Series
    """Float64 in [0, 1], null where the source says nothing: [n]"""
    said: pl.Series | str | None = None
    """When it was said, in UTC: of each row [n], of all, or nobody knows."""
    source: pl.Series | None = None
    """Where each value comes from, if that is another source: [n]"""


@dataclass(frozen=True)
class Kinds:
    """The categories of n rows: row k has those of `lists[of[k]]`, a List[String] that may be empty."""

    of: pl.Series
    lists: pl.Series

    @staticmethod
    def of_items(ids: pl.Series, items: pl.DataFrame) -> "Kinds":
        """The categories of rows about the items `ids`, as an `Interactions.items` has them."""
        place = items.select("item").with_row_index("place", offset=1)
        wanted = pl.DataFrame({"item": ids}).join(place, on="item", how="left", maintain_order="left")
        lists = pl.concat([pl.Series("category", [[]], dtype=pl.List(pl.String)), items["category"]])
        return Kinds(wanted["place"].fill_null(0), lists.fill_null([]))


@dataclass(frozen=True)
class Arrivals:
    """The rows of a log at the door: all that a source may look at. Other cells are not read yet."""

    name: str
    users: pl.Series
    items: pl.Series
    column: Callable[[], Answer] | None
    """What the log's own column says; None if it has none."""
    categories: Callable[[], Kinds]
    has_own_categories: bool = False
    """Whether the categories stand in the rows themselves, and not in a file that is about items."""
    is_scaled: bool = False
    """Whether the log has a column of unwillingness that is read by the scale."""
    never: Callable[[], pl.Series] | None = None
    """Which rows the log's own column calls never, where another source is asked: none takes it back."""
    later: pl.DataFrame | None = None
    """What their owners said later, over all else: unwillingness and when, null where nothing: [n]"""

    withdrawn: pl.DataFrame | None = None
    """Pairs of user and item that were taken out of the log: wishes about them are no mistake."""

    def settled(self, values: pl.Series) -> pl.Series:
        """What a source says, but 1 where the log's own column says never, and later words first: [n]"""
        if self.never is not None:
            values = pl.select(pl.when(self.never()).then(1.0).otherwise(values)).to_series()
        if self.later is not None:
            values = pl.select(pl.coalesce(self.later[COLUMN], values)).to_series()
        return values

    def only(self, kept: pl.Series) -> "Arrivals":
        """The rows of a mask, with the categories that these rows give to each item."""
        kinds = self.categories()
        users, items = self.users.filter(kept), self.items.filter(kept)
        lists = kinds.lists.gather(kinds.of.filter(kept))
        known = known_items(items, no_values(len(items), pl.String()), lists)
        later = None if self.later is None else self.later.filter(kept)
        kinds_of = partial(Kinds.of_items, items, known)
        return replace(self, users=users, items=items, later=later, categories=kinds_of)


@dataclass(frozen=True)
class Request:
    """What a source is asked for: the unwillingness of each of `rows`."""

    rows: Arrivals
    argument: str
    """What stands after the colon; empty if there is nothing."""
    consent: Consent
    is_partial: bool
    """Whether rows about which the source says nothing are null; else they are an error."""
    is_repeated: bool = False
    """Whether all rows were asked about before, so that rules about none of these are no surprise."""

    @property
    def seed(self) -> int:
        """Of draws."""
        return self.consent.seed

    @property
    def quantity(self) -> Quantity:
        """Unwillingness as it is written."""
        return unwillingness_on(self.consent.scale)

    def rules(self, key: str) -> Rules:
        """The rules by `key` that the argument is, or names."""
        return read_rules(self.argument, key, self.quantity)

    def apply(self, rules: Rules, keys: pl.Series, kind: str) -> pl.Series:
        """The value of each key, null if no rule is about it."""
        gone = self.rows.withdrawn
        if self.is_repeated:
            occurring = {name: rules.values[name] for name in rules.values.keys() & set(keys)}
            rules = replace(rules, values=occurring)
        elif kind == "user" and gone is not None:
            left = rules.values.keys() - (set(gone["user"]) - set(keys))
            rules = replace(rules, values={name: rules.values[name] for name in left})
        return rules.apply(keys, kind, self.rows.name, allow_unmatched=self.consent.allow_unmatched)


@dataclass(frozen=True)
class UnwillingnessSource:
    """A source of unwillingness, by the name before the colon."""

    forms: tuple[str, ...]
    """How it is written, with an example of what it takes after the colon."""
    help: str
    ask: Callable[[Request], Answer]
    words: str
    """How a person is told of it; {} is what the record keeps of the argument."""
    record: Callable[[str], str] = str
    """What a run's record keeps of the argument: no id of a person, no folder of the machine."""
    by_category: bool = False
    """Whether it looks at categories."""
    keeps_first: bool = False
    """Whether what it says of a row by the row's own categories stands, whatever others its item has."""
    is_scaled: bool = False
    """Whether it reads values by the scale."""

    @property
    def name(self) -> str:
        """What stands before the colon."""
        return self.forms[0].partition(":")[0]

    def accepts(self, argument: str) -> bool:
        """Whether the source can be written with this argument, which may be empty."""
        return any((":" in form) == bool(argument) for form in self.forms)


def parse_source(source: str) -> tuple[UnwillingnessSource, str]:
    """The source that a text names, and its argument; an `AssentError` if there is none."""
    kind, _, argument = source.partition(":")
    known = REGISTRY.get(kind)
    if known is None or not known.accepts(argument):
        raise AssentError(f"unwillingness {source!r}: not a source; accepted: {SOURCES}")
    return known, argument


def for_the_record(source: str) -> str:
    """A source as a run's record keeps it: of a file its name, of rules by user their number and a hash."""
    kind, _, argument = source.partition(":")
    return f"{kind}:{REGISTRY[kind].record(argument)}" if kind in REGISTRY and argument else source


def in_words(source: str) -> str:
    """How a person is told of a source, as a run's record keeps it; nothing for the log's own column."""
    kind, _, argument = source.partition(":")
    return REGISTRY[kind].words.format(argument.strip()) if kind in REGISTRY else source


def modified(path: str | Path) -> str | None:
    """When a file was last changed, in UTC; None if it is no file."""
    path = Path(path)
    if not path.is_file():
        return None
    return datetime.fromtimestamp(path.stat().st_mtime, UTC).strftime(_CLOCK)


def _column(request: Request) -> Answer:
    if request.rows.column is None:
        accepted = f"a column {COLUMN!r}, or unwillingness=SOURCE, one of: {SOURCES}"
        raise AssentError(f"{request.rows.name}: no unwillingness is given; accepted: {accepted}")
    return request.rows.column()


def _constant(request: Request) -> Answer:
    value = request.quantity.parse(request.argument, f"unwillingness 'constant:{request.argument}'")
    return Answer(pl.repeat(value, len(request.rows.users), dtype=pl.Float64, eager=True))


def _file(request: Request) -> Answer:
    """Unwillingness from a file with the columns user, item and unwillingness, found like those of a log.

    A row with user * and item * is for all pairs that the file does not name. Pairs that are not in the log
    are an error, or a warning if they are allowed. A column of times says when each wish was made.
    """
    pair, path, rows, consent = ["user", "item"], request.argument, request.rows, request.consent
    log, side = pl.DataFrame({"user": rows.users, "item": rows.items}), _wishes(path, consent)
    is_for_others = (side["user"] == EVERYTHING_ELSE) & (side["item"] == EVERYTHING_ELSE)
    otherwise, named = side.filter(is_for_others), side.filter(~is_for_others)
    known = log if rows.withdrawn is None else pl.concat([log, rows.withdrawn])
    unknown = named.join(known, on=pair, how="anti", maintain_order="left")
    if unknown.height:
        about = f"{unknown.height} pairs not in {rows.name}, first {_pair(unknown)}"
        if not consent.allow_unmatched:
            raise AssentError(f"{path}: {about}; accepted: pairs of the log, or allow_unmatched=True")
        warnings.warn(f"{path}: ignored {about}", stacklevel=4)
    found = log.join(named, on=pair, how="left", maintain_order="left")
    found = found.with_columns(source=pl.lit(for_the_record(f"file:{path}")))
    if otherwise.height:
        _, _, value, said = otherwise.row(0)
        nobody, rest = pl.col(COLUMN).is_null(), pl.lit(f"rest:{value:g}")  # nobody said it of this pair
        found = found.with_columns(
            pl.col(COLUMN).fill_null(value),
            said=pl.when(nobody).then(pl.lit(said, pl.String)).otherwise("said"),
            source=pl.when(nobody).then(rest).otherwise("source"),
        )
    missing = found.filter(pl.col(COLUMN).is_null())
    if missing.height and not request.is_partial:
        lacking = f"{missing.height} of the {log.height} rows of {rows.name}, first {_pair(missing)}"
        accepted = "one for each row, a row *,*,VALUE for all others, or rest=VALUE"
        raise AssentError(f"{path}: no unwillingness for {lacking}; accepted: {accepted}")
    return Answer(found[COLUMN], found["said"], found["source"])


def _wishes(path: str, consent: Consent) -> pl.DataFrame:
    """The wishes of a file: user, item, unwillingness, and when each was said."""
    table, roles = read_table(Path(path), LOG_FILES), Roles(consent.columns, NAMING, WISH_ROLES)
    users, items = (table.ids(roles.find_needed(table, role)) for role in ("user", "item"))
    column, time = roles.find_minded(table), roles.find(table, "time")
    if column is None:
        named = NAMING.format(role=COLUMN, name="NAME")
        accepted = f"the columns user, item and {COLUMN}, or name it with {named}"
        raise AssentError(f"{path}: no column {COLUMN!r}; accepted: {accepted}")
    name, is_reversed = column
    values = table.unwillingness(name, scale=consent.scale, is_reversed=is_reversed)
    changed = pl.Series([modified(path)], dtype=pl.String).new_from_index(0, len(users))
    said = changed if time is None else said_at(table.times(time), path)
    return once_each(pl.DataFrame({"user": users, "item": items, COLUMN: values, "said": said}), path)


def said_at(seconds: pl.Series, path: str) -> pl.Series:
    """Times as text, null where there is none."""
    if not seconds.is_between(0, _LATEST).all():
        raise AssentError(f"{path}: a time is not after 1970; accepted: dates, or seconds since 1970")
    return pl.from_epoch(seconds.cast(pl.Int64), "s").dt.strftime(_CLOCK)


def _category(request: Request) -> Answer:
    """Unwillingness by category; a row of several categories takes the largest of theirs.

    If the rules are partial, a row with a category that has no rule is null, unless another of its categories
    turns it away.
    """
    rules, rows = request.rules("category"), request.rows
    kinds, closed = rows.categories(), request.consent.closed
    kind = pl.DataFrame({"kind": kinds.of.unique().sort()})
    lists = kind.with_columns(category=kinds.lists.gather(kind["kind"]))
    some = pl.when(pl.col("category").list.len() > 0).then("category")  # else null: it has a row of its own
    pairs = lists.with_columns(some.alias("category")).explode("category")
    values = request.apply(rules, pairs["category"], "category")
    pairs = pairs.with_columns(values.alias(COLUMN))
    unruled = pairs.filter(pl.col(COLUMN).is_null())
    if unruled.height and not request.is_partial:
        place, name, _ = unruled.row(0)
        item = rows.items[int((kinds.of == place).arg_max() or 0)]
        has = "no category" if name is None else f"category {name!r}, which has no rule"
        accepted = "a rule for it, or * for everything else"
        raise AssentError(f"{rules.origin}: item {item!r} has {has}; accepted: {accepted}")
    largest = pairs.group_by("kind").agg(pl.col(COLUMN).max(), known=pl.col(COLUMN).null_count() == 0)
    is_known = largest["known"] | turned_away(largest[COLUMN], closed).is_not_null()
    largest = largest.with_columns(pl.when(is_known).then(COLUMN).alias(COLUMN))
    found = pl.DataFrame({"kind": kinds.of}).join(largest, on="kind", how="left", maintain_order="left")
    return Answer(found[COLUMN], modified(request.argument))


def _user(request: Request) -> Answer:
    """Unwillingness by user, the same for all rows of one; null without a rule if the rules are partial."""
    rules, users = request.rules("user"), request.rows.users
    values = request.apply(rules, users, "user")
    if values.null_count() and not request.is_partial:
        unruled = users.filter(values.is_null()).unique(maintain_order=True)
        whom = f"{len(unruled)} users of {request.rows.name}, first {unruled[0]!r}"
        accepted = "a rule for each of them, or * for everyone else"
        raise AssentError(f"{rules.origin}: no rule for {whom}; accepted: {accepted}")
    return Answer(values, modified(request.argument))


def _pair(rows: pl.DataFrame) -> str:
    return "user {!r}, item {!r}".format(*rows.row(0)[:2])


def _random(request: Request) -> Answer:
    rows, seed = request.rows, request.seed
    return _draw(keys_of(rows.users, "user", seed) ^ keys_of(rows.items, "item", seed))


def _random_category(request: Request) -> Answer:
    """A uniform draw per user and category: people hide whole categories.

    A row counts under the first of its own categories, or else of its item's; an item without any is a
    category of its own.
    """
    rows, seed = request.rows, request.seed
    kinds = rows.categories()
    first = kinds.lists.list.first().gather(kinds.of)
    if len(first) and first.null_count() == len(first):
        raise AssentError(f"{rows.name}: no item has a category; accepted: a log whose items do")
    alone, shared = keys_of(rows.items, "item", seed), keys_of(first.fill_null(""), "category", seed)
    return _draw(keys_of(rows.users, "user", seed) ^ np.where(first.is_null(), alone, shared))


def _simulated(request: Request) -> Answer:
    users, items, sensitivity = request.rows.users, request.rows.items, PAPER_SENSITIVITY
    if request.argument:
        try:
            low, high, spread = map(parse_number, request.argument.split(","))
        except ValueError:
            accepted = "three numbers, simulated:a1,a2,a3"
            raise AssentError(f"unwillingness 'simulated:{request.argument}': accepted: {accepted}") from None
        sensitivity = (low, high, spread)
    return Answer(simulated(users, items, request.seed, sensitivity=sensitivity))


def _draw(keys: Keys) -> Answer:
    return Answer(pl.Series(uniforms(keys, 1)[:, 0]))


def _file_name(argument: str) -> str:
    """The name of a rules file without its folder; other text as it is."""
    return Path(argument).name if kind_of(argument) in FILES else argument


def _anonymous(argument: str) -> str:
    """The name of a rules file, or the number of rules by user with a hash that tells them from others."""
    if kind_of(argument) in FILES:
        return _file_name(argument)
    count, mark = argument.count(",") + 1, blake2b(argument.encode(), digest_size=4).hexdigest()
    return f" {count} rule{'' if count == 1 else 's'} ({mark})"


_SOURCES: Final = (
    UnwillingnessSource((OWN_COLUMN,), "the log's own column", _column, ""),
    UnwillingnessSource(
        ("constant:0.3",), "one value for every interaction", _constant, "the same for all", is_scaled=True
    ),
    UnwillingnessSource(
        ("file:PATH",),
        "a file with the columns user, item and unwillingness",
        _file,
        "as {} says",
        record=lambda path: Path(path).name,
        is_scaled=True,
    ),
    UnwillingnessSource(
        ("category:PATH", "category:Action=0.9,*=0.2"),
        "rules by the item's category; of several categories the largest value counts",
        _category,
        "by its category: {}",
        record=_file_name,
        by_category=True,
        is_scaled=True,
    ),
    UnwillingnessSource(
        ("user:PATH", "user:ann=1,*=0"),
        "rules by user",
        _user,
        "by rules for people: {}",
        record=_anonymous,
        is_scaled=True,
    ),
    UnwillingnessSource(
        ("random",), "a uniform draw per interaction, for experiments", _random, "drawn at random"
    ),
    UnwillingnessSource(
        ("random-category",),
        "a uniform draw per user and category, for experiments",
        _random_category,
        "drawn at random by category",
        by_category=True,
        keeps_first=True,
    ),
    UnwillingnessSource(
        ("simulated", "simulated:0.5,1,1"), "the paper's simulation with a1,a2,a3", _simulated, "simulated"
    ),
)
REGISTRY: Final = {source.name: source for source in _SOURCES}
"""All sources by name."""
SOURCES: Final = ", ".join(form for source in REGISTRY.values() for form in source.forms)
"""How the sources are written, for messages and help."""
