"""Folds: who is judged on what, and what a value is pooled from."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare
from tests.small import QUICK, small_problem

from assent.data.problem import Problem
from assent.influence.estimate import own_influence, social_influence
from assent.influence.inverse import InfluenceSettings
from assent.lab import Lab
from assent.lab.anchors import linearised
from assent.models.losses import Loss
from assent.support.arrays import mix
from assent.support.errors import AssentError
from assent.worth.estimate import Source, WorthSettings, fold_trainings, model_of_everything
from assent.worth.folds import deal, measure, pool, targets


@pytest.fixture(scope="module")
def problem() -> Problem:
    return small_problem(negatives=5)


@pytest.fixture(scope="module")
def lab(problem: Problem) -> Lab:
    return Lab(problem, QUICK)


KEYS = mix(np.arange(4000))


def test_every_row_has_a_fold_and_folds_are_nearly_even() -> None:
    fold = deal(KEYS, 4, seed=3)
    assert chisquare(np.bincount(fold)).pvalue > 0.01
    np.testing.assert_array_equal(fold, deal(KEYS, 4, seed=3))
    assert (fold != deal(KEYS, 4, seed=4)).any()


@given(st.lists(st.integers(0, 10**6), min_size=40, max_size=80, unique=True), st.data(), st.integers(0, 9))
def test_a_row_that_goes_leaves_the_others_where_they_are(
    rows: list[int], data: st.DataObject, seed: int
) -> None:
    keys, gone = mix(np.array(rows)), data.draw(st.integers(0, len(rows) - 1))
    fold, left = deal(keys, 3, seed=seed), np.delete(np.arange(len(rows)), gone)
    np.testing.assert_array_equal(deal(keys[left], 3, seed=seed), fold[left])
    before, after = targets(keys, fold, 1, 5, seed=seed), targets(keys[left], fold[left], 1, 5, seed=seed)
    assert set(before.tolist()) - {gone} <= set(left[after].tolist())


@pytest.mark.parametrize("rows", [3, 4, 6])
def test_no_fold_is_empty_on_a_tiny_log(rows: int) -> None:
    for seed in range(20):
        fold = deal(KEYS[:rows], 3, seed=seed)
        assert set(fold.tolist()) == {0, 1, 2}
        shuffled = np.random.default_rng(seed).permutation(rows)
        np.testing.assert_array_equal(deal(KEYS[:rows][shuffled], 3, seed=seed), fold[shuffled])


def test_more_folds_than_rows_are_refused_in_a_line(lab: Lab) -> None:
    rows = len(lab.problem.train)
    with pytest.raises(
        AssentError, match=rf"^folds={rows + 1}: accepted: no more than .*training rows.*{rows}$"
    ):
        fold_trainings(lab, WorthSettings(folds=rows + 1))


def test_an_anchor_is_judged_on_its_fold_or_on_a_part_of_it() -> None:
    keys = KEYS[:100]
    fold = deal(keys, 4, seed=0)
    np.testing.assert_array_equal(targets(keys, fold, 1, 99, seed=0), np.flatnonzero(fold == 1))
    some = targets(keys, fold, 1, 10, seed=0)
    assert len(set(some.tolist())) == 10
    assert (fold[some] == 1).all()


def test_the_model_of_a_fold_withholds_it_and_starts_from_parameters_of_its_own(lab: Lab) -> None:
    settings, fold = WorthSettings(folds=3), deal(lab.problem.row_keys, 3, seed=0)
    trainings = [*fold_trainings(lab, settings), model_of_everything(lab, settings)]
    for t, training in enumerate(trainings):
        np.testing.assert_array_equal(training.selection, fold != t)
        assert training.vocabulary is not None
        assert training.vocabulary.all()
    assert len({training.seed for training in trainings}) == 4
    other = fold_trainings(replace(lab, seed=1), settings)
    assert {each.seed for each in other}.isdisjoint(each.seed for each in trainings)
    assert fold_trainings(lab, WorthSettings(source=Source.STRUCTURE)) == []


def test_a_row_is_valued_where_it_is_disclosed_alone() -> None:
    """The anchor that withholds a row says 100, which must not be heard."""
    fold = np.array([0, 1, 2, 0])
    parts = [
        (np.where(fold == t, 100.0, t), np.where(fold == t, 100.0, 10.0 * t + np.arange(4))) for t in range(3)
    ]
    found = pool(parts, fold, np.full(4, 6.0), np.array([[1.0], [2.0], [6.0]]) * np.ones(4))
    np.testing.assert_allclose(found.valid, [1.5, 1.0, 0.5, 1.5])
    np.testing.assert_allclose(found.held, [15, 11, 7, 18])
    np.testing.assert_allclose(found.n_valid, 6)
    np.testing.assert_allclose(found.n_held, [4, 3.5, 1.5, 4])
    across = [(1 * 20 + 2 * 10) / 2, (0 * 21 + 2 * 1) / 2, (0 * 12 + 1 * 2) / 2, (1 * 23 + 2 * 13) / 2]
    np.testing.assert_allclose(found.joint, across)


@pytest.mark.parametrize("loss", list(Loss))
def test_both_parts_are_the_influence_on_their_rows(lab: Lab, loss: Loss) -> None:
    problem, settings = lab.problem, InfluenceSettings(loss=loss)
    anchor = fold_trainings(lab, WorthSettings(folds=3))[0]
    [trained] = lab.train([anchor])
    fold = deal(problem.row_keys, 3, seed=0)
    judged = targets(problem.row_keys, fold, 0, len(problem.valid), seed=0)
    model = linearised(lab, anchor, trained, settings, judged)
    n_valid = len(problem.valid)
    assert len(model.valid.users) == n_valid + len(judged)
    np.testing.assert_array_equal(model.valid.owners[n_valid:], problem.train.users[judged])
    found, _ = measure(model, n_valid, np.ones(problem.n_users), settings, seed=0, fold=0)
    plain = linearised(lab, anchor, trained, settings)
    for level, compute in (("own", own_influence), ("social", social_influence)):
        expected = compute(plain, settings, 0)[0].double().numpy()
        np.testing.assert_allclose(getattr(found, f"{level}_valid"), expected, rtol=1e-3, atol=1e-6)
        assert np.abs(getattr(found, f"{level}_held")).max() > 0
    np.testing.assert_allclose(found.losses, plain.valid.per_user(plain.valid_losses()), rtol=1e-6)
    np.testing.assert_array_equal(found.n_valid, np.bincount(problem.valid.users, minlength=problem.n_users))
    users = problem.train.users[judged]
    np.testing.assert_array_equal(found.n_held, np.bincount(users, minlength=problem.n_users))


@pytest.mark.parametrize(("given", "folds", "groups"), [(16, 3, 1), (16, 2, 2), (10, 3, 1), (48, 3, 4)])
def test_anchors_that_are_averaged_have_few_groups(given: int, folds: int, groups: int) -> None:
    influence = InfluenceSettings(groups=given)
    settings = WorthSettings(folds=folds, influence=influence)
    assert settings.per_fold == influence.model_copy(update={"groups": groups})
