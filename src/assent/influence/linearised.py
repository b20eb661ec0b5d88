"""A trained model around an anchor: the samples of its losses, and the derivatives that influence needs."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from assent.data.problem import Problem
from assent.support.arrays import Bools, Floats, Ints, positions
from assent.training.disclosed import Disclosed, negatives

_DRAWS, _TARGETS = -1, -2
"""Epochs that no training uses: for the draws of training rows, and of further targets."""


@dataclass(frozen=True)
class TrainSamples:
    """All training rows with draws of their negatives, in the indices of a model.

    The loss of row k is ℓ_k = Σ_j weights[j] · loss(users[k], items[k, j]): its positive (j = 0), and draws
    that estimate the expected loss of the negatives in training.
    """

    users: Tensor
    """[Z]"""
    items: Tensor
    """[Z, 1 + draws]"""
    weights: Tensor
    """[1 + draws]"""
    anchor: Tensor
    """õ, the selection that the model was trained on: [Z]."""


@dataclass(frozen=True)
class ValidSamples:
    """The validation rows, in the indices of a model."""

    users: Tensor
    """[n]"""
    items: Tensor
    """Each row's own item, then its sampled negatives: [n, 1 + m]."""
    owners: Tensor
    """The users in the problem's indices, some perhaps unknown to the model: [n]."""
    n_users: int
    """Users of the problem."""
    scale: Tensor
    """What the scores are multiplied with before the loss is taken: [n, 1]."""

    def per_user(self, losses: Tensor) -> Floats:
        """Sum the losses of rows, [n], over their owners: [n_users]."""
        total = torch.zeros(self.n_users, dtype=torch.float64)
        return total.index_add_(0, self.owners, losses.double()).numpy()

    def followed_by(self, problem: Problem, data: Disclosed, rows: Ints, *, seed: int) -> "ValidSamples":
        """Append the training rows `rows`, each with as many negatives as a validation row.

        `data` discloses all training rows in the model's vocabulary.
        """
        drawn = negatives(data, seed=seed, epoch=_TARGETS, count=self.items.shape[1] - 1, rows=rows)
        items = np.concatenate([data.rows.items[rows, None], drawn], axis=1)
        return ValidSamples(
            users=torch.cat([self.users, torch.from_numpy(data.rows.users[rows])]),
            items=torch.cat([self.items, torch.from_numpy(items)]),
            owners=torch.cat([self.owners, torch.from_numpy(problem.train.users[rows])]),
            n_users=self.n_users,
            scale=torch.cat([self.scale, torch.ones(len(rows), 1)]),
        )


def train_samples(
    data: Disclosed,
    anchor: Bools | Floats,
    *,
    draws: int,
    per_row: int,
    seed: int,
    dtype: torch.dtype,
) -> TrainSamples:
    """Return every training row with `draws` negatives, for a model trained on `anchor[Z]`.

    `data` discloses all rows in the model's vocabulary; `per_row` is the number of negatives in training.
    """
    drawn = negatives(data, seed=seed, epoch=_DRAWS, count=draws)
    weights = torch.full((1 + draws,), per_row / draws, dtype=dtype)
    weights[0] = 1
    return TrainSamples(
        users=torch.from_numpy(data.rows.users),
        items=torch.from_numpy(np.concatenate([data.rows.items[:, None], drawn], axis=1)),
        weights=weights,
        anchor=torch.from_numpy(anchor.astype(np.float64)).to(dtype),
    )


def valid_samples(problem: Problem, user_places: Ints, item_places: Ints) -> ValidSamples:
    """Return the validation rows for a model of the users and items at these sorted problem indices."""
    return ValidSamples(
        users=torch.from_numpy(positions(user_places, problem.valid.users)),
        items=torch.from_numpy(positions(item_places, problem.valid_candidates)),
        owners=torch.from_numpy(problem.valid.users),
        n_users=problem.n_users,
        scale=torch.ones(len(problem.valid), 1),
    )


class Linearised(Protocol):
    """Derivatives of a model's losses at its parameters θ and the selection õ that it was trained on.

    F(θ, o) = Σ_k o_k ℓ_k is the training loss, L_n the loss of validation row n. A *vector* is a tensor with
    one number per parameter, in a shape that the implementation chooses.
    """

    @property
    def samples(self) -> TrainSamples:
        """The training rows of F."""

    @property
    def valid(self) -> ValidSamples:
        """The validation rows."""

    def product(self, x: Tensor) -> Tensor:
        """Return H x for a vector x, where H = ∂²F/∂θ² (or its Gauss-Newton part) plus damping."""

    def precondition(self, x: Tensor) -> Tensor:
        """Return x divided by the diagonal of H, or by an estimate of it."""

    def row_product(self, row: int, x: Tensor) -> Tensor:
        """Return ∂²ℓ_row/∂θ² x, without damping."""

    def along(self, x: Tensor) -> Tensor:
        """Return xᵀ ∂²F/∂θ∂o_k for every training row k: [Z]."""

    def pull(self, weights: Tensor) -> Tensor:
        """Return Σ_k weights[k] ∂²F/∂θ∂o_k for `weights[Z]`: a vector."""

    def valid_scores(self) -> Tensor:
        """Return the scores of every validation row's candidates: [n, 1 + m]."""

    def valid_losses(self) -> Tensor:
        """Return L_n of every validation row: [n]."""

    def valid_gradient(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Return the derivatives of Σ_n weights[n] L_n by θ, a vector, and by o, [Z]."""

    def valid_changes(self, moves: Tensor, changes: Tensor) -> Tensor:
        """Return moves[r]ᵀ ∂L_n/∂θ + Σ_k changes[r, k] ∂L_n/∂o_k of every validation row: [R, n].

        `moves` are R vectors, `changes[R, Z]` changes of the selection.
        """
