from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from assent.runs.frontier import all_methods, frontier, parse_methods
from assent.settings import Settings
from assent.workbench import Workbench
from assent.worth.settings import Source, ValueSettings

from assent.data.problem import Problem
from assent.data.simulate import simulate
from assent.data.split import make_problem
from assent.game.estimates import Objective
from assent.methods import METHODS, Choice
from assent.models import MFSettings
from assent.runs.measure import FIGURES, Stopwatch
from assent.support.arrays import Bools
from assent.support.errors import AssentError
from assent.training import Trained, TrainingSettings, train

Records = list[dict[str, Any]]

SETTINGS = Settings(
    model_settings=MFSettings(dimension=8),
    training=TrainingSettings(epochs=5),
    anchors=2,
    rounds=10,
    value=ValueSettings(source=Source.INFLUENCE),
)
KEYS = {
    "dataset", "model", "method", "objective", "price", "seed", "violation", "violation_share", "reward_sum",
    "reward_mean", "precision", "recall", "f1", "ndcg", "mrr", "hit", "seconds", "trainings", "point",
    "decision_price",
}  # fmt: skip


@pytest.fixture(scope="module")
def problem() -> Problem:
    log = simulate(preference="learnable", users=60, items=80, seed=3)
    return make_problem(log, "paper-tables", negatives=19)


def measure(
    problem: Problem,
    methods: str = "threshold,random,ifrqe:welfare",
    *,
    settings: Settings = SETTINGS,
    points: Sequence[float] = (0.5,),
    seeds: Sequence[int] = (0,),
    price: float = 0.1,
    cache: Path | None = None,
) -> Records:
    return frontier(
        problem,
        settings,
        methods=parse_methods(methods),
        points=points,
        seeds=seeds,
        price=price,
        cache=cache,
    )


def timeless(records: Records) -> Records:
    return [{key: value for key, value in each.items() if key != "seconds"} for each in records]


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
    for each in records:
        assert set(each) == KEYS
        assert set(FIGURES) < KEYS
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


def test_all_and_nothing_stand_at_the_ends_and_budgets_between(records: Records) -> None:
    for each in records:
        if each["method"] in ("all", "nothing"):
            assert each["violation_share"] == each["point"]
        else:
            assert each["point"] - 0.01 < each["violation_share"] <= each["point"] + 1e-9


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


