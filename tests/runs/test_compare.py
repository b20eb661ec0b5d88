"""Methods against each other at prices: true figures, computed once, whoever computes them."""

import multiprocessing
import os
import re
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from assent.data.problem import Problem
from assent.data.wishes import Wishes
from assent.evaluation.evaluate import evaluate
from assent.evaluation.metrics import RewardForm
from assent.lab import SERIAL, Executor, Lab, Processes, Store, Training
from assent.methods import Choice, Method, make_method
from assent.methods.heuristics import Threshold
from assent.models import MFSettings
from assent.runs.compare import compare, parse_methods
from assent.runs.measure import Cell
from assent.support.errors import AssentError
from assent.training import Settings, TrainingSettings, Tune
from tests.small import QUICK, Listener, entries, small_problem, timeless, trained_in

Records = list[dict[str, Any]]
PRICES = (0.0, 0.5)
OF: dict[str, dict[str, Any]] = {
    "ifrqe++": {"anchors": 2, "influence": {"loss": "bce"}},
    "worth": {"folds": 2},
}


@pytest.fixture(scope="module")
def problem() -> Problem:
    return small_problem()


def measure(
    problem: Problem,
    methods: str | Sequence[Method] = "threshold,ifrqe++:nash",
    *,
    models: Sequence[Settings] = (QUICK,),
    seeds: Sequence[int] = (0, 1),
    prices: Sequence[float] = PRICES,
    k: Sequence[int] = (5,),
    executor: Executor = SERIAL,
    folder: Path | None = None,
) -> Records:
    chosen = parse_methods(methods, settings=OF) if isinstance(methods, str) else methods
    sets = [(each, chosen) for each in models]
    store = Store(folder) if folder else None
    return compare(problem, sets, prices=prices, seeds=seeds, k=k, store=store, executor=executor)


@pytest.fixture(scope="module")
def records(problem: Problem) -> Records:
    return measure(problem)


def test_there_is_a_record_of_every_method_price_and_seed(records: Records) -> None:
    places = [(each["seed"], each["method"], each["objective"], each["price"]) for each in records]
    ways = [("threshold", ""), ("ifrqe++", "nash"), ("all", ""), ("nothing", "")]
    assert places == [(seed, *way, price) for seed in (0, 1) for way in ways for price in PRICES]


def test_records_are_true_figures_after_retraining(records: Records, problem: Problem) -> None:
    for seed in (0, 1):
        lab = Lab(problem, QUICK, seed)
        for method in parse_methods("threshold,ifrqe++:nash", settings=OF):
            for price in PRICES:
                choice = method.at_price(lab, price)
                [trained] = lab.train([Training(choice.selection)])
                figures = evaluate(problem, trained, choice.selection, price=price)
                (found,) = (
                    each
                    for each in records
                    if (each["seed"], each["method"], each["price"]) == (seed, method.name, price)
                )
                assert {key: found[key] for key in figures} == pytest.approx(figures)
                assert found["trainings"] == (3 if method.name == "ifrqe++" else 1)


def test_anchors_are_trained_once_per_seed_and_equal_selections_share_a_model(
    problem: Problem, tmp_path: Path
) -> None:
    found = measure(problem, "threshold,ifrqe++", seeds=(0,), folder=tmp_path)
    anchors = [each for each in entries(Store(tmp_path), "training").values() if not each["key"]["judged"]]
    assert len(anchors) == 2
    finals = {(each["method"], each["violation"]) for each in found}
    assert len(entries(Store(tmp_path), "training")) - 2 <= len(finals)
    seconds = [each["seconds"] for each in found if each["method"] == "all"]
    assert seconds[0] == seconds[1]  # who found a model done is charged for it


def test_processes_beside_each_other_find_the_same(records: Records, problem: Problem) -> None:
    with Processes(2) as processes:
        assert timeless(measure(problem, executor=processes)) == timeless(records)


