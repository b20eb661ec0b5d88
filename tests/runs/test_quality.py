"""Intervals of the quality, and the least budget that keeps it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import t as student

from assent.data.problem import Problem, Protocol, make_problem
from assent.data.simulate import simulate
from assent.lab import Lab
from assent.lab.store import Found
from assent.methods import make_method
from assent.methods.worth import WorthMethod
from assent.runs.plan import RunPlan
from assent.runs.quality import Quality, least_budget, measure_quality
from assent.support.arrays import Floats
from assent.support.statistics import Interval
from assent.training import Settings
from tests.small import QUICK, entries

ITERATIVE = Settings.model_validate(
    {"model_settings": {"dimension": 8}, "training": {"epochs": 6}, "tune": "none"}
)


@pytest.fixture(scope="module")
def problem() -> Problem:
    log = simulate(preference="learnable", users=200, items=60, noise=0.2, seed=3)
    return make_problem(log, Protocol.PAPER_TABLES, negatives=20)


def drawn(monkeypatch: pytest.MonkeyPatch, problem: Problem, plan: RunPlan, **ndcgs: Floats) -> Quality:
    """The quality where each method's model ranks as `ndcgs[method][seed, person]` say."""

    def run(lab: Lab, cells: list[Any], label: str = "") -> list[Any]:
        found = []
        for cell in cells:
            values = ndcgs[cell.method.name][lab.seed - plan.seed]
            facts = {"method": cell.method.name, "seed": lab.seed, "ndcg": float(values.mean())}
            found.append(Found({"ndcg": values}, facts))
        return found

    monkeypatch.setattr(Lab, "run", run)
    return measure_quality(Lab(problem, QUICK, plan.seed), plan, 0.5, live=True)


def test_intervals_are_those_of_the_formulas(monkeypatch: pytest.MonkeyPatch, problem: Problem) -> None:
    rng = np.random.default_rng(0)
    ours, everything, nothing = rng.random((3, 2, 50))
    plan = RunPlan(make_method("threshold"), reference=True, seeds=2, seed=4)
    found = drawn(monkeypatch, problem, plan, threshold=ours, all=everything, nothing=nothing)
    assert (found.seeds, found.people) == ((4, 5), 50)

    def half(values: Floats) -> float:
        people, seeds = np.var(values.mean(axis=0), ddof=1) / 50, np.var(values.mean(axis=1), ddof=1) / 2
        freedom = (people + seeds) ** 2 / (people**2 / 49 + seeds**2)
        return float(student.ppf(0.975, freedom) * np.sqrt(people + seeds))

    ratio = ours.mean() / everything.mean()
    expected = {
        "reached": (ours.mean(), half(ours)),
        "kept": (ratio, half((ours - ratio * everything) / everything.mean())),
        "above_nothing": (ours.mean() - nothing.mean(), half(ours - nothing)),
    }
    for name, (mean, width) in expected.items():
        interval: Interval = getattr(found, name)
        assert (interval.mean, interval.high - interval.mean) == pytest.approx((mean, width))
        assert interval.mean - interval.low == pytest.approx(width)


@pytest.mark.parametrize(("noise", "seeds"), [(0.001, 2), (0.5, 3)])
def test_further_seeds_are_taken_where_one_is_noisy(
    noise: float, seeds: int, monkeypatch: pytest.MonkeyPatch, problem: Problem
) -> None:
    rng = np.random.default_rng(0)
    values = 0.5 + noise * rng.standard_normal((3, 60))
    found = drawn(monkeypatch, problem, RunPlan(make_method("threshold")), threshold=values, nothing=values)
    assert len(found.seeds) == seeds


def test_a_model_of_everything_that_finds_nothing_has_no_ratio(
    monkeypatch: pytest.MonkeyPatch, problem: Problem
) -> None:
    none = np.zeros((3, 9))
    plan = RunPlan(make_method("threshold"), reference=True)
    found = drawn(monkeypatch, problem, plan, threshold=none, nothing=none, all=none)
    assert found.kept is None


def test_the_least_budget_is_just_enough(problem: Problem) -> None:
    """A little less would not have been; more quality to keep, and more confidence, need more."""
    lab, method = Lab(problem, ITERATIVE), WorthMethod(folds=2)
    found = least_budget(lab, method, 0.9, 0.9)
    assert 0 < found.budget < 1
    good = [each["budget"] for each in found.tried if each["expected"] >= 0.9]
    bad = [each["budget"] for each in found.tried if each["expected"] < 0.9]
    assert found.budget == min([1.0, *good])
    assert found.budget - max(bad) == pytest.approx(1 / 64)
    assert found.tried[0]["budget"] == 0
    assert all(each["expected"] <= each["kept"] for each in found.tried)
    assert least_budget(lab, method, 0.99, 0.9).budget >= found.budget
    assert least_budget(lab, method, 0.9, 0.99).budget >= found.budget
    assert least_budget(lab, method, 0.0, 0.9).budget == 0
    assert least_budget(lab, method, 0.0, 0.9, least=0.3).budget == 0.3


def test_validation_rows_judge_what_was_measured_without_them(problem: Problem) -> None:
    """Other validation items change what is decided in the end; what they judge is decided otherwise."""
    method, lab = WorthMethod(source="cross-fitted", folds=2), Lab(problem, ITERATIVE)
    moved = replace(problem, valid_candidates=np.roll(problem.valid_candidates, 1, axis=0))
    other = Lab(moved, ITERATIVE)
    told = [each.within(at, 0.5).selection for each, at in ((method, lab), (method, other))]
    assert (told[0] != told[1]).any()
    assert (method.untold_within(lab, 0.5) != told[0]).any()


def test_quality_is_kept_in_the_store(problem: Problem) -> None:
    lab, plan = Lab(problem, QUICK), RunPlan(make_method("threshold"), seeds=1)
    first = measure_quality(lab, plan, 0.5, live=True)
    kept = entries(lab.store)
    assert measure_quality(lab, plan, 0.5, live=True) == first
    assert entries(lab.store) == kept
