from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from assent.data.problem import Protocol, make_problem
from assent.data.simulate import simulate
from assent.influence.closed_form import effect_matrix
from assent.influence.estimate import effects
from assent.influence.inverse import Estimator, InfluenceSettings
from assent.lab import Lab, Store
from assent.methods.ifrqe import IFRQEpp
from assent.models import MFSettings
from assent.models.losses import Loss
from assent.support.arrays import Bools, Floats
from assent.support.sparse import SparseMatrix
from assent.training import Settings, TrainingSettings

from .cases import CASES, STAR_CASES, Case, settled_case, trained_case

OPERATORS = [Estimator.GAUSS_NEWTON, Estimator.TRUNCATED]


def effects_of(case: Case, settings: InfluenceSettings) -> SparseMatrix:
    own = case.influence(settings).own
    return effects(case.problem, case.linearised(settings), own, settings, case.seed)


def contact(case: Case) -> Bools:
    """Whether a row's item is among the validation candidates or the training items of a known user.

    [problem users, Z], and True for the owner of a row.
    """
    problem = case.problem
    reached = np.zeros((problem.n_users, len(problem.train)), dtype=np.bool_)
    for user in np.unique(problem.train.users):
        near = problem.train.items[problem.train.users == user]
        candidates = problem.valid_candidates[problem.valid.users == user].flatten()
        reached[user] = np.isin(problem.train.items, [*near, *candidates])
    return reached


def dense_effects(case: Case, settings: InfluenceSettings) -> Floats:
    """The documented formula, from the dense Hessian: [problem users, Z], 0 for the owners."""
    oracle = case.oracle(settings)
    diagonal, n_users = oracle.matrix.diagonal(), oracle.model.n_users
    found = np.zeros((case.problem.n_users, len(case.problem.train)))
    for user in range(n_users):
        owner = oracle.known_users[user]
        star = oracle.star(user)
        theirs = oracle.samples.items[oracle.samples.users == user, 0]
        for row, item in enumerate(oracle.samples.items[:, 0]):
            place = oracle.places(n_users + item.reshape(1))
            sensitivity = oracle.user_gradients[owner, place] / diagonal[place]
            if item in theirs:
                sensitivity = sensitivity + star[place]
            if oracle.samples.users[row] != user:
                found[owner, row] = sensitivity @ oracle.train_gradients[row, place]
    return found


@pytest.mark.parametrize("loss", Loss)
@pytest.mark.parametrize("estimator", OPERATORS)
@pytest.mark.parametrize("case", STAR_CASES, ids=str)
def test_effects_on_others_are_the_dense_formula(case: Case, estimator: Estimator, loss: Loss) -> None:
    settings = case.settings(estimator, loss=loss)
    found = effects_of(case, settings).toarray()
    found[case.problem.train.users, np.arange(len(case.problem.train))] = 0
    expected = dense_effects(case, settings)
    assert_close(found, expected, rtol=1e-6, atol=1e-9)
    assert np.count_nonzero(expected) >= 10


@pytest.mark.parametrize("estimator", Estimator)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_effects_on_the_owners_are_what_was_given(case: Case, estimator: Estimator) -> None:
    rows = np.arange(len(case.problem.train))
    own = 1 + rows.astype(np.float64)
    settings = case.settings(estimator, truncation=4)
    found = effects(case.problem, case.linearised(settings), own, settings, case.seed)
    assert_close(found.toarray()[case.problem.train.users, rows], own)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_there_is_an_entry_where_there_is_contact_and_only_there(case: Case) -> None:
    found = effects_of(case, case.settings(Estimator.GAUSS_NEWTON))
    stored = np.zeros(found.shape, dtype=np.bool_)
    counts = np.diff(found.rows.crow_indices().numpy())
    stored[np.repeat(np.arange(len(counts)), counts), found.rows.col_indices().numpy()] = True
    assert np.array_equal(stored, contact(case))
    assert 0 < stored.sum() < stored.size


@pytest.mark.parametrize("case", STAR_CASES, ids=str)
def test_the_size_of_the_blocks_does_not_matter(case: Case) -> None:
    settings = case.settings(Estimator.TRUNCATED)
    whole = effects_of(case, settings).toarray()
    curvature, own = replace(case.linearised(settings), samples_at_once=7), case.influence(settings).own
    parts = effect_matrix(case.problem, curvature, own, settings, contacts_at_once=5)
    assert_close(parts.toarray(), whole)


@pytest.mark.parametrize("make", [trained_case, settled_case])
def test_the_direct_effects_come_close_to_the_whole_inverse(make: Callable[[], Case]) -> None:
    case = make()
    settings = case.settings(Estimator.GAUSS_NEWTON)
    oracle = case.oracle(settings)
    whole = (oracle.user_gradients @ torch.linalg.solve(oracle.matrix, oracle.train_gradients.T)).numpy()
    foreign = contact(case)
    foreign[case.problem.train.users, np.arange(len(case.anchor))] = False
    found = effects_of(case, settings).toarray()
    assert np.corrcoef(found[foreign], whole[foreign])[0, 1] > 0.85


def test_the_game_predicts_losses_with_the_effects_at_the_nearest_anchor() -> None:
    log = simulate(preference="learnable", users=30, items=30, seed=2)
    problem = make_problem(log, Protocol.PAPER_TABLES, negatives=5)
    settings = Settings(
        model="mf",
        model_settings=MFSettings(dimension=4),
        training=TrainingSettings(epochs=5, evaluate_every=5, negatives=1),
    )
    influence = STAR_CASES[0].settings(Estimator.TRUNCATED, truncation=4)
    method = IFRQEpp(anchors=2, anchor_rate=0.7, influence=influence)
    estimates = method.estimates(Lab(problem, settings, 0, Store.temporary()), effects=True)
    selection = np.random.default_rng(0).random(len(problem.train)) < 0.6
    nearest = int(np.argmin([np.sum(selection != anchor) for anchor in estimates.anchors]))
    known = estimates.effects[nearest].toarray()
    predicted = estimates.predicted_losses(selection[None])[0]
    for user in range(problem.n_users):
        expected = estimates.losses[nearest, user]
        for row in range(len(problem.train)):
            expected -= known[user, row] * (int(selection[row]) - int(estimates.anchors[nearest, row]))
        assert predicted[user] == pytest.approx(expected)
    rows = np.arange(len(problem.train))
    assert_close(known[problem.train.users, rows], estimates.own[nearest])
    assert np.ptp(predicted - estimates.losses[nearest]) > 1e-3
