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

from assent.data.columns import TABLES, read_table
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


@dataclass(frozen=True)
class Rules:
    """Values by key (a category or a user), and the value of all other keys, or None.

    `origin` is the file or text of the rules; messages begin with it.
    """

    origin: str
    values: Mapping[str, float]
    otherwise: float | None


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
            entries = _tabled(path, key, quantity)
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
            raise AssentError(
                f"{origin}: {name!r} is not a name; accepted: text in quotes, or a whole number"
            )
        yield str(name), quantity.parse(value, f"{origin}: {name!r}")


def _tabled(path: Path, key: str, quantity: Quantity) -> Iterator[tuple[str, float]]:
    table = read_table(path, TABLES)
    for name in (key, quantity.name):
        if name not in table.names:
            raise AssentError(f"{path}: no column {name!r}; accepted: the columns {key} and {quantity.name}")
    values = enumerate(table.column(quantity.name), 1)
    for name, (row, value) in zip(table.ids(key), values, strict=True):
        yield name, quantity.parse(value, f"{path}: row {row}, column {quantity.name!r}")


def _written(text: str, quantity: Quantity) -> Iterator[tuple[str, float]]:
    for rule in text.split(","):
        name, equals, value = rule.rpartition("=")
        if not equals:
            files = ", ".join(FILES)
            raise AssentError(
                f"{quantity.name} {rule!r}: not a rule; accepted: NAME=VALUE, joined by commas, "
                f"or a file ({files})"
            )
        yield name.strip(), quantity.parse(value, f"{text}: {name.strip()!r}")


def _read_yaml(path: Path) -> Any:
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise AssentError(f"{path}: cannot be read ({error.strerror})") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise AssentError(f"{path}: not valid YAML ({' '.join(str(error).split())})") from None


BUDGET: Final = Quantity("budget", np.inf, "a number from 0 on, the largest sum of unwillingness disclosed")
FLOOR: Final = Quantity("floor", 2.0**31, "a whole number of interactions, from 0 on", is_whole=True)
PRIOR: Final = Quantity("prior", 1, "a probability from 0 to 1")
UTILITIES: Final = {"linear": 1.0, "quadratic": 2.0}


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
    first = log.items.select("item", first=pl.col("category").list.first())
    items = pl.DataFrame({"item": problem.item_ids}).join(first, on="item", how="left", maintain_order="left")
    if items["first"].null_count() == items.height:
        raise AssentError(f"{log.name}: no item has a category; accepted: a log whose items do")
    named = items["first"].rank("dense").fill_null(0).to_numpy().astype(np.int64)
    alone = named == 0
    named[alone] = named.max(initial=0) + 1 + np.arange(alone.sum())
    pairs = problem.train.users * (int(named.max()) + 1) + named[problem.train.items]
    groups: Ints = np.unique(pairs, return_inverse=True)[1]
    return groups


def _by_user(text: str, quantity: Quantity, otherwise: float, problem: Problem) -> Floats:
    """The quantity of each user: [N]."""
    if _is_number(text):
        return np.full(problem.n_users, quantity.parse(text, f"user_{quantity.name}"))
    rules = read_rules(text, "user", quantity)
    unknown = sorted(rules.values.keys() - set(problem.user_ids.tolist()))
    if unknown:
        warnings.warn(
            f"{rules.origin}: ignored {len(unknown)} users not in {problem.name}, first {unknown[0]!r}",
            stacklevel=3,
        )
    rest = otherwise if rules.otherwise is None else rules.otherwise
    return np.array([rules.values.get(user, rest) for user in problem.user_ids.tolist()], dtype=np.float64)


def _prior(text: str, log: Interactions, problem: Problem) -> Floats:
    """The prior of each interaction: [Z]."""
    users, items = problem.train.users, problem.train.items
    if Path(text).suffix.lower() not in TABLES:
        if _is_number(text):
            return np.full(len(users), PRIOR.parse(text, "prior"))
        return _by_user(text, PRIOR, USUAL_PRIOR, problem)[users]
    table = read_table(Path(text), TABLES)
    if "item" not in table.names:
        return _by_user(text, PRIOR, USUAL_PRIOR, problem)[users]
    for name in ("user", PRIOR.name):
        if name not in table.names:
            raise AssentError(f"{text}: no column {name!r}; accepted: the columns user, item and prior")
    pairs = zip(table.ids("user"), table.ids("item"), strict=True)
    given: dict[tuple[str, str], float] = {}
    for row, (pair, value) in enumerate(zip(pairs, table.column(PRIOR.name), strict=True), 1):
        if pair in given:
            raise AssentError(f"{text}: row {row}: {' and '.join(pair)} occur twice; accepted: once")
        if (pair[0] == EVERYTHING_ELSE) != (pair[1] == EVERYTHING_ELSE):
            raise AssentError(f"{text}: row {row}: accepted: * for both user and item, or for neither")
        given[pair] = PRIOR.parse(value, f"{text}: row {row}, column 'prior'")
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
