"""Keys name all that a result depends on: what differs in one thing never shares an entry of a store."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from assent.data.problem import Problem
from assent.data.wishes import Wishes
from assent.evaluation.metrics import RewardForm
from assent.game.estimates import Objective
from assent.influence.inverse import InfluenceSettings
from assent.lab import Lab, Store, Training, everything
from assent.lab.anchors import InfluenceAt, random_anchors
from assent.lab.lab import Task
from assent.lab.store import digest
from assent.lab.tuning import Attempt, tuned
from assent.methods import make_method
from assent.methods.exploring import Explored
from assent.models import MFSettings
from assent.runs.measure import Cell
from assent.support.arrays import Bools
from assent.training import Settings, TrainingSettings, Tune
from assent.worth.estimate import Measuring, Source, WorthSettings, estimate
from tests.small import QUICK, entries, small_problem, some_of

PROBLEM = small_problem(20, 60)
HALF = some_of(PROBLEM, 0.5)
WORTH = WorthSettings(folds=2)


def anchor(lab: Lab) -> Training:
    return random_anchors(lab, 1, rate=0.9)[0]


TASKS: dict[str, Callable[[Lab], Task]] = {
    "training": lambda lab: Training(HALF),
    "anchor": anchor,
    "influence": lambda lab: InfluenceAt(anchor(lab), InfluenceSettings(), RewardForm.SUM),
    "effects": lambda lab: InfluenceAt(anchor(lab), InfluenceSettings(), RewardForm.SUM, effects=True),
    "attempt": lambda lab: Attempt(Training(HALF)),
    "explored": lambda lab: Explored(Training(HALF)),
    "measured": lambda lab: Measuring(0, WORTH),
    "record": lambda lab: Cell(make_method("threshold"), price=0.1),
}


def other_problems() -> Iterator[Problem]:
    """Problems that differ from `PROBLEM` in one thing each."""
    yield replace(PROBLEM, unwillingness=PROBLEM.unwillingness[::-1].copy())
    yield replace(PROBLEM, valid_candidates=PROBLEM.valid_candidates[:, ::-1].copy())
    yield replace(PROBLEM, wishes=Wishes(floor=np.ones(PROBLEM.n_users, dtype=np.int64)))
    yield replace(PROBLEM, seed=PROBLEM.seed + 1)
    yield replace(PROBLEM, item_ids=np.char.add(PROBLEM.item_ids, "x"))


def labs() -> Iterator[Lab]:
    """Labs that differ in one thing each, all with one store."""
    lab = Lab(PROBLEM, QUICK, store=Store("unused"))
    yield lab
    yield from (replace(lab, problem=each) for each in other_problems())
    yield replace(lab, seed=1)
    yield replace(lab, settings=QUICK.model_copy(update={"model_settings": MFSettings(dimension=5)}))
    yield replace(lab, settings=QUICK.model_copy(update={"training": TrainingSettings(epochs=2)}))
    yield replace(lab, settings=Settings(model="neumf", training=QUICK.training))


UNSEEN = {
    **dict.fromkeys(("training", "anchor", "attempt"), 4),
    **dict.fromkeys(("influence", "effects", "explored", "measured"), 2),
    "record": 0,
}
"""In how many other problems a task sees no difference: what people wish and, for a training, candidates."""


@pytest.mark.parametrize("kind", TASKS)
def test_labs_share_an_entry_only_where_a_task_sees_no_difference(kind: str) -> None:
    found = [digest(TASKS[kind](lab).key(lab)) for lab in labs()]
    assert len(set(found)) == len(found) - UNSEEN[kind]


def test_tasks_of_different_kinds_share_no_entry() -> None:
    lab = next(labs())
    keys = [make(lab).key(lab) for make in TASKS.values()]
    assert len(set(map(digest, keys))) == len(TASKS)


def changed(task: Any, **changes: Any) -> list[Any]:
    """The task, and those that differ from it in one thing each."""
    return [task, *(replace(task, **{name: value}) for name, value in changes.items())]


def variants(lab: Lab) -> dict[str, list[Any]]:
    """Tasks of a kind that differ in one thing each."""
    at, all_rows = InfluenceAt(anchor(lab), InfluenceSettings(), RewardForm.SUM), everything(PROBLEM)
    cell = Cell(make_method("worth"), price=0.1)
    methods = [
        make_method("worth", objective="nash"),
        make_method("worth", folds=4),
        make_method("worth", influence={"damping": 0.25}),
        make_method("ifrqe"),
        make_method("ifrqe++"),
    ]
    several = [WorthSettings(folds=3), WORTH.model_copy(update={"reward": RewardForm.MEAN})]
    several.append(WORTH.model_copy(update={"influence": InfluenceSettings(damping=0.25)}))
    training = Training(HALF)
    return {
        "training": changed(
            training,
            selection=~HALF,
            vocabulary=all_rows,
            seed=7,
            after="0" * 32,
            epochs=2,
            settings=QUICK.model_copy(update={"model_settings": MFSettings(dimension=5)}),
        ),
        "vocabulary": [Training(HALF, HALF), Training(HALF, all_rows)],
        "epochs": [replace(training, epochs=2), replace(training, epochs=3)],
        "after": [replace(training, after="0" * 32), replace(training, after="1" * 32)],
        "influence": [
            *changed(
                at,
                anchor=Training(HALF, all_rows),
                settings=InfluenceSettings(damping=0.25),
                reward=RewardForm.MEAN,
                effects=True,
            )
        ],
        "measured": [Measuring(0, WORTH), Measuring(1, WORTH), *(Measuring(0, each) for each in several)],
        "record": [
            *changed(cell, price=0.2, point=0.5, k=(5, 10)),
            *(replace(cell, method=method) for method in methods),
        ],
        "attempt": [Attempt(training), Attempt(replace(training, selection=~HALF))],
        "explored": [Explored(training), Explored(replace(training, selection=~HALF))],
    }


@pytest.mark.parametrize("kind", variants(next(labs())))
def test_tasks_that_differ_share_no_entry(kind: str) -> None:
    lab = next(labs())
    found = [digest(task.key(lab)) for task in variants(lab)[kind]]
    assert len(set(found)) == len(found)


def worths(lab: Lab) -> int:
    return len(entries(lab.store, "worth"))


def test_worth_is_kept_apart_by_problem_settings_objective_and_seed() -> None:
    """What `estimate` keeps, itself no task: each call here is another entry, and a repeated one none."""
    lab = Lab(PROBLEM, QUICK)
    settings = WorthSettings(source=Source.STRUCTURE)
    calls: list[tuple[Lab, WorthSettings, Objective]] = [
        (lab, settings, Objective.WELFARE),
        (lab, settings, Objective.NASH),
        (lab, settings.model_copy(update={"reward": RewardForm.MEAN}), Objective.WELFARE),
        (replace(lab, seed=1), settings, Objective.WELFARE),
        *((replace(lab, problem=each), settings, Objective.WELFARE) for each in other_problems()),
    ]
    for number, call in enumerate(calls):
        assert worths(lab) == number
        estimate(*call)
        estimate(*call)
    assert worths(lab) == len(calls)


@pytest.mark.parametrize("change", ["problem", "selection"])
def test_a_search_for_settings_is_kept_apart(change: str) -> None:
    quick = QUICK.model_copy(update={"tune": Tune.QUICK})
    lab, rows = Lab(PROBLEM, quick), everything(PROBLEM)
    once = tuned(lab, rows)
    known = set(entries(lab.store, "attempt"))
    assert len(known) == len(once.attempts)
    other: tuple[Lab, Bools] = (lab, some_of(PROBLEM, 0.9))
    if change == "problem":
        other = (replace(lab, problem=list(other_problems())[-1]), rows)
    again = tuned(*other)
    assert len(set(entries(lab.store, "attempt"))) == len(known) + len(again.attempts)