def count_trainings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The labels of the models that are trained from now on."""
    labels: list[str] = []

    def counted(*args: Any, **kwargs: Any) -> Trained:
        labels.append(kwargs["label"])
        return train(*args, **kwargs)

    monkeypatch.setattr("assent.workbench.train", counted)
    return labels


def test_the_methods_of_a_seed_share_its_anchors(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    labels = count_trainings(monkeypatch)
    measure(problem, "ifrqe,ifrqe++", points=(0.5, 0.25), seeds=(4,))
    assert [label for label in labels if label.startswith("anchor")] == ["anchor 1", "anchor 2"]
    assert 2 + 4 + 2 <= len(labels) <= 2 + 4 * 2 + 2  # a selection that is chosen twice is trained on once
    assert {"ifrqe at 50%", "ifrqe at 25%", "all at 100%", "nothing at 0%"} <= {*labels}


def test_finished_records_are_not_computed_again(
    problem: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "folder" / "cells"
    first = measure(problem, cache=cache)

    def refuse(self: Workbench, selection: Bools, label: str = "") -> Trained:
        raise AssertionError(f"trained {label}")

    monkeypatch.setattr(Workbench, "final", refuse)
    labels = count_trainings(monkeypatch)
    assert measure(problem, cache=cache) == first
    assert measure(problem, "random", cache=cache) == first[1:2] + first[3:]
    assert labels == []
    with pytest.raises(AssertionError, match="trained random at 40%"):
        measure(problem, "random", points=(0.4,), cache=cache)


def test_a_killed_frontier_goes_on_where_it_was(
    problem: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cells"
    final = Workbench.final

    def killed(self: Workbench, selection: Bools, label: str = "") -> Trained:
        if label.startswith("ifrqe"):
            raise KeyboardInterrupt
        return final(self, selection, label)

    with monkeypatch.context() as patched:
        patched.setattr(Workbench, "final", killed)
        with pytest.raises(KeyboardInterrupt):
            measure(problem, cache=cache)
    assert len(list(cache.glob("cell-*"))) == 2
    labels = count_trainings(monkeypatch)
    whole = measure(problem, cache=cache)
    assert labels == ["ifrqe at 50%", "all at 100%", "nothing at 0%"]
    assert timeless(whole) == timeless(measure(problem))
    assert not list(cache.glob("work-*"))


def test_only_what_a_setting_touches_is_computed_again(
    problem: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cells"
    methods = "threshold,ifrqe:nash,ifrqe++:nash"
    first = measure(problem, methods, cache=cache)
    labels = count_trainings(monkeypatch)
    three = SETTINGS.model_copy(update={"anchors": 3})
    assert timeless(measure(problem, methods, settings=three, cache=cache))[:2] == timeless(first)[:2]
    assert labels == ["anchor 1", "anchor 2", "anchor 3", "ifrqe++ at 50%"]
    assert measure(problem, methods, cache=cache) == first
    labels.clear()
    measure(problem, "threshold", price=0.2, cache=cache)
    log = simulate(preference="learnable", users=60, items=80, seed=4)
    measure(make_problem(log, "paper-tables", negatives=19), "threshold", cache=cache)
    longer = SETTINGS.model_copy(update={"training": TrainingSettings(epochs=6)})
    measure(problem, "threshold", settings=longer, cache=cache)
    assert labels == ["threshold at 50%", "all at 100%", "nothing at 0%"] * 3


def test_a_damaged_record_is_computed_again(problem: Problem, tmp_path: Path) -> None:
    cache = tmp_path / "cells"
    first = measure(problem, "threshold", cache=cache)
    for file in cache.iterdir():
        file.write_text("{")
    assert timeless(measure(problem, "threshold", cache=cache)) == timeless(first)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("threshold", [("threshold", "")]),
        ("ifrqe", [("ifrqe", "nash"), ("ifrqe", "welfare")]),
        ("ifrqe++:nash", [("ifrqe++", "nash")]),
        (" random , ifrqe:welfare", [("random", ""), ("ifrqe", "welfare")]),
        ("all,threshold,nothing", [("threshold", "")]),
    ],
)
def test_methods_are_read_from_text(text: str, expected: list[tuple[str, str]]) -> None:
    found = parse_methods(text)
    assert [(each.name, each.objective.value if each.objectives else "") for each in found] == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("magic", "--methods magic: unknown; accepted: all, nothing, random"),
        ("", "--methods : unknown; accepted"),
        ("threshold,", "--methods : unknown; accepted"),
        ("threshold:nash", "--methods threshold:nash: objectives of threshold: none"),
        ("random,ifrqe:greed", "--methods ifrqe:greed: objectives of ifrqe: nash, welfare"),
    ],
)
def test_text_that_names_no_method_is_refused(text: str, message: str) -> None:
    with pytest.raises(AssentError, match=f"^{message}"):
        parse_methods(text)


def test_a_text_given_to_another_option_is_refused_by_its_name() -> None:
    with pytest.raises(AssentError, match=r"^--frontier-methods magic: unknown"):
        parse_methods("magic", "--frontier-methods")


def test_a_price_at_which_nothing_can_be_decided_is_refused(problem: Problem, tmp_path: Path) -> None:
    with pytest.raises(AssentError, match="price inf: accepted"):
        measure(problem, "random", price=float("inf"), cache=tmp_path / "cells")
    assert not list(tmp_path.iterdir())


def test_seconds_charge_each_method_for_the_anchors_that_it_rests_on(problem: Problem) -> None:
    bench = Workbench(problem, SETTINGS, seed=0)
    bench.anchor_seconds = [100.0, 200.0, 400.0]
    watch = Stopwatch(bench)
    bench.anchor_seconds.append(1000.0)
    bench.anchor_owed = [0.0, 0.0, 0.0, 0.0]
    nothing = np.zeros(len(problem.train), dtype=np.bool_)
    rested_on = ((), (0,), (0, 1, 2), (0, 1, 2, 3), (1, 3))
    seconds = [watch.seconds(Choice(nothing, None, anchors=anchors)) for anchors in rested_on]
    paid = [1000 + each for each in seconds]  # the new anchor took no time at all here
    assert paid == pytest.approx([0, 100, 700, 1700, 1200], abs=5)
    owing = Choice(nothing, None, anchors=[0], owed=30.0)
    assert 1000 + watch.seconds(owing) == pytest.approx(130, abs=5)


def test_all_methods_are_those_of_the_registry_that_keep_a_budget_quickly() -> None:
    found = [(each.name, each.objective) for each in all_methods()]
    # Those that retrain for everything they try would take hours: they have to be named.
    assert {name for name, _ in found} == set(METHODS) - {"all", "nothing", "proactive", "scratch"}
    assert len(set(found)) == len(found)
    for name in ("ifrqe", "ifrqe++"):
        assert {objective for each, objective in found if each == name} == set(Objective)
    pooled = {(each.name, each.objective) for each in all_methods(pooled=True)}
    assert set(found) - pooled == {("ifrqe", objective) for objective in Objective}
