"""Rules: one value per category or user, from a small file or a text; people's wishes made of them.

A rule gives an unwillingness, a budget, a floor or a prior.
"""

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
import yaml

from assent.data.columns import TABLES, Table, read_table
from assent.data.interactions import Interactions
from assent.data.problem import Problem
from assent.data.wishes import USUAL_PRIOR, Wishes
from assent.support.arrays import Floats, Ints
from assent.support.errors import AssentError
from assent.support.files import read_json

EVERYTHING_ELSE: Final = "*"
"""The key for everything that no other rule names."""
FILES: Final = (".yaml", ".yml", ".json", *TABLES)
"""Suffixes of files that may hold rules."""
UTILITIES: Final = {"linear": 1.0, "quadratic": 2.0}


@dataclass(frozen=True)
class Quantity:
    """What a rule gives: its name, its largest value (the smallest is 0), and what is accepted, in words."""

    name: str
    largest: float
    accepted: str
    is_whole: bool = False

    def parse(self, value: object, place: str) -> float:
        """Parse a number or a text; an `AssentError` begins with `place`."""
        try:
            number = np.nan if isinstance(value, bool) else float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            number = np.nan
        if not 0 <= number <= self.largest or (self.is_whole and number % 1):
            raise AssentError(f"{place} is {value!r}; accepted: {self.accepted}")
        return number


UNWILLINGNESS: Final = Quantity("unwillingness", 1, "a number from 0 (use freely) to 1 (never)")
BUDGET: Final = Quantity("budget", np.inf, "a number from 0 on, the largest sum of unwillingness disclosed")
FLOOR: Final = Quantity("floor", 2.0**31, "a whole number of interactions, from 0 on", is_whole=True)
PRIOR: Final = Quantity("prior", 1, "a probability from 0 to 1")


@dataclass(frozen=True)
class Rules:
    """Values by key (a category or a user), and the value of all other keys, or None.

    `origin` is the file or text of the rules; messages begin with it.
    """

    origin: str
    values: Mapping[str, float]
    otherwise: float | None

    def apply(self, keys: pl.Series, kind: str, where: str, *, allow_unmatched: bool = False) -> pl.Series:
        """The value of each key, null if there is none.

        A rule for a `kind` of key that does not occur is an error, or a warning if `allow_unmatched`.
        """
        if unused := sorted(self.values.keys() - set(keys)):
            about = f"{len(unused)} rules whose {kind} is not in {where}, first {unused[0]!r}"
            if not allow_unmatched:
                accepted = f"rules for a {kind} that occurs, or allow_unmatched=True"
                raise AssentError(f"{self.origin}: {about}; accepted: {accepted}")
            warnings.warn(f"{self.origin}: ignored {about}", stacklevel=4)
        return keys.replace_strict(self.values, default=self.otherwise, return_dtype=pl.Float64)


def read_rules(text: str, key: str, quantity: Quantity = UNWILLINGNESS) -> Rules:
    """Read rules by `key` ("category" or "user") from a file or a text.

    A yaml or json file holds a mapping. A csv, tsv or parquet file has two columns, called like the key and
    the quantity. Any other text is the rules themselves, such as Action=0.9,*=0.2; * is for everything else.
    """
    path = Path(text)
    match path.suffix.lower():
        case ".yaml" | ".yml":
            entries = _mapped(_read_yaml(path), text, quantity)
        case ".json":
            entries = _mapped(read_json(path), text, quantity)
        case suffix if suffix in TABLES:
            table = _table(text, (key, quantity.name))
            entries = zip(table.ids(key), _values(table, quantity), strict=True)
        case _:
            entries = _written(text, quantity)
    values: dict[str, float] = {}
    for name, value in entries:
        if name in values:
            raise AssentError(f"{text}: {key} {name!r} occurs twice; accepted: once")
        values[name] = value
    otherwise = values.pop(EVERYTHING_ELSE, None)
    return Rules(text, values, otherwise)


def _mapped(content: object, origin: str, quantity: Quantity) -> Iterator[tuple[str, float]]:
    if not isinstance(content, dict):
        raise AssentError(f"{origin}: not a mapping; accepted: names, each with its {quantity.name}")
    for name, value in content.items():
        # YAML reads yes, null and 1.50 as values that are written differently.
        if isinstance(name, bool) or not isinstance(name, str | int):
            accepted = "text in quotes, or a whole number"
            raise AssentError(f"{origin}: {name!r} is not a name; accepted: {accepted}")
        yield str(name), quantity.parse(value, f"{origin}: {name!r}")


