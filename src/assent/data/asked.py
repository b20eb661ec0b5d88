"""Wishes from texts and files: what the command line takes for budgets, floors, priors and utilities."""

import warnings
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from assent.arrays import Floats, Ints
from assent.data import cells
from assent.data.interactions import Interactions
from assent.data.problem import Problem
from assent.data.rules import EVERYTHING_ELSE, TABLES, Quantity, read_rules
from assent.data.tables import read_table
from assent.data.wishes import USUAL_PRIOR, Wishes
from assent.errors import AssentError

BUDGET: Final = Quantity("budget", np.inf, "a number from 0 on, the most unwillingness to disclose")
FLOOR: Final = Quantity("floor", 2.0**31, "a whole number from 0 on, of interactions", is_whole=True)
PRIOR: Final = Quantity("prior", 1, "a probability from 0 to 1")
UTILITIES: Final = {"linear": 1.0, "quadratic": 2.0}


def read_wishes(
    log: Interactions,
    problem: Problem,
    *,
    by_category: bool = False,
    user_budget: str | None = None,
    user_floor: str | None = None,
    prior: str | None = None,
    utility: str = "linear",
) -> Wishes:
    """The wishes of a problem's users, made from `log`.

    A budget, a floor or a prior is a number for everybody, rules such as ann=2,*=5, or a file of rules (yaml,
    json, or a table with the columns user and budget, floor or prior). People that no rule names have no
    limit, no floor, and the usual prior. A table for the prior may have a column item too: then it is of
    single interactions. `utility` is linear, quadratic or power:P.
    """
    return Wishes(
        groups=categories(log, problem) if by_category else None,
        budget=None if user_budget is None else _by_user(user_budget, BUDGET, np.inf, problem),
        floor=None if user_floor is None else _by_user(user_floor, FLOOR, 0, problem).astype(np.int64),
        prior=None if prior is None else _prior(prior, log, problem),
        power=_power(utility),
    )


def categories(log: Interactions, problem: Problem) -> Ints:
    """A number per training interaction that those of a user with items of one category share: [Z].

    An item counts under the first of its categories; one without any is a category of its own.
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
        return np.full(problem.n_users, quantity.parse(text, f"--user-{quantity.name}"))
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
            return np.full(len(users), PRIOR.parse(text, "--prior"))
        return _by_user(text, PRIOR, USUAL_PRIOR, problem)[users]
    table = read_table(Path(text), TABLES)
    if "item" not in table.frame.columns:
        return _by_user(text, PRIOR, USUAL_PRIOR, problem)[users]
    for name in ("user", PRIOR.name):
        if name not in table.frame.columns:
            raise AssentError(f"{text}: no column {name!r}; accepted: the columns user, item and prior")
    pairs = zip(cells.ids(table, "user"), cells.ids(table, "item"), strict=True)
    given: dict[tuple[str, str], float] = {}
    for row, (pair, value) in enumerate(zip(pairs, table.frame[PRIOR.name], strict=True), 1):
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
        raise AssentError(f"--utility {utility}: accepted: {accepted}") from None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
