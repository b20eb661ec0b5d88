"""Rules: one value per category or user, from a small file or a text; people's wishes made of them.

A rule gives an unwillingness, a budget, a floor or a prior.
"""

import json
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
import yaml

from assent.data.columns import Scale, Table, fitting_scale, normal, quoted
from assent.data.formats import TABLES, each_once, kind_of, read_table
from assent.data.interactions import Interactions
from assent.data.problem import Problem
from assent.data.wishes import USUAL_PRIOR, Wishes
from assent.support.arrays import Floats, Ints
from assent.support.errors import AssentError

EVERYTHING_ELSE: Final = "*"
"""The key for everything that no other rule names."""
FILES: Final = (".yaml", ".yml", ".json", *TABLES)
"""Kinds of files that may hold rules."""
LARGEST: Final = 2**24
"""Bytes of a yaml or json file of rules; a table of rules may be larger."""
_MAPPING: Final = [
    yaml.StreamStartEvent, yaml.DocumentStartEvent, yaml.MappingStartEvent,
    yaml.MappingEndEvent, yaml.DocumentEndEvent, yaml.StreamEndEvent,
]  # fmt: skip
"""What YAML's parser tells of a mapping, but for its names and values."""
_Entry = tuple[str, str, object]
"""A name as it is written, where its value stands, and the value."""
UTILITIES: Final = {"linear": 1.0, "quadratic": 2.0}


def parse_number(value: object) -> float:
    """The number that a number or a text says; a `ValueError` for 0_1, which Python would take for 1."""
    if isinstance(value, str) and ("_" in value or not value.isascii()):
        raise ValueError(value)
    return float(value)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Quantity:
    """What a rule gives: its name, its largest value (the smallest is 0), and what is accepted, in words."""

    name: str
    largest: float
    accepted: str
    is_whole: bool = False
    scale: Scale | None = None
    """How an unwillingness is written, where that can be chosen."""

    def parse(self, value: object, place: str) -> float:
        """Parse a number or a text; an `AssentError` begins with `place`."""
        number = self._number(value)
        if not 0 <= number <= self.largest or (self.is_whole and number % 1):
            other = fitting_scale(value) if self.scale is Scale.UNIT else ""
            raise AssentError(f"{place} is {quoted(value)}; accepted: {self.accepted}{other}")
        return number

    def _number(self, value: object) -> float:
        """The value from 0 on, NaN if it is none."""
        if self.scale not in (None, Scale.UNIT):
            return self.scale.parse(value)
        try:
            return np.nan if isinstance(value, bool) else parse_number(value)
        except (TypeError, ValueError, OverflowError):
            return np.nan


def unwillingness_on(scale: Scale) -> Quantity:
    """Unwillingness that is written on a scale."""
    return Quantity("unwillingness", 1, scale.accepted(), scale=scale)


UNWILLINGNESS: Final = unwillingness_on(Scale.UNIT)
BUDGET: Final = Quantity("budget", np.inf, "a number from 0 on, the largest sum of unwillingness disclosed")
FLOOR: Final = Quantity("floor", 2.0**31, "a whole number of interactions, from 0 on", is_whole=True)
PRIOR: Final = Quantity("prior", 1, "a probability from 0 to 1")


@dataclass(frozen=True)
class Rules:
    """Values by key (a category or a user), and the value of all other keys, or None.

    Keys are `normal`. `origin` is the file or text of the rules; messages begin with it.
    """

    origin: str
    values: Mapping[str, float]
    otherwise: float | None

    def apply(self, keys: pl.Series, kind: str, where: str, *, allow_unmatched: bool = False) -> pl.Series:
        """The value of each key, null if there is none.

        A rule for a `kind` of key that does not occur is an error, or a warning if `allow_unmatched`: what a
        mistyped rule was meant for would go by another rule.
        """
        self._refuse_unmatched(keys, kind, where, allow_unmatched=allow_unmatched)
        return keys.replace_strict(self.values, default=self.otherwise, return_dtype=pl.Float64)

    def _refuse_unmatched(self, keys: pl.Series, kind: str, where: str, *, allow_unmatched: bool) -> None:
        known = set(keys.drop_nulls().unique())
        unmatched = sorted(self.values.keys() - known)
        if not unmatched:
            return
        if allow_unmatched:
            about = (
                f"ignored {len(unmatched)} rules whose {kind} is not in {where}, first {quoted(unmatched[0])}"
            )
            warnings.warn(f"{self.origin}: {about}", stacklevel=5)
            return
        # Other people's ids are nobody's business.
        names = sorted(known) if kind == "category" else []
        shown = ", ".join(_with_nearest(name, names) for name in unmatched[:3])
        more = f" and {len(unmatched) - 3} more" if len(unmatched) > 3 else ""
        accepted = f"rules for a {kind} that occurs, or allow_unmatched=True"
        raise AssentError(
            f"{self.origin}: no {kind} of {where} is called {shown}{more}; accepted: {accepted}"
        )


