"""Influence of iALS in closed form.

With s = w_u · h_i and the vectors W, H of all users and items, training minimises

    F = ½ Σ_k o_k ((1 − s_k)² + λ (|w|² + |h|²)) + ½ α Σ_(u,i) (s_ui² + λ (|w|² + |h|²))

**Social influence** needs products with the Hessian. Its diagonal blocks are the matrices A_u and A_i of the
ridge regressions that training solves. For a change (x_u, x_i), the product at user u is

    A_u x_u + Σ_k o_k (h_i (w_u · x_i) + (s_k − 1) x_i) + α (Hᵀ X + Xᵀ H) w_u

where X holds the x_i; at items it is the same with the roles exchanged. It costs O(rows · d + (users + items)
· d²). Gauss-Newton leaves out (s_k − 1) x_i and Xᵀ H w_u. The inverses of the blocks precondition conjugate
gradients. They are factored anew for each product: to keep them would take (users + items) · d² numbers.

**Own influence**, with the items fixed, is exact, not of first order, and needs no Hessian of all parameters.
Withholding interaction k changes A_u by h_k h_kᵀ and by a ridge that is the same for all k. With B = A_u −
λ I, y = B⁻¹ b_u and z = B⁻¹ h_k (Sherman and Morrison),

    w_u without k = y + z (h_k · y − 1) / (1 − h_k · z)

and the influence is the difference of the validation losses. For an interaction that the anchor withholds, it
is the difference that disclosing it makes: B = A_u + λ I, and

    w_u with k = y + z (1 − h_k · y) / (1 + h_k · z)

Who discloses nothing is an unknown user to a final model, so that their vector is that of an unknown user.

A person with n interactions and m judged samples takes n · m losses. Where that is very much (`exact_up_to`),
the loss is taken to first order around y: z is exact still, and hardly moves a vector that so many
interactions hold.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from assent.influence.factors import Factors
from assent.models import IALS
from assent.models.losses import Loss
from assent.support.arrays import Bools, Floats
from assent.support.compiled import kernel
from assent.support.ridge import (
    Array,
    Entries,
    Regressions,
    each_part,
    inverse_times,
    plus_identity,
    room,
    scale_entries,
    solution,
    turned,
)

_AT_ONCE = 64
"""Interactions of a person whose effects are computed at once."""
_FACTORS = 32
"""Numbers between 1 and 2 whose product is taken before its logarithm: no more than 2³²."""


class Judged(NamedTuple):
    """The validation rows that count, by user; those of user u are `starts[u] : starts[u + 1]`."""

    starts: Array
    items: Array
    """Each row's own item, then the others: [n, m]."""
    weights: Array
    """[n]"""
    a: Array
    """Logits are a s + b: [n]."""
    b: Array
    """[n]"""


