"""What influence claims, against minimising the training loss again."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from assent.influence.inverse import Estimator, conjugate_gradients, system_per_row
from assent.support.arrays import Floats, Ints

from .cases import settled_case
from .oracle import Oracle, minimise

EPSILON = 0.02
"""Share of a row that the derivatives are measured with."""


@pytest.fixture(scope="module")
def oracle() -> Oracle:
    case = settled_case()
    return case.oracle(case.settings(Estimator.TRUNCATED, damping=1e-6))


@pytest.fixture(scope="module")
def social() -> Floats:
    case = settled_case()
    found = case.influence(case.settings(Estimator.TRUNCATED, damping=1e-6))
    assert found.residual_social is not None
    assert found.residual_social < 1e-10
    return found.social


def weighted_loss(oracle: Oracle, weights: Tensor) -> Callable[[Tensor], Tensor]:
    """θ ↦ Σ_k weights[k] ℓ_k(θ)."""
    return lambda theta: weights @ oracle.train_losses(theta)


def without(oracle: Oracle, rows: Ints, share: float = 1.0) -> Tensor:
    """The anchor, less a share of some rows."""
    weights = oracle.samples.anchor.clone()
    weights[rows] -= share
    return weights


class TestConvex:
    """With the items fixed, every user has a separate logistic regression."""

    def solved(self, oracle: Oracle, weights: Tensor) -> Tensor:
        """Every user's loss where their vector minimises the weighted training loss: [problem users]."""
        n_users = oracle.model.n_users
        users, items = oracle.table(oracle.theta)[:n_users], oracle.table(oracle.theta)[n_users:]

        def whole(some: Tensor) -> Tensor:
            return torch.cat([some, items]).flatten()

        loss = weighted_loss(oracle, weights)
        best = minimise(lambda some: loss(whole(some)), users)
        return oracle.sum_per_user(oracle.valid_losses(whole(best)))

    def influence(self, oracle: Oracle) -> Tensor:
        """∇L_uᵀ A_u⁻¹ ∇ℓ_k with the users' blocks A of the curvature."""
        curvature, n_users = oracle.curvature, oracle.model.n_users
        fixed = torch.zeros_like(curvature.tables[1][:-1])
        solution = conjugate_gradients(
            lambda x: curvature.product(torch.cat([x, fixed]))[:n_users],
            curvature.own_gradient(),
            precondition=lambda x: x,
            dot=system_per_row,
            tolerance=1e-12,
            iterations=100,
        )
        return curvature.along(torch.cat([solution.x, fixed]))

    def rows(self, oracle: Oracle, rank: int) -> Ints:
        """The disclosed row of each user with this rank among their rows: these can change all at once."""
        disclosed = np.flatnonzero(oracle.samples.anchor.numpy())
        owners = oracle.samples.users.numpy()[disclosed]
        nth = np.arange(len(owners)) - np.searchsorted(owners, owners)
        chosen: Ints = disclosed[nth == rank]
        return chosen

    @pytest.mark.parametrize("rank", [0, 1])
    def test_influence_is_the_derivative_of_the_loss(self, oracle: Oracle, rank: int) -> None:
        rows = self.rows(oracle, rank)
        less, more = (self.solved(oracle, without(oracle, rows, share)) for share in (EPSILON, -EPSILON))
        measured = ((less - more) / (2 * EPSILON))[settled_case().problem.train.users[rows]]
        assert_close(self.influence(oracle)[rows], measured, rtol=5e-3, atol=1e-3)
        assert measured.abs().max() > 0.05

    def test_influence_orders_what_dropping_a_row_does(self, oracle: Oracle) -> None:
        before = self.solved(oracle, oracle.samples.anchor)
        claimed, measured = [], []
        for rank in range(3):
            rows = self.rows(oracle, rank)
            change = self.solved(oracle, without(oracle, rows)) - before
            claimed.append(self.influence(oracle)[rows])
            measured.append(change[settled_case().problem.train.users[rows]])
        assert np.corrcoef(torch.cat(claimed), torch.cat(measured))[0, 1] > 0.95


class TestMatrixFactorisation:
    """Users and items move together; the full Hessian, solved to the end, is Theorem 1."""

    def change(self, oracle: Oracle, row: int, share: float) -> float:
        """What Σ L_u gains when a share of a row is taken away and the model trained on."""
        theta = minimise(weighted_loss(oracle, without(oracle, np.array([row]), share)), oracle.theta)
        return float((oracle.valid_losses(theta) - oracle.valid_losses(oracle.theta)).sum())

    def rows(self, oracle: Oracle, count: int) -> Iterator[int]:
        disclosed = np.flatnonzero(oracle.samples.anchor.numpy())
        return iter(np.random.default_rng(0).choice(disclosed, count, replace=False).tolist())

    def test_social_influence_is_the_derivative_of_the_losses(self, oracle: Oracle, social: Floats) -> None:
        for row in self.rows(oracle, 4):
            less, more = (self.change(oracle, row, share) for share in (EPSILON, -EPSILON))
            assert social[row] == pytest.approx((less - more) / (2 * EPSILON), rel=5e-3, abs=1e-3)

    def test_social_influence_orders_what_dropping_a_row_does(self, oracle: Oracle, social: Floats) -> None:
        rows = list(self.rows(oracle, 14))
        measured = [self.change(oracle, row, 1.0) for row in rows]
        assert np.corrcoef(social[rows], measured)[0, 1] > 0.95
