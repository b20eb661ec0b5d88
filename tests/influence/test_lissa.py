import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from assent.influence.closed_form import own_by_lissa
from assent.influence.inverse import Estimator, lissa, sampled_rows
from assent.support.arrays import Floats

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


@pytest.mark.parametrize("case", STAR_CASES, ids=str)
def test_own_is_the_recursion_in_every_star(case: Case) -> None:
    """A literal recursion per user, where the rows of others add b and change nothing else."""
    oracle = prepared(case)
    hessians, users = row_hessians(oracle), oracle.samples.users
    b = torch.zeros(oracle.model.n_users, len(oracle.theta), dtype=torch.float64)
    for user in range(len(b)):
        place = oracle.places(torch.tensor([user]))
        b[user, place] = oracle.user_gradients[oracle.known_users[user], place]
    rows = sampled_rows(oracle.samples, steps=STEPS, seed=1)
    x = b
    for row in rows:
        change = torch.zeros_like(x)
        change[users[row]] = hessians[row] @ x[users[row]]
        x = b + x - change
    found = own_by_lissa(oracle.curvature, oracle.curvature.own_gradient(), rows)
    assert_close(found, (oracle.train_gradients * x[users]).sum(1))


@pytest.mark.parametrize("case", STAR_CASES, ids=str)
def test_influence_divides_by_the_size_of_the_anchor(case: Case) -> None:
    oracle = prepared(case)
    found = case.influence(case.settings(Estimator.LISSA, lissa_steps=STEPS))
    rows = sampled_rows(oracle.samples, steps=STEPS, seed=case.seed)
    curvature = oracle.curvature
    b, _ = curvature.valid_gradient(torch.ones(len(curvature.valid.users)))
    social = curvature.along(lissa(curvature.row_product, b, rows))
    own = own_by_lissa(curvature, curvature.own_gradient(), rows)
    assert_close(found.social, (social / case.anchor.sum()).numpy())
    assert_close(found.own, (own / case.anchor.sum()).numpy())


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
