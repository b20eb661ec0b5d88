"""Anchors where the solution lies: solve, train there, solve again."""

from pathlib import Path

import numpy as np
import pytest
from assent.settings import Settings
from assent.workbench import Workbench
from assent.worth.settings import Source, ValueSettings

from assent.data.problem import Problem
from assent.data.simulate import simulate
from assent.data.split import make_problem
from assent.evaluation.evaluate import validation_losses
from assent.game.certificate import certify
from assent.game.estimates import Objective
from assent.game.paper import Strategy, TableSettings
from assent.game.solve import solve
from assent.methods import make_method
from assent.models import MFSettings
from assent.runs.measure import Stopwatch, record
from assent.support.arrays import Bools
from assent.support.errors import AssentError
from assent.training import Trained, TrainingSettings, disclose, train

PRICE = 0.3
SETTINGS = Settings(
    model_settings=MFSettings(dimension=8),
    training=TrainingSettings(epochs=5),
    anchors=2,
    adaptive=2,
    value=ValueSettings(source=Source.INFLUENCE),
)


def with_adaptive(number: int, **more: object) -> Settings:
    return SETTINGS.model_copy(update={"adaptive": number, **more})


@pytest.fixture(scope="module")
def problem() -> Problem:
    return make_problem(
        simulate(preference="learnable", users=60, items=80, seed=3), "paper-tables", negatives=19
    )


@pytest.fixture(scope="module")
def bench(problem: Problem) -> Workbench:
    return Workbench(problem, SETTINGS, seed=0)


def trained_on(problem: Problem, selection: Bools) -> Trained:
    data = disclose(problem, selection, vocabulary=np.ones_like(selection))
    return train(data, model="mf", model_settings=SETTINGS.model_settings, settings=SETTINGS.training, seed=0)


@pytest.mark.parametrize("objective", list(Objective))
def test_it_solves_again_with_an_anchor_at_the_solution(objective: Objective, bench: Workbench) -> None:
    problem = bench.problem
    known = bench.estimates(2)
    found = solve(known, objective=objective, price=PRICE)
    for _ in range(2):
        known = known.joined(bench.estimates_at(found.selection).estimates)
        found = solve(known, objective=objective, price=PRICE)
    choice = make_method("ifrqe++", objective).at_price(bench, PRICE)
    np.testing.assert_array_equal(choice.selection, found.selection)
    assert (len(choice.anchors), choice.explored) == (2, 2)
    expected = certify(known, found, objective=objective, price=PRICE, rounds=SETTINGS.rounds)
    assert choice.certificate["predicted_reward"] == expected.predicted_reward
    assert choice.certificate["nearest_anchor"] == expected.nearest_anchor
    assert len(expected.rounds_nearest) == 4
    assert choice.certificate["anchors_at_solution"] == 2
    assert choice.errors is not None
    np.testing.assert_allclose(choice.errors, known.values(objective).std(axis=0, ddof=1))
    before = make_method("ifrqe++", objective).at_price(Workbench(problem, with_adaptive(0), seed=0), PRICE)
    assert not np.array_equal(choice.selection, before.selection)
    assert (len(before.anchors), before.explored) == (2, 0)


def test_what_is_known_there_is_what_its_model_says(bench: Workbench) -> None:
    """Losses at the anchor are true, and influence at a random anchor is what the ordinary way gives."""
    problem = bench.problem
    selection = make_method("threshold").within(bench, 0.3).selection
    placed = bench.estimates_at(selection, effects=True).estimates
    truth = validation_losses(problem, trained_on(problem, selection), SETTINGS.influence.loss)
    np.testing.assert_allclose(placed.losses[0], truth, rtol=1e-5)
    np.testing.assert_array_equal(placed.anchors[0], selection)
    reward = -float(truth.sum()) - PRICE * problem.violation(selection) * problem.n_users
    assert placed.predicted_total(selection, PRICE) == pytest.approx(reward, rel=1e-5)

    ordinary = bench.estimates(1, effects=True)
    again = bench.estimates_at(bench.anchor(0)[0], effects=True).estimates
    np.testing.assert_allclose(again.own, ordinary.own)
    np.testing.assert_allclose(again.social, ordinary.social)
    np.testing.assert_allclose(again.effects[0].toarray(), ordinary.effects[0].toarray())


@pytest.mark.parametrize("budget", [0.1, 0.5])
def test_budgets_are_kept(budget: float, bench: Workbench) -> None:
    choice = make_method("ifrqe++").within(bench, budget)
    assert bench.problem.violation(choice.selection) <= budget * bench.problem.violation() * (1 + 1e-9)
    assert choice.explored in (1, 2)


def test_where_the_solution_is_an_anchor_nothing_is_trained(problem: Problem) -> None:
    everything = Workbench(problem, with_adaptive(3, anchor_rate=1.0), seed=0)
    choice = make_method("ifrqe++").within(everything, 1.0)
    assert choice.selection.all()
    assert choice.explored == 0
    assert everything.trainings == SETTINGS.anchors


def test_they_are_counted_as_trainings_and_seconds(bench: Workbench) -> None:
    watch, method = Stopwatch(bench), make_method("ifrqe++")
    before = bench.trainings
    choice = method.at_price(bench, PRICE)
    assert bench.trainings - before == choice.explored == 2
    trained = bench.final(choice.selection)
    assert record(bench, method, choice, trained, price=PRICE, watch=watch)["trainings"] == 2 + 2 + 1


def test_a_killed_run_finds_them_again(problem: Problem, tmp_path: Path) -> None:
    first, second = (Workbench(problem, SETTINGS, seed=0, folder=tmp_path) for _ in range(2))
    method = make_method("ifrqe++")
    one, other = method.at_price(first, PRICE), method.at_price(second, PRICE)
    np.testing.assert_array_equal(one.selection, other.selection)
    assert (first.trainings, second.trainings) == (4, 0)
    assert one.owed == 0
    assert other.owed > 0


def test_tables_play_with_them_too(problem: Problem) -> None:
    table = TableSettings(rounds=1, samples=30)
    bench = Workbench(problem, with_adaptive(1, strategy=Strategy.TABLE, table=table), seed=0)
    assert make_method("ifrqe++", Objective.NASH).at_price(bench, PRICE).explored == 1


@pytest.mark.parametrize("name", ["ifrqe", "ifrqe++"])
def test_pooled_values_and_single_anchors_have_none(name: str, problem: Problem) -> None:
    pooled = Workbench(problem, with_adaptive(2, value=ValueSettings(folds=2)), seed=0)
    assert make_method(name).within(pooled, 0.5).explored == 0
    single = Workbench(problem, SETTINGS, seed=0)
    assert make_method("ifrqe").within(single, 0.5).explored == 0
    with pytest.raises(AssentError, match="--value influence"):
        pooled.estimates_at(np.ones(len(problem.train), dtype=np.bool_))