@dataclass(frozen=True)
class LeastSquares(Factors):
    """The derivatives of iALS at an anchor."""

    model: IALS
    exact_up_to: int = 2**24
    """Most losses of a person that are computed one by one for own influence."""

    def logits(self, scores: Tensor) -> Tensor:
        """Return a s + b."""
        return self.model.calibrated(scores)

    @cached_property
    def vectors(self) -> tuple[Array, Array]:
        """W, [n_users, d], and H, [n_items, d]."""
        users, items = self.tables
        return users[:-1].numpy(), items[:-1].numpy()

    @cached_property
    def entries(self) -> tuple[Entries, Entries]:
        """All training rows, weighted by the anchor, by user and by item."""
        users, items = self.samples.users.numpy(), self.samples.items[:, 0].numpy()
        weights = self.samples.anchor.numpy()
        by_user = Entries.of(users, items, weights, self.model.n_users)
        return by_user, Entries.of(items, users, weights, self.model.n_items)

    @cached_property
    def _sides(self) -> tuple[Regressions, Regressions]:
        """The damped regressions of users and of items."""
        (by_user, by_item), (w, h) = self.entries, self.vectors
        users, items = self.model.regressions(by_user, h), self.model.regressions(by_item, w)
        damping = w.dtype.type(self.damping)
        return users._replace(ridge=users.ridge + damping), items._replace(ridge=items.ridge + damping)

    def _split(self, x: Tensor) -> tuple[Array, Array]:
        """The parts of a vector at users and at items."""
        return x[: self.n_users].numpy(), x[self.n_users :].numpy()

    def product(self, x: Tensor) -> Tensor:
        """Return H x for a vector x."""
        every, parts = self.vectors[0].dtype.type(self.model.alpha), []
        for rows, own, x_own, x_table in zip(
            self._sides, self.vectors, self._split(x), self._split(x)[::-1], strict=True
        ):
            crossed = every * (rows.table.T @ x_table)
            crossed = crossed + crossed.T if self.full else crossed
            out = x_own @ rows.gram + own @ crossed.T + rows.ridge[:, None] * x_own
            each_part(rows.starts, _add_products, rows, own, x_own, x_table, self.full, out)
            parts.append(torch.from_numpy(out))
        return torch.cat(parts)

    def precondition(self, x: Tensor) -> Tensor:
        """Return x multiplied by the inverses of the diagonal blocks A_u and A_i of H."""
        sides = zip(self._sides, self._split(x), strict=True)
        return torch.cat([torch.from_numpy(inverse_times(rows, part)) for rows, part in sides])

    def along(self, x: Tensor) -> Tensor:
        """Return xᵀ ∇ℓ_k for every training row k: [Z]."""
        rows, own, found = self._sides[0], self.vectors[0], np.empty_like(self.entries[0].weights)
        each_part(rows.starts, _along, rows, own, *self._split(x), own.dtype.type(self.model.l2), found)
        return self._in_order(found)

    def _in_order(self, found: Array) -> Tensor:
        """Return numbers of rows by user in the order of the training rows: [Z]."""
        out = np.empty_like(found)
        out[self.entries[0].order] = found
        return torch.from_numpy(out)

    def pull(self, weights: Tensor) -> Tensor:
        """Return Σ_k weights[k] ∇ℓ_k for `weights[Z]`: a vector."""
        parts = []
        for entries, rows, own in zip(self.entries, self._sides, self.vectors, strict=True):
            weighted, out = rows._replace(weights=weights.numpy()[entries.order]), np.zeros_like(own)
            each_part(rows.starts, _pull, weighted, own, own.dtype.type(self.model.l2), out)
            parts.append(torch.from_numpy(out))
        return torch.cat(parts)

    def row_product(self, row: int, x: Tensor) -> Tensor:
        """Return the undamped Hessian of one row's loss and of its share of all pairs, times x.

        The mean over disclosed rows is the Hessian of the mean loss.
        """
        anchor, size = torch.zeros_like(self.samples.anchor), self.samples.anchor.sum()
        anchor[row] = size
        one = replace(self, samples=replace(self.samples, anchor=anchor), full=True, damping=0.0)
        return one.product(x) / size

    def own(self, weights: Tensor) -> Tensor:
        """Return the exact effect of each row on its owner's loss, with the items fixed: [Z].

        `weights[n]` weigh the validation rows. The anchor must be a selection.
        """
        anchor = self.samples.anchor
        if not ((anchor == 0) | (anchor == 1)).all():
            raise ValueError("own influence: the anchor must be a selection, not shares of rows")
        rows = self.model.regressions(self.entries[0], self.vectors[1])
        # With the unknown item, which may be judged.
        rows, basis = turned(rows._replace(table=self.tables[1].numpy()))
        found, l2 = np.zeros(len(anchor), rows.table.dtype), rows.table.dtype.type(self.model.l2)
        unknown, judged = self.tables[0][-1].numpy() @ basis, self._judged(weights)
        is_bce = self.loss is Loss.BCE
        each_part(rows.starts, _own, rows, l2, unknown, judged, is_bce, self.exact_up_to, found)
        return self._in_order(found)

    def losses_given_items(self, selection: Bools) -> Floats:
        """Return L_u of every user if `selection[Z]` were disclosed and the items stayed: [n_users].

        Any number of a person's rows can be withheld at once: everybody's vector is solved for exactly.
        """
        h, by_user = self.vectors[1], self.entries[0]
        entries = replace(by_user, weights=selection[by_user.order].astype(h.dtype))
        found = inverse_times(self.model.regressions(entries, h), entries.totals(h))
        moved = IALS(self.model.sizes, self.model.settings).to(self.tables[0].dtype)
        found[entries.sums == 0] = self.tables[0][-1].numpy()
        users = torch.cat([torch.from_numpy(found), self.tables[0][-1:]])
        moved.load_state_dict({**self.model.state_dict(), "user_table": users})
        return self.valid.per_user(replace(self, model=moved.eval()).valid_losses())

    def _judged(self, weights: Tensor) -> Judged:
        """The validation rows of nonzero weight of users that the model knows."""
        valid, dtype = self.valid, self.vectors[0].dtype
        rows = torch.nonzero((weights != 0) & (valid.users < self.n_users)).flatten()
        rows = rows[torch.argsort(valid.users[rows], stable=True)]
        counts = torch.bincount(valid.users[rows], minlength=self.n_users)
        starts = torch.cat([counts.new_zeros(1), counts.cumsum(0)]).numpy()
        scale, (a, b) = valid.scale[rows, 0].numpy().astype(dtype), self.model.calibration.numpy()
        of_rows = weights[rows].numpy().astype(dtype)
        return Judged(starts, valid.items[rows].numpy(), of_rows, a * scale, b * scale)


