"""The samples whose losses influence is about: training rows with the negatives they own, validation rows."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from assent.arrays import Bools, Floats, Ints, positions
from assent.data.problem import Problem
from assent.training.disclosed import Disclosed, negatives

_DRAWS, _TARGETS = -1, -2
"""Epochs that no training has: of the draws that stand for its negatives, and of those of further targets."""


@dataclass(frozen=True)
class TrainSamples:
    """All training rows with draws of their negatives, in the indices of a model.

    The loss of row k is ℓ_k = Σ_j weights[j] · loss(users[k], items[k, j]): the positive (j = 0) once, and
    the expectation over the training's negatives estimated from the draws. `anchor[Z]` is 1 for the rows
    that the model was trained on.
    """

    users: Tensor
    """[Z]"""
    items: Tensor
    """[Z, 1 + draws]"""
    weights: Tensor
    """[1 + draws]"""
    anchor: Tensor
    """[Z]"""


@dataclass(frozen=True)
class ValidSamples:
    """The validation rows in the indices of a model: `users[n]`, `items[n, 1 + m]`, `owners[n]`.

    `owners` are the users in the problem's indices, `n_users` of them; the model may not know all of them.
    Scores are multiplied with `scale[n, 1]` before a loss is taken.
    """

    users: Tensor
    items: Tensor
    owners: Tensor
    n_users: int
    scale: Tensor

    def per_user(self, losses: Tensor) -> Floats:
        """Sum the losses of rows, [n], over their owners: [n_users]."""
        total = torch.zeros(self.n_users, dtype=torch.float64)
        return total.index_add_(0, self.owners, losses.double()).numpy()

    def followed_by(self, problem: Problem, data: Disclosed, rows: Ints, *, seed: int) -> "ValidSamples":
        """The same and then the training rows `rows`, each with as many negatives as a validation row.

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
    """Every training row with `draws` negatives, as seen by a model trained on `anchor`.

    `data` discloses all of them, in the model's vocabulary; `per_row` is how many negatives a row had in
    training. The draws come from the sampler of the training, at epochs that it did not use.
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
    """The validation rows for a model that knows `user_places` and `item_places`, sorted problem indices."""
    return ValidSamples(
        users=torch.from_numpy(positions(user_places, problem.valid.users)),
        items=torch.from_numpy(positions(item_places, problem.valid_candidates)),
        owners=torch.from_numpy(problem.valid.users),
        n_users=problem.n_users,
        scale=torch.ones(len(problem.valid), 1),
    )
