import numpy as np
import pytest
from torch import Tensor
from torch.testing import assert_close

from assent.influence.estimate import effects, own_influence
from assent.influence.inverse import Divisor, Estimator, lissa, sampled_rows
from assent.support.arrays import Floats, Ints

from .cases import CASES, STAR_CASES, Case, learnable_case
from .oracle import Oracle, hessian

STEPS = 30


def prepared(case: Case) -> Oracle:
    return case.oracle(case.settings(Estimator.LISSA, damping=5.0))


def row_hessians(oracle: Oracle) -> Tensor:
    """∇²ℓ_k of every training row: [Z, P, P]."""
    return hessian(oracle.train_losses, oracle.theta)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_rows_are_those_of_the_anchor(case: Case) -> None:
    samples = prepared(case).samples
    rows = sampled_rows(samples, steps=1000, seed=0)
    assert np.array_equal(np.unique(rows), np.flatnonzero(case.anchor))
    assert np.array_equal(rows, sampled_rows(samples, steps=1000, seed=0))
    assert not np.array_equal(rows, sampled_rows(samples, steps=1000, seed=1))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_social_is_the_recursion_of_the_paper(case: Case) -> None:
    oracle = prepared(case)
    hessians, b = row_hessians(oracle), oracle.user_gradients.sum(0)
    rows = sampled_rows(oracle.samples, steps=STEPS, seed=1)
    x = b
    for row in rows:
        x = b + x - hessians[row] @ x
    found = lissa(oracle.curvature.row_product, oracle.table(b), rows)
    assert_close(found.flatten(), x, rtol=1e-9, atol=1e-9)


def dense_effects(oracle: Oracle, rows: Ints, damping: float = 0.0, scale: float = 1.0) -> Tensor:
    """A literal recursion on all parameters for every user's loss, before the division: [users, Z]."""
    hessians, b = row_hessians(oracle), oracle.user_gradients
    x = b
    for row in rows:
        x = b + (1 - damping) * x - x @ hessians[row] / scale
    return x @ oracle.train_gradients.T / scale


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_recursion_can_be_damped_and_scaled_as_in_the_authors_code(case: Case) -> None:
    how = {"damping": 0.1, "scale": 25.0}
    settings = case.settings(
        Estimator.LISSA, lissa_steps=STEPS, lissa_damping=how["damping"], lissa_scale=how["scale"]
    )
    oracle, found = case.oracle(settings), case.influence(settings)
    drawn = sampled_rows(oracle.samples, steps=STEPS, seed=case.seed)
    dense = dense_effects(oracle, drawn, **how) / case.anchor.sum()
    assert_close(found.social, dense.sum(0).numpy())
    assert_close(found.own, dense[case.problem.train.users, np.arange(len(case.anchor))].numpy())
    matrix = effects(case.problem, oracle.curvature, found.own, settings, case.seed)
    assert_close(matrix.toarray(), dense.numpy())


@pytest.mark.parametrize("divisor", Divisor)
@pytest.mark.parametrize("estimator", [Estimator.LISSA, Estimator.GRADIENT_DOT])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_term_is_the_recursion_of_the_paper(case: Case, estimator: Estimator, divisor: Divisor) -> None:
    """Own, social and effects on others alike; every row is sampled, so that all coordinates are touched."""
    settings = case.settings(estimator, lissa_steps=STEPS, divisor=divisor)
    oracle, found = case.oracle(settings), case.influence(settings)
    drawn = sampled_rows(oracle.samples, steps=STEPS, seed=case.seed)
    dense = dense_effects(oracle, drawn if estimator is Estimator.LISSA else drawn[:0])
    dense /= case.anchor.sum() if divisor is Divisor.DISCLOSED else len(case.anchor)
    assert_close(found.social, dense.sum(0).numpy())
    own = dense[case.problem.train.users, np.arange(len(case.anchor))].numpy()
    assert_close(found.own, own)
    matrix = effects(case.problem, oracle.curvature, found.own, settings, case.seed)
    assert_close(matrix.toarray(), dense.numpy())
    assert np.count_nonzero(dense) > len(case.anchor)


@pytest.mark.parametrize("case", STAR_CASES, ids=str)
def test_few_sampled_rows_touch_few_coordinates(case: Case) -> None:
    settings = case.settings(Estimator.LISSA, lissa_steps=1)
    oracle, found = case.oracle(settings), case.influence(settings)
    dense = dense_effects(oracle, sampled_rows(oracle.samples, steps=1, seed=case.seed)) / case.anchor.sum()
    matrix = effects(case.problem, oracle.curvature, found.own, settings, case.seed)
    assert_close(matrix.toarray(), dense.numpy())
    plain = case.influence(case.settings(Estimator.GRADIENT_DOT)).own
    touched = ~np.isclose(found.own, 2 * plain, rtol=1e-9)
    assert 0 < touched.sum() < len(plain)


@pytest.mark.parametrize("case", STAR_CASES, ids=str)
def test_own_weighs_the_validation_rows_that_it_is_told_to(case: Case) -> None:
    settings = case.settings(Estimator.LISSA, lissa_steps=3)
    model = case.linearised(settings)
    half, whole = (
        own_influence(model, settings, case.seed, np.full(len(model.valid.users), weight))[0]
        for weight in (0.5, 1.0)
    )
    assert_close(2 * half, whole)


def cosine(a: Floats, b: Floats) -> float:
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


def test_on_a_log_of_real_size_lissa_is_a_multiple_of_the_gradient() -> None:
    case = learnable_case(users=300, items=200, dimension=16)
    lissa, dot = (
        case.influence(case.settings(estimator, lissa_steps=20))
        for estimator in (Estimator.LISSA, Estimator.GRADIENT_DOT)
    )
    assert cosine(lissa.social, dot.social) > 0.99
    assert cosine(lissa.own, dot.own) > 0.99
    assert not np.allclose(lissa.social, 21 * dot.social)
