from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from assent.influence.autodiff import Autodiff
from assent.influence.estimate import influence, linearise, own_by_groups, predicted_losses
from assent.influence.inverse import Estimator
from assent.models import Draws, ModelSettings
from assent.models.losses import Loss
from assent.support.errors import AssentError

from .cases import CASES, STAR_CASES, Case, settled_case
from .oracle import minimise
from .readers import Dense, PairwiseReader, Reader

DAMPING = 8.0
"""Enough to make the Hessian of a model with random parameters definite."""


def reading(
    case: Case,
    estimator: Estimator = Estimator.TRUNCATED,
    kind: type[Reader] = Reader,
    *,
    at_once: int | None = None,
) -> Autodiff:
    """A model that reads the selection, in place of the case's own; `at_once` samples make a block."""
    if at_once is not None:
        kind = type(kind.__name__, (kind,), {"samples_at_once": at_once})
    model = kind(case.model.sizes, ModelSettings()).double()
    model.initialise(Draws.numbered(model.sizes, 3))
    trained = replace(case.trained, model=model)
    settings = case.settings(estimator, damping=DAMPING)
    found = linearise(**case.arguments | {"trained": trained}, settings=settings)
    assert isinstance(found, Autodiff)
    return found if at_once is None else replace(found, keep_up_to=at_once)


def generic(case: Case, estimator: Estimator, **changes: Any) -> Autodiff:
    """The case's own matrix factorisation, by automatic differentiation."""
    c = case.linearised(case.settings(estimator, **changes))
    return Autodiff(c.model, c.samples, c.valid, c.loss, c.full, c.damping)


def random_vector(like: Tensor, seed: int = 0) -> Tensor:
    return torch.randn(like.shape, dtype=like.dtype, generator=torch.Generator().manual_seed(seed))


KINDS = pytest.mark.parametrize("kind", [Reader, PairwiseReader])
EVERY = pytest.mark.parametrize("case", CASES, ids=str)


@EVERY
@KINDS
def test_products_are_those_of_the_dense_derivatives(case: Case, kind: type[Reader], at_once: int) -> None:
    model = reading(case, kind=kind, at_once=at_once)
    dense = Dense(model)
    x, weights = random_vector(dense.theta), random_vector(model.samples.anchor)
    assert_close(model.product(x), dense.hessian @ x)
    assert_close(model.along(x), dense.mixed.T @ x)
    assert_close(model.pull(weights), dense.mixed @ weights)
    assert dense.mixed.abs().max() > 0.1


@EVERY
def test_validation_derivatives_are_the_dense_ones(case: Case, at_once: int) -> None:
    model = reading(case, at_once=at_once)
    dense = Dense(model)
    by_theta, by_o = dense.valid_jacobians
    weights = random_vector(by_theta[:, 0])
    vector, direct = model.valid_gradient(weights)
    everything = torch.ones_like(model.samples.anchor)
    learnt = torch.func.jacrev(dense.train_losses)(dense.theta, everything).abs().sum(0) > 0
    assert 0 < (~learnt).sum() < len(learnt) / 2
    assert_close(vector, torch.where(learnt, weights @ by_theta, 0))
    assert_close(direct, weights @ by_o)
    assert direct.abs().max() > 1e-3
    moves = torch.stack([random_vector(dense.theta), 2 - random_vector(dense.theta)])
    changes = torch.stack([random_vector(direct), 1 + random_vector(direct)])
    assert_close(model.valid_changes(moves, changes), moves @ by_theta.T + changes @ by_o.T)
    assert_close(model.valid_losses(), dense.valid_losses(dense.theta, model.samples.anchor))


@EVERY
def test_the_product_of_a_row_is_its_hessian(case: Case) -> None:
    model = reading(case)
    dense = Dense(model)
    x = random_vector(dense.theta)
    row = int(np.flatnonzero(case.anchor)[1])

    def of_row(theta: Tensor) -> Tensor:
        return dense.train_losses(theta, model.samples.anchor)[row]

    hessian = torch.func.jacfwd(torch.func.jacrev(of_row))(dense.theta)
    assert_close(model.row_product(row, x), hessian @ x)


@EVERY
def test_social_influence_is_the_dense_implicit_derivative(case: Case) -> None:
    model = reading(case)
    dense = Dense(model)
    assert torch.linalg.eigvalsh(dense.hessian)[0] > 0
    found = influence(model, case.settings(Estimator.TRUNCATED, groups=1000), case.seed)
    by_theta, by_o = (each.sum(0) for each in dense.valid_jacobians)
    expected = dense.mixed.T @ torch.linalg.solve(dense.hessian, by_theta) - by_o
    assert_close(found.social, expected.numpy(), rtol=1e-6, atol=1e-8)


@EVERY
def test_own_influence_is_exact_with_a_group_for_everybody(case: Case) -> None:
    model = reading(case)
    dense = Dense(model)
    found, residual = own_by_groups(model, case.settings(Estimator.TRUNCATED, groups=1000), case.seed)
    by_theta, by_o = dense.valid_jacobians
    effects = by_theta @ torch.linalg.solve(dense.hessian, dense.mixed) - by_o
    expected = torch.stack(
        [effects[model.valid.users == owner, k].sum() for k, owner in enumerate(model.samples.users)]
    )
    assert_close(found, expected, rtol=1e-6, atol=1e-8)
    assert residual is not None
    assert residual < 1e-10
    assert expected.abs().max() > 1e-2


