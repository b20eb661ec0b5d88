"""Methods within budgets."""

import multiprocessing
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assent.data.problem import Problem
from assent.data.wishes import Wishes
from assent.lab import SERIAL, Executor, Processes, Store
from assent.results.records import FIGURES, Record
from assent.runs.compare import frontier, parse_methods
from assent.support.errors import AssentError
from assent.training import Settings, TrainingSettings
from tests.small import QUICK, entries, small_problem, timeless, trained_in

Records = list[dict[str, Any]]
OF = {"ifrqe++": {"anchors": 2, "rounds": 10}, "ifrqe": {"rounds": 10}}


@pytest.fixture(scope="module")
def problem() -> Problem:
    return small_problem(60, 80, negatives=19)


def measure(
    problem: Problem,
    methods: str = "threshold,random,ifrqe:welfare",
    *,
    settings: Settings = QUICK,
    of: dict[str, dict[str, Any]] = OF,
    points: Sequence[float] = (0.5,),
    seeds: Sequence[int] = (0,),
    price: float = 0.1,
    store: Store | None = None,
    executor: Executor = SERIAL,
) -> Records:
    return frontier(
        problem,
        settings,
        methods=parse_methods(methods, settings=of),
        points=points,
        seeds=seeds,
        price=price,
        store=store,
        executor=executor,
    )


@pytest.fixture(scope="module")
def records(problem: Problem) -> Records:
    return measure(problem, "threshold,random,ifrqe", points=(0.5, 0.25), seeds=(0, 1))


def test_there_is_a_record_of_every_method_point_and_seed(records: Records) -> None:
    places = [(each["method"], each["objective"], each["point"], each["seed"]) for each in records]
    expected = [
        (method, objective, point, seed)
        for seed in (0, 1)
        for method, objective, points in [
            ("threshold", "", (0.5, 0.25)),
            ("random", "", (0.5, 0.25)),
            ("ifrqe", "nash", (0.5, 0.25)),
            ("ifrqe", "welfare", (0.5, 0.25)),
            ("all", "", (1.0,)),
            ("nothing", "", (0.0,)),
        ]
        for point in points
    ]
    assert places == expected


def test_a_record_is_flat_and_says_what_was_measured(records: Records, problem: Problem) -> None:
    keys = {field.name for field in fields(Record)} - {"further"}
    for each in records:
        assert set(each) == keys
        assert set(FIGURES) < keys
        assert each["dataset"] == problem.name == "simulated-learnable"
        assert each["model"] == "mf"
        assert each["price"] == 0.1
        assert all(isinstance(each[key], float) for key in FIGURES if key != "trainings")
        assert each["trainings"] == (2 if each["method"] == "ifrqe" else 1)
        assert all(0 <= each[key] <= 1 for key in ("precision", "recall", "f1", "ndcg", "mrr", "hit"))
        assert each["seconds"] > 0
        assert (each["decision_price"] is None) == (each["method"] != "ifrqe")
        assert each["violation"] == pytest.approx(each["violation_share"] * problem.violation())
        # 20 samples of the one validation row of each user; the price is paid once either way.
        paid = 0.1 * each["violation"]
        assert each["reward_sum"] + paid == pytest.approx(20 * (each["reward_mean"] + paid))


def test_all_and_nothing_stand_at_the_ends_and_budgets_between(records: Records, problem: Problem) -> None:
    # A budget keeps back what one person leaves of it, and less than an interaction.
    minded = np.bincount(problem.train.users, problem.unwillingness)
    kept_back = float((minded.max() + problem.unwillingness.max()) / minded.sum())
    for each in records:
        if each["method"] in ("all", "nothing"):
            assert each["violation_share"] == each["point"]
        else:
            assert each["point"] - kept_back < each["violation_share"] <= each["point"] + 1e-9


def test_seeds_are_different_records_of_the_same_split(records: Records) -> None:
    first, second = ([each for each in records if each["seed"] == seed] for seed in (0, 1))
    for one, other in zip(first, second, strict=True):
        by_lot = one["method"] in ("random", "ifrqe")
        assert (one["violation"] != other["violation"]) == by_lot
        if one["method"] != "nothing":
            assert one["reward_sum"] != other["reward_sum"]


def test_a_record_does_not_depend_on_what_else_is_measured(records: Records, problem: Problem) -> None:
    alone = timeless(measure(problem, "ifrqe:welfare", points=(0.25,), seeds=(1,)))
    assert all(each in timeless(records) for each in alone)
    assert [each["method"] for each in alone] == ["ifrqe", "all", "nothing"]


