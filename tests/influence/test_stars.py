from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from assent.influence.closed_form import Stars
from assent.influence.inverse import Estimator

from .cases import STAR_CASES, Case, settled_case, trained_case

OPERATORS = [Estimator.GAUSS_NEWTON, Estimator.TRUNCATED]


@pytest.mark.parametrize("case", STAR_CASES, ids=str)
def test_no_item_is_twice_among_the_samples_of_a_user(case: Case) -> None:
    samples = case.oracle(case.settings(Estimator.GAUSS_NEWTON)).samples
    for user in range(case.model.n_users):
        items = samples.items[samples.users == user].flatten().tolist()
        assert len(set(items)) == len(items)


@pytest.mark.parametrize("estimator", OPERATORS)
@pytest.mark.parametrize("case", STAR_CASES, ids=str)
def test_every_star_is_solved_as_its_dense_system(case: Case, estimator: Estimator) -> None:
    settings = case.settings(estimator)
    oracle = case.oracle(settings)
    stars = Stars(oracle.curvature)
    solution = stars.solve(oracle.curvature.own_gradient(), settings)
    dense = torch.stack([oracle.star(user) for user in range(oracle.model.n_users)])
    assert solution.residual is not None
    assert solution.residual < 1e-10
    for user, x in enumerate(solution.x):
        assert_close(x, oracle.table(dense[user])[user], rtol=1e-6, atol=1e-9)
    rows = (oracle.train_gradients * dense[oracle.samples.users]).sum(1)
    assert_close(stars.along(solution.x), rows, rtol=1e-6, atol=1e-9)
    assert rows.abs().max() > 1e-3


@pytest.mark.parametrize("estimator", OPERATORS)
@pytest.mark.parametrize("case", STAR_CASES, ids=str)
def test_precondition_divides_by_the_diagonal_of_the_users(case: Case, estimator: Estimator) -> None:
    oracle = case.oracle(case.settings(estimator))
    diagonal = oracle.table(oracle.matrix.diagonal())[: oracle.model.n_users]
    x = torch.ones_like(diagonal)
    assert_close(Stars(oracle.curvature).precondition(x), x / diagonal)


def test_a_user_without_validation_rows_has_no_own_influence() -> None:
    case = STAR_CASES[0]
    own = case.influence(case.settings(Estimator.GAUSS_NEWTON)).own
    silent = ~np.isin(case.problem.train.users, case.problem.valid.users)
    assert silent.any()
    assert (own[silent] == 0).all()
    assert (own[~silent] != 0).all()


@pytest.mark.parametrize(
    ("make", "estimator"),
    [
        (trained_case, Estimator.GAUSS_NEWTON),
        (settled_case, Estimator.GAUSS_NEWTON),
        (settled_case, Estimator.TRUNCATED),
    ],
)
def test_stars_come_close_to_the_whole_inverse(make: Callable[[], Case], estimator: Estimator) -> None:
    case = make()
    settings = case.settings(estimator)
    own = case.influence(settings).own
    oracle = case.oracle(settings)
    solved = torch.linalg.solve(oracle.matrix, oracle.train_gradients.T).T
    whole = (oracle.user_gradients[case.problem.train.users] * solved).sum(1).numpy()
    correlation = np.corrcoef(own, whole)[0, 1]
    assert correlation > 0.97
    assert np.polyfit(whole, own, 1)[0] == pytest.approx(1, abs=0.15)
