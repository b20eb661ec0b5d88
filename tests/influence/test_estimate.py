import copy
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from assent.evaluation.evaluate import validation_losses
from assent.influence.estimate import linearise
from assent.influence.inverse import Estimator, inverse_product
from assent.models.losses import Loss

from .cases import CASES, STAR_CASES, Case, settled_case
from .oracle import jacobian

both_losses = pytest.mark.parametrize("loss", Loss)
every_case = pytest.mark.parametrize("case", CASES, ids=str)


@both_losses
@every_case
def test_the_gradient_of_the_validation_losses(case: Case, loss: Loss, at_once: int) -> None:
    oracle = case.oracle(case.settings(Estimator.GAUSS_NEWTON, loss=loss), at_once=at_once)
    weights = torch.linspace(-1, 2, len(oracle.valid.users), dtype=torch.float64)
    weights[1::3] = 0
    vector, direct = oracle.curvature.valid_gradient(weights)
    dense = weights @ jacobian(oracle.valid_losses, oracle.theta)
    assert_close(vector.flatten(), dense, rtol=1e-9, atol=1e-9)
    assert_close(oracle.curvature.own_gradient(weights), vector[: oracle.curvature.n_users])
    assert not direct.any()
    assert_close(oracle.curvature.valid_losses(), oracle.valid_losses(oracle.theta))


@both_losses
@every_case
def test_social_influence_is_that_of_the_dense_gauss_newton_matrix(case: Case, loss: Loss) -> None:
    settings = case.settings(Estimator.GAUSS_NEWTON, loss=loss)
    found = case.influence(settings)
    oracle = case.oracle(settings)
    dense = oracle.train_gradients @ torch.linalg.solve(oracle.matrix, oracle.user_gradients.sum(0))
    assert_close(torch.from_numpy(found.social), dense, rtol=1e-7, atol=1e-7)
    assert found.residual_social is not None
    assert found.residual_social < 1e-11


@pytest.mark.parametrize("make", [lambda: STAR_CASES[0], lambda: STAR_CASES[1], settled_case])
def test_enough_steps_of_the_truncated_inverse_invert_a_definite_hessian(make: Callable[[], Case]) -> None:
    case = make()
    settings = case.settings(Estimator.TRUNCATED)
    found = case.influence(settings)
    oracle = case.oracle(settings)
    assert torch.linalg.eigvalsh(oracle.matrix)[0] > 0
    dense = oracle.train_gradients @ torch.linalg.solve(oracle.matrix, oracle.user_gradients.sum(0))
    assert_close(torch.from_numpy(found.social), dense, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("steps", [1, 2, 4])
@pytest.mark.parametrize("case", STAR_CASES, ids=str)
def test_the_truncated_inverse_is_the_best_of_its_krylov_space(case: Case, steps: int) -> None:
    """After t steps x minimises ½ xᵀHx − bᵀx over M⁻¹b, (M⁻¹H) M⁻¹b, …, with M the diagonal of H."""
    settings = case.settings(Estimator.TRUNCATED, truncation=steps)
    oracle = case.oracle(settings)
    b, H = oracle.user_gradients.sum(0), oracle.matrix
    directions = [b / H.diagonal()]
    for _ in range(steps - 1):
        directions.append(H @ directions[-1] / H.diagonal())
    K = torch.linalg.qr(torch.stack(directions, dim=1)).Q
    best = K @ torch.linalg.solve(K.T @ H @ K, K.T @ b)
    found = inverse_product(oracle.curvature, oracle.table(b), settings, case.seed)
    assert_close(found.x.flatten(), best, rtol=1e-7, atol=1e-9)
    assert found.iterations == steps
    assert found.residual == pytest.approx(((b - H @ best).norm() / b.norm()).item())


@every_case
def test_gradient_dot_is_the_inner_product_of_gradients(case: Case) -> None:
    settings = case.settings(Estimator.GRADIENT_DOT)
    found = case.influence(settings)
    oracle = case.oracle(settings)
    gradients, users = oracle.train_gradients / case.anchor.sum(), case.problem.train.users
    assert_close(torch.from_numpy(found.social), gradients @ oracle.user_gradients.sum(0))
    own = (gradients * oracle.user_gradients[users]).sum(1)
    assert_close(torch.from_numpy(found.own), own)


@pytest.mark.parametrize("estimator", Estimator)
@both_losses
def test_the_losses_at_the_anchor_are_those_of_the_evaluation(estimator: Estimator, loss: Loss) -> None:
    case = STAR_CASES[0]
    found = case.influence(case.settings(estimator, loss=loss))
    assert_close(found.losses, validation_losses(case.problem, case.trained, loss))


@pytest.mark.parametrize("estimator", Estimator)
def test_single_precision_is_enough(estimator: Estimator) -> None:
    case = settled_case()
    single = replace(case, trained=replace(case.trained, model=copy.deepcopy(case.model).float()))
    settings = case.settings(estimator, tolerance=1e-5, truncation=4)
    exact, found = (each.influence(settings) for each in (case, single))
    for name in ("own", "social", "losses"):
        reference = getattr(exact, name)
        error = np.abs(getattr(found, name) - reference).max()
        assert error < 1e-3 * np.abs(reference).max()
        assert getattr(found, name).dtype == np.float64


def test_a_model_of_another_vocabulary_is_refused() -> None:
    case = CASES[0]
    stranger = replace(case.trained, user_ids=np.char.add("x", case.trained.user_ids))
    with pytest.raises(ValueError, match="must know the users and items of all training rows"):
        linearise(**case.arguments | {"trained": stranger}, settings=case.settings(Estimator.GAUSS_NEWTON))