def _table(text: str, needed: tuple[str, ...]) -> Table:
    """Read a table that has the columns `needed`."""
    table = read_table(Path(text), TABLES)
    for name in needed:
        if name not in table.names:
            *first, last = needed
            accepted = f"the columns {', '.join(first)} and {last}"
            raise AssentError(f"{text}: no column {name!r}; accepted: {accepted}")
    return table


def _values(table: Table, quantity: Quantity) -> Iterator[float]:
    for row, value in enumerate(table.column(quantity.name), 1):
        yield quantity.parse(value, f"{table.origin}: row {row}, column {quantity.name!r}")


def _written(text: str, quantity: Quantity) -> Iterator[tuple[str, float]]:
    for rule in text.split(","):
        name, equals, value = rule.rpartition("=")
        if not equals:
            accepted = f"NAME=VALUE, joined by commas, or a file ({', '.join(FILES)})"
            raise AssentError(f"{quantity.name} {rule!r}: not a rule; accepted: {accepted}")
        yield name.strip(), quantity.parse(value, f"{text}: {name.strip()!r}")


def _read_yaml(path: Path) -> Any:
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise AssentError(f"{path}: cannot be read ({error.strerror})") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise AssentError(f"{path}: not valid YAML ({' '.join(str(error).split())})") from None


def read_wishes(
    log: Interactions,
    problem: Problem,
    *,
    by_category: bool = False,
    user_budget: float | str | Path | None = None,
    user_floor: float | str | Path | None = None,
    prior: float | str | Path | None = None,
    utility: str = "linear",
) -> Wishes:
    """Read the wishes of the users of `problem`, which was made from `log`.

    A budget, a floor or a prior is a number for everybody, rules such as ann=2,*=5, or a file of rules (yaml,
    json, or a table with the columns user and budget, floor or prior). People without a rule have no limit,
    no floor and the usual prior. A table of priors may also have a column item, for single interactions.
    `by_category` makes one decision for all of a person's interactions with a category. `utility` is linear,
    quadratic or power:P.
    """
    return Wishes(
        groups=categories(log, problem) if by_category else None,
        budget=None if user_budget is None else _by_user(str(user_budget), BUDGET, np.inf, problem),
        floor=None if user_floor is None else _by_user(str(user_floor), FLOOR, 0, problem).astype(np.int64),
        prior=None if prior is None else _prior(str(prior), log, problem),
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


def _by_user(text: str, quantity: Quantity, otherwise: float, problem: Problem) -> Floats:
    """The quantity of each user: [N]."""
    if _is_number(text):
        name = quantity.name if quantity is PRIOR else f"user_{quantity.name}"
        return np.full(problem.n_users, quantity.parse(text, name))
    rules = read_rules(text, "user", quantity)
    return rules.apply(pl.Series(problem.user_ids), "user", problem.name).fill_null(otherwise).to_numpy()


def _prior(text: str, log: Interactions, problem: Problem) -> Floats:
    """The prior of each interaction: [Z]."""
    users, items = problem.train.users, problem.train.items
    is_table = Path(text).suffix.lower() in TABLES
    if not is_table or "item" not in read_table(Path(text), TABLES).names:
        return _by_user(text, PRIOR, USUAL_PRIOR, problem)[users]
    table = _table(text, ("user", "item", PRIOR.name))
    given: dict[tuple[str, str], float] = {}
    pairs = zip(table.ids("user"), table.ids("item"), strict=True)
    for row, (pair, value) in enumerate(zip(pairs, _values(table, PRIOR), strict=True), 1):
        if pair in given:
            raise AssentError(f"{text}: row {row}: {' and '.join(pair)} occur twice; accepted: once")
        if (pair[0] == EVERYTHING_ELSE) != (pair[1] == EVERYTHING_ELSE):
            raise AssentError(f"{text}: row {row}: accepted: * for both user and item, or for neither")
        given[pair] = value
    rest = given.pop((EVERYTHING_ELSE, EVERYTHING_ELSE), USUAL_PRIOR)
    if unknown := sorted(given.keys() - set(log.table.select("user", "item").iter_rows())):
        first = " and ".join(map(repr, unknown[0]))
        warnings.warn(f"{text}: ignored {len(unknown)} rows not in {log.name}, first {first}", stacklevel=3)
    named = zip(problem.user_ids[users].tolist(), problem.item_ids[items].tolist(), strict=True)
    return np.array([given.get(pair, rest) for pair in named], dtype=np.float64)


def _power(utility: str) -> float:
    kind, _, power = utility.partition(":")
    try:
        return UTILITIES[utility] if kind != "power" else float(power)
    except (KeyError, ValueError):
        accepted = f"{', '.join(UTILITIES)} or power:P, for instance power:1.5"
        raise AssentError(f"utility={utility!r}: accepted: {accepted}") from None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
