"""Anchors where the solution lies: solve, train there, solve again."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assent.data.problem import Problem
from assent.evaluation.evaluate import validation_losses
from assent.evaluation.metrics import RewardForm
from assent.game.certificate import certify
from assent.game.estimates import Estimates, Objective
from assent.game.paper import Strategy, TableSettings
from assent.game.solve import solve
from assent.lab import Lab, Training
from assent.lab.anchors import InfluenceAt, anchor_at, random_anchors
from assent.methods import make_method
from assent.methods.ifrqe import IFRQEpp
from assent.runs.measure import Cell
from assent.support.arrays import Bools
from tests.methods.cases import at_anchors, lab_of
from tests.small import small_problem, trained_in

PRICE = 0.3


def adaptive(number: int = 2, **more: Any) -> IFRQEpp:
    return IFRQEpp(anchors=2, adaptive=number, rounds=10, **more)


@pytest.fixture(scope="module")
def problem() -> Problem:
    return small_problem(60, 80, negatives=19)


@pytest.fixture(scope="module")
def lab(problem: Problem) -> Lab:
    return lab_of(problem)


def known_at(lab: Lab, method: IFRQEpp, selection: Bools) -> Estimates:
    """What is known around a model that is trained on a selection."""
    anchor, problem = anchor_at(lab, selection, "placed"), lab.problem
    [entry] = lab.run([InfluenceAt(anchor, method.influence_for("mf"), method.reward)])
    return Estimates(
        owners=problem.train.users,
        n_users=problem.n_users,
        unwillingness=problem.unwillingness,
        anchors=selection[None],
        own=entry.arrays["own"][None],
        social=entry.arrays["social"][None],
        losses=entry.arrays["losses"][None],
    )


def joined(one: Estimates, other: Estimates) -> Estimates:
    def both(name: str) -> Any:
        return np.concatenate([getattr(one, name), getattr(other, name)])

    return replace(one, **{name: both(name) for name in ("anchors", "own", "social", "losses")})


@pytest.mark.parametrize("objective", list(Objective))
def test_it_solves_again_with_an_anchor_at_the_solution(objective: Objective, lab: Lab) -> None:
    method = adaptive(objective=objective)
    known = at_anchors(lab, method)
    found = solve(known, objective=objective, price=PRICE, rounds=10)
    for _ in range(2):
        known = joined(known, known_at(lab, method, found.selection))
        found = solve(known, objective=objective, price=PRICE, rounds=10)
    choice = method.at_price(lab, PRICE)
    np.testing.assert_array_equal(choice.selection, found.selection)
    assert choice.cost.trainings == 4
    expected = certify(known, found, objective=objective, price=PRICE, rounds=10)
    assert choice.certificate["predicted_reward"] == expected.predicted_reward
    assert choice.certificate["nearest_anchor"] == expected.nearest_anchor
    assert len(expected.rounds_nearest) == 4
    assert choice.certificate["anchors_at_solution"] == 2
    assert choice.errors is not None
    np.testing.assert_allclose(choice.errors, known.values(objective).std(axis=0, ddof=1))
    before = adaptive(0, objective=objective).at_price(lab, PRICE)
    assert not np.array_equal(choice.selection, before.selection)
    assert before.cost.trainings == 2


def test_what_is_known_there_is_what_its_model_says(lab: Lab) -> None:
    """Losses at the anchor are true, and influence at a random anchor is what the ordinary way gives."""
    problem, method = lab.problem, adaptive()
    selection = make_method("threshold").within(lab, 0.3).selection
    placed = known_at(lab, method, selection)
    [trained] = lab.train([Training(selection, np.ones_like(selection))])
    truth = validation_losses(problem, trained, method.influence_for("mf").loss)
    np.testing.assert_allclose(placed.losses[0], truth, rtol=1e-5)
    reward = -float(truth.sum()) - PRICE * problem.violation(selection) * problem.n_users
    assert placed.predicted_total(selection, PRICE) == pytest.approx(reward, rel=1e-5)

    ordinary = at_anchors(lab, method)
    [first] = random_anchors(lab, 1, rate=0.9)
    again = known_at(lab, method, first.selection)
    np.testing.assert_array_equal(again.own[0], ordinary.own[0])
    np.testing.assert_array_equal(again.social[0], ordinary.social[0])


@pytest.mark.parametrize("budget", [0.1, 0.5])
def test_budgets_are_kept(budget: float, lab: Lab) -> None:
    choice = adaptive().within(lab, budget)
    assert lab.problem.violation(choice.selection) <= budget * lab.problem.violation() * (1 + 1e-9)
    assert choice.cost.trainings - 2 in (1, 2)


def test_where_the_solution_is_an_anchor_nothing_is_trained(problem: Problem) -> None:
    lab = lab_of(problem)
    choice = adaptive(3, anchor_rate=1.0).within(lab, 1.0)
    assert choice.selection.all()
    assert choice.certificate["anchors_at_solution"] == 0
    assert trained_in(lab.store) == choice.cost.trainings == 1  # both anchors disclose everything


def test_they_are_counted_as_trainings_of_the_record(lab: Lab) -> None:
    [record] = lab.run([Cell(adaptive(), PRICE)])
    assert record.facts["trainings"] == 2 + 2 + 1


def test_a_killed_run_finds_them_again(problem: Problem, tmp_path: Path) -> None:
    first, second = (lab_of(problem, folder=tmp_path) for _ in range(2))
    one = adaptive().at_price(first, PRICE)
    assert trained_in(first.store) == 4
    files = {file: file.stat().st_mtime_ns for file in tmp_path.iterdir()}
    other = adaptive().at_price(second, PRICE)
    assert {file: file.stat().st_mtime_ns for file in tmp_path.iterdir()} == files
    np.testing.assert_array_equal(one.selection, other.selection)
    of_parts = [{**choice.cost.parts, "deciding": None} for choice in (one, other)]
    assert of_parts[0] == of_parts[1]


def test_tables_play_with_them_too(lab: Lab) -> None:
    table = TableSettings(rounds=1, samples=30)
    method = adaptive(1, strategy=Strategy.TABLE, table=table, objective=Objective.NASH)
    assert method.at_price(lab, PRICE).certificate["anchors_at_solution"] == 1


def test_the_mean_form_places_them_too(lab: Lab) -> None:
    """With twenty samples a user, a price on the mean is one twenty times as high on the sum."""
    by_sum = adaptive().at_price(lab, PRICE)
    by_mean = adaptive(reward=RewardForm.MEAN).at_price(lab, PRICE / 20)
    assert (by_sum.selection == by_mean.selection).mean() > 0.99