def test_seeds_run_beside_each_other(records: Records, problem: Problem) -> None:
    with Processes(2) as processes:
        found = measure(
            problem, "threshold,random,ifrqe", points=(0.5, 0.25), seeds=(0, 1), executor=processes
        )
    assert timeless(found) == timeless(records)


def test_the_methods_of_a_seed_share_its_anchors(problem: Problem, tmp_path: Path) -> None:
    store = Store(tmp_path)
    measure(problem, "ifrqe,ifrqe++", points=(0.5, 0.25), seeds=(4,), store=store)
    trainings = entries(store, "training").values()
    anchors = [each for each in trainings if not each["key"]["judged"]]
    assert len(anchors) == 2
    finals = len(trainings) - len(anchors)
    assert 4 + 2 <= finals <= 4 * 2 + 2  # a selection that is chosen twice is trained on once


def test_finished_records_are_not_computed_again(problem: Problem, tmp_path: Path) -> None:
    store = Store(tmp_path / "folder" / "cells")
    first = measure(problem, store=store)
    files = {file: file.stat().st_mtime_ns for file in store.folder.iterdir()}
    assert measure(problem, store=store) == first
    assert measure(problem, "random", store=store) == first[1:2] + first[3:]
    assert {file: file.stat().st_mtime_ns for file in store.folder.iterdir()} == files
    before = trained_in(store)
    measure(problem, "random", points=(0.4,), store=store)
    assert trained_in(store) == before + 1


def _measure(problem: Problem, folder: Path) -> None:
    measure(problem, points=(0.5, 0.3, 0.2, 0.1), store=Store(folder))


def test_a_killed_frontier_goes_on_where_it_was(problem: Problem, tmp_path: Path) -> None:
    """By kill -9, at random moments, until it has got to its end."""
    context, lots = multiprocessing.get_context("fork"), np.random.default_rng(0)
    store, done = Store(tmp_path), [0]
    for _ in range(4):
        killed = context.Process(target=_measure, args=(problem, tmp_path))
        killed.start()
        killed.join(float(lots.uniform(0.05, 0.4)))
        killed.kill()
        killed.join()
        done.append(len(entries(store)))
        assert done[-1] >= done[-2]
    found = measure(problem, points=(0.5, 0.3, 0.2, 0.1), store=store)
    assert timeless(found) == timeless(measure(problem, points=(0.5, 0.3, 0.2, 0.1)))


def test_only_what_a_setting_touches_is_computed_again(problem: Problem, tmp_path: Path) -> None:
    store, methods = Store(tmp_path), "threshold,ifrqe:nash,ifrqe++:nash"
    first = measure(problem, methods, store=store)
    known = trained_in(store)
    three = {**OF, "ifrqe++": {"anchors": 3, "rounds": 10}}
    again = measure(problem, methods, of=three, store=store)
    assert again[:2] + again[3:] == first[:2] + first[3:]
    assert trained_in(store) == known + 2  # the third anchor, and the model of what is chosen then
    assert measure(problem, methods, store=store) == first
    known = trained_in(store)
    measure(problem, "threshold", price=0.2, store=store)
    assert trained_in(store) == known  # the price of rewards is no part of a training
    measure(small_problem(60, 80, seed=4, negatives=19), "threshold", store=store)
    longer = QUICK.model_copy(update={"training": TrainingSettings(epochs=6)})
    measure(problem, "threshold", settings=longer, store=store)
    assert trained_in(store) == known + 3 + 3


def test_a_damaged_record_is_computed_again(problem: Problem, tmp_path: Path) -> None:
    store = Store(tmp_path)
    first = measure(problem, "threshold", store=store)
    for file in tmp_path.glob("*.json"):
        file.write_text("{")
    assert timeless(measure(problem, "threshold", store=store)) == timeless(first)


def test_a_price_at_which_nothing_can_be_decided_is_refused(problem: Problem, tmp_path: Path) -> None:
    with pytest.raises(AssentError, match="price inf: accepted"):
        measure(problem, "random", price=float("inf"), store=Store(tmp_path / "cells"))
    assert not list(tmp_path.iterdir())


def test_floors_that_no_budget_has_room_for_are_refused(problem: Problem, tmp_path: Path) -> None:
    asking = replace(problem, wishes=Wishes(floor=np.full(problem.n_users, 3)))
    with pytest.raises(AssentError, match="budget"):
        measure(asking, "threshold", points=(0.9, 0.001), store=Store(tmp_path / "cells"))
    assert not list(tmp_path.iterdir())
