"""The losses: of training samples, and of validation rows."""

from enum import StrEnum

import torch
from torch import Tensor
from torch.nn import functional as F


def sample_losses(logits: Tensor, penalties: Tensor) -> Tensor:
    """The losses of samples whose first column is the positive: BCE plus penalty, [n, 1 + m]."""
    labels = torch.zeros_like(logits)
    labels[:, 0] = 1
    return F.binary_cross_entropy_with_logits(logits, labels, reduction="none") + penalties


class Loss(StrEnum):
    """The validation loss L_u that an interaction's value is measured on; summed over T^u, as in eq. 1."""

    BCE = "bce"
    """Binary cross-entropy of the validation item and of its sampled negatives: the loss of the reward."""
    PAIRWISE = "pairwise"
    """Σ_j log(1 + exp(s_j − s_i)): how the validation item ranks against its sampled negatives."""

    def of(self, scores: Tensor) -> Tensor:
        """The loss of each validation row from its `scores[n, 1 + m]`, own item first: [n]."""
        if self is Loss.BCE:
            return F.softplus(-scores[:, 0]) + F.softplus(scores[:, 1:]).sum(1)
        return F.softplus(scores[:, 1:] - scores[:, :1]).sum(1)
