"""The samples whose losses influence is about: training rows with the negatives they own, validation rows.

First derivatives by all parameters of a model at once, as flat vectors [P].

What influence needs to know of a trained model, whoever differentiates it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from assent.data.problem import Problem
from assent.influence.settings import Estimator, InfluenceSettings
from assent.influence.solvers import (
    Dot,
    Operator,
    Solution,
    conjugate_gradients,
    one_system,
)
from assent.support.arrays import Bools, Floats, Ints, positions
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


@dataclass(frozen=True)
class Parameters:
    """The parameters of a model, one after another; derivatives are 0 where there is no dependence."""

    tensors: tuple[Tensor, ...]

    def zeros(self) -> Tensor:
        """A vector of zeros: [P]."""
        return self.flat([None] * len(self.tensors))

    def flat(self, parts: Sequence[Tensor | None]) -> Tensor:
        """A tensor for each parameter, None being 0, as one vector: [P]."""
        filled = zip(parts, self.tensors, strict=True)
        return torch.cat(
            [(torch.zeros_like(like) if part is None else part).flatten() for part, like in filled]
        )

    def slopes(
        self, output: Tensor, along: Tensor | None = None, *, create: bool = False, retain: bool = False
    ) -> Tensor:
        """∇_θ of a number, or of outputs weighted with `along`: [P].

        With `create` it can be differentiated again, with `retain` the output can.
        """
        if not output.requires_grad:
            return self.zeros()
        parts = torch.autograd.grad(
            output, self.tensors, along, create_graph=create, retain_graph=create or retain, allow_unused=True
        )
        return self.flat(parts)

    def constants(self, output: Tensor) -> Tensor:
        """∇_θ of a number whose graph is kept, itself not to be differentiated again: [P]."""
        return self.slopes(output, retain=True).detach()


def sampled_rows(samples: TrainSamples, *, steps: int, seed: int) -> Ints:
    """Draw the anchor's row s of each step of LiSSA: [steps]."""
    rows = np.flatnonzero(samples.anchor.numpy())
    return np.random.default_rng(seed).choice(rows, size=steps)


def lissa(row_product: Callable[[int, Tensor], Tensor], b: Tensor, rows: Ints) -> Tensor:
    """H⁻¹ b by the paper's LiSSA: one step per row s of `rows`, with `row_product(s, x)` = ∇²ℓ_s x.

        x_j = b + (I − ∇²ℓ_s) x_{j−1}

    H is the Hessian of the mean training loss. Kept as the paper has it, to compare with: a single row
    touches so few parameters that the result is nearly a multiple of b.
    """
    x = b
    for row in rows:
        x = b + x - row_product(int(row), x)
    return x


class Linearised(Protocol):
    """The losses of a model around its parameters θ and the selection õ that it was trained on.

    F(θ, o) = Σ_k o_k ℓ_k is the training loss, L_n the loss of validation row n. A *vector* is a tensor with
    a number for each parameter, in a shape of the implementation's choice.
    """

    @property
    def samples(self) -> TrainSamples:
        """The rows of F."""

    @property
    def valid(self) -> ValidSamples:
        """The validation rows."""

    def product(self, x: Tensor) -> Tensor:
        """H x for a vector x, with H = ∂²F/∂θ² (or its Gauss-Newton part) plus damping."""

    def precondition(self, x: Tensor) -> Tensor:
        """x divided by, or nearly by, the diagonal of H."""

    def row_product(self, row: int, x: Tensor) -> Tensor:
        """∂²ℓ_row/∂θ² x: the Hessian of one row's loss, undamped."""

    def along(self, x: Tensor) -> Tensor:
        """xᵀ ∂²F/∂θ∂o_k for every training row k: [Z]."""

    def pull(self, weights: Tensor) -> Tensor:
        """Σ_k weights[k] ∂²F/∂θ∂o_k for `weights[Z]`: a vector."""

    def valid_scores(self) -> Tensor:
        """The scores of every validation row's candidates: [n, 1 + m]."""

    def valid_losses(self) -> Tensor:
        """L_n of every validation row: [n]."""

    def valid_gradient(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """The derivatives of Σ_n weights[n] L_n: by θ, a vector, and by o, [Z]."""

    def valid_changes(self, moves: Tensor, changes: Tensor) -> Tensor:
        """moves[r]ᵀ ∂L_n/∂θ + Σ_k changes[r, k] ∂L_n/∂o_k of every validation row: [R, n].

        `moves` are R vectors, `changes[R, Z]` what each does to the selection.
        """


def inverse_product(model: Linearised, b: Tensor, settings: InfluenceSettings, seed: int) -> Solution:
    """H⁻¹ b, with H the Hessian of the *summed* loss, as the estimator stands for it."""
    match settings.estimator:
        case Estimator.GRADIENT_DOT:
            return Solution(b / anchor_size(model), None, 0)
        case Estimator.LISSA:
            rows = sampled_rows(model.samples, steps=settings.lissa_steps, seed=seed)
            return Solution(lissa(model.row_product, b, rows) / anchor_size(model), None, len(rows))
        case _:
            return solve(model.product, model.precondition, b, one_system, settings)


def solve(
    product: Operator, precondition: Operator, b: Tensor, dot: Dot, settings: InfluenceSettings
) -> Solution:
    """H⁻¹ b: to convergence for Gauss-Newton, cut off for the full Hessian."""
    truncated = settings.estimator is Estimator.TRUNCATED
    return conjugate_gradients(
        product,
        b,
        precondition=precondition,
        dot=dot,
        tolerance=settings.tolerance,
        iterations=settings.truncation if truncated else settings.iterations,
    )


def anchor_size(model: Linearised) -> float:
    """Z: the identity and LiSSA stand for the inverse Hessian of the mean loss, not of the sum."""
    return float(model.samples.anchor.sum())
