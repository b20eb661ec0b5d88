from collections.abc import Callable

import pytest
import torch
from curvlinops import GGNLinearOperator
from torch import Tensor, nn
from torch.testing import assert_close

from assent.influence.closed_form import Curvature
from assent.influence.inverse import Estimator

from .cases import CASES, Case
from .oracle import Oracle

FULL, GAUSS_NEWTON = Estimator.TRUNCATED, Estimator.GAUSS_NEWTON


def close(actual: Tensor, expected: Tensor) -> None:
    assert_close(actual, expected, rtol=1e-9, atol=1e-9)


@pytest.fixture(params=[FULL, GAUSS_NEWTON])
def estimator(request: pytest.FixtureRequest) -> Estimator:
    assert isinstance(request.param, Estimator)
    return request.param


@pytest.fixture(params=CASES, ids=str)
def oracle(request: pytest.FixtureRequest, estimator: Estimator, at_once: int) -> Oracle:
    case: Case = request.param
    return case.oracle(case.settings(estimator, damping=0.3), at_once=at_once)


def dense(product: Callable[[Tensor], Tensor], like: Tensor) -> Tensor:
    """The matrix of a linear map on tensors of the shape of `like`."""
    basis = torch.eye(like.numel(), dtype=like.dtype)
    return torch.stack([product(each.reshape(like.shape)).flatten() for each in basis], dim=1)


def test_product_is_that_of_the_dense_matrix(oracle: Oracle) -> None:
    close(dense(oracle.curvature.product, oracle.table(oracle.theta)), oracle.matrix)


def test_diagonal_is_that_of_the_dense_matrix(oracle: Oracle) -> None:
    close(oracle.curvature.diagonal.flatten(), oracle.matrix.diagonal())


def test_precondition_divides_by_the_diagonal(oracle: Oracle) -> None:
    x = oracle.theta.cos()
    close(oracle.curvature.precondition(oracle.table(x)).flatten(), x / oracle.matrix.diagonal())


def test_ridge_is_the_hessian_of_the_penalties(oracle: Oracle) -> None:
    ridge = oracle.curvature.ridge.expand_as(oracle.table(oracle.theta))
    close(torch.diag(ridge.flatten()), oracle.ridge())


def test_along_is_the_derivative_of_every_row(oracle: Oracle) -> None:
    x = oracle.theta.cos()
    close(oracle.curvature.along(oracle.table(x)), oracle.train_gradients @ x)


def test_pull_is_the_weighted_sum_of_the_gradients(oracle: Oracle) -> None:
    weights = torch.linspace(-1, 2, len(oracle.samples.users), dtype=torch.float64)
    close(oracle.curvature.pull(weights).flatten(), weights @ oracle.train_gradients)


def test_pull_of_the_anchor_is_the_gradient_of_its_loss(oracle: Oracle) -> None:
    gradient = torch.func.grad(oracle.anchor_loss)(oracle.theta)
    close(oracle.curvature.pull(oracle.samples.anchor).flatten(), gradient)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_gauss_newton_is_positive_definite_where_the_hessian_need_not_be(case: Case) -> None:
    lowest = torch.linalg.eigvalsh(case.oracle(case.settings(GAUSS_NEWTON)).matrix)[0]
    assert lowest > 0.1 - 1e-9


class Logits(nn.Module):
    """A model's logits of rows (user, item, negative, ...)."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, rows: Tensor) -> Tensor:
        logits, _ = self.model(rows[:, 0], rows[:, 1:])
        assert isinstance(logits, Tensor)
        return logits


def curvlinops_product(curvature: Curvature, x: Tensor) -> Tensor:
    """The Gauss-Newton product of curvlinops, without penalties and damping."""
    model, samples = curvature.model, curvature.samples
    weights = samples.anchor[:, None] * samples.weights
    labels = torch.zeros_like(weights)
    labels[:, 0] = 1
    operator = GGNLinearOperator(
        Logits(model),
        nn.BCEWithLogitsLoss(weight=weights, reduction="sum"),
        [model.user_table, model.item_table],
        [(torch.cat([samples.users[:, None], samples.items], dim=1), labels)],
    )
    unknown = torch.zeros_like(x[:1])
    image_users, image_items = operator @ [
        torch.cat([x[: model.n_users], unknown]),
        torch.cat([x[model.n_users :], unknown]),
    ]
    return torch.cat([image_users[:-1], image_items[:-1]])


@pytest.mark.parametrize("case", CASES, ids=str)
def test_gauss_newton_is_that_of_curvlinops(case: Case) -> None:
    oracle = case.oracle(case.settings(GAUSS_NEWTON))
    x = oracle.table(oracle.theta.cos())
    expected = curvlinops_product(oracle.curvature, x) + oracle.curvature.ridge * x
    close(oracle.curvature.product(x), expected)
