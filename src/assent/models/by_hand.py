"""Scores and gradients by hand, in compiled code: of products h · (p_u ⊙ q_i) and sums p_u + q_i."""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from assent.models.contract import Lookup
from assent.support.arrays import Ints
from assent.support.compiled import kernel

Array = npt.NDArray[np.float32]


def products(p: Tensor, q: Tensor, users: Tensor, items: Tensor, weights: Tensor | None = None) -> Tensor:
    """Return the products of `users[n]` with `items[n, m]`, without gradients: [n, m]."""
    h = p.new_ones(p.shape[1]) if weights is None else weights
    found = p.new_empty(items.shape)
    _products(*(each.detach().numpy() for each in (p, q, h, users, items, found)))
    return found


class Products:
    """The products of a batch: users [n] with items [n, m]. Without `weights`, h is 1."""

    def __init__(
        self, p: Tensor, q: Tensor, users: Lookup, items: Lookup, weights: Tensor | None = None
    ) -> None:
        h = p.new_ones(p.shape[1]) if weights is None else weights
        self._tables = p.detach().numpy(), q.detach().numpy(), h.detach().numpy()
        self._users, self._items = users, items
        ids = [torch.from_numpy(each.rows[each.places]) for each in (users, items)]
        self.logits = products(p, q, ids[0], ids[1], weights)
        """[n, m]"""

    def gradients(self, by_logit: Tensor, l2: float) -> tuple[float, Tensor, Tensor, Tensor]:
        """Return the mean penalty of samples and the gradients by rows of users, by rows of items, and by h.

        The loss has the gradient `by_logit[n, m]` by the logits, and the mean over samples of the penalties
        l2/2 · (|p_u|² + |q_i|²).
        """
        p, q, h = self._tables
        of_users, of_items = (
            torch.empty(len(rows), len(h), dtype=by_logit.dtype)
            for rows in (self._users.rows, self._items.rows)
        )
        of_weights = torch.zeros(len(h), dtype=by_logit.dtype)
        n, m = self._items.places.shape
        scale = l2 / (n * m)
        penalty = _penalise(p, self._users.rows, self._users.places, m * scale, of_users.numpy())
        penalty += _penalise(q, self._items.rows, self._items.places.reshape(-1), scale, of_items.numpy())
        _add_gradients(
            *self._tables,
            *self._users,
            *self._items,
            by_logit.numpy(),
            of_users.numpy(),
            of_items.numpy(),
            of_weights.numpy(),
        )
        return penalty, of_users, of_items, of_weights


def pair_sums(p: Tensor, q: Tensor, users: Ints, items: Ints) -> Tensor:
    """Return p_u + q_i of `users[n]` with `items[n, m]`: [n, m, d]."""
    sums = p.new_empty(*items.shape, p.shape[1])
    _pair_sums(p.numpy(), q.numpy(), users, items, sums.numpy())
    return sums


def pair_sum_gradients(p: Tensor, q: Tensor, users: Ints, items: Ints, by_sum: Tensor) -> list[Tensor]:
    """Return the gradients by `p` and by `q`, given that by their `pair_sums`, [n, m, d]."""
    found = [torch.zeros_like(p), torch.zeros_like(q)]
    _add_by_row(found[0].numpy(), found[1].numpy(), users, items, by_sum.numpy())
    return found


@kernel
def _pair_sums(p: Array, q: Array, users: Ints, items: Ints, sums: Array) -> None:
    n, m, d = sums.shape
    for k in range(n):
        own = p[users[k]]
        for j in range(m):
            other, out = q[items[k, j]], sums[k, j]
            for f in range(d):
                out[f] = own[f] + other[f]


@kernel
def _add_by_row(p: Array, q: Array, users: Ints, items: Ints, by_sum: Array) -> None:
    n, m, d = by_sum.shape
    for k in range(n):
        own = p[users[k]]
        for j in range(m):
            other, given = q[items[k, j]], by_sum[k, j]
            for f in range(d):
                own[f] += given[f]
                other[f] += given[f]


@kernel
def _products(p: Array, q: Array, h: Array, users: Ints, items: Ints, logits: Array) -> None:
    n, m = items.shape
    own = np.empty_like(h)
    for k in range(n):
        row = p[users[k]]
        for f in range(len(h)):
            own[f] = h[f] * row[f]
        for j in range(m):
            other, total = q[items[k, j]], own[0] * 0
            for f in range(len(h)):
                total += own[f] * other[f]
            logits[k, j] = total


@kernel
def _penalise(table: Array, rows: Ints, places: Ints, scale: float, gradient: Array) -> float:
    """Set the gradient of scale/2 · Σ_k |table[rows[places[k]]]|², and return this sum."""
    counts = np.zeros(len(rows))
    for place in places:
        counts[place] += 1
    penalty = 0.0
    for k in range(len(rows)):
        row, total = table[rows[k]], table[0, 0] * 0
        c = table.dtype.type(scale * counts[k])
        for f in range(len(row)):
            total += row[f] * row[f]
            gradient[k, f] = c * row[f]
        penalty += 0.5 * scale * counts[k] * total
    return penalty


@kernel
def _add_gradients(
    p: Array,
    q: Array,
    h: Array,
    user_rows: Ints,
    user_places: Ints,
    item_rows: Ints,
    item_places: Ints,
    by_logit: Array,
    of_users: Array,
    of_items: Array,
    of_weights: Array,
) -> None:
    n, m = item_places.shape
    pulled = np.empty_like(h)
    for k in range(n):
        own, u = p[user_rows[user_places[k]]], user_places[k]
        for f in range(len(h)):
            pulled[f] = 0
        for j in range(m):
            g, i = by_logit[k, j], item_places[k, j]
            other = q[item_rows[i]]
            for f in range(len(h)):
                pulled[f] += g * other[f]
                of_items[i, f] += g * h[f] * own[f]
        for f in range(len(h)):
            of_users[u, f] += h[f] * pulled[f]
            of_weights[f] += own[f] * pulled[f]
