import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from scipy import stats

from assent.runs.lds import SCORES, rank_correlations, score_orders
from assent.support.arrays import Floats


@given(st.data(), array_shapes(min_dims=2, max_dims=2, min_side=2, max_side=8))
def test_rank_correlations_are_those_of_scipy(data: st.DataObject, shape: tuple[int, ...]) -> None:
    few_values = arrays(np.float64, shape, elements=st.sampled_from([-1.0, 0.0, 0.5, 2.0]))
    a, b = data.draw(few_values), data.draw(few_values)
    for column, correlation in enumerate(rank_correlations(a, b)):
        x, y = a[:, column], b[:, column]
        is_constant = np.ptp(x) == 0 or np.ptp(y) == 0
        expected = 0 if is_constant else stats.spearmanr(x, y).statistic
        assert correlation == pytest.approx(expected, abs=1e-12)


def noisy(truth: Floats, share: float, seed: int) -> Floats:
    return share * truth + np.random.default_rng(seed).normal(size=truth.shape)


def figures(scores: dict[str, float | None]) -> list[float]:
    """The scores in order, none of them missing."""
    return [value for name in SCORES if (value := scores[name]) is not None]


def interval(truth: Floats, predicted: Floats) -> tuple[float, float, float]:
    """Score, low and high of one prediction."""
    lds, low, high, *_ = figures(score_orders({"it": predicted}, truth, seed=0).against("it")["it"])
    return lds, low, high


def test_the_interval_covers_what_other_selections_and_users_would_give() -> None:
    """Against the spread over 200 worlds in which errors are shared by users, and users differ."""
    rng = np.random.default_rng(3)
    found = []
    for _ in range(200):
        truth = rng.normal(size=(24, 40))
        shared, quality = rng.normal(size=(24, 1)), rng.uniform(0, 2, size=40)
        predicted = quality * truth + shared + 0.5 * rng.normal(size=truth.shape)
        found.append((truth, predicted))
    lds = np.array([rank_correlations(predicted, truth).mean() for truth, predicted in found])
    half = [(high - low) / 2 for _, low, high in (interval(*each) for each in found[:20])]
    assert np.mean(half) == pytest.approx(1.96 * lds.std(), rel=0.25)


def test_users_that_share_their_errors_are_no_many_witnesses() -> None:
    rng = np.random.default_rng(0)
    truth = np.tile(rng.normal(size=(16, 1)), 500)
    predicted = np.tile(truth[:, :1] + rng.normal(size=(16, 1)), 500)
    lds, low, high = interval(truth, predicted)
    assert low <= lds <= high
    assert (low, high) == pytest.approx(interval(truth[:, :1], predicted[:, :1])[1:], abs=0.05)
    assert high - low > 0.3


def test_intervals_lie_around_the_score() -> None:
    truth = np.random.default_rng(1).normal(size=(12, 2000))
    lds, low, high = interval(truth, noisy(truth, 1, 2))
    assert (low + high) / 2 == pytest.approx(lds, abs=0.01)
    assert interval(truth, truth) == pytest.approx((1, 1, 1))


def test_differences_are_paired() -> None:
    """Two predictions with one error between them are told apart, though their intervals overlap."""
    rng = np.random.default_rng(1)
    truth = np.tile(rng.normal(size=(32, 1)), 50)
    good = truth + 0.7 * rng.normal(size=(32, 1))
    worse = good + rng.normal(size=truth.shape)
    found = score_orders({"good": good, "worse": worse}, truth, seed=0).against("good")
    _, good_low, _, *nothing = figures(found["good"])
    _, _, worse_high, behind, low, high = figures(found["worse"])
    assert good_low < worse_high
    assert 0 < low < behind < high
    assert nothing == [0, 0, 0]


def test_what_does_not_vary_orders_nothing() -> None:
    truth = np.random.default_rng(0).normal(size=(8, 4))
    half = truth.copy()
    half[:, :2] = 7
    found = score_orders({"all": truth, "half": half}, truth, seed=0).against("all")
    assert (found["all"]["lds"], found["half"]["lds"]) == pytest.approx((1, 0.5))
    assert found["half"]["behind"] == pytest.approx(0.5)


def test_a_truth_that_does_not_vary_has_no_order() -> None:
    truth = np.random.default_rng(0).normal(size=(8, 4))
    partly = truth.copy()
    partly[:, :3] = 0
    assert score_orders({"it": truth}, partly, seed=0).against("it")["it"]["lds"] == pytest.approx(1)
    nothing = score_orders({"it": truth}, 0 * truth, seed=0).against("it")
    assert nothing == {"it": dict.fromkeys(SCORES)}


def test_the_seed_decides_the_draws() -> None:
    truth = np.random.default_rng(0).normal(size=(10, 5))
    given = {"it": noisy(truth, 1, 1)}
    first, again, other = (score_orders(given, truth, seed=seed).against("it") for seed in (1, 1, 2))
    assert first == again
    assert first["it"]["lds"] == other["it"]["lds"]
    assert first["it"]["low"] != other["it"]["low"]