def _with_nearest(name: str, names: list[str]) -> str:
    """A name, and the most similar of `names` if there is one."""
    nearest = get_close_matches(name, names, n=1)
    return f"{quoted(name)} (did you mean {quoted(nearest[0])}?)" if nearest else quoted(name)


def read_rules(text: str, key: str, quantity: Quantity = UNWILLINGNESS) -> Rules:
    """Read rules by `key` ("category" or "user") from a file or a text.

    A yaml or json file holds a mapping. A table (csv and the like, parquet) has two columns, called like the
    key and the quantity. Any other text is the rules themselves, such as Action=0.9,*=0.2. A star is for
    everything else. Keys are text as they are written, then `normal`.
    """
    origin, kind = text, kind_of(text)
    if kind in (".yaml", ".yml"):
        entries = _of_yaml(text)
    elif kind == ".json":
        entries = _of_json(text)
    elif kind in TABLES:
        entries = _of_table(text, key, quantity)
    else:
        origin = quoted(text)
        entries = _of_text(text, origin, quantity)
    values: dict[str, float] = {}
    for name, (written, place, value) in zip(_normal(entries, origin), entries, strict=True):
        if not name or "\0" in name:
            raise AssentError(f"{origin}: {quoted(written)} is not a name; accepted: a number or a text")
        if name in values:
            raise AssentError(f"{origin}: {key} {quoted(name)} occurs twice; accepted: once")
        values[name] = quantity.parse(value, place)
    otherwise = values.pop(EVERYTHING_ELSE, None)
    return Rules(origin, values, otherwise)


def _normal(entries: list[_Entry], origin: str) -> pl.Series:
    """The `normal` names of entries."""
    try:
        return normal(pl.Series([name for name, _, _ in entries], dtype=pl.String))
    except UnicodeEncodeError:
        raise AssentError(
            f"{origin}: a name holds bytes that are not text; accepted: text in UTF-8"
        ) from None


def _of_yaml(path: str) -> list[_Entry]:
    """The entries of a mapping, names and values as they are written: 010 is not 8, and yes is not True.

    Only YAML's parser runs. Nothing is constructed, so that no tag, alias or nesting can do any harm.
    """
    cells: list[str] = []
    outline: list[type[yaml.Event]] = []
    try:
        for event in yaml.parse(_content(path), Loader=yaml.SafeLoader):
            is_marked = getattr(event, "anchor", None) or getattr(event, "tag", None)
            if isinstance(event, yaml.ScalarEvent) and not is_marked:
                cells.append(event.value)
                continue
            outline.append(type(event))
            if is_marked or outline != _MAPPING[: len(outline)]:
                accepted = "names, each with its value; nothing nested, no anchors, no tags"
                line = event.start_mark.line + 1 if event.start_mark else 1
                raise AssentError(f"{path}: line {line}: not a plain mapping; accepted: {accepted}")
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        raise AssentError(f"{path}: not valid YAML ({_yaml_problem(error)})") from None
    pairs = zip(cells[::2], cells[1::2], strict=True)
    return [(name, f"{path}: {quoted(name)}", value) for name, value in pairs]


