"""The effect of a user's interactions on her own validation loss: one small system per user, all at once.

A user's loss reaches her own rows through the star around her: her embedding p_u and those of the items in
her samples, every other user held fixed. In a star, an item's block of the Hessian is taken by its diagonal
(the penalty of all its samples dominates it), and the item is eliminated:

    S_u = A_u − Σ_j B_uj D_j⁻¹ B_ujᵀ,    S_u x_u = ∇_{p_u} L_u,    x_j = −D_j⁻¹ B_ujᵀ x_u

with A, B, D the blocks of `curvature`; an item that is twice among her samples counts as two that are alike.
The systems share nothing, so one tensor [users, d] holds all of them.

LiSSA in the star around every user at once.

Own influence for matrix factorisation: all users' small systems at once.

The effect of every interaction on every user that it reaches directly: a sparse matrix.

Interaction k of user v reaches the loss of another user u through its item, if the item is among u's
validation candidates or among her own training items. With the star solution of `own`, u's sensitivity to an
item's embedding is

    x_i = D_i⁻¹ ∇_{q_i} L_u   for a validation candidate,     x_i = −D_i⁻¹ B_uiᵀ x_u   for an item of hers

and the entry is x_iᵀ ∇_{q_i} ℓ_k. At k's owner it is the own influence. Longer ways, over other users, are
left to the social influence, which has all of them but no user's share.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from assent.data.problem import Problem
from assent.influence.linearised import anchor_size, sampled_rows, solve
from assent.influence.mf_curvature import Block, Curvature, row_derivatives
from assent.influence.settings import Estimator, InfluenceSettings
from assent.influence.solvers import Solution, system_per_row
from assent.support.arrays import Floats, Ints
from assent.support.errors import AssentError
from assent.support.runtime import flushed
from assent.support.sparse import SparseMatrix


@dataclass(frozen=True)
class Stars:
    """The star systems of all users of a curvature; vectors are [n_users, d]."""

    curvature: Curvature

    def product(self, x: Tensor) -> Tensor:
        """S_u x_u for every user."""
        out = self.curvature.ridge[: self.curvature.n_users] * x
        for block in self.curvature.blocks():
            xu = F.embedding(block.users, x).unsqueeze(1)
            xj = self._items(block, xu)
            change = block.bend * ((xu * block.q).sum(-1) + (xj @ block.p.unsqueeze(-1)).squeeze(-1))
            back = change.unsqueeze(-1) * block.q + block.twist.unsqueeze(-1) * xj
            out.index_add_(0, block.users, back.sum(1))
        return out

    def solve(self, b: Tensor, settings: InfluenceSettings) -> Solution:
        """x_u of every user for her own gradient in `b[n_users, d]`."""
        return solve(self.product, self.precondition, b, system_per_row, settings)

    def precondition(self, x: Tensor) -> Tensor:
        """x divided by the diagonal of the users' blocks."""
        return x / self.curvature.diagonal[: self.curvature.n_users]

    def along(self, x: Tensor) -> Tensor:
        """The derivative of each row's loss along its own user's star, [Z].

        x_uᵀ ∇_{p_u} ℓ_k + Σ_j x_jᵀ ∇_{q_j} ℓ_k
        """
        weights, c = self.curvature.samples.weights, self.curvature.model.l2
        parts = []
        for block in self.curvature.blocks():
            xu = F.embedding(block.users, x).unsqueeze(1)
            parts.append(row_derivatives(block, xu, self._items(block, xu), weights, c))
        return torch.cat(parts)

    def _items(self, block: Block, xu: Tensor) -> Tensor:
        """x_j = −D_j⁻¹ B_ujᵀ x_u of each sample's item: [n, 1 + draws, d]."""
        scale = F.embedding(block.items, self.curvature.diagonal[self.curvature.n_users :])
        along = block.bend * (xu * block.q).sum(-1)
        return -(along.unsqueeze(-1) * block.p.unsqueeze(1) + block.twist.unsqueeze(-1) * xu) / scale


