"""Cross-fitting: every training row serves as a validation row for a model that was not trained on it.

The rows are dealt into K folds. The anchor of fold t withholds it, and the influence of all rows is taken on
two sets of rows that the anchor has not seen: the validation rows, and fold t. The value of a row is the mean
over the anchors that disclose it; the one that withholds it would count what a row does for itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from assent.arrays import Bools, Floats, Ints
from assent.influence.estimate import own_influence, social_influence
from assent.influence.linearised import Linearised
from assent.influence.settings import InfluenceSettings


@dataclass(frozen=True)
class Measured:
    """Influence of Z rows at the anchor of one fold, on validation rows and on the fold."""

    own: tuple[Floats, Floats]
    """[Z] each, on the owner's loss."""
    social: tuple[Floats, Floats]
    """[Z] each, on the sum of losses."""
    losses: Floats
    """[n_users], L_u of the validation rows."""
    ratio: float
    """Rows of the fold for each validation row."""
    residual_own: float | None
    residual_social: float | None


def deal(rows: int, folds: int, *, seed: int) -> Ints:
    """The fold of each row, [rows], of nearly equal sizes."""
    return np.random.default_rng((seed, 6)).permutation(rows) % folds


def targets(fold: Ints, t: int, most: int, *, seed: int) -> Ints:
    """The rows of fold t that its anchor is judged on: all, or `most` of them drawn at random."""
    rows = np.flatnonzero(fold == t)
    if len(rows) <= most:
        return rows
    return np.sort(np.random.default_rng((seed, 7, t)).choice(rows, size=most, replace=False))


def measure(
    model: Linearised, n_valid: int, weights: Floats, settings: InfluenceSettings, seed: int
) -> Measured:
    """Influence at an anchor whose first `n_valid` validation rows are the problem's own, the rest its fold.

    `weights[n_users]` say what a unit of each user's loss counts.
    """
    owners = model.valid.owners.numpy()
    is_valid = np.arange(len(owners)) < n_valid
    of_rows = weights[owners]
    parts = [of_rows * is_valid, of_rows * ~is_valid]
    own = [own_influence(model, settings, seed, part) for part in parts]
    social = [social_influence(model, settings, seed, part) for part in parts]
    return Measured(
        own=_arrays(own),
        social=_arrays(social),
        losses=model.valid.per_user(model.valid_losses() * torch.from_numpy(is_valid)),
        ratio=(len(owners) - n_valid) / max(1, n_valid),
        residual_own=_largest(own),
        residual_social=_largest(social),
    )


def pool(parts: Sequence[tuple[Floats, Floats]], fold: Ints) -> tuple[Floats, Floats]:
    """The mean of each part over the anchors that disclose the row: two arrays [Z]."""
    discloses: Bools = fold != np.arange(len(parts))[:, None]
    valid, held = (
        (np.array([part[which] for part in parts]) * discloses).sum(axis=0) / (len(parts) - 1)
        for which in (0, 1)
    )
    return valid, held


def _arrays(solved: Sequence[tuple[Tensor, float | None]]) -> tuple[Floats, Floats]:
    valid, held = (influence.double().numpy() for influence, _ in solved)
    return valid, held


def _largest(solved: Sequence[tuple[Tensor, float | None]]) -> float | None:
    return max((residual for _, residual in solved if residual is not None), default=None)
