import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal, norm

from assent.game.estimates import Estimates, Objective
from assent.game.nearest import Cells, cells, normal_cells, response_values
from assent.game.prices import worth_disclosing
from assent.support.arrays import Bools, Floats, Ints

from .small_games import all_selections, make_game, payoffs, random_game, steady

SEVERAL = pytest.mark.parametrize("n_anchors", [2, 3, 5])
seeds = st.integers(0, 2**32)


def cells_of(anchors: Bools, strategy: Floats) -> Cells:
    """The cells of a game in which nothing but the anchors and the strategy matters."""
    n_anchors, length = anchors.shape
    owners: Ints = np.zeros(length, dtype=np.int64)
    effects, losses = np.zeros((n_anchors, 1, length)), np.zeros((n_anchors, 1))
    return cells(make_game(owners, np.zeros(length), anchors, effects, losses), strategy)


def shares(distances: Ints) -> Floats:
    """Who is nearest in each row of `distances[m, T]`; ties are shared."""
    nearest = distances == distances.min(axis=1, keepdims=True)
    return np.asarray(nearest / nearest.sum(axis=1, keepdims=True))


def enumerated(anchors: Bools, strategy: Floats) -> Floats:
    """The probability of each cell, from all outcomes of independent bits."""
    outcomes = all_selections(anchors.shape[1])
    weights = np.where(outcomes, strategy, 1 - strategy).prod(axis=1)
    return np.asarray(weights @ shares((outcomes[:, None] != anchors).sum(axis=2)))


def exact(mean: Floats, cov: Floats) -> Floats:
    """P(D_t < D_s for all s ≠ t) of normal distances, from the distribution function of the differences."""
    found = []
    for t in range(len(mean)):
        minus = np.delete(np.eye(len(mean))[t] - np.eye(len(mean)), t, axis=0)
        found.append(multivariate_normal.cdf(np.zeros(len(minus)), minus @ mean, minus @ cov @ minus.T))
    return np.array(found)


def finite_differences(mean: Floats, cov: Floats, step: float = 1e-3) -> Floats:
    """∂ probability_t / ∂ mean_s, [t, s]."""
    moves = step * np.eye(len(mean))
    return np.array([(exact(mean + m, cov) - exact(mean - m, cov)) / (2 * step) for m in moves]).T


def some_normal(n_anchors: int, seed: int) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(n_anchors, n_anchors))
    return rng.normal(size=n_anchors), root @ root.T


@SEVERAL
@pytest.mark.parametrize("length", [12, 14])
def test_cells_of_few_bits_agree_with_enumeration(n_anchors: int, length: int) -> None:
    for seed in range(5):
        rng = np.random.default_rng(seed)
        anchors, strategy = rng.random((n_anchors, length)) < 0.5, rng.uniform(0.3, 0.7, length)
        found = cells_of(anchors, strategy).probability
        np.testing.assert_allclose(found, enumerated(anchors, strategy), atol=0.04)


@SEVERAL
def test_cells_of_many_bits_agree_with_draws(n_anchors: int) -> None:
    rng = np.random.default_rng(n_anchors)
    anchors, strategy = rng.random((n_anchors, 2000)) < 0.9, rng.uniform(0.2, 1, 2000)
    outcomes = (rng.random((6000, 2000), dtype=np.float32) < strategy).astype(np.float32)
    distances = np.rint(outcomes @ (1 - 2 * anchors.T.astype(np.float32))).astype(np.int64) + anchors.sum(
        axis=1
    )
    found = cells_of(anchors, strategy).probability
    np.testing.assert_allclose(found, shares(distances).mean(axis=0), atol=0.02)
    assert found.max() < 0.95