@dataclass(frozen=True)
class LissaStars:
    """H⁻¹ ∇L_u in every user's star: her own coordinates, and those of the items of the sampled rows."""

    x: Tensor
    """[n_users, d]"""
    items: dict[int, Tensor]
    """Row → [1 + draws, d]; 0 for a row that is not in it."""


def lissa_stars(curvature: Curvature, b: Tensor, rows: Ints) -> LissaStars:
    """The recursion in all stars at once for b[n_users, d]; a sampled row concerns its own user only."""
    x = b
    items: dict[int, Tensor] = {}
    for row in map(int, rows):
        one = curvature.of_row(row)
        block = next(one.blocks())
        user = int(block.users[0])
        xi = items.get(row, torch.zeros_like(block.q[0]))
        whole = torch.zeros_like(one.diagonal)
        whole[user] = x[user]
        whole[one.n_users + block.items[0]] = xi
        image = one.product(whole)
        x = b + x
        x[user] -= image[user]
        items[row] = xi - image[one.n_users + block.items[0]]
    return LissaStars(x, items)


def along_lissa_stars(curvature: Curvature, solution: LissaStars) -> Tensor:
    """The derivative of each row's loss along its own user's star: [Z]."""
    weights, c = curvature.samples.weights, curvature.model.l2
    parts = []
    for block in curvature.blocks():
        xi = torch.zeros_like(block.q)
        for row, value in solution.items.items():
            if block.rows.start <= row < block.rows.start + len(xi):
                xi[row - block.rows.start] = value
        xu = F.embedding(block.users, solution.x).unsqueeze(1)
        parts.append(row_derivatives(block, xu, xi, weights, c))
    return torch.cat(parts)


def own_in_stars(
    curvature: Curvature, settings: InfluenceSettings, seed: int, of_rows: Tensor | None = None
) -> tuple[Tensor, float | None]:
    """The effect of each row on its owner's loss, [Z], and the largest residual of the users' systems.

    `of_rows[n]` is what each validation row counts in its owner's loss; default: 1.
    """
    b = own_gradients(curvature, of_rows)
    match settings.estimator:
        case Estimator.GRADIENT_DOT:
            items_fixed = torch.cat([b, torch.zeros_like(curvature.tables[1])])
            return curvature.along(items_fixed) / anchor_size(curvature), None
        case Estimator.LISSA:
            rows = sampled_rows(curvature.samples, steps=settings.lissa_steps, seed=seed)
            solved = along_lissa_stars(curvature, lissa_stars(curvature, b, rows))
            return solved / anchor_size(curvature), None
        case _:
            stars = Stars(curvature)
            solution = stars.solve(b, settings)
            return stars.along(solution.x), solution.residual


def own_gradients(curvature: Curvature, of_rows: Tensor | None = None) -> Tensor:
    """∇_{p_u} Σ_n of_rows[n] L_n over the validation rows n of every user: [n_users, d]. Default: 1 each."""
    if of_rows is None:
        of_rows = torch.ones(len(curvature.valid.users), dtype=curvature.samples.anchor.dtype)
    return curvature.own_gradient(of_rows)


_MOST_ENTRIES = 100_000_000
"""Entries of one anchor's matrix: about 5 GB while it is built."""
_CHUNK = 2**16
"""Contacts handled at once; each has as many entries as its item has rows."""


@dataclass(frozen=True)
class Contacts:
    """Pairs of a user and an item, with the sensitivity of her loss to the item's embedding.

    `users[n]` in the problem's indices, `items[n]` in the model's, `x[n, d]`.
    """

    users: Ints
    items: Ints
    x: Tensor