def test_an_error_in_a_process_is_one_here(problem: Problem) -> None:
    diverging = QUICK.model_copy(update={"training": TrainingSettings(epochs=3, learning_rate=1e30)})
    with Processes(2) as processes, pytest.raises(AssentError, match=r"training\.learning_rate"):
        measure(problem, models=[diverging], executor=processes)


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        (Cell(make_method("scratch"), 0.1), "does not know wishes"),
        (Cell(make_method("worth"), 0.1, point=0.001), "everybody's floor alone"),
        (Cell(make_method("worth", folds=10**6), 0.1), "folds=1000000"),
        (Cell(make_method("ifrqe", strategy="table"), 0.1), "a floor per user not supported"),
        (Cell(make_method("random"), float("nan")), "price nan"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.method.name,
)
def test_what_cannot_be_decided_is_refused_before_settings_are_searched(
    cell: Cell, message: str, problem: Problem
) -> None:
    asking = replace(problem, wishes=Wishes(floor=np.full(problem.n_users, 3)))
    lab = Lab(asking, QUICK.model_copy(update={"tune": Tune.QUICK}))
    with pytest.raises(AssentError, match=message):
        cell.run(lab)
    assert entries(lab.store) == {}


def test_models_and_prices_are_compared_beside_each_other(problem: Problem) -> None:
    other = QUICK.model_copy(update={"model_settings": MFSettings(dimension=2)})
    found = measure(problem, "random", models=[QUICK, other], seeds=(0,), prices=(0.1,))
    assert len(found) == 2 * 3
    assert found[0]["reward_sum"] != found[3]["reward_sum"]


def test_metrics_are_taken_at_every_k(problem: Problem, tmp_path: Path) -> None:
    five, several = (
        measure(problem, "random", seeds=(0,), prices=(0.1,), k=k, folder=tmp_path) for k in ((5,), (3, 5, 8))
    )
    for one, other in zip(five, several, strict=True):
        assert (one["k"], other["k"]) == (5, 3)
        assert one["ndcg"] == other["ndcg@5"]
        assert other["hit"] <= other["hit@5"] <= other["hit@8"]
        assert one["reward_sum"] == other["reward_sum"]
    assert "ndcg@5" not in five[0]


def test_each_model_is_trained_by_its_own_methods(problem: Problem) -> None:
    found = compare(
        problem,
        [(QUICK, [make_method("random")]), (QUICK, [make_method("threshold"), make_method("all")])],
        prices=(0.1,),
        seeds=(0,),
    )
    assert [each["method"] for each in found] == [
        "random", "all", "nothing", "threshold", "all", "nothing"
    ]  # fmt: skip


def test_finished_cells_are_not_computed_again(records: Records, problem: Problem, tmp_path: Path) -> None:
    store = Store(tmp_path)
    first = measure(problem, folder=tmp_path)
    assert timeless(first) == timeless(records)
    files = {file: file.stat().st_mtime_ns for file in tmp_path.iterdir()}
    assert measure(problem, folder=tmp_path) == first
    assert measure(problem, "threshold", prices=(0.5,), folder=tmp_path) == [
        each for each in first if each["method"] != "ifrqe++" and each["price"] == 0.5
    ]
    assert {file: file.stat().st_mtime_ns for file in tmp_path.iterdir()} == files
    before = trained_in(store)
    measure(problem, "random,threshold", seeds=(1,), folder=tmp_path)
    assert trained_in(store) == before + 1  # Random decides the same at all prices
    three = make_method("ifrqe++", objective="nash", anchors=3, influence={"loss": "bce"})
    measure(problem, [three], seeds=(0,), prices=(0.5,), folder=tmp_path)
    assert before + 2 <= trained_in(store) <= before + 3  # the third anchor, and what is chosen now


