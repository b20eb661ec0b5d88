"""A cell's key has every setting that its record depends on, and no other."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from assent.data.problem import Problem
from assent.lab import Lab, Store
from assent.lab.lab import Task
from assent.lab.store import digest
from assent.reproduce import ITEMS, Plan
from assent.reproduce.item import Cell
from assent.reproduce.measurements import ESTIMATES
from assent.reproduce.recbole import WrittenOut
from tests.small import small_problem

CHANGES: dict[str, Any] = {
    "model_settings": {"dimension": 4},
    "training": {"epochs": 3},
    "influence": {"damping": 0.25},
    "folds": 7,
    "source": "structure",
    "anchors": 9,
    "anchor_rate": 0.5,
    "adaptive": 1,
    "rounds": 3,
    "strategy": "table",
    "table": {"samples": 7},
    "reward": "sum",
    "proactive": {"rounds": 7},
    "scratch": {"rounds": 7},
    "random": {"rate": 0.3},
}
MODEL = {"model_settings", "training"}
GAME = MODEL | {"influence", "reward"}
PAPER = GAME | {"anchor_rate", "rounds", "strategy", "table"}
WORTH = GAME | {"folds", "source"}


def cell(item: str, **labels: object) -> Callable[[Plan], Cell]:
    """The first cell of an item that has these labels, for a plan."""
    return lambda plan: next(
        each for each in ITEMS[item].cells(plan) if labels.items() <= {**each.labels}.items()
    )


def certificate(plan: Plan) -> Cell:
    return next(each for each in ITEMS["price-of-anarchy"].cells(plan) if "method_name" not in each.labels)


def written_out(plan: Plan) -> Cell:
    cells = ITEMS["differences"].cells(replace(plan, models=("cdae",)))
    return next(each for each in cells if isinstance(each.task, WrittenOut))


DEPENDS: dict[str, tuple[Callable[[Plan], Cell], set[str]]] = {
    "ifrqe++": (cell("overall", method_name="IFRQE++ (nash)"), PAPER | {"anchors", "adaptive"}),
    "ifrqe": (cell("overall", method_name="IFRQE (nash)"), PAPER),
    "threshold": (cell("overall", method_name="Threshold"), MODEL),
    "random": (cell("overall", method_name="Random"), MODEL | {"random"}),
    "proactive": (cell("overall", method_name="Proactive (nash)"), MODEL | {"reward", "proactive"}),
    "scratch": (cell("scratch", method_name="SCR (nash)"), MODEL | {"reward", "scratch"}),
    "worth within a budget": (cell("frontier", method_name="Worth (nash)"), WORTH),
    "certificate": (certificate, PAPER | {"anchors", "adaptive"}),
    "search": (cell("search"), PAPER | {"anchors", "adaptive"}),
    "approximation": (cell("approximation"), PAPER),
    "lds": (cell("lds"), WORTH),
    "RecBole's CDAE": (written_out, MODEL),
    **{name: (cell("reliability", estimate=name), PAPER | WORTH) for name in ESTIMATES},
}
PLAN = Plan(repeats=1, models=("mf",), datasets=("diginetica",))


@pytest.fixture(scope="module")
def problem() -> Problem:
    return small_problem()


@pytest.mark.parametrize("name", DEPENDS)
def test_a_changed_setting_is_another_cell_where_it_matters(name: str, problem: Problem) -> None:
    first, depends = DEPENDS[name]

    def key(plan: Plan) -> str:
        found = first(plan)
        return digest(found.key(Lab(problem, found.settings, found.seed, Store.temporary())))

    changed = {
        setting for setting, value in CHANGES.items()
        if key(replace(PLAN, overrides={setting: value})) != key(PLAN)
    }  # fmt: skip
    assert changed == depends


def test_every_task_is_looked_at() -> None:
    plan = Plan(repeats=1)
    kinds: set[type[Task]] = {type(cell.task) for item in ITEMS.values() for cell in item.cells(plan)}
    assert kinds == {type(first(PLAN).task) for first, _ in DEPENDS.values()}
