"""A trained model around an anchor: the samples of its losses, and the derivatives that influence needs."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from assent.data.problem import Problem
from assent.models import Evidence, Recommender
from assent.models.losses import Loss
from assent.support.arrays import Bools, Floats, Ints, Keys, positions
from assent.training.disclosed import Disclosed, negatives

_DRAWS, _TARGETS = -1, -2
"""Epochs that no training uses: for the draws of training rows, and of further targets."""


@dataclass(frozen=True)
class TrainSamples:
    """All training rows with draws of their negatives, in the indices of a model.

    The loss of row k is ℓ_k = Σ_j weights[j] · loss(users[k], items[k, j]): its positive (j = 0), and draws
    that estimate the expected loss of the negatives in training.
    """

    users: Tensor  # [Z]
    items: Tensor  # [Z, 1 + draws]
    weights: Tensor  # [1 + draws]
    anchor: Tensor  # õ, the selection that the model was trained on: [Z]
    row_keys: Keys  # hashes of the rows' ids: [Z]
    user_keys: Keys  # hashes of the ids of users that the model knows: [n_users]


@dataclass(frozen=True)
class ValidSamples:
    """The validation rows, in the indices of a model."""

    users: Tensor  # [n]
    items: Tensor  # each row's own item, then its sampled negatives: [n, 1 + m]
    owners: Tensor
    """The users in the problem's indices, some perhaps unknown to the model: [n]."""
    n_users: int  # users of the problem
    known_users: Ints
    """The problem's index of each user that the model knows: [users of the model]."""
    scale: Tensor
    """What the scores are multiplied with before the loss is taken: [n, 1]."""

    def per_user(self, losses: Tensor) -> Floats:
        """Sum the losses of rows, [n], over their owners: [n_users]."""
        total = torch.zeros(self.n_users, dtype=torch.float64)
        return total.index_add_(0, self.owners, losses.double()).numpy()


def train_samples(
    data: Disclosed, anchor: Bools | Floats, *, draws: int, per_row: int, seed: int, dtype: torch.dtype
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
        row_keys=data.row_keys,
        user_keys=data.user_keys,
    )


def valid_samples(problem: Problem, data: Disclosed, targets: Ints, *, seed: int) -> ValidSamples:
    """Return the validation rows, then the training rows `targets` with as many negatives each.

    `data` discloses all training rows in the model's vocabulary.
    """
    items = positions(np.unique(problem.train.items), problem.valid_candidates)
    drawn = negatives(data, seed=seed, epoch=_TARGETS, count=items.shape[1] - 1, rows=targets)
    further = np.concatenate([data.rows.items[targets, None], drawn], axis=1)
    owners = np.concatenate([problem.valid.users, problem.train.users[targets]])
    return ValidSamples(
        users=torch.from_numpy(np.concatenate([data.valid.users, data.rows.users[targets]])),
        items=torch.from_numpy(np.concatenate([items, further])),
        owners=torch.from_numpy(owners),
        n_users=problem.n_users,
        known_users=np.unique(problem.train.users),
        scale=torch.ones(len(owners), 1),
    )


@dataclass(frozen=True)
class Linearised(ABC):
    """Derivatives of a model's losses at its parameters θ and the selection õ that it was trained on.

    F(θ, o) = Σ_k o_k ℓ_k (or the `objective` of a model's own solver) is the training loss, L_n the loss of
    validation row n, and H is ∂²F/∂θ² (or its Gauss-Newton part) plus damping. A *vector* is a tensor with
    one number per parameter, in a shape that the implementation chooses.
    """

    model: Recommender
    samples: TrainSamples
    valid: ValidSamples
    loss: Loss
    full: bool  # full Hessian rather than Gauss-Newton
    damping: float  # added to the diagonal of H

    def training_loss(self, o: Tensor) -> Tensor:
        """Return F(θ, o) for `o[Z]`: a number, differentiable."""
        users, items = self.samples.users, self.samples.items
        evidence = Evidence(users, items[:, 0], o)
        if self.model.brings_solver:
            return self.model.objective(evidence)
        return o @ (self.model.losses(users, items, self.model.prepare(evidence)) @ self.samples.weights)

    @abstractmethod
    def product(self, x: Tensor) -> Tensor:
        """Return H x for a vector x."""

    @abstractmethod
    def precondition(self, x: Tensor) -> Tensor:
        """Return x divided by the diagonal of H, or by an estimate of it."""

    @abstractmethod
    def row_product(self, row: int, x: Tensor) -> Tensor:
        """Return ∂²ℓ_row/∂θ² x, without damping."""

    @abstractmethod
    def along(self, x: Tensor) -> Tensor:
        """Return xᵀ ∂²F/∂θ∂o_k for every training row k: [Z]."""

    @abstractmethod
    def pull(self, weights: Tensor) -> Tensor:
        """Return Σ_k weights[k] ∂²F/∂θ∂o_k for `weights[Z]`: a vector."""

    @abstractmethod
    def valid_scores(self) -> Tensor:
        """Return the scores of every validation row's candidates: [n, 1 + m]."""

    @abstractmethod
    def valid_losses(self) -> Tensor:
        """Return L_n of every validation row: [n]."""

    @abstractmethod
    def valid_gradient(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Return the derivatives of Σ_n weights[n] L_n by θ, a vector, and by o, [Z]."""

    @abstractmethod
    def valid_changes(self, moves: Tensor, changes: Tensor) -> Tensor:
        """Return moves[r]ᵀ ∂L_n/∂θ + Σ_k changes[r, k] ∂L_n/∂o_k of every validation row: [R, n].

        `moves` are R vectors, `changes[R, Z]` changes of the selection.
        """

    def valid_rows(self, samples_at_once: int, weights: Tensor | None = None) -> tuple[Tensor, ...]:
        """Return the validation rows of nonzero weight, in blocks that bound memory."""
        rows = torch.arange(len(self.valid.users)) if weights is None else weights.nonzero().flatten()
        return torch.split(rows, max(1, samples_at_once // self.valid.items.shape[1]))