@SEVERAL
@settings(steady, max_examples=20)
@given(seed=seeds)
def test_probabilities_sum_to_one_and_slopes_to_nothing(n_anchors: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    found = cells_of(rng.random((n_anchors, 40)) < 0.7, rng.random(40))
    assert found.probability.min() >= 0
    assert found.probability.sum() == pytest.approx(1)
    np.testing.assert_allclose(found.slopes.sum(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(found.slopes.sum(axis=1), 0, atol=1e-12)
    assert (np.diag(found.slopes) <= 0).all()


@settings(steady, max_examples=30)
@given(seeds)
def test_two_normal_distances_have_a_closed_form(seed: int) -> None:
    mean, cov = some_normal(2, seed)
    spread = np.sqrt(cov[0, 0] + cov[1, 1] - 2 * cov[0, 1])
    gap = (mean[1] - mean[0]) / spread
    found = normal_cells(mean, cov)
    np.testing.assert_allclose(found.probability, [norm.cdf(gap), norm.cdf(-gap)], atol=0.005)
    slope = norm.pdf(gap) / spread
    np.testing.assert_allclose(found.slopes, [[-slope, slope], [slope, -slope]], rtol=1e-9)
    np.testing.assert_allclose(found.slopes, finite_differences(mean, cov), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("seed", range(8))
def test_three_normal_distances_agree_with_their_distribution_function(seed: int) -> None:
    mean, cov = some_normal(3, seed)
    found = normal_cells(mean, cov)
    np.testing.assert_allclose(found.probability, exact(mean, cov), atol=0.01)
    np.testing.assert_allclose(found.slopes, finite_differences(mean, cov), atol=0.01)


@pytest.mark.parametrize("n_anchors", [3, 5])
def test_slopes_are_those_of_the_probabilities(n_anchors: int) -> None:
    mean, cov = some_normal(n_anchors, 1)
    found = normal_cells(mean, cov)
    for s, move in enumerate(0.2 * np.eye(n_anchors)):
        rise = normal_cells(mean + move, cov).probability - normal_cells(mean - move, cov).probability
        np.testing.assert_allclose(rise / 0.4, found.slopes[:, s], atol=0.02)


@steady
@given(st.integers(2, 5), seeds)
def test_pure_strategies_make_the_nearest_certain(n_anchors: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    anchors, selection = rng.random((n_anchors, 9)) < 0.6, rng.random(9) < 0.6
    found = cells_of(anchors, selection.astype(np.float64))
    expected = shares((anchors != selection).sum(axis=1)[None])[0]
    np.testing.assert_allclose(found.probability, expected, atol=1e-12)
    np.testing.assert_array_equal(found.slopes, 0)


def test_anchors_at_the_same_distance_share() -> None:
    anchors = np.array([[True, False, False], [False, True, False], [False, False, True], [True, True, True]])
    found = cells_of(anchors, np.zeros(3))
    np.testing.assert_allclose(found.probability, [1 / 3, 1 / 3, 1 / 3, 0])


@pytest.mark.parametrize("seed", range(6))
def test_anchors_that_coincide_share_one_cell(seed: int) -> None:
    rng = np.random.default_rng(seed)
    anchors, strategy = rng.random((2, 12)) < 0.5, rng.uniform(0.3, 0.7, 12)
    apart, twice = cells_of(anchors, strategy), cells_of(anchors[[0, 0, 1]], strategy)
    together = np.array([[1, 1, 0], [0, 0, 1]])
    np.testing.assert_allclose(together @ twice.probability, apart.probability, atol=0.005)
    assert twice.probability[0] == pytest.approx(twice.probability[1], abs=0.005)
    # Both copies move at once, so the probability that moves to the other anchor is the same as from one.
    np.testing.assert_allclose(together @ twice.slopes @ together.T, apart.slopes, atol=0.005)


def test_cells_are_the_same_on_every_call() -> None:
    mean, cov = some_normal(5, 3)
    one, same = normal_cells(mean, cov), normal_cells(mean, cov)
    np.testing.assert_array_equal(one.probability, same.probability)
    np.testing.assert_array_equal(one.slopes, same.slopes)


PRICE = 0.5


def expected_payoffs(game: Estimates, player: int, strategy: Floats, objective: Objective) -> Floats:
    """Of each of the 2^|S| selections while the others disclose with probabilities `strategy[Z]`: [2^|S|].

    All that the others can do is listed, and so the distribution of their distances to the anchors is exact.
    """
    theirs = game.owners == player
    others = all_selections(int((~theirs).sum()))
    chance = np.where(others, strategy[~theirs], 1 - strategy[~theirs]).prod(axis=1)
    joint = np.empty((len(others), len(theirs)), dtype=np.bool_)
    joint[:, ~theirs] = others
    found = []
    for mine in all_selections(int(theirs.sum())):
        joint[:, theirs] = mine
        found.append(chance @ payoffs(game, joint, PRICE, objective)[:, player])
    return np.array(found)


@pytest.mark.parametrize("objective", list(Objective))
@pytest.mark.parametrize("n_anchors", [2, 3])
def test_responses_are_nearly_the_best_of_all_selections(objective: Objective, n_anchors: int) -> None:
    """They rest on normal distances and on slopes at their own strategy: good, not exact, for 12 bits."""
    lost: list[float] = []
    blind: list[float] = []
    for seed in range(25):
        game = random_game(seed, n_anchors=n_anchors, n_users=5, longest=3, disagreement=0.2)
        strategy = np.random.default_rng(seed).uniform(0.2, 0.8, len(game.owners))
        values, _ = response_values(game, strategy, objective)
        theirs = game.owners == 0
        exact = expected_payoffs(game, 0, strategy, objective)
        for known, losses in ((values, lost), (game.values(objective)[0], blind)):
            answer = worth_disclosing(known, game.unwillingness, PRICE)[theirs]
            reached = exact[int(answer @ (1 << np.arange(len(answer))))]
            losses.append((exact.max() - reached) / np.ptp(exact))
    print(f"{objective}, {n_anchors} anchors, share of the range lost: {np.quantile(lost, [0.5, 0.8, 1])}")
    assert np.median(lost) == 0
    assert np.mean(lost) < 0.05
    assert np.mean(lost) < 0.7 * np.mean(blind)
