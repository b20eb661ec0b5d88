import math

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from torch.testing import assert_close

from assent.models.losses import Loss, sample_losses
from assent.support.arrays import Floats

numbers = st.floats(-20, 20)
scores = arrays(
    np.float64,
    array_shapes(min_dims=2, max_dims=2, min_side=2, max_side=5),
    elements=numbers,
)
"""[n, 1 + m], own item first."""


def sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value))


@given(scores)
def test_bce_is_the_log_likelihood_of_the_item_and_of_its_negatives(values: Floats) -> None:
    naive = [
        -math.log(sigmoid(own)) - sum(math.log(1 - sigmoid(other)) for other in others)
        for own, *others in values.tolist()
    ]
    assert_close(Loss.BCE.of(torch.from_numpy(values)).tolist(), naive, rtol=1e-6, atol=1e-6)


@given(scores)
def test_pairwise_is_the_log_likelihood_of_every_comparison(values: Floats) -> None:
    naive = [-sum(math.log(sigmoid(own - other)) for other in others) for own, *others in values.tolist()]
    assert_close(Loss.PAIRWISE.of(torch.from_numpy(values)).tolist(), naive, rtol=1e-9, atol=1e-9)


@given(scores)
def test_samples_add_up_to_the_bce_of_their_row_and_their_penalties(values: Floats) -> None:
    logits = torch.from_numpy(values)
    penalties = torch.linspace(0, 1, logits.numel(), dtype=logits.dtype).reshape(logits.shape)
    summed = sample_losses(logits, penalties).sum(1)
    assert_close(summed, Loss.BCE.of(logits) + penalties.sum(1))


def test_losses_stay_finite_at_scores_that_overflow() -> None:
    far = torch.tensor([[-1000.0, 1000.0], [1000.0, -1000.0]])
    assert_close(Loss.BCE.of(far), torch.tensor([2000.0, 0.0]))
    assert_close(Loss.PAIRWISE.of(far), torch.tensor([2000.0, 0.0]))


def least_pairwise(values: Floats) -> tuple[float, float]:
    """The best c on a fine grid, and the loss there."""
    grid = np.exp(np.linspace(math.log(1e-4), math.log(1e4), 4001))
    margins = (values[:, 1:] - values[:, :1]).ravel()
    losses = np.logaddexp(0, grid[:, None] * margins).sum(axis=1)
    return float(grid[losses.argmin()]), float(losses.min())


@given(scores)
def test_the_scale_makes_the_pairwise_loss_least(values: Floats) -> None:
    given_scores = torch.from_numpy(values)
    scale = Loss.CALIBRATED.scale(given_scores)
    assert 1e-4 <= scale <= 1e4
    found = float(Loss.CALIBRATED.of(scale * given_scores).sum())
    assert found <= least_pairwise(values)[1] * (1 + 1e-6) + 1e-9


def test_louder_scores_have_the_same_calibrated_loss() -> None:
    values = torch.from_numpy(np.random.default_rng(0).normal(size=(40, 6)))
    values[:, 0] += 0.5
    losses = [Loss.CALIBRATED.of(Loss.CALIBRATED.scale(c * values) * c * values) for c in (0.1, 1.0, 7.0)]
    assert_close(losses[0], losses[1], rtol=1e-4, atol=1e-4)
    assert_close(losses[2], losses[1], rtol=1e-4, atol=1e-4)


def test_other_losses_take_scores_as_they_are() -> None:
    values = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    assert Loss.BCE.scale(values) == Loss.PAIRWISE.scale(values) == 1.0
    assert Loss.CALIBRATED.scale(values[:0]) == 1.0
