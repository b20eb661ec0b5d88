"""The losses: of training samples, and of validation rows."""

import math
from enum import StrEnum

import torch
from scipy.optimize import brentq
from torch import Tensor
from torch.nn import functional as F


def sample_losses(logits: Tensor, penalties: Tensor) -> Tensor:
    """The losses of samples whose first column is the positive: BCE plus penalty, [n, 1 + m]."""
    labels = torch.zeros_like(logits)
    labels[:, 0] = 1
    return F.binary_cross_entropy_with_logits(logits, labels, reduction="none") + penalties


_FAINTEST, _LOUDEST = 1e-4, 1e4
"""The range of c."""


class Loss(StrEnum):
    """The validation loss L_u that an interaction's value is measured on; summed over T^u, as in eq. 1."""

    BCE = "bce"
    """Binary cross-entropy of the validation item and of its sampled negatives: the loss of the reward."""
    PAIRWISE = "pairwise"
    """Σ_j log(1 + exp(s_j − s_i)): how the validation item ranks against its sampled negatives."""
    CALIBRATED = "calibrated"
    """The pairwise loss of c · s, with the one c > 0 for all rows that makes their sum least: what makes all
    scores only louder or fainter, and changes no ranking, changes nothing of the sum to first order."""

    def scale(self, scores: Tensor) -> float:
        """What the scores are multiplied with before the loss is taken: c for `scores[n, 1 + m]`, or 1.

        The loss is convex in c. Scores that rank no better than chance want the smallest c, `_FAINTEST`, at
        which nothing matters any more.
        """
        if self is not Loss.CALIBRATED or not scores.numel():
            return 1.0
        margins = (scores[:, 1:] - scores[:, :1]).double()

        def slope(log_c: float) -> float:
            return float((torch.sigmoid(math.exp(log_c) * margins) * margins).sum())

        low, high = math.log(_FAINTEST), math.log(_LOUDEST)
        if slope(low) >= 0:
            return _FAINTEST
        return math.exp(brentq(slope, low, high, xtol=1e-6)) if slope(high) > 0 else _LOUDEST

    def of(self, scores: Tensor) -> Tensor:
        """The loss of each validation row from its `scores[n, 1 + m]`, own item first: [n]."""
        if self is Loss.BCE:
            return F.softplus(-scores[:, 0]) + F.softplus(scores[:, 1:]).sum(1)
        return F.softplus(scores[:, 1:] - scores[:, :1]).sum(1)