def _yaml_problem(error: Exception) -> str:
    """What is wrong and in which line, without the line, which may name people."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark:
        return f"line {error.problem_mark.line + 1}: {error.problem}"
    return " ".join(str(error).split())


def _of_json(path: str) -> list[_Entry]:
    try:
        content = json.loads(_content(path), object_pairs_hook=each_once)
    except (ValueError, RecursionError) as error:
        raise AssentError(f"{path}: not valid JSON ({error})") from None
    if not isinstance(content, dict):
        raise AssentError(f"{path}: not a mapping; accepted: names, each with its value")
    return [(name, f"{path}: {quoted(name)}", value) for name, value in content.items()]


def _content(path: str) -> str:
    """The text of a small file."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise AssentError(f"{path}: cannot be read ({error.strerror})") from None
    except ValueError:
        raise AssentError(f"{quoted(path)}: not the name of a file") from None
    if len(data) > LARGEST:
        accepted = f"at most {LARGEST} bytes, or a table ({', '.join(TABLES)})"
        raise AssentError(f"{path}: too large for a file of rules; accepted: {accepted}")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        byte = f"byte 0x{data[error.start]:02x} at {error.start}"
        raise AssentError(f"{path}: not text ({byte}); accepted: text in UTF-8") from None


def _of_table(path: str, key: str, quantity: Quantity) -> list[_Entry]:
    table = _table(path, (key, quantity.name))
    return list(zip(table.ids(key), *_cells(table, quantity), strict=True))


def _of_text(text: str, origin: str, quantity: Quantity) -> list[_Entry]:
    entries: list[_Entry] = []
    for rule in text.split(","):
        name, equals, value = rule.rpartition("=")
        if not equals:
            accepted = f"NAME=VALUE, joined by commas, or a file ({', '.join(FILES)})"
            raise AssentError(f"{quantity.name} {quoted(rule)}: not a rule; accepted: {accepted}")
        entries.append((name, f"{origin}: {quoted(name.strip())}", value))
    return entries


def once_each(wishes: pl.DataFrame, origin: str, words: Mapping[float, str] | None = None) -> pl.DataFrame:
    """Each pair of `wishes` (user, item, unwillingness, perhaps more) once, as on its first row.

    Rows about a pair may repeat, not contradict, each other. `words` are what some values are written as.
    """
    pair, value = ["user", "item"], pl.col("unwillingness")
    rows = wishes.with_row_index("row", offset=1).select("row", *pair, "unwillingness")
    differing = rows.filter(value.n_unique().over(pair) > 1)
    if differing.height:
        row, user, item, first = differing.row(0)
        other, _, _, second = differing.filter(value != first, user=user, item=item).row(0)
        one, two = ((words or {}).get(each, repr(each)) for each in (first, second))
        say = f"rows {row} and {other} say {one} and {two}"
        about = f"about user {quoted(user)} and item {quoted(item)}"
        raise AssentError(f"{origin}: {say} {about}; accepted: one value for each pair")
    return wishes.unique(pair, keep="first", maintain_order=True)


def _table(text: str, needed: tuple[str, ...]) -> Table:
    """Read a table that has the columns `needed`."""
    table = read_table(Path(text), TABLES)
    for name in needed:
        if name not in table.names:
            *first, last = needed
            accepted = f"the columns {', '.join(first)} and {last}"
            raise AssentError(f"{text}: no column {name!r}; accepted: {accepted}")
    return table


def _cells(table: Table, quantity: Quantity) -> tuple[Iterator[str], pl.Series]:
    """Where each cell of a quantity stands, and what it holds."""
    rows = range(1, table.height + 1)
    return (f"{table.origin}: row {row}, column {quantity.name!r}" for row in rows), table.column(
        quantity.name
    )


def read_wishes(
    log: Interactions,
    problem: Problem,
    *,
    by_category: bool = False,
    user_budget: float | str | Path | None = None,
    user_floor: float | str | Path | None = None,
    prior: float | str | Path | None = None,
    utility: str = "linear",
    allow_unmatched: bool = False,
) -> Wishes:
    """Read the wishes of the users of `problem`, which was made from `log`.

    A budget, a floor or a prior is a number for everybody, rules such as ann=2,*=5, or a file of rules (yaml,
    json, or a table with the columns user and budget, floor or prior). People without a rule have no limit,
    no floor and the usual prior. A table of priors may also have a column item, for single interactions.
    `by_category` makes one decision for all of a person's interactions with a category. `utility` is linear,
    quadratic or power:P. A rule for somebody, or for an interaction, that is not in the log is an error, or a
    warning if `allow_unmatched`.
    """

    def by_user(given: float | str | Path, quantity: Quantity, otherwise: float) -> Floats:
        return _by_user(str(given), quantity, otherwise, log, problem, allow_unmatched=allow_unmatched)

    def by_interaction(given: float | str | Path) -> Floats:
        """The prior of each interaction: [Z]."""
        if _is_by_pair(str(given)):
            return _prior(str(given), log, problem, allow_unmatched=allow_unmatched)
        return by_user(given, PRIOR, USUAL_PRIOR)[problem.train.users]

    return Wishes(
        groups=categories(log, problem) if by_category else None,
        budget=None if user_budget is None else by_user(user_budget, BUDGET, np.inf),
        floor=None if user_floor is None else by_user(user_floor, FLOOR, 0).astype(np.int64),
        prior=None if prior is None else by_interaction(prior),
        power=_power(utility),
    )


