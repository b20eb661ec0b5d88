import numpy as np
import pytest
import torch
from torch.testing import assert_close

from assent.evaluation.evaluate import validation_losses
from assent.influence.inverse import Estimator
from assent.models.losses import Loss

from .cases import CASES, Case


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_row_has_its_positive_once_and_its_negatives_as_often_as_in_training(case: Case) -> None:
    samples = case.oracle(case.settings(Estimator.GAUSS_NEWTON)).samples
    train = case.problem.train
    assert case.trained.user_ids[samples.users].tolist() == case.problem.user_ids[train.users].tolist()
    assert case.trained.item_ids[samples.items[:, 0]].tolist() == case.problem.item_ids[train.items].tolist()
    assert samples.items.shape == (len(train), 1 + case.draws)
    assert samples.weights[0] == 1
    assert_close(samples.weights[1:].sum().item(), float(case.negatives))
    assert samples.anchor.tolist() == case.anchor.tolist()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_no_negative_is_an_item_of_its_user(case: Case) -> None:
    samples = case.oracle(case.settings(Estimator.GAUSS_NEWTON)).samples
    for user, items in zip(samples.users, samples.items, strict=True):
        assert not np.isin(items[1:], samples.items[samples.users == user, 0]).any()


@pytest.mark.parametrize("loss", Loss)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_losses_per_user_are_those_of_the_evaluation(case: Case, loss: Loss) -> None:
    oracle = case.oracle(case.settings(Estimator.GAUSS_NEWTON, loss=loss))
    per_user = oracle.valid.per_user(oracle.valid_losses(oracle.theta))
    assert_close(per_user, validation_losses(case.problem, case.trained, loss))


def test_rows_are_summed_over_their_owners() -> None:
    valid = CASES[0].oracle(CASES[0].settings(Estimator.GAUSS_NEWTON)).valid
    losses = torch.arange(1.0, 1 + len(valid.owners))
    # The second user owns two rows, the last one none.
    assert valid.per_user(losses).tolist() == [1, 2 + 3, 4, 5, 6, 7, 0]