@flushed()
def effect_matrix(
    problem: Problem, curvature: Curvature, own: Floats, settings: InfluenceSettings
) -> SparseMatrix:
    """Effects [n_users, Z] at an anchor; `own[Z]` fills the entries of the owners.

    Computed with the star solutions of `settings`, truncated ones for the estimators that have none.
    """
    if settings.estimator in (Estimator.LISSA, Estimator.GRADIENT_DOT):
        settings = settings.model_copy(update={"estimator": Estimator.TRUNCATED})
    valid = curvature.valid
    precision = curvature.diagonal.numpy().dtype
    users, rows, values = [problem.train.users], [np.arange(len(own))], [own.astype(precision)]
    index = _RowsOfItems.of(curvature)
    reached = np.concatenate([valid.items.numpy().ravel(), curvature.samples.items[:, 0].numpy()])
    entries_wanted = index.count(reached[reached < curvature.model.n_items])
    if entries_wanted > _MOST_ENTRIES:
        raise AssentError(
            f"effects between users: {entries_wanted:,} pairs, more than the {_MOST_ENTRIES:,} kept in "
            "memory; predict losses by one solve instead (predicted_losses)"
        )
    for contacts in _contacts(problem, curvature, settings):
        contact, row = index.join(contacts.items)
        user = contacts.users[contact]
        foreign = problem.train.users[row] != user
        contact, row, user = contact[foreign], row[foreign], user[foreign]
        users.append(user)
        rows.append(row)
        values.append((contacts.x[contact] * index.gradients[row]).sum(-1).numpy())
    shape = (problem.n_users, len(own))
    return SparseMatrix.of(np.concatenate(values), np.concatenate(users), np.concatenate(rows), shape)


def _contacts(problem: Problem, curvature: Curvature, settings: InfluenceSettings) -> Iterator[Contacts]:
    """Every user with her validation candidates, then with the items of her own training rows."""
    valid, (_, slopes) = curvature.valid, curvature.valid_slopes
    scale = curvature.diagonal[curvature.n_users :]
    known = (valid.users < curvature.n_users)[:, None] & (valid.items < curvature.model.n_items)
    for pairs in torch.nonzero(known).split(_CHUNK):  # type: ignore[no-untyped-call]
        place, column = pairs.unbind(1)
        items = valid.items[place, column]
        p = F.embedding(valid.users[place], curvature.tables[0])
        x = slopes[place, column].unsqueeze(-1) * p / F.embedding(items, scale)
        yield Contacts(problem.valid.users[place.numpy()], items.numpy(), x)
    star = Stars(curvature).solve(own_gradients(curvature), settings).x
    for block in curvature.blocks():
        xu, items = F.embedding(block.users, star), block.items[:, 0]
        along = block.bend[:, 0] * (xu * block.q[:, 0]).sum(-1)
        x = -(along.unsqueeze(-1) * block.p + block.twist[:, :1] * xu) / F.embedding(items, scale)
        yield Contacts(problem.train.users[block.rows], items.numpy(), x)


@dataclass(frozen=True)
class _RowsOfItems:
    """The training rows of each item, and ∇_{q_i} ℓ_k of each row for its own item: [Z, d]."""

    order: Ints
    start: Ints
    gradients: Tensor

    @classmethod
    def of(cls, curvature: Curvature) -> "_RowsOfItems":
        c = curvature.model.l2
        gradients = [b.slope[:, :1] * b.p + c * b.q[:, 0] for b in curvature.blocks()]
        items = curvature.samples.items[:, 0].numpy()
        order = np.argsort(items, kind="stable")
        start = np.searchsorted(items[order], np.arange(curvature.model.n_items + 1))
        return cls(order, start, torch.cat(gradients))

    def count(self, items: Ints) -> int:
        """How many pairs `join` would give."""
        return int((self.start[items + 1] - self.start[items]).sum())

    def join(self, items: Ints) -> tuple[Ints, Ints]:
        """All pairs (place in `items`, training row with that item)."""
        counts = self.start[items + 1] - self.start[items]
        place = np.repeat(np.arange(len(items)), counts)
        within = np.arange(len(place)) - np.repeat(np.cumsum(counts) - counts, counts)
        return place, self.order[self.start[items][place] + within]
