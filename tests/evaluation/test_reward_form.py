"""Both forms of the reward: what is played for is what is judged."""

from dataclasses import replace

import numpy as np
import pytest

from assent.data.problem import Problem, make_problem
from assent.data.simulate import simulate
from assent.evaluation.evaluate import validation_losses
from assent.evaluation.metrics import RewardForm, rewards
from assent.game.estimates import Objective
from assent.influence.estimate import social_influence
from assent.influence.inverse import Estimator, InfluenceSettings
from assent.lab import Entry, Lab, Training
from assent.lab.anchors import InfluenceAt, effects_in, linearised, random_anchors
from assent.methods import make_method
from assent.models import MFSettings
from assent.models.losses import Loss
from assent.runs.measure import certificate_of
from assent.support.arrays import Floats
from assent.support.sparse import SparseMatrix
from assent.training import Settings, TrainingSettings

SETTINGS = Settings(
    model="mf",
    model_settings=MFSettings(dimension=4),
    training=TrainingSettings(epochs=3, learning_rate=0.05),
)
INFLUENCE = InfluenceSettings(loss=Loss.BCE, estimator=Estimator.GAUSS_NEWTON, tolerance=1e-7, iterations=500)


@pytest.fixture(scope="module")
def problem() -> Problem:
    """Users have from one to three validation rows, and the first has none."""
    whole = make_problem(
        simulate(preference="learnable", users=30, items=40, seed=0), "paper-text", negatives=5
    )
    some = whole.valid.users > 0
    return replace(whole, valid=whole.valid[some], valid_candidates=whole.valid_candidates[some])


@pytest.fixture(scope="module")
def lab(problem: Problem) -> Lab:
    return Lab(problem, SETTINGS, seed=2)


def influence_at(lab: Lab, form: RewardForm, count: int, *, effects: bool = False) -> list[Entry]:
    anchors = random_anchors(lab, count, rate=0.9)
    return lab.run([InfluenceAt(anchor, INFLUENCE, form, effects=effects) for anchor in anchors])


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


def test_effects_on_others_are_about_the_loss_in_the_reward(problem: Problem, lab: Lab) -> None:
    by_sum, by_mean = (influence_at(lab, form, 2, effects=True) for form in RewardForm)
    weights = RewardForm.MEAN.weights(problem.valid_samples())
    for one, other in zip(by_mean, by_sum, strict=True):
        scaled = effects_in(other).toarray() * weights[:, None]
        np.testing.assert_allclose(effects_in(one).toarray(), scaled, rtol=1e-6)


def test_social_influence_is_that_on_the_weighted_sum(problem: Problem, lab: Lab) -> None:
    """The solve is linear here: what two groups of users count separately adds up."""
    [anchor] = random_anchors(lab, 1, rate=0.9)
    [trained] = lab.train([anchor])
    model = linearised(lab, anchor, trained, INFLUENCE)
    weights = RewardForm.MEAN.weights(problem.valid_samples())
    odd = np.arange(problem.n_users) % 2

    def social(of_users: Floats) -> Floats:
        of_rows = of_users[problem.valid.users]
        return social_influence(model, INFLUENCE, 2, of_rows)[0].double().numpy()

    by_sum, by_mean = (influence_at(lab, form, 1)[0].arrays["social"] for form in RewardForm)
    np.testing.assert_allclose(by_mean, social(weights * odd) + social(weights * (1 - odd)), atol=1e-4)
    np.testing.assert_allclose(by_sum, social(np.ones(len(odd))))
    assert not np.allclose(by_mean / by_mean.std(), by_sum / by_mean.std(), atol=0.1)


@pytest.mark.parametrize("objective", list(Objective))
def test_the_decision_weighs_the_price_against_the_form(
    objective: Objective, problem: Problem, lab: Lab
) -> None:
    owners = problem.train.users
    for form in RewardForm:
        method = make_method("ifrqe", objective=objective, reward=form, influence=INFLUENCE)
        choice = method.at_price(lab, 0.01)
        [known] = influence_at(lab, form, 1)
        own = known.arrays["own"] * form.weights(problem.valid_samples())[owners]
        values = own if objective is Objective.NASH else known.arrays["social"]
        np.testing.assert_array_equal(choice.selection, values > 0.01 * problem.unwillingness)


def test_rows_of_a_sparse_matrix_are_scaled() -> None:
    matrix = SparseMatrix.of(np.array([1.0, 2.0, 3.0]), np.array([0, 2, 2]), np.array([1, 0, 1]), (3, 2))
    np.testing.assert_array_equal(
        matrix.scaled(np.array([2.0, 5.0, 10.0])).toarray(), [[0, 2], [0, 0], [20, 30]]
    )


def test_the_certificate_holds_the_prediction_against_a_truth_of_the_same_form(
    problem: Problem, lab: Lab
) -> None:
    for form in RewardForm:
        method = make_method("ifrqe++", anchors=2, reward=form, influence=INFLUENCE)
        choice = method.at_price(lab, 0.1)
        [trained] = lab.train([Training(choice.selection)])
        losses = validation_losses(problem, trained) * form.weights(problem.valid_samples())
        paid = float(problem.unwillingness[choice.selection].sum())
        found = certificate_of(lab, method, choice, trained, 0.1)
        expected = -(float(losses.sum()) + 0.1 * paid) / problem.n_users
        assert found["true_reward"] == pytest.approx(expected)
