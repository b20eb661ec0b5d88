"""The effect of every interaction on every user that it reaches directly: a sparse matrix.

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

from assent.arrays import Floats, Ints
from assent.data.problem import Problem
from assent.denormals import flushed
from assent.errors import AssentError
from assent.influence.mf.curvature import Curvature
from assent.influence.mf.own import own_gradients
from assent.influence.mf.stars import Stars
from assent.influence.settings import Estimator, InfluenceSettings
from assent.sparse import SparseMatrix

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