@kernel
def _add_products(
    first: int, last: int, rows: Regressions, own: Array, x_own: Array, x_table: Array, full: bool, out: Array
) -> None:
    """Add Σ_k o_k (h (h · x_u + w · x_i) + (s − 1) x_i) to `out[n, d]`; the last term only if `full`."""
    d = own.shape[1]
    for r in range(first, last):
        w, xw, total = own[r], x_own[r], out[r]
        for k in range(rows.starts[r], rows.starts[r + 1]):
            if rows.weights[k] == 0:
                continue
            h, xh = rows.table[rows.columns[k]], x_table[rows.columns[k]]
            change, residual = own.dtype.type(0), own.dtype.type(-1)
            for j in range(d):
                change += h[j] * xw[j] + w[j] * xh[j]
                residual += w[j] * h[j]
            change *= rows.weights[k]
            residual *= rows.weights[k] * full
            for j in range(d):
                total[j] += change * h[j] + residual * xh[j]


@kernel
def _along(
    first: int, last: int, rows: Regressions, own: Array, x_own: Array, x_table: Array, l2: float, out: Array
) -> None:
    for r in range(first, last):
        w, xw = own[r], x_own[r]
        held = np.dot(w, xw)
        for k in range(rows.starts[r], rows.starts[r + 1]):
            h, xh = rows.table[rows.columns[k]], x_table[rows.columns[k]]
            slope = np.dot(w, h) - 1
            out[k] = slope * (np.dot(h, xw) + np.dot(w, xh)) + l2 * (held + np.dot(h, xh))


@kernel
def _pull(first: int, last: int, rows: Regressions, own: Array, l2: float, out: Array) -> None:
    for r in range(first, last):
        w, total = own[r], out[r]
        for k in range(rows.starts[r], rows.starts[r + 1]):
            h = rows.table[rows.columns[k]]
            slope = np.dot(w, h) - 1
            for j in range(len(w)):
                total[j] += rows.weights[k] * (slope * h[j] + l2 * w[j])


