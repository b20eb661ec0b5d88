import math

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from torch.testing import assert_close

from assent.arrays import Floats
from assent.losses import Loss, sample_losses

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
