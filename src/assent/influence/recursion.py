"""LiSSA of matrix factorisation for every single user at once: own influence and effects on others.

The recursion x_j = b + ((1 − d) I − ∇²ℓ_s / c) x_{j−1} starts at b = ∇L_u, another one for every user u; the
paper has d = 0 and c = 1. Both ∇L_u and the Hessian of a sampled row are sparse: the first is at p_u and at
the embeddings of the user's validation candidates, the second at the row's user and items. So x is a multiple
of b wherever no sampled row touches it, with d = 0 (steps + 1) · b, and only the few coordinates that are
touched are iterated. The result is the recursion on all parameters, exactly. Without sampled rows it is the
plain gradient.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from scipy import sparse
from torch import Tensor
from torch.nn import functional as F

from assent.influence.closed_form import Curvature, check_entries
from assent.influence.inverse import InfluenceSettings, lissa_divisor, lissa_rows
from assent.support.arrays import Floats, Ints, positions, slices
from assent.support.runtime import flushed
from assent.support.sparse import SparseMatrix

_CONTACTS = 2**16
"""Contacts per block; each has as many entries as its item has samples."""


@flushed()
def own_by_recursion(
    curvature: Curvature, settings: InfluenceSettings, seed: int, of_rows: Tensor | None = None
) -> Tensor:
    """Return the effect of each row on its owner's loss by LiSSA or the plain gradient: [Z].

    `of_rows[n]` weigh the validation rows in their owners' losses; default: 1 each.
    """
    rows = lissa_rows(curvature, settings, seed)
    how = settings.lissa_damping, settings.lissa_scale
    return Recursion(curvature, rows, of_rows, *how).own() / lissa_divisor(curvature, settings)


@flushed()
def effects_by_recursion(
    curvature: Curvature, own: Floats, settings: InfluenceSettings, seed: int
) -> SparseMatrix:
    """Return the effect of every row on every user by LiSSA or the plain gradient: [n_users, Z], sparse.

    The entries of the owners are `own[Z]`. Raises an `AssentError` if there are too many for memory.
    """
    rows_of_steps, how = lissa_rows(curvature, settings, seed), (settings.lissa_damping, settings.lissa_scale)
    recursion = Recursion(curvature, rows_of_steps, None, *how)
    owners, by = recursion.owners, lissa_divisor(curvature, settings)
    users, rows, values = [owners], [np.arange(len(own))], [own]
    for theirs, row, value in recursion.entries():
        foreign = owners[row] != theirs
        users.append(theirs[foreign])
        rows.append(row[foreign])
        values.append(value[foreign] / by)
    found = np.concatenate(values).astype(curvature.tables[0].numpy().dtype)
    return SparseMatrix.of(
        found, np.concatenate(users), np.concatenate(rows), (curvature.valid.n_users, len(own))
    )


@dataclass(frozen=True)
class Recursion:
    """x_u of every user u after one step per sampled row.

    Users who have a loss are numbered as in the problem; their rows and embeddings as in the model.
    """

    curvature: Curvature
    sampled: Ints
    """The row of each step."""
    of_rows: Tensor | None = None
    """What validation rows weigh in their owners' losses, [n]; None: 1 each."""
    damping: float = 0.0
    """d."""
    scale: float = 1.0
    """c."""

    def own(self) -> Tensor:
        """Return x_uᵀ ∇ℓ_k of every row k of each user u: [Z]."""
        users, items = self.curvature.samples.users, self.curvature.samples.items
        owners, (by_user, by_item) = self.owners, self._gradients
        found = (self._steps * self._at_users[users] * by_user).sum(-1)
        pulls = self._slopes[np.repeat(owners, items.shape[1]), items.numpy().ravel()]
        weights = self._steps * torch.from_numpy(np.asarray(pulls)).to(by_item).view(items.shape)
        p = F.embedding(users, self.curvature.tables[0]).unsqueeze(1)
        found += (weights.unsqueeze(-1) * p * by_item).sum((1, 2))
        # What sampled rows have touched differs from that.
        place = torch.from_numpy(positions(self._active, owners))
        none = len(self._active)
        differs = torch.cat([self._differences, self._differences.new_zeros(1, *self._differences.shape[1:])])
        for number, coordinate in enumerate(self._touched.tolist()):
            change = differs[:, number]
            if coordinate < self.curvature.n_users:
                mine = (users == coordinate) & (place < none)
                found[mine] += (change[place[mine]] * by_user[mine]).sum(-1)
            else:
                rows, columns = (items == coordinate - self.curvature.n_users).nonzero(as_tuple=True)
                found.index_add_(0, rows, (change[place[rows]] * by_item[rows, columns]).sum(-1))
        return found

    def entries(self) -> Iterator[tuple[Ints, Ints, Floats]]:
        """Yield users u, rows k and values that add up to x_uᵀ ∇ℓ_k: [n] each."""
        curvature, (by_user, by_item), owners = self.curvature, self._gradients, self.owners
        through_users = (self._steps * self._at_users[curvature.samples.users] * by_user).sum(-1)
        yield owners, np.arange(len(owners)), through_users.double().numpy()
        items, n_items = curvature.samples.items.numpy().ravel(), curvature.model.n_items
        order, counts = np.argsort(items, kind="stable"), np.bincount(items, minlength=n_items)
        start, slopes = np.cumsum(counts) - counts, self._slopes.tocoo()
        check_entries(int(counts[slopes.col].sum()))
        of_samples = by_item.flatten(0, 1)
        p = self._steps * F.embedding(self._model_user, curvature.tables[0])
        for part in slices(len(slopes.data), _CONTACTS):
            lengths = counts[slopes.col[part]]
            contact = np.repeat(np.arange(len(lengths)), lengths)
            within = np.arange(len(contact)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
            sample = order[start[slopes.col[part]][contact] + within]
            theirs = slopes.row[part][contact].astype(np.int64)
            along = (p[theirs] * of_samples[sample]).sum(-1).double().numpy()
            yield theirs, sample // curvature.samples.items.shape[1], slopes.data[part][contact] * along
        for number, coordinate in enumerate(self._touched.tolist()):
            change = self._differences[:, number]
            who = change.any(1).nonzero().flatten()
            if coordinate < curvature.n_users:
                rows = (curvature.samples.users == coordinate).nonzero().flatten()
                gradients = by_user[rows]
            else:
                samples = (curvature.samples.items == coordinate - curvature.n_users).nonzero(as_tuple=True)
                rows, gradients = samples[0], by_item[samples]
            values = (change[who] @ gradients.T).double().numpy()
            theirs = np.repeat(self._active[who.numpy()], len(rows))
            yield theirs, np.tile(rows.numpy(), len(who)), values.ravel()

    @property
    def owners(self) -> Ints:
        """The problem's number of each row's user: [Z]."""
        found: Ints = self._owner_of[self.curvature.samples.users.numpy()]
        return found

    @property
    def _steps(self) -> float:
        """How many times b is in x where no sampled row has touched it: Σ_j (1 − d)^j."""
        return float(((1 - self.damping) ** np.arange(len(self.sampled) + 1)).sum())

    @cached_property
    def _model_user(self) -> Tensor:
        """Each user's number in the model, that of the unknown for those without validation rows: [M]."""
        found = torch.full((self.curvature.valid.n_users,), self.curvature.n_users)
        found[self.curvature.valid.owners] = self.curvature.valid.users
        return found

    @cached_property
    def _owner_of(self) -> Ints:
        """The problem's number of each user of the model: [n_users]."""
        return self.curvature.valid.known_users

    @cached_property
    def _weights(self) -> Tensor:
        ones = torch.ones_like(self.curvature.valid_slopes[0])
        return ones if self.of_rows is None else self.of_rows

    @cached_property
    def _at_users(self) -> Tensor:
        """∇_{p_u} L_u: [n_users, d]."""
        return self.curvature.own_gradient(self._weights)

    @cached_property
    def _slopes(self) -> sparse.csr_array:
        """w with ∇_{q_i} L_u = w_ui p_u: [M, n_items]."""
        valid, n_items = self.curvature.valid, self.curvature.model.n_items
        slopes = (self._weights.unsqueeze(1) * self.curvature.valid_slopes[1]).double().numpy().ravel()
        owners = np.repeat(valid.owners.numpy(), valid.items.shape[1])
        items = valid.items.numpy().ravel()
        known = items < n_items
        shape = valid.n_users, n_items
        return sparse.csr_array(sparse.coo_array((slopes[known], (owners[known], items[known])), shape=shape))

    @cached_property
    def _gradients(self) -> tuple[Tensor, Tensor]:
        """∇_p ℓ_k by the row's user, [Z, d], and ∇_q ℓ_k by each item of the row, [Z, 1 + draws, d]."""
        by_user, by_item, l2 = [], [], self.curvature.model.l2
        for block in self.curvature.blocks():
            p, weights = block.p.unsqueeze(1), self.curvature.samples.weights.unsqueeze(-1)
            slope = block.slope.unsqueeze(-1)
            by_user.append((slope * block.q + l2 * weights * p).sum(1))
            by_item.append(slope * p + l2 * weights * block.q)
        return torch.cat(by_user), torch.cat(by_item)

    @cached_property
    def _touched(self) -> Tensor:
        """Users of the sampled rows, then n_users + their items: [C]."""
        samples = self.curvature.samples
        items = self.curvature.n_users + samples.items[self.sampled].flatten()
        found: Tensor = torch.unique(torch.cat([samples.users[self.sampled], items]))
        return found

    @cached_property
    def _active(self) -> Ints:
        """Users whose gradient has a touched coordinate, the others' x is untouched: rising, [A]."""
        touched, n_users = self._touched.numpy(), self.curvature.n_users
        near = self._slopes[:, touched[touched >= n_users] - n_users].nonzero()[0]
        return np.union1d(self._owner_of[touched[touched < n_users]], near)

    @cached_property
    def _differences(self) -> Tensor:
        """x − (steps + 1) b at the touched coordinates of active users: [A, C, d]."""
        curvature, touched, l2 = self.curvature, self._touched.numpy(), self.curvature.model.l2
        is_user = touched < curvature.n_users
        users, n_users = curvature.tables[0], curvature.n_users
        start = users.new_zeros(len(self._active), len(touched), users.shape[1])
        weights = self._slopes[self._active][:, touched[~is_user] - n_users].toarray()
        p = F.embedding(self._model_user[self._active], users)
        start[:, ~is_user] = torch.from_numpy(weights).to(users).unsqueeze(-1) * p.unsqueeze(1)
        mine = positions(self._active, self._owner_of[touched[is_user]])
        start[mine, np.flatnonzero(is_user)] = self._at_users[touched[is_user]]
        x = start
        for row in map(int, self.sampled):
            block = next(curvature.of_row(row).blocks())
            at = positions(touched, np.append(block.users.numpy(), n_users + block.items[0].numpy()))
            xu, xi, p = x[:, at[:1]], x[:, at[1:]], block.p
            ridge = (l2 * curvature.samples.weights).unsqueeze(-1)
            change = (block.bend[0] * ((xu * block.q[0]).sum(-1) + (xi * p).sum(-1))).unsqueeze(-1)
            twist = block.twist[0].unsqueeze(-1)
            to_user = (change * block.q[0] + twist * xi + ridge * xu).sum(1, keepdim=True)
            image = torch.cat([to_user, change * p + twist * xu + ridge * xi], dim=1)
            x = (start + (1 - self.damping) * x).index_add(1, torch.from_numpy(at), -image / self.scale)
        differences: Tensor = x - self._steps * start
        return differences
