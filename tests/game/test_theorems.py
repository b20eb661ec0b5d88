"""Theorems 1 to 6 of the paper, each as a test."""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from assent.arrays import Bools, Floats, Ints
from assent.game import algorithms
from assent.game.algorithms import algorithm_3
from assent.game.anchors import draw_anchors
from assent.game.estimates import Estimates
from assent.game.learning import Learning
from assent.game.objective import Objective
from assent.game.rewards import Rewards
from assent.game.simplex import simplex_shift
from assent.game.strategy import Gradient, TableSettings
from assent.game.tables import Tables

from .games import all_selections, eighths, games, make_game, random_game, steady
from .listed import expected_rewards, listed

seeds = st.integers(0, 2**32)
L2 = 1.0
"""Ridge of the regressions, which no selection takes away."""


@dataclass(frozen=True)
class Regression:
    """A model with a convex loss: samples of several users, a parameter vector that they share.

    Training minimises Σ_k o_k ℓ_k(θ) + L2/2 |θ|² over Z samples; every user has a validation sample.
    """

    logistic: bool
    seed: int = 0
    n_users: int = 4
    each: int = 40

    @cached_property
    def owners(self) -> Ints:
        return np.repeat(np.arange(self.n_users), self.each)

    @cached_property
    def data(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Features and labels to train on, [Z, 3] and [Z]; to validate on, a row per user."""
        rng = np.random.default_rng(self.seed)
        x, v = rng.normal(size=(len(self.owners), 3)), rng.normal(size=(self.n_users, 3))
        truth = np.array([1.0, -1.0, 0.5])
        y, w = x @ truth + rng.normal(size=len(x)), v @ truth + rng.normal(size=len(v))
        return (x, (y > 0) * 1.0, v, (w > 0) * 1.0) if self.logistic else (x, y, v, w)

    def derivatives(self, theta: Floats) -> tuple[Floats, Floats]:
        """∇ℓ_k, [Z, 3], and the curvature of ℓ_k in its score, [Z]."""
        x, y, _, _ = self.data
        score = x @ theta
        mean = expit(score) if self.logistic else score
        return (mean - y)[:, None] * x, mean * (1 - mean) if self.logistic else np.ones(len(x))

    def hessian(self, selection: Bools | Floats, theta: Floats) -> Floats:
        x = self.data[0]
        found: Floats = (x.T * (selection * self.derivatives(theta)[1])) @ x + L2 * np.eye(3)
        return found

    def trained(self, selection: Bools | Floats) -> Floats:
        """θ̂(o), by Newton's method to the last digit."""
        theta = np.zeros(3)
        for _ in range(50):
            slope = selection @ self.derivatives(theta)[0] + L2 * theta
            theta = theta - np.linalg.solve(self.hessian(selection, theta), slope)
        assert np.abs(slope).max() < 1e-11
        return theta

    def valid(self, theta: Floats) -> tuple[Floats, Floats]:
        """Every user's validation loss, [N], and its gradient, [N, 3]."""
        _, _, v, w = self.data
        score = v @ theta
        if self.logistic:
            return np.logaddexp(0, score) - w * score, (expit(score) - w)[:, None] * v
        return (score - w) ** 2 / 2, (score - w)[:, None] * v

    def estimates(self, anchors: Bools) -> Estimates:
        """Theorem 1 at every anchor: g_uk = ∇L_uᵀ H⁻¹ ∇ℓ_k; the paper's 1/Z is in H and cancels."""
        effects, losses = [], []
        for anchor in anchors:
            theta = self.trained(anchor)
            loss, slope = self.valid(theta)
            effects.append(slope @ np.linalg.solve(self.hessian(anchor, theta), self.derivatives(theta)[0].T))
            losses.append(loss)
        return make_game(
            self.owners,
            np.zeros(len(self.owners)),
            anchors,
            np.array(effects),
            np.array(losses),
        )

    def errors(self, anchors: Bools, selections: Bools) -> Floats:
        """|predicted − retrained| of everybody's validation loss: [B, N]."""
        retrained = np.array([self.valid(self.trained(each))[0] for each in selections])
        found: Floats = np.abs(self.estimates(anchors).predicted_losses(selections) - retrained)
        return found


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
    enumerated = expected_rewards(game, strategies, price)
    shown = [strategy @ all_selections(int(np.log2(len(strategy)))) for strategy in strategies]
    for u, strategy in enumerate(strategies):
        hers = game.owners == u
        own = all_selections(int(hers.sum())) @ (game.own[0] - price * game.unwillingness)[hers]
        effects = game.effects[0].toarray()[u]
        constant = -game.losses[0, u] - effects @ game.anchors[0]
        for v in range(game.n_users):
            constant += 0 if v == u else effects[game.owners == v] @ shown[v]
        assert strategy @ own + constant == pytest.approx(enumerated[u], abs=1e-9)


@settings(steady, max_examples=12)
@given(st.integers(2, 3).flatmap(lambda n: games(n, longest=2)), eighths(0, 16), seeds)
def test_theorem_4_the_expected_reward_is_a_sum_over_cells(game: Estimates, price: float, seed: int) -> None:
    """eq. (8) term by term; a selection as near to two anchors counts at the first, not at both."""
    strategies = random_strategies(game, seed)
    enumerated = expected_rewards(game, strategies, price)
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
            hers = game.owners == u
            effects = game.effects[t].toarray()[u]
            others, own = effects[~hers] @ moved[~hers], effects[hers] @ moved[hers]
            paid = price * game.unwillingness[hers] @ selection[hers]
            total[u] += chance * (-game.losses[t, u] + others + own - paid)
    np.testing.assert_allclose(total, enumerated, atol=1e-9)


def test_the_gradient_of_eq_9_is_the_expected_reward_of_a_selection() -> None:
    """And the strategy's own expected reward is (α^u)ᵀ g, as Theorem 5 says."""
    game = random_game(3, n_anchors=2, disagreement=0.3)
    strategies = random_strategies(game, 0)
    for u in range(game.n_users):
        gradient = []
        for code in range(len(strategies[u])):
            pure = np.eye(len(strategies[u]))[code]
            gradient.append(expected_rewards(game, [*strategies[:u], pure, *strategies[u + 1 :]], 0.5)[u])
        assert strategies[u] @ gradient == pytest.approx(expected_rewards(game, strategies, 0.5)[u])


class Recorded(Learning):
    """Learning that remembers the largest step of every player and sample: [steps][R]."""

    moves: ClassVar[list[Floats]] = []

    def step(self, classes: Ints, codes: Ints, moves: Floats) -> None:
        self.moves.append(moves)
        super().step(classes, codes, moves)


def test_theorem_5_bounds_what_algorithm_3_falls_short_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mean over 64 players alike, each of whom learns by herself.

    G is the largest |ĝ|² of the run; the printed bound is 1/(Lγ) + γ²G². The proof's steps, done with care,
    give 1/(Lγ) + γ E|ĝ|² / 2.
    """
    monkeypatch.setattr(algorithms, "Learning", Recorded)
    worth = np.array([0.25, -0.5])
    effects = np.kron(np.eye(64), worth)[None]
    anchors = np.ones((1, 128), dtype=np.bool_)
    game = make_game(np.repeat(np.arange(64), 2), np.zeros(128), anchors, effects, np.ones((1, 64)))
    rewards, everybody = Rewards(game, Objective.NASH, 0.5), slice(0, 64)
    for samples, step in [(50, 0.1), (400, 0.02), (400, 0.1)]:
        Recorded.moves.clear()
        settings = TableSettings(samples=samples, step=step, gradient=Gradient.UNBIASED)
        rng = np.random.default_rng(samples)
        start = Tables.prior(rewards.histories.lengths, 0.9)
        meeting = rewards.meet(start.draw(samples, rng)[1])
        learnt, _ = algorithm_3(start, meeting, everybody, settings, rng)
        reached = [listed(learnt, u) @ (all_selections(2) @ worth) for u in range(64)]
        short = 0.25 - np.mean(reached)
        squares = (np.array(Recorded.moves) / step) ** 2
        print(
            f"L {samples}, γ {step}: short by {short:.4f}; G {squares.max():.3g}, mean {squares.mean():.3g}"
        )
        assert 0 <= short <= 1 / (samples * step) + step * squares.mean() / 2
        assert short <= 1 / (samples * step) + step**2 * squares.max() ** 2


def test_the_bound_of_theorem_5_lacks_a_factor_where_steps_are_small() -> None:
    """The proof drops 1/(2γ) before γ²G²: with γG < 1/2 a run can fall short by more than is printed."""
    step, steps, gap = 0.05, 4000, 0.1
    rng = np.random.default_rng(0)
    strategy, short = np.full((200, 2), 0.5), 0.0
    ones = np.ones_like(strategy)
    for _ in range(steps):
        short += gap * strategy[:, 1].mean() / steps
        difference = gap + rng.choice([-1.0, 1.0], 200)
        strategy = strategy + step * np.outer(difference, [0.5, -0.5])
        strategy = np.maximum(strategy - simplex_shift(strategy, ones)[:, None], 0)
    largest = (1 + gap) ** 2 / 2
    assert short > 1 / (steps * step) + step**2 * largest**2
    assert short <= 1 / (steps * step) + step * largest / 2


def upper_bound(anchors: Bools, *, ties_everywhere: bool = False) -> int:
    """err of Theorem 6 for B = 1: distances to the nearest anchor, over all selections."""
    selections = all_selections(anchors.shape[1])
    distances = (selections[:, None] != anchors).sum(axis=2)
    least = distances.min(axis=1, keepdims=True)
    return int((distances * (distances == least)).sum() if ties_everywhere else least.sum())


@settings(steady, max_examples=60)
@given(st.integers(1, 7), st.integers(1, 4), st.integers(0, 4), seeds)
def test_theorem_6_more_anchors_never_raise_the_bound(length: int, few: int, more: int, seed: int) -> None:
    anchors = draw_anchors(length, few + more, rate=0.6, seed=seed)
    assert upper_bound(anchors) <= upper_bound(anchors[:few])


def test_theorem_6_needs_every_selection_to_count_once() -> None:
    """As printed, A_t has ≤: a selection as near to two anchors is in both cells, and the bound can rise."""
    anchors = np.array([[False, True, False], [False, False, True]])
    assert upper_bound(anchors[:1], ties_everywhere=True) == 12
    assert upper_bound(anchors, ties_everywhere=True) == 14
    assert upper_bound(anchors) < upper_bound(anchors[:1]) == 12


def test_theorem_6_holds_for_the_anchors_that_are_drawn() -> None:
    """On selections like those that are played; the anchors of IFRQE++ include that of IFRQE."""
    anchors = draw_anchors(300, 8, rate=0.9, seed=0)
    selections = np.random.default_rng(1).random((200, 300)) < 0.8
    distances = (selections[:, None] != anchors).sum(axis=2)
    bounds = [distances[:, :t].min(axis=1).mean() for t in range(1, 9)]
    assert all(later <= earlier for earlier, later in pairwise(bounds))
    assert bounds[-1] < bounds[0]