def categories(log: Interactions, problem: Problem) -> Ints:
    """Number the groups of training interactions that share a user and a category: [Z].

    An item counts under the first of its categories; an item without any is a category of its own.
    """
    named = log.categories_of(pl.Series(problem.item_ids)).rank("dense").fill_null(0).to_numpy()
    named = named.astype(np.int64)
    alone = named == 0
    named[alone] = named.max(initial=0) + 1 + np.arange(alone.sum())
    pairs = problem.train.users * (int(named.max()) + 1) + named[problem.train.items]
    groups: Ints = np.unique(pairs, return_inverse=True)[1]
    return groups


def _by_user(
    text: str,
    quantity: Quantity,
    otherwise: float,
    log: Interactions,
    problem: Problem,
    *,
    allow_unmatched: bool,
) -> Floats:
    """The quantity of each user: [N]."""
    if _is_number(text):
        name = quantity.name if quantity is PRIOR else f"user_{quantity.name}"
        return np.full(problem.n_users, quantity.parse(text, name))
    # Not of the problem: a rule may be about somebody all of whose interactions are "never".
    users = log.pairs["user"].unique()
    values = read_rules(text, "user", quantity).apply(
        users, "user", log.name, allow_unmatched=allow_unmatched
    )
    of_users = pl.Series(problem.user_ids).replace_strict(users, values, return_dtype=pl.Float64)
    return of_users.fill_null(otherwise).to_numpy()


def _is_by_pair(text: str) -> bool:
    """Whether a text names a table with a column item."""
    return kind_of(text) in TABLES and "item" in read_table(Path(text), TABLES).names


def _prior(text: str, log: Interactions, problem: Problem, *, allow_unmatched: bool) -> Floats:
    """The prior of each interaction, from a table by user and item: [Z]."""
    table = _table(text, ("user", "item", PRIOR.name))
    given: dict[tuple[str, str], float] = {}
    pairs = zip(table.ids("user"), table.ids("item"), strict=True)
    for row, (pair, place, value) in enumerate(zip(pairs, *_cells(table, PRIOR), strict=True), 1):
        if pair in given:
            both = " and ".join(map(quoted, pair))
            raise AssentError(f"{text}: row {row}: {both} occur twice; accepted: once")
        if (pair[0] == EVERYTHING_ELSE) != (pair[1] == EVERYTHING_ELSE):
            raise AssentError(f"{text}: row {row}: accepted: * for both user and item, or for neither")
        given[pair] = PRIOR.parse(value, place)
    rest = given.pop((EVERYTHING_ELSE, EVERYTHING_ELSE), USUAL_PRIOR)
    if unknown := sorted(given.keys() - set(log.pairs.iter_rows())):
        about = f"{len(unknown)} rows not in {log.name}, first {' and '.join(map(quoted, unknown[0]))}"
        if not allow_unmatched:
            accepted = "interactions of the log, or allow_unmatched=True"
            raise AssentError(f"{text}: {about}; accepted: {accepted}")
        warnings.warn(f"{text}: ignored {about}", stacklevel=4)
    named = zip(
        problem.user_ids[problem.train.users].tolist(),
        problem.item_ids[problem.train.items].tolist(),
        strict=True,
    )
    return np.array([given.get(pair, rest) for pair in named], dtype=np.float64)


def _power(utility: str) -> float:
    kind, _, power = utility.partition(":")
    try:
        return UTILITIES[utility] if kind != "power" else parse_number(power)
    except (KeyError, ValueError):
        accepted = f"{', '.join(UTILITIES)} or power:P, for instance power:1.5"
        raise AssentError(f"utility={utility!r}: accepted: {accepted}") from None


def _is_number(text: str) -> bool:
    try:
        parse_number(text)
    except ValueError:
        return False
    return True