@pytest.mark.parametrize("estimator", Estimator)
@pytest.mark.parametrize("loss", Loss)
def test_matrix_factorisation_has_the_same_social_influence_in_closed_form(
    estimator: Estimator, loss: Loss
) -> None:
    for case in STAR_CASES:
        settings = case.settings(estimator, loss=loss)
        slow = influence(generic(case, estimator, loss=loss), settings, case.seed)
        fast = case.influence(settings)
        assert_close(slow.social, fast.social, rtol=1e-6, atol=1e-8)
        assert_close(slow.losses, fast.losses)


@EVERY
def test_gauss_newton_is_that_of_the_closed_form(case: Case) -> None:
    fast = case.linearised(case.settings(Estimator.GAUSS_NEWTON))
    slow = generic(case, Estimator.GAUSS_NEWTON)
    x = random_vector(fast.diagonal)
    nothing = x.new_zeros(1, x.shape[1])
    flat = torch.cat([x[: fast.n_users], nothing, x[fast.n_users :], nothing]).flatten()
    expected = fast.product(x)
    found = slow.product(flat).view(-1, x.shape[1])
    assert_close(torch.cat([found[: fast.n_users], found[fast.n_users + 1 : -1]]), expected)


def test_the_diagonal_is_right_on_average_and_zero_for_the_unknown() -> None:
    case = settled_case()
    fast, slow = case.linearised(case.settings(Estimator.TRUNCATED)), generic(case, Estimator.TRUNCATED)
    curved = slow.curved.view(-1, fast.diagonal.shape[1])
    assert not curved[fast.n_users].any()
    assert not curved[-1].any()
    known = torch.cat([curved[: fast.n_users], curved[fast.n_users + 1 : -1]])
    ratio = known / (fast.diagonal - fast.damping)
    assert ratio.mean() == pytest.approx(1, abs=0.05)
    assert 0.3 < ratio.min() < ratio.max() < 3


def test_gauss_newton_of_a_loss_of_its_own_is_refused() -> None:
    model = reading(CASES[0], Estimator.GAUSS_NEWTON, PairwiseReader)
    with pytest.raises(AssentError, match="model reader has losses of its own"):
        model.product(random_vector(model.curved))


@pytest.mark.parametrize("groups", [2, 6])
def test_a_few_groups_come_close_on_average(groups: int) -> None:
    case = settled_case()
    model = generic(case, Estimator.GAUSS_NEWTON)
    settings = case.settings(Estimator.GAUSS_NEWTON, tolerance=1e-8)
    exact, _ = own_by_groups(model, settings.model_copy(update={"groups": 1000}), 0)
    draws = [
        own_by_groups(model, settings.model_copy(update={"groups": groups}), seed)[0] for seed in range(12)
    ]
    error = torch.stack(draws) - exact
    noise = error.std(0) / len(draws) ** 0.5
    assert (error.mean(0).abs() < 3 * noise).double().mean() > 0.97
    assert error.square().mean() < exact.square().mean()


class TestRetraining:
    """Minimising F(θ, o) again with a little of an interaction taken away, everywhere that it is read."""

    def settled(self, dense: Dense, o: Tensor, start: Tensor) -> Tensor:
        def loss(theta: Tensor) -> Tensor:
            return dense.training_loss(theta, o) + DAMPING / 2 * theta.square().sum()

        return minimise(loss, start)

    def test_influence_is_the_derivative_of_retraining(self) -> None:
        case = CASES[1]
        model = reading(case)  # damping is the curvature of the penalty that `settled` adds
        dense = Dense(model)
        anchor = model.samples.anchor
        theta = self.settled(dense, anchor, dense.theta)
        start = 0
        with torch.no_grad():
            for parameter in model.parameters:
                parameter.copy_(theta[start : start + parameter.numel()].view_as(parameter))
                start += parameter.numel()
        settled = replace(model)
        settings = case.settings(Estimator.TRUNCATED, groups=1000)
        found = influence(settled, settings, case.seed)
        epsilon = 1e-3
        for row in (0, 5, 11):
            moved = []
            for sign in (-1, 1):
                o = anchor.clone()
                o[row] += sign * epsilon
                moved.append(dense.valid_losses(self.settled(dense, o, theta), o))
            slope = (moved[0] - moved[1]) / (2 * epsilon)
            owner = model.samples.users[row]
            assert found.social[row] == pytest.approx(float(slope.sum()), rel=2e-3, abs=1e-4)
            assert found.own[row] == pytest.approx(
                float(slope[model.valid.users == owner].sum()), rel=2e-3, abs=1e-4
            )

    def test_predictions_follow_retraining(self) -> None:
        case = CASES[1]
        model = reading(case)
        settings = case.settings(Estimator.TRUNCATED)
        selection = case.anchor.copy()
        selection[[0, 7]] ^= True
        dense = Dense(model)
        by_theta, by_o = dense.valid_jacobians
        change = torch.from_numpy(selection.astype(np.float64)) - model.samples.anchor
        moved = -torch.linalg.solve(dense.hessian, dense.mixed @ change)
        expected = model.valid.per_user(model.valid_losses() + by_theta @ moved + by_o @ change)
        found = predicted_losses(model, selection[None], settings, case.seed)[0]
        assert_close(found, expected, rtol=1e-6, atol=1e-8)