class Logged(Threshold):
    """Threshold, which writes down who asks it for what."""

    name: ClassVar[str] = "logged"

    log: str
    pause: float = 0.0

    def at_price(self, lab: Lab, price: float) -> Choice:
        with Path(self.log).open("a") as file:
            file.write(f"{os.getpid()} {lab.seed} {price} {self.limit}\n")
        time.sleep(self.pause)
        return super().at_price(lab, price)


def logged(log: Path, pause: float) -> list[Method]:
    return [Logged(log=str(log), limit=limit, pause=pause) for limit in (0.2, 0.4, 0.6, 0.8)]


def _compare(problem: Problem, barrier: Any, folder: Path, log: Path) -> None:
    barrier.wait(60)
    measure(problem, logged(log, 0.05), folder=folder)


def test_two_processes_share_the_work(problem: Problem, tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    cells, log, barrier = tmp_path / "cells", tmp_path / "log", context.Barrier(2)
    both = [
        context.Process(target=_compare, args=(problem, barrier, cells, log), daemon=True) for _ in range(2)
    ]
    for each in both:
        each.start()
    for each in both:
        each.join(120)
    assert [each.exitcode for each in both] == [0, 0]
    done = [line.split(maxsplit=1) for line in log.read_text().splitlines()]
    assert sorted(what for _, what in done) == sorted({what for _, what in done})  # nothing was done twice
    assert len(done) == 2 * 2 * 4
    assert len({process for process, _ in done}) == 2
    assert timeless(measure(problem, logged(log, 0.05), folder=cells)) == timeless(
        measure(problem, logged(tmp_path / "other", 0.0))
    )
    assert len(log.read_text().splitlines()) == len(done)


def test_a_killed_comparison_goes_on_where_it_was(problem: Problem, tmp_path: Path) -> None:
    """By kill -9, three times, at any moment."""
    context = multiprocessing.get_context("fork")
    cells, log = tmp_path / "cells", tmp_path / "log"
    finished: list[set[str]] = []
    for lines in (2, 6, 11):
        killed = context.Process(target=_compare, args=(problem, context.Barrier(1), cells, log), daemon=True)
        killed.start()
        while not log.exists() or len(log.read_text().splitlines()) < lines:
            time.sleep(0.01)
        killed.kill()
        killed.join()
        finished.append({*entries(Store(cells), "record")})
    assert finished[0] <= finished[1] <= finished[2]
    assert len(finished[2]) >= 8
    found = measure(problem, logged(log, 0.05), folder=cells)
    asked = [line.partition(" ")[2] for line in log.read_text().splitlines()]
    assert len(set(asked)) == 16
    assert len(asked) <= 16 + 3  # what a kill struck in the middle of
    assert timeless(found) == timeless(measure(problem, logged(tmp_path / "other", 0.0)))


@pytest.mark.parametrize("price", [-1.0, float("inf"), float("nan"), 1e101])
def test_a_price_that_is_none_is_refused_before_anything_is_computed(
    price: float, problem: Problem, tmp_path: Path
) -> None:
    with pytest.raises(AssentError, match=re.escape(f"price {price:g}: accepted: a number from 0 to 1e+100")):
        measure(problem, prices=(0.1, price), folder=tmp_path / "cells")
    assert not list(tmp_path.iterdir())


def test_wishes_that_a_method_does_not_know_are_refused_before_anything_is_computed(tmp_path: Path) -> None:
    asking = replace(small_problem(), wishes=Wishes(power=2.0))
    with pytest.raises(AssentError, match=r"^scratch: does not know wishes"):
        measure(asking, "threshold,scratch", folder=tmp_path / "cells")
    assert not list(tmp_path.iterdir())


def test_the_mean_form_is_played_for_the_mean(problem: Problem) -> None:
    """With ten samples a user, a price of 1 on the mean is one of 10 on the sum."""

    def first(price: float, **more: Any) -> dict[str, Any]:
        method = make_method("ifrqe++", objective="nash", **{**OF["ifrqe++"], **more})
        return measure(problem, [method], seeds=(0,), prices=(price,))[0]

    by_mean, by_sum, naive = first(0.01, reward=RewardForm.MEAN), first(0.1), first(0.01)
    assert by_mean["violation"] == pytest.approx(by_sum["violation"])
    assert by_mean["reward_mean"] * 10 == pytest.approx(by_sum["reward_sum"])
    assert not np.isclose(naive["violation"], by_mean["violation"])


def test_progress_counts_cells(problem: Problem) -> None:
    listener = Listener()
    methods = [(QUICK, parse_methods("random"))]
    compare(problem, methods, prices=(0.1, 0.2), seeds=(0, 1), progress=listener)
    assert listener.told == [("comparing", 12)]


def test_records_cost_the_same_whoever_trained_first(problem: Problem, tmp_path: Path) -> None:
    """Seconds and trainings are those of all that a record rests on, found or computed."""
    store = Store(tmp_path)
    methods = parse_methods("worth,ifrqe++", settings=OF)
    first = measure(problem, methods, seeds=(0,), folder=tmp_path)
    for each in entries(store, "record").values():
        store.remove(each["key"])
    again = measure(problem, methods[::-1], seeds=(0,), prices=PRICES[::-1], folder=tmp_path)

    def place(record: dict[str, Any]) -> tuple[Any, ...]:
        return record["method"], record["objective"], record["price"]

    known = {place(record): record for record in again}
    assert timeless(first) == timeless([known[place(record)] for record in first])
    parts = [float(seconds) for each in entries(store).values() for seconds in [each["seconds"]]]
    for record in first:
        deciding = 0.5  # which is measured anew, and is little
        assert known[place(record)]["seconds"] == pytest.approx(record["seconds"], abs=deciding)
        assert record["seconds"] <= sum(parts) + deciding
    alone = measure(problem, "ifrqe++", seeds=(0,))
    for record in alone[:4]:
        assert record["trainings"] == known[place(record)]["trainings"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("threshold", [("threshold", "")]),
        ("ifrqe", [("ifrqe", "nash"), ("ifrqe", "welfare")]),
        ("ifrqe++:nash", [("ifrqe++", "nash")]),
        ("worth:nash,worth", [("worth", "nash"), ("worth", "welfare")]),
        ("scratch:nash", [("scratch", "nash")]),
        (" random , ifrqe:welfare", [("random", ""), ("ifrqe", "welfare")]),
        ("all,threshold,nothing", [("threshold", "")]),
        (
            None,
            [("random", ""), ("threshold", ""), ("occurrence", ""), ("worth", "nash"), ("worth", "welfare")],
        ),
    ],
)
def test_methods_are_read_from_text(text: str | None, expected: list[tuple[str, str]]) -> None:
    assert [each.way for each in parse_methods(text)] == expected


def test_methods_from_text_have_their_settings() -> None:
    threshold, *game = parse_methods(
        "threshold,ifrqe++", model="lightgcn", settings={"threshold": {"limit": 0.2}, **OF}
    )
    assert threshold == make_method("threshold", limit=0.2)
    assert game == [
        make_method("ifrqe++", "lightgcn", objective=objective, anchors=2, influence={"loss": "bce"})
        for objective in ("nash", "welfare")
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("magic", "methods magic: unknown; accepted: all, nothing, random"),
        ("", "methods : unknown; accepted"),
        ("threshold,", "methods : unknown; accepted"),
        ("threshold:nash", "methods threshold:nash: objectives of threshold: none"),
        ("random,ifrqe:greed", "methods ifrqe:greed: objectives of ifrqe: nash, welfare"),
        ("scratch:welfare", "methods scratch:welfare: objectives of scratch: nash"),
    ],
)
def test_text_that_names_no_method_is_refused(text: str, message: str) -> None:
    with pytest.raises(AssentError, match=f"^{message}"):
        parse_methods(text)
