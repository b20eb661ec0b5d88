"""Effects of interactions on single users in matrix factorisation, from one small system per user.

**Stars.** A user's loss reaches their own rows through the star around them: their embedding p_u and those of
the items in their samples, with all other users fixed. The Hessian block of an item is replaced by its
diagonal D_j, which the penalties of all its samples dominate, and the item is eliminated:

    S_u = A_u − Σ_j B_uj D_j⁻¹ B_ujᵀ,    S_u x_u = ∇_{p_u} L_u,    x_j = −D_j⁻¹ B_ujᵀ x_u

with A, B, D the blocks of the Hessian. An item that is twice among the samples counts as two items. The
systems are independent, so one tensor [n_users, d] holds all of them.

**Effects on others.** Interaction k of user v reaches the loss of another user u directly through its item i,
if i is among u's validation candidates or training items. The sensitivity of L_u to the item's embedding is

    x_i = D_i⁻¹ ∇_{q_i} L_u   for a validation candidate,     x_i = −D_i⁻¹ B_uiᵀ x_u   for a training item of
    u

and the effect is x_iᵀ ∇_{q_i} ℓ_k. Longer paths, over further users, are only in the social influence.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from assent.data.problem import Problem
from assent.influence.inverse import Solution, anchor_size, sampled_rows, solve, system_per_row
from assent.influence.mf_curvature import Block, Curvature
from assent.influence.settings import Estimator, InfluenceSettings
from assent.support.arrays import Floats, Ints
from assent.support.errors import AssentError
from assent.support.runtime import flushed
from assent.support.sparse import SparseMatrix

_MOST_ENTRIES = 100_000_000
"""Largest number of entries of one effect matrix: about 5 GB while it is built."""


def own_in_stars(
    curvature: Curvature, settings: InfluenceSettings, seed: int, of_rows: Tensor | None = None
) -> tuple[Tensor, float | None]:
    """Return the effect of each row on its owner's loss, [Z], and the largest residual of the users' systems.

    `of_rows[n]` weigh the validation rows in their owners' losses; default: 1 each.
    """
    b = curvature.own_gradient(of_rows)
    match settings.estimator:
        case Estimator.GRADIENT_DOT:
            items_fixed = torch.cat([b, torch.zeros_like(curvature.tables[1])])
            return curvature.along(items_fixed) / anchor_size(curvature), None
        case Estimator.LISSA:
            rows = sampled_rows(curvature.samples, steps=settings.lissa_steps, seed=seed)
            return own_by_lissa(curvature, b, rows) / anchor_size(curvature), None
        case _:
            stars = Stars(curvature)
            solution = stars.solve(b, settings)
            return stars.along(solution.x), solution.residual


@dataclass(frozen=True)
class Stars:
    """The star systems of all users; vectors are [n_users, d]."""

    curvature: Curvature

    def product(self, x: Tensor) -> Tensor:
        """Return S_u x_u for every user."""
        out = self.curvature.ridge[: self.curvature.n_users] * x
        for block in self.curvature.blocks():
            xu = F.embedding(block.users, x).unsqueeze(1)
            xj = self._items(block, xu)
            change = block.bend * ((xu * block.q).sum(-1) + (xj @ block.p.unsqueeze(-1)).squeeze(-1))
            back = change.unsqueeze(-1) * block.q + block.twist.unsqueeze(-1) * xj
            out.index_add_(0, block.users, back.sum(1))
        return out

    def solve(self, b: Tensor, settings: InfluenceSettings) -> Solution:
        """Return x_u of every user for the gradients `b[n_users, d]`."""
        return solve(self.product, self.precondition, b, system_per_row, settings)

    def precondition(self, x: Tensor) -> Tensor:
        """Return x divided by the diagonal of the users' blocks."""
        return x / self.curvature.diagonal[: self.curvature.n_users]

    def along(self, x: Tensor) -> Tensor:
        """Return x_uᵀ ∇_{p_u} ℓ_k + Σ_j x_jᵀ ∇_{q_j} ℓ_k for every row k of each user u: [Z]."""
        parts = []
        for block in self.curvature.blocks():
            xu = F.embedding(block.users, x).unsqueeze(1)
            parts.append(self.curvature.row_derivatives(block, xu, self._items(block, xu)))
        return torch.cat(parts)

    def _items(self, block: Block, xu: Tensor) -> Tensor:
        """Return x_j = −D_j⁻¹ B_ujᵀ x_u of each sample's item: [n, 1 + draws, d]."""
        scale = F.embedding(block.items, self.curvature.diagonal[self.curvature.n_users :])
        along = block.bend * (xu * block.q).sum(-1)
        return -(along.unsqueeze(-1) * block.p.unsqueeze(1) + block.twist.unsqueeze(-1) * xu) / scale


