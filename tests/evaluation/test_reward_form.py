"""Both forms of the reward: what is played for is what is judged."""

from dataclasses import replace

import numpy as np
import pytest
from assent.settings import Settings
from assent.workbench import Workbench
from assent.worth.settings import Source, ValueSettings

from assent.data.problem import Problem
from assent.data.simulate import simulate
from assent.data.split import make_problem
from assent.evaluation.evaluate import validation_losses
from assent.evaluation.metrics import RewardForm, rewards
from assent.game.estimates import Objective
from assent.influence.estimate import social_influence
from assent.influence.inverse import Estimator, InfluenceSettings
from assent.methods import make_method
from assent.models import MFSettings
from assent.models.losses import Loss
from assent.runs.measure import certificate_of
from assent.support.arrays import Floats, sum_by
from assent.support.sparse import SparseMatrix
from assent.training import TrainingSettings

SETTINGS = Settings(
    model_settings=MFSettings(dimension=4),
    training=TrainingSettings(epochs=3, learning_rate=0.05),
    influence=InfluenceSettings(
        loss=Loss.BCE, estimator=Estimator.GAUSS_NEWTON, tolerance=1e-7, iterations=500
    ),
    anchors=2,
    value=ValueSettings(source=Source.INFLUENCE),
)
MEAN = SETTINGS.model_copy(update={"reward": RewardForm.MEAN})


@pytest.fixture(scope="module")
def problem() -> Problem:
    """Users have from one to three validation rows, and the first has none."""
    whole = make_problem(
        simulate(preference="learnable", users=30, items=40, seed=0), "paper-text", negatives=5
    )
    some = whole.valid.users > 0
    return replace(whole, valid=whole.valid[some], valid_candidates=whole.valid_candidates[some])


@pytest.fixture(scope="module")
def both(problem: Problem) -> dict[RewardForm, Workbench]:
    return {each.reward: Workbench(problem, each, seed=2) for each in (SETTINGS, MEAN)}


def test_weights_turn_sums_into_means(problem: Problem) -> None:
    samples = problem.valid_samples()
    assert samples[0] == 0
    assert len(np.unique(samples)) > 2
    assert samples.sum() == problem.valid_candidates.size
    losses = np.random.default_rng(0).random(problem.n_users) * (samples > 0)
    nothing = np.zeros(problem.n_users)
    for form in RewardForm:
        expected = rewards(losses, samples, nothing, price=1.0)[f"reward_{form}"]
        np.testing.assert_allclose(-form.weights(samples) * losses, expected)


def test_users_without_validation_rows_weigh_as_the_mean_user() -> None:
    """Rows of a fold stand for theirs; with a weight of 1 they would drown everybody else's."""
    np.testing.assert_allclose(RewardForm.MEAN.weights(np.array([100, 0, 300])), [1 / 100, 1 / 200, 1 / 300])
    np.testing.assert_array_equal(RewardForm.MEAN.weights(np.zeros(2, dtype=np.int64)), [1, 1])
    np.testing.assert_array_equal(RewardForm.SUM.weights(np.array([100, 0])), [1, 1])


def test_estimates_are_about_the_loss_in_the_reward(
    problem: Problem, both: dict[RewardForm, Workbench]
) -> None:
    by_sum, by_mean = (both[form].estimates(2, effects=True) for form in RewardForm)
    weights = RewardForm.MEAN.weights(problem.valid_samples())
    np.testing.assert_allclose(by_mean.own, by_sum.own * weights[problem.train.users])
    np.testing.assert_allclose(by_mean.losses, by_sum.losses * weights)
    for one, other in zip(by_mean.effects, by_sum.effects, strict=True):
        np.testing.assert_allclose(one.toarray(), other.toarray() * weights[:, None], rtol=1e-6)
    truth = validation_losses(problem, both[RewardForm.MEAN].anchor(0)[1])
    np.testing.assert_allclose(by_mean.losses[0], truth * weights, rtol=1e-5)


def test_social_influence_is_that_on_the_weighted_sum(
    problem: Problem, both: dict[RewardForm, Workbench]
) -> None:
    """The solve is linear here: what two groups of users count separately adds up."""
    model = both[RewardForm.SUM].linearise(0)
    weights = RewardForm.MEAN.weights(problem.valid_samples())
    odd = np.arange(problem.n_users) % 2

    def social(of_users: Floats) -> Floats:
        of_rows = of_users[problem.valid.users]
        return social_influence(model, SETTINGS.influence, 2, of_rows)[0].double().numpy()

    found = both[RewardForm.MEAN].estimates(1).social[0]
    np.testing.assert_allclose(found, social(weights * odd) + social(weights * (1 - odd)), atol=1e-4)
    np.testing.assert_allclose(both[RewardForm.SUM].estimates(1).social[0], social(np.ones(len(odd))))
    assert not np.allclose(found / found.std(), social(np.ones(len(odd))) / found.std(), atol=0.1)


@pytest.mark.parametrize("objective", list(Objective))
def test_the_decision_weighs_the_price_against_the_form(
    objective: Objective, problem: Problem, both: dict[RewardForm, Workbench]
) -> None:
    method = make_method("ifrqe", objective)
    for form, bench in both.items():
        choice = method.at_price(bench, 0.01)
        values = bench.estimates(1).values(objective)[0]
        np.testing.assert_array_equal(choice.selection, values > 0.01 * problem.unwillingness)
        if form is RewardForm.MEAN and objective is Objective.NASH:
            scale = np.maximum(problem.valid_samples(), 1)[problem.train.users]
            own = both[RewardForm.SUM].estimates(1).own[0]
            np.testing.assert_array_equal(choice.selection, own > 0.01 * scale * problem.unwillingness)


def test_predicted_rewards_are_of_the_form(problem: Problem, both: dict[RewardForm, Workbench]) -> None:
    anchor = both[RewardForm.MEAN].anchor(0)[0]
    paid = sum_by(problem.train.users, problem.unwillingness * anchor, problem.n_users)
    for form, bench in both.items():
        estimates = bench.estimates(1, effects=True)
        expected = rewards(
            validation_losses(problem, bench.anchor(0)[1]), problem.valid_samples(), paid, price=0.3
        )
        found = estimates.predicted_rewards(anchor[None], 0.3)[0]
        np.testing.assert_allclose(found, expected[f"reward_{form}"], rtol=1e-5)


def test_rows_of_a_sparse_matrix_are_scaled() -> None:
    matrix = SparseMatrix.of(np.array([1.0, 2.0, 3.0]), np.array([0, 2, 2]), np.array([1, 0, 1]), (3, 2))
    np.testing.assert_array_equal(
        matrix.scaled(np.array([2.0, 5.0, 10.0])).toarray(), [[0, 2], [0, 0], [20, 30]]
    )


def test_the_certificate_holds_the_prediction_against_a_truth_of_the_same_form(
    problem: Problem, both: dict[RewardForm, Workbench]
) -> None:
    for form, bench in both.items():
        choice = make_method("ifrqe++", Objective.WELFARE).at_price(bench, 0.1)
        trained = bench.final(choice.selection)
        losses = validation_losses(problem, trained) * form.weights(problem.valid_samples())
        paid = float(problem.unwillingness[choice.selection].sum())
        found = certificate_of(bench, choice, trained, 0.1)
        expected = -(float(losses.sum()) + 0.1 * paid) / problem.n_users
        assert found["true_reward"] == pytest.approx(expected)