@kernel
def _loss(scores: Array, moved: Array, by: float, judged: Judged, first: int, is_bce: bool) -> Any:
    """The weighted loss of a user's validation rows, from `first` on, at scores + by · moved: a number.

    The sum of log(1 + eˣ) is that of max(x, 0) and the logarithm of the product of 1 + e^−|x|.
    """
    m, zero, one = judged.items.shape[1], scores.dtype.type(0), scores.dtype.type(1)
    total = zero
    for n in range(len(scores) // m):
        at, slope, offset = n * m, judged.a[first + n], judged.b[first + n]
        own, loss, product = slope * (scores[at] + by * moved[at]) + offset, zero, one
        if is_bce:
            loss += max(-own, zero)
            product += np.exp(-abs(own))
        else:
            offset -= own
        for j in range(at + 1, at + m):
            x = slope * (scores[j] + by * moved[j]) + offset
            loss += max(x, zero)
            product *= one + np.exp(-abs(x))
            if (j - at) % _FACTORS == 0:
                loss += np.log(product)
                product = one
        total += judged.weights[first + n] * (loss + np.log(product))
    return total


@kernel
def _slopes(scores: Array, judged: Judged, first: int, is_bce: bool) -> Any:
    """The derivatives of `_loss` by the scores: [n · m]."""
    m, found = judged.items.shape[1], np.zeros_like(scores)
    for n in range(len(scores) // m):
        at, slope, offset = n * m, judged.a[first + n], judged.b[first + n]
        own, weight = slope * scores[at] + offset, judged.weights[first + n] * slope
        if is_bce:
            found[at] = -weight / (1 + np.exp(own))
        else:
            offset -= own
        for j in range(at + 1, at + m):
            found[j] = weight / (1 + np.exp(-(slope * scores[j] + offset)))
            if not is_bce:
                found[at] -= found[j]
    return found


@kernel
def _own(
    first: int,
    last: int,
    rows: Regressions,
    l2: float,
    unknown: Array,
    judged: Judged,
    is_bce: bool,
    exact_up_to: int,
    out: Array,
) -> None:
    table, d, m = rows.table, rows.table.shape[1], judged.items.shape[1]
    one, zero = table.dtype.type(1), table.dtype.type(0)
    entries, scale = room(rows, first, last), np.empty(d, table.dtype)
    for u in range(first, last):
        start, end, low, high = rows.starts[u], rows.starts[u + 1], judged.starts[u], judged.starts[u + 1]
        if start == end or low == high:
            continue
        candidates = np.empty(((high - low) * m, d), table.dtype)
        for n in range(low, high):
            for j in range(m):
                candidates[(n - low) * m + j] = table[judged.items[n, j]]
        disclosed = scale_entries(rows, u, zero, scale, entries)
        blank = np.dot(candidates, unknown)
        scores = blank
        if disclosed > 0:
            vector = solution(entries[:disclosed], np.ones(disclosed, table.dtype), scale)
            scores = np.dot(candidates, vector)
        now = _loss(scores, scores, zero, judged, low, is_bce)
        is_exact = (end - start) * len(scores) <= exact_up_to
        if disclosed > 0:
            _flip(-one, u, rows, l2, entries, candidates, judged, is_bce, is_exact, now, out)
        if disclosed == 1:  # without it, nothing is left
            alone = _loss(blank, blank, zero, judged, low, is_bce) - now
            for k in range(start, end):
                out[k] = alone if rows.weights[k] > 0 else out[k]
        if disclosed < end - start:
            _flip(one, u, rows, l2, entries, candidates, judged, is_bce, is_exact, now, out)


@kernel
def _flip(
    sign: Any,
    u: int,
    rows: Regressions,
    l2: Any,
    entries: Array,
    candidates: Array,
    judged: Judged,
    is_bce: bool,
    is_exact: bool,
    now: Any,
    out: Array,
) -> None:
    """Set what withholding each disclosed row of user u does (`sign` −1), or disclosing the others (1)."""
    table, d, low = rows.table, rows.table.shape[1], judged.starts[u]
    one, zero, scale = table.dtype.type(1), table.dtype.type(0), np.empty(d, table.dtype)
    n = scale_entries(rows, u, sign * l2, scale, entries)
    inverse, y = _inverse(entries[:n], scale)
    scores = np.dot(candidates, y)
    near = _loss(scores, scores, zero, judged, low, is_bce)
    slopes = y if is_exact else np.dot(_slopes(scores, judged, low, is_bce), candidates)
    h, which = np.empty((_AT_ONCE, d), table.dtype), np.empty(_AT_ONCE, np.int64)
    k, end = rows.starts[u], rows.starts[u + 1]
    while k < end:
        many = 0
        while k < end and many < _AT_ONCE:
            if (rows.weights[k] > 0) == (sign < 0):
                h[many], which[many] = table[rows.columns[k]], k
                many += 1
            k += 1
        z = np.dot(h[:many], inverse)
        moved = np.dot(z, candidates.T) if is_exact else z
        for q in range(many):
            by = sign * (one - np.dot(h[q], y)) / (one + sign * np.dot(h[q], z[q]))
            if is_exact:
                then = _loss(scores, moved[q], by, judged, low, is_bce)
            else:
                then = near + by * np.dot(slopes, z[q])
            out[which[q]] = -sign * (then - now)


@kernel
def _inverse(U: Array, scale: Array) -> Any:
    """Return B⁻¹, [d, d], and the solution B⁻¹ b, [d], from scaled entries `U[n, d]` of weight 1."""
    n, d = U.shape
    if n >= d:
        inverse = np.ascontiguousarray(np.linalg.inv(plus_identity(np.dot(U.T, U))))
        y = np.dot(inverse, U.sum(axis=0))
    elif n > 0:
        small = np.ascontiguousarray(np.linalg.inv(plus_identity(np.dot(U, U.T))))
        inverse = plus_identity(-np.dot(U.T, np.dot(small, U)))
        y = np.dot(small.sum(axis=1), U)
    else:
        inverse, y = np.eye(d, dtype=U.dtype), np.zeros(d, U.dtype)
    for i in range(d):
        y[i] *= scale[i]
        for j in range(d):
            inverse[i, j] *= scale[i] * scale[j]
    return inverse, y