def own_by_lissa(curvature: Curvature, b: Tensor, rows: Ints) -> Tensor:
    """Return the derivative of each row's loss along H⁻¹ b by LiSSA in its user's star: [Z].

    The recursion runs in all stars at once for `b[n_users, d]`; a sampled row concerns its own user only.
    """
    x = b
    items: dict[int, Tensor] = {}
    """The item coordinates of sampled rows, [1 + draws, d]; those of other rows are 0."""
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
    parts = []
    for block in curvature.blocks():
        xi = torch.zeros_like(block.q)
        for row, value in items.items():
            if block.rows.start <= row < block.rows.start + len(xi):
                xi[row - block.rows.start] = value
        parts.append(curvature.row_derivatives(block, F.embedding(block.users, x).unsqueeze(1), xi))
    return torch.cat(parts)


@dataclass(frozen=True)
class Contacts:
    """Pairs of a user and an item, with the sensitivity of the user's loss to the item's embedding."""

    users: Ints
    """In the problem's indices: [n]."""
    items: Ints
    """In the model's indices: [n]."""
    x: Tensor
    """[n, d]"""


@flushed()
def effect_matrix(
    problem: Problem,
    curvature: Curvature,
    own: Floats,
    settings: InfluenceSettings,
    *,
    contacts_at_once: int = 2**16,
) -> SparseMatrix:
    """Return the effect of every interaction on every user that it reaches directly: [n_users, Z], sparse.

    The entries of the owners are `own[Z]`. Limitation: LiSSA and gradient-dot have no star solutions, so that
    with them the effects on others are those of the truncated estimator, while `own` is the estimator's own.
    Contacts are handled in blocks; each has as many entries as its item has rows. Raises an `AssentError` if
    there are too many entries for memory.
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
    for contacts in _contacts(problem, curvature, settings, contacts_at_once):
        contact, row = index.join(contacts.items)
        user = contacts.users[contact]
        foreign = problem.train.users[row] != user
        contact, row, user = contact[foreign], row[foreign], user[foreign]
        users.append(user)
        rows.append(row)
        values.append((contacts.x[contact] * index.gradients[row]).sum(-1).numpy())
    shape = (problem.n_users, len(own))
    return SparseMatrix.of(np.concatenate(values), np.concatenate(users), np.concatenate(rows), shape)


def _contacts(
    problem: Problem, curvature: Curvature, settings: InfluenceSettings, at_once: int
) -> Iterator[Contacts]:
    """Yield every user with their validation candidates, then with the items of their training rows."""
    valid, (_, slopes) = curvature.valid, curvature.valid_slopes
    scale = curvature.diagonal[curvature.n_users :]
    known = (valid.users < curvature.n_users)[:, None] & (valid.items < curvature.model.n_items)
    for pairs in torch.nonzero(known).split(at_once):  # type: ignore[no-untyped-call]
        place, column = pairs.unbind(1)
        items = valid.items[place, column]
        p = F.embedding(valid.users[place], curvature.tables[0])
        x = slopes[place, column].unsqueeze(-1) * p / F.embedding(items, scale)
        yield Contacts(problem.valid.users[place.numpy()], items.numpy(), x)
    star = Stars(curvature).solve(curvature.own_gradient(), settings).x
    for block in curvature.blocks():
        xu, items = F.embedding(block.users, star), block.items[:, 0]
        along = block.bend[:, 0] * (xu * block.q[:, 0]).sum(-1)
        x = -(along.unsqueeze(-1) * block.p + block.twist[:, :1] * xu) / F.embedding(items, scale)
        yield Contacts(problem.train.users[block.rows], items.numpy(), x)


@dataclass(frozen=True)
class _RowsOfItems:
    """The training rows of each item, and ∇_{q_i} ℓ_k of each row for its own item."""

    order: Ints
    """Rows sorted by item: [Z]."""
    start: Ints
    """Where each item begins in `order`: [n_items + 1]."""
    gradients: Tensor
    """[Z, d]"""

    @classmethod
    def of(cls, curvature: Curvature) -> "_RowsOfItems":
        c = curvature.model.l2
        gradients = [b.slope[:, :1] * b.p + c * b.q[:, 0] for b in curvature.blocks()]
        items = curvature.samples.items[:, 0].numpy()
        order = np.argsort(items, kind="stable")
        start = np.searchsorted(items[order], np.arange(curvature.model.n_items + 1))
        return cls(order, start, torch.cat(gradients))

    def count(self, items: Ints) -> int:
        """Return how many pairs `join` would give."""
        return int((self.start[items + 1] - self.start[items]).sum())

    def join(self, items: Ints) -> tuple[Ints, Ints]:
        """Return all pairs (place in `items`, training row with that item)."""
        counts = self.start[items + 1] - self.start[items]
        place = np.repeat(np.arange(len(items)), counts)
        within = np.arange(len(place)) - np.repeat(np.cumsum(counts) - counts, counts)
        return place, self.order[self.start[items][place] + within]
