import multiprocessing
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from assent.runs.frontier import parse_methods
from assent.settings import Settings
from assent.workbench import Workbench
from assent.worth.settings import Source, ValueSettings

from assent.data.problem import Problem
from assent.data.simulate import simulate
from assent.data.split import make_problem
from assent.evaluation.evaluate import evaluate
from assent.evaluation.metrics import RewardForm
from assent.influence.inverse import InfluenceSettings
from assent.models import MFSettings
from assent.models.losses import Loss
from assent.runs.compare import compare
from assent.support.errors import AssentError
from assent.training import Trained, TrainingSettings, train

Records = list[dict[str, Any]]
SETTINGS = Settings(
    model_settings=MFSettings(dimension=4),
    training=TrainingSettings(epochs=3),
    influence=InfluenceSettings(loss=Loss.BCE),
    anchors=2,
    value=ValueSettings(source=Source.INFLUENCE),
)
PRICES = (0.0, 0.5)


@pytest.fixture(scope="module")
def problem() -> Problem:
    log = simulate(preference="learnable", users=40, items=40, seed=3)
    return make_problem(log, "paper-tables", negatives=9)


def measure(
    problem: Problem,
    methods: str = "threshold,ifrqe++:nash",
    *,
    models: Sequence[Settings] = (SETTINGS,),
    seeds: Sequence[int] = (0, 1),
    prices: Sequence[float] = PRICES,
    jobs: int = 0,
    folder: Path | None = None,
) -> Records:
    chosen = parse_methods(methods)
    return compare(problem, models, methods=chosen, prices=prices, seeds=seeds, jobs=jobs, folder=folder)


def timeless(records: Records) -> Records:
    return [{key: value for key, value in each.items() if key != "seconds"} for each in records]


@pytest.fixture(scope="module")
def records(problem: Problem) -> Records:
    return measure(problem)


