"""Extreme unwillingness, prices and budgets: every method decides, without overflow and not-a-numbers."""

import warnings
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from assent.data.problem import Problem
from assent.data.wishes import PLAIN, Wishes
from assent.lab import Lab
from assent.methods import Method
from assent.results.records import DEAREST
from assent.support.arrays import Floats
from assent.support.errors import AssentError
from tests.methods.cases import EVERY, lab_of, over, quick
from tests.small import small_problem

PROBLEM = small_problem(6, 30, negatives=4)
ROWS = len(PROBLEM.train)
NEARLY_NEVER = float(np.nextafter(1, 0))
TABLES = [
    quick("ifrqe", strategy="table"),
    quick("ifrqe++", strategy="table", table={"samples": 10, "rounds": 2}),
]
SOME = np.random.default_rng(0).random(ROWS)


def one_of(value: float) -> Floats:
    """Usual unwillingness, but for one interaction."""
    return np.where(np.arange(ROWS) == 3, value, SOME)


UNWILLINGNESS = {
    "one of 1e-310": one_of(1e-310),
    "all 5e-324": np.full(ROWS, 5e-324),
    "all just below 1": np.full(ROWS, NEARLY_NEVER),
    "all 0": np.zeros(ROWS),
    "all equal": np.full(ROWS, 0.5),
    "everything": np.random.default_rng(1).choice(
        [0, 5e-324, 1e-310, 1e-300, 1e-12, 0.5, NEARLY_NEVER], ROWS
    ),
}
WISHES = {
    "none": PLAIN,
    "tiny budgets": Wishes(budget=np.full(PROBLEM.n_users, 1e-12)),
    "floors": Wishes(floor=np.full(PROBLEM.n_users, 2)),
    "a steep utility": Wishes(power=10.0),
}
CASES = [(each, "none") for each in UNWILLINGNESS] + [("everything", each) for each in list(WISHES)[1:]]
PRICES = (0.0, 1e-300, DEAREST)
BUDGETS = (0.0, 1e-12, 1.0)


@cache
def lab(unwillingness: str, wishes: str) -> Lab:
    problem = replace(PROBLEM, unwillingness=UNWILLINGNESS[unwillingness], wishes=WISHES[wishes])
    return lab_of(problem)


@pytest.fixture(autouse=True)
def no_warning() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        yield


def finite(*numbers: object) -> bool:
    """Whether all that are floats are finite."""
    return all(np.isfinite(each) for each in numbers if isinstance(each, float))


def is_refused(method: Method, problem: Problem, budget: float | None = None) -> bool:
    """Whether a method says in a line that it cannot decide: on wishes it does not know, or on floors."""
    try:
        method.check(problem, budget)
    except AssentError:
        return True
    return False


@pytest.mark.parametrize(("unwillingness", "wishes"), CASES)
@over([*EVERY, *TABLES])
def test_every_method_decides(method: Method, unwillingness: str, wishes: str) -> None:
    here = lab(unwillingness, wishes)
    problem, total = here.problem, float(here.problem.unwillingness.sum())
    for price in () if is_refused(method, problem) else PRICES:
        choice = method.at_price(here, price)
        assert finite(choice.price, *choice.certificate.values())
        assert choice.values is None or np.isfinite(choice.values).all()
    for budget in BUDGETS:
        if is_refused(method, problem, budget):
            assert wishes != "none"
            continue
        choice = method.within(here, budget)
        assert finite(choice.price, *choice.certificate.values())
        if method.name == "all":
            continue
        assert float(problem.unwillingness[choice.selection].sum()) <= budget * total * (1 + 1e-9)
        if method.name != "nothing" and wishes == "none" and budget == 1:
            assert choice.selection.all()


@over([method for method in EVERY if method.name in ("worth", "ifrqe", "occurrence")])
def test_what_costs_next_to_nothing_is_disclosed_first(method: Method) -> None:
    """Worth infinitely more than it costs: no price withholds it, if it is worth anything."""
    here = lab("one of 1e-310", "none")
    tiny = here.problem.unwillingness == 1e-310
    choice = method.at_price(here, DEAREST)
    if choice.values is None or (choice.values[tiny] > 0).all():
        assert choice.selection[tiny].all()
        assert method.within(here, 1e-12).selection[tiny].all()


def test_a_price_beyond_the_highest_is_refused() -> None:
    with pytest.raises(AssentError, match=r"^price 1e\+300: accepted: a number from 0 to 1e\+100$"):
        quick("worth").at_price(lab("all equal", "none"), 1e300)
