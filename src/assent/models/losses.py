"""The losses of training samples and of validation rows."""

import math
from enum import StrEnum

import torch
from scipy.optimize import brentq
from torch import Tensor
from torch.nn import functional as F


def sample_losses(logits: Tensor, penalties: Tensor) -> Tensor:
    """Return BCE plus penalty of samples whose first column is the positive: [n, 1 + m]."""
    labels = torch.zeros_like(logits)
    labels[:, 0] = 1
    return F.binary_cross_entropy_with_logits(logits, labels, reduction="none") + penalties


def mean_loss(logits: Tensor) -> tuple[float, Tensor]:
    """Return the mean BCE of samples whose first column is the positive, and its gradient: [n, 1 + m]."""
    by_logit = torch.sigmoid(logits)
    by_logit[:, 0] -= 1
    total = F.softplus(logits).sum() - logits[:, 0].sum()
    return total.item() / logits.numel(), by_logit.div_(logits.numel())


_SMALLEST, _LARGEST = 1e-4, 1e4
"""The range of the calibrated scale c."""


class Loss(StrEnum):
    """A validation loss L_u, summed over the validation samples T^u of a user (eq. 1)."""

    BCE = "bce"
    """Binary cross-entropy of the validation item and of its sampled negatives: the loss of the reward."""
    PAIRWISE = "pairwise"
    """Σ_j log(1 + exp(s_j − s_i)): how the validation item ranks against its sampled negatives."""
    CALIBRATED = "calibrated"
    """The pairwise loss of c · s, where one c > 0 for all rows minimises their sum. Scaling all scores alike,
    which changes no ranking, then leaves the sum as it is to first order."""

    def scale(self, scores: Tensor) -> float:
        """Return c, which multiplies `scores[n, 1 + m]` before `of`; 1 for losses other than CALIBRATED.

        The loss is convex in c. Scores that rank no better than chance get the smallest c.
        """
        if self is not Loss.CALIBRATED or not scores.numel():
            return 1.0
        margins = (scores[:, 1:] - scores[:, :1]).double()

        def slope(log_c: float) -> float:
            return float((torch.sigmoid(math.exp(log_c) * margins) * margins).sum())

        low, high = math.log(_SMALLEST), math.log(_LARGEST)
        if slope(low) >= 0:
            return _SMALLEST
        return math.exp(brentq(slope, low, high, xtol=1e-6)) if slope(high) > 0 else _LARGEST

    def of(self, scores: Tensor) -> Tensor:
        """Return the loss of each validation row from its `scores[n, 1 + m]`, own item first: [n]."""
        if self is Loss.BCE:
            return F.softplus(-scores[:, 0]) + F.softplus(scores[:, 1:]).sum(1)
        return F.softplus(scores[:, 1:] - scores[:, :1]).sum(1)
