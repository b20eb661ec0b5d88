"""A cell's key has every setting that its record depends on, and no other."""

from typing import Any

import pytest
from assent.reproduce.anchors import Approximated
from assent.reproduce.ours import ESTIMATES, Agreement, Scored
from assent.runs.store import digest
from assent.settings import Settings

from assent.reproduce import ITEMS
from assent.reproduce.cells import Certified, Measured, Task
from assent.reproduce.plan import OURS, Plan
from assent.reproduce.search import Searched

CHANGES: dict[str, Any] = {
    "model_settings": {"dimension": 4},
    "training": {"epochs": 3},
    "influence": {"damping": 0.25},
    "value": {"folds": 7},
    "anchors": 9,
    "anchor_rate": 0.5,
    "adaptive": 1,
    "rounds": 3,
    "strategy": "table",
    "table": {"samples": 7},
    "reward": "sum",
    "proactive": {"rounds": 3},
    "scratch": {"rounds": 3},
}
RIVALS = {"proactive", "scratch"}
GAME = {"adaptive", "rounds", "strategy", "table"}
VALUING = GAME | {"influence", "value", "anchors", "anchor_rate", "reward"}
TASKS: list[tuple[Task, set[str]]] = [
    (Measured(OURS, 1.0), RIVALS),
    (Measured(("ifrqe", "nash"), 1.0), RIVALS | {"anchors", "adaptive"}),
    (Measured(("threshold", ""), 1.0), RIVALS | VALUING),
    (Measured(("proactive", "nash"), 1.0), VALUING - {"reward"} | {"scratch"}),
    (Measured(("scratch", "nash"), 1.0), VALUING - {"reward"} | {"proactive"}),
    (Measured(OURS, 1.0, 0.5), RIVALS),
    (Certified(OURS, 1.0), RIVALS),
    (Searched(3), RIVALS),
    (Approximated(0), RIVALS | GAME | {"anchors"}),
    (Scored(3, 1), RIVALS | GAME | {"anchors"}),
    *((Agreement(name), RIVALS | GAME | {"anchors"}) for name in ESTIMATES),
]


@pytest.mark.parametrize(("task", "ignored"), TASKS, ids=[str(task) for task, _ in TASKS])
def test_a_changed_setting_is_another_cell_where_it_matters(task: Task, ignored: set[str]) -> None:
    plan = Plan()

    def name(settings: Settings) -> str:
        return digest(task.key("problem", settings, 0))

    before = name(plan.settings("mf", "diginetica"))
    changed = {
        field for field, value in CHANGES.items()
        if name(plan.settings("mf", "diginetica", **{field: value})) != before
    }  # fmt: skip
    assert set(CHANGES) | {"model"} == set(Settings.model_fields)
    assert changed == set(CHANGES) - ignored
    pooled = {"value": {"source": "combined"}}
    several = {name(plan.settings("mf", "diginetica", anchors=t, adaptive=t, **pooled)) for t in (1, 9)}
    assert len(several) == 1


def test_every_task_is_looked_at() -> None:
    plan = Plan(repeats=1)
    kinds = {type(cell.task) for item in ITEMS.values() for cell in item.cells(plan)}
    assert kinds <= {type(task) for task, _ in TASKS}
