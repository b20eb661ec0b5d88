"""Theorems 1 to 4 and 6 of the paper, each as a test; `test_theorem_5` has the fifth."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assent.game.estimates import Estimates, Objective
from assent.game.nearest import response_values
from assent.game.paper import Histories, Meeting, Rewards
from assent.support.arrays import Bools, Floats

from .convex_models import L2, Regression
from .full_tables import drawn_rewards, expected_rewards, joint
from .small_games import all_selections, draw_anchors, eighths, games, make_game, random_game, steady

seeds = st.integers(0, 2**32)
BOTH_KINDS = pytest.mark.parametrize("logistic", [True, False], ids=["logistic", "ridge"])


@BOTH_KINDS
def test_theorem_1_predicts_the_loss_after_retraining(logistic: bool) -> None:
    model = Regression(logistic)
    anchor = draw_anchors(160, 1, rate=0.9, seed=0)
    rng = np.random.default_rng(1)
    near = anchor[0] ^ (rng.random((20, 160)) < 0.02)
    change = np.abs(
        model.valid(model.trained(anchor[0]))[0] - [model.valid(model.trained(o))[0] for o in near]
    )
    errors = model.errors(anchor, near)
    assert errors.mean() < 0.1 * change.mean()
    np.testing.assert_allclose(model.errors(anchor, anchor), 0, atol=1e-7)


@BOTH_KINDS
def test_theorem_1_is_of_first_order(logistic: bool) -> None:
    """A fraction ε of a change: the error falls with ε², as it must where g is the exact derivative."""
    model = Regression(logistic)
    anchor = draw_anchors(160, 1, rate=0.9, seed=0)[0].astype(np.float64)
    game = model.estimates(anchor[None].astype(np.bool_))
    direction = np.random.default_rng(2).normal(size=160)
    errors = []
    for size in (1e-1, 1e-2, 1e-3):
        after = model.valid(model.trained(anchor + size * direction))[0]
        errors.append(np.abs(after - (game.losses[0] - game.effects[0].toarray() @ (size * direction))).max())
    assert all(later < earlier / 50 for earlier, later in pairwise(errors))


@BOTH_KINDS
def test_the_formula_as_printed_is_the_centred_one_at_an_optimum(logistic: bool) -> None:
    """Σ_k õ_k ∇ℓ_k is −L2 θ̃ there, and nothing without a ridge: eq. (3) may leave õ out."""
    model = Regression(logistic)
    anchor = draw_anchors(160, 1, rate=0.9, seed=0)
    theta = model.trained(anchor[0])
    left_out = model.estimates(anchor).effects[0].toarray() @ anchor[0]
    ridge = model.valid(theta)[1] @ np.linalg.solve(model.hessian(anchor[0], theta), -L2 * theta)
    np.testing.assert_allclose(left_out, ridge, atol=1e-6)


@BOTH_KINDS
def test_theorem_3_predicts_from_the_nearest_anchor(logistic: bool) -> None:
    model = Regression(logistic)
    anchors = draw_anchors(160, 3, rate=0.5, seed=1)
    rng = np.random.default_rng(3)
    meant = rng.integers(0, 3, 30)
    selections = anchors[meant] ^ (rng.random((30, 160)) < 0.05)
    np.testing.assert_array_equal(model.estimates(anchors).nearest(selections), meant)
    near = model.errors(anchors, selections)
    one_by_one = np.array([model.errors(anchor[None], selections) for anchor in anchors])
    np.testing.assert_allclose(near, one_by_one[meant, np.arange(30)])
    assert near.mean() < 0.4 * one_by_one.mean()


def random_strategies(game: Estimates, seed: int) -> list[Floats]:
    """A table for each player, drawn evenly from the simplex."""
    rng = np.random.default_rng(seed)
    lengths = np.bincount(game.owners, minlength=game.n_users)
    return [rng.dirichlet(np.ones(2**length)) for length in lengths]


@settings(steady, max_examples=25)
@given(games(n_anchors=1, longest=3), eighths(0, 16), seeds)
def test_theorem_2_the_expected_reward_is_linear_and_the_rest_constant(
    game: Estimates, price: float, seed: int
) -> None:
    strategies = random_strategies(game, seed)
    chance, codes = joint(strategies)
    expected = drawn_rewards(game, codes, price) @ chance
    shown = [strategy @ all_selections(int(np.log2(len(strategy)))) for strategy in strategies]
    values, _ = response_values(game, np.concatenate(shown), Objective.NASH)
    for u, strategy in enumerate(strategies):
        theirs = game.owners == u
        own = all_selections(int(theirs.sum())) @ (values - price * game.unwillingness)[theirs]
        effects = game.effects[0].toarray()[u]
        constant = -game.losses[0, u] - effects @ game.anchors[0]
        for v in range(game.n_users):
            constant += 0 if v == u else effects[game.owners == v] @ shown[v]
        assert strategy @ own + constant == pytest.approx(expected[u], abs=1e-9)


@settings(steady, max_examples=12)
@given(st.integers(2, 3).flatmap(lambda n: games(n, longest=2)), eighths(0, 16), seeds)
def test_theorem_4_the_expected_reward_is_a_sum_over_cells(game: Estimates, price: float, seed: int) -> None:
    """eq. (8) term by term; a selection as near to two anchors counts at the first, not at both."""
    strategies = random_strategies(game, seed)
    total = np.zeros(game.n_users)
    for selection in all_selections(len(game.owners)):
        chance = 1.0
        for u, strategy in enumerate(strategies):
            bits = selection[game.owners == u]
            chance *= strategy[int(bits @ (1 << np.arange(len(bits))))]
        distances = [(selection != anchor).sum() for anchor in game.anchors]
        t = distances.index(min(distances))
        moved = selection.astype(np.float64) - game.anchors[t]
        for u in range(game.n_users):
            theirs = game.owners == u
            effects = game.effects[t].toarray()[u]
            others, own = effects[~theirs] @ moved[~theirs], effects[theirs] @ moved[theirs]
            paid = price * game.unwillingness[theirs] @ selection[theirs]
            total[u] += chance * (-game.losses[t, u] + others + own - paid)
    chances, codes = joint(strategies)
    np.testing.assert_allclose(drawn_rewards(game, codes, price) @ chances, total, atol=1e-9)
    predicted = game.predicted_rewards(Histories(game).selections(codes), price)
    np.testing.assert_allclose(chances @ predicted, total, atol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_the_gradient_of_eq_9_is_the_expected_reward_of_a_selection(seed: int) -> None:
    """And the strategy's own expected reward is (α^u)ᵀ g, as Theorem 5 says."""
    game = random_game(seed, n_anchors=2, disagreement=0.3)
    strategies = random_strategies(game, seed)
    chance, codes = joint(strategies)
    rewards = Rewards(game, Objective.NASH, 0.5)
    meeting = Meeting(rewards, codes)
    for u, strategy in enumerate(strategies):
        gradient, theirs = [], slice(u, u + 1)
        for code in range(len(strategy)):
            own = rewards.parts(theirs, np.full((1, codes.shape[1]), code))
            gradient.append(float(meeting.seen_by(theirs).rewards(own)[0] @ chance))
            pure = [*strategies[:u], np.eye(len(strategy))[code], *strategies[u + 1 :]]
            assert gradient[-1] == pytest.approx(expected_rewards(game, pure, 0.5)[u])
        assert strategy @ gradient == pytest.approx(expected_rewards(game, strategies, 0.5)[u])