def trained_labels(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    labels: list[str] = []

    def counted(*args: Any, **kwargs: Any) -> Trained:
        labels.append(kwargs["label"])
        return train(*args, **kwargs)

    monkeypatch.setattr("assent.workbench.train", counted)
    return labels


def test_there_is_a_record_of_every_method_price_and_seed(records: Records) -> None:
    places = [(each["seed"], each["method"], each["objective"], each["price"]) for each in records]
    ways = [("threshold", ""), ("ifrqe++", "nash"), ("all", ""), ("nothing", "")]
    assert places == [(seed, *way, price) for seed in (0, 1) for way in ways for price in PRICES]


def test_records_are_true_figures_after_retraining(records: Records, problem: Problem) -> None:
    for seed in (0, 1):
        bench = Workbench(problem, SETTINGS, seed)
        for method in parse_methods("threshold,ifrqe++:nash"):
            for price in PRICES:
                choice = method.at_price(bench, price)
                figures = evaluate(problem, bench.final(choice.selection), choice.selection, price=price)
                (found,) = (
                    each
                    for each in records
                    if (each["seed"], each["method"], each["price"]) == (seed, method.name, price)
                )
                assert {key: found[key] for key in figures} == pytest.approx(figures)
                assert found["trainings"] == (3 if method.name == "ifrqe++" else 1)


def test_anchors_are_trained_once_per_seed_and_equal_selections_share_a_model(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = trained_labels(monkeypatch)
    found = measure(problem, "threshold,ifrqe++", seeds=(0,))
    assert [label for label in labels if label.startswith("anchor")] == ["anchor 1", "anchor 2"]
    assert labels.count("threshold at 0") == 1
    assert "threshold at 0.5" not in labels
    by_price = [each["seconds"] for each in found if each["method"] == "all"]
    assert min(by_price) > 0.2 * max(by_price)  # who found a model done is charged for it


def test_processes_beside_each_other_find_the_same(records: Records, problem: Problem) -> None:
    assert timeless(measure(problem, jobs=2)) == timeless(records)


def test_an_error_in_a_process_is_one_here(problem: Problem) -> None:
    diverging = SETTINGS.model_copy(update={"training": TrainingSettings(epochs=3, learning_rate=1e30)})
    with pytest.raises(AssentError, match=r"training\.learning_rate"):
        measure(problem, models=[diverging], jobs=2)


def test_models_and_prices_are_compared_beside_each_other(problem: Problem) -> None:
    other = SETTINGS.model_copy(update={"model_settings": MFSettings(dimension=2)})
    found = measure(problem, "random", models=[SETTINGS, other], seeds=(0,), prices=(0.1,))
    assert len(found) == 2 * 3
    assert found[0]["reward_sum"] != found[3]["reward_sum"]


def test_finished_cells_are_not_computed_again(
    records: Records, problem: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = measure(problem, folder=tmp_path)
    assert timeless(first) == timeless(records)
    assert not list(tmp_path.glob("work-*"))
    labels = trained_labels(monkeypatch)
    assert measure(problem, folder=tmp_path) == first
    assert measure(problem, "threshold", prices=(0.5,), folder=tmp_path) == [
        each for each in first if each["method"] != "ifrqe++" and each["price"] == 0.5
    ]
    assert labels == []
    measure(problem, "random,threshold", seeds=(1,), folder=tmp_path)
    assert labels == ["random at 0"]
    labels.clear()
    three = SETTINGS.model_copy(update={"anchors": 3})
    measure(problem, models=[three], seeds=(0,), folder=tmp_path)
    assert {label.split()[0] for label in labels} == {"anchor", "ifrqe++"}


def test_a_killed_comparison_goes_on_where_it_was(
    records: Records, problem: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for dead in ("anchor 2", "ifrqe++ at 0.5", "nothing at 0"):

        def killed(*args: Any, dead: str = dead, **kwargs: Any) -> Trained:
            if kwargs["label"] == dead:
                raise KeyboardInterrupt
            return train(*args, **kwargs)

        with monkeypatch.context() as patched:
            patched.setattr("assent.workbench.train", killed)
            with pytest.raises(KeyboardInterrupt):
                measure(problem, seeds=(0,), folder=tmp_path)
    labels = trained_labels(monkeypatch)
    found = measure(problem, seeds=(0,), folder=tmp_path)
    assert labels == ["nothing at 0"]
    assert timeless(found) == timeless(records)[: len(found)]


def _share(problem: Problem, barrier: Any, folder: Path, log: Path) -> None:
    """Compare beside another process, and write down what is trained here."""

    def train_and_tell(*args: Any, **kwargs: Any) -> Trained:
        with log.open("a") as file:
            file.write(f"{os.getpid()} {kwargs['seed']} {kwargs['label']}\n")
        return train(*args, **kwargs)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("assent.workbench.train", train_and_tell)
        barrier.wait(60)
        measure(problem, folder=folder)


def test_two_processes_share_the_work(records: Records, problem: Problem, tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    cells, log, barrier = tmp_path / "cells", tmp_path / "log", context.Barrier(2)
    both = [
        context.Process(target=_share, args=(problem, barrier, cells, log), daemon=True) for _ in range(2)
    ]
    for each in both:
        each.start()
    for each in both:
        each.join(120)
    assert [each.exitcode for each in both] == [0, 0]
    done = [line.split(maxsplit=1) for line in log.read_text().splitlines()]
    assert len({what for _, what in done}) == len(done)  # nothing was trained twice
    assert len({process for process, _ in done}) == 2
    assert timeless(measure(problem, folder=cells)) == timeless(records)


def test_a_price_that_is_none_is_refused(problem: Problem) -> None:
    with pytest.raises(AssentError, match="price -1: accepted"):
        measure(problem, prices=(-1.0,))


def test_the_mean_form_is_played_for_the_mean(problem: Problem) -> None:
    """With ten samples a user, a price of 1 on the mean is one of 10 on the sum."""
    mean = SETTINGS.model_copy(update={"reward": RewardForm.MEAN})
    (by_mean,) = measure(problem, "ifrqe++:nash", models=[mean], seeds=(0,), prices=(0.01,))[:1]
    (by_sum,) = measure(problem, "ifrqe++:nash", seeds=(0,), prices=(0.1,))[:1]
    assert by_mean["violation"] == pytest.approx(by_sum["violation"])
    assert by_mean["reward_mean"] * 10 == pytest.approx(by_sum["reward_sum"])
    (naive,) = measure(problem, "ifrqe++:nash", seeds=(0,), prices=(0.01,))[:1]
    assert not np.isclose(naive["violation"], by_mean["violation"])