def anchored(anchors: Bools) -> Estimates:
    """A game around `anchors[T, Z]` in which nothing is worth anything."""
    length = anchors.shape[1]
    effects, losses = np.zeros((len(anchors), 1, length)), np.zeros((len(anchors), 1))
    return make_game(np.zeros(length, dtype=np.int64), np.zeros(length), anchors, effects, losses)


def upper_bound(anchors: Bools, selections: Bools) -> int:
    """err of Theorem 6 for B = 1: distances to the nearest anchor, over all of `selections[m, Z]`."""
    game = anchored(anchors)
    distances = np.array([game.distances_of(each) for each in selections])
    return int(np.take_along_axis(distances, game.nearest(selections)[:, None], axis=1).sum())


@settings(steady, max_examples=60)
@given(st.integers(1, 7), st.integers(1, 4), st.integers(0, 4), seeds)
def test_theorem_6_more_anchors_never_raise_the_bound(length: int, few: int, more: int, seed: int) -> None:
    anchors, everything = draw_anchors(length, few + more, rate=0.6, seed=seed), all_selections(length)
    assert upper_bound(anchors, everything) <= upper_bound(anchors[:few], everything)


def test_theorem_6_needs_every_selection_to_count_once() -> None:
    """As printed, A_t has ≤: a selection as near to two anchors is in both cells, and the bound can rise."""
    anchors, everything = np.array([[False, True, False], [False, False, True]]), all_selections(3)
    distances = np.array([anchored(anchors).distances_of(each) for each in everything])
    as_printed = int((distances * (distances == distances.min(axis=1, keepdims=True))).sum())
    assert upper_bound(anchors, everything) < upper_bound(anchors[:1], everything) == 12 < as_printed == 14


def test_theorem_6_holds_for_the_anchors_that_are_drawn() -> None:
    """On selections like those that are played; the anchors of IFRQE++ include that of IFRQE."""
    anchors = draw_anchors(300, 8, rate=0.9, seed=0)
    selections = np.random.default_rng(1).random((200, 300)) < 0.8
    bounds = [upper_bound(anchors[:t], selections) for t in range(1, 9)]
    assert all(later <= earlier for earlier, later in pairwise(bounds))
    assert bounds[-1] < bounds[0]
