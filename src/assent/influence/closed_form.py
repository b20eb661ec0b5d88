"""Influence of matrix factorisation in closed form: products with its Hessian, effects on single users.

The anchor's loss F(θ) = Σ_k õ_k ℓ_k(θ) is a sum over samples (u, i) with score s = p_u · q_i, label y and
weight a. With σ = σ(s), a sample contributes to the Hessian

    ∂²/∂p∂p = a σ(1−σ) q qᵀ + a c I      ∂²/∂q∂q = a σ(1−σ) p pᵀ + a c I
    ∂²/∂p∂q = a σ(1−σ) q pᵀ + a (σ − y) I

Gauss-Newton leaves out the last term, a (σ − y) I, and is positive semi-definite. In the full Hessian this
term carries a change from a user to their items and on to other users of these items.

**Stars.** A user's loss reaches their own rows through the star around them: their embedding p_u and those of
the items in their samples, with all other users fixed. The Hessian block of an item is replaced by its
diagonal D_j, which the penalties of all its samples dominate, and the item is eliminated:

    S_u = A_u − Σ_j B_uj D_j⁻¹ B_ujᵀ,    S_u x_u = ∇_{p_u} L_u,    x_j = −D_j⁻¹ B_ujᵀ x_u

with A, B, D the blocks of the Hessian. An item that is twice among the samples counts as two items. The
systems are independent, so one tensor [n_users, d] holds all of them.

**Effects on others.** Interaction k of user v reaches the loss of another user u directly through its item i,
if i is among u's validation candidates or training items. The sensitivity of L_u to the item's embedding is

    x_i = D_i⁻¹ ∇_{q_i} L_u for a validation candidate,     x_i = −D_i⁻¹ B_uiᵀ x_u for a training item of u

and the effect is x_iᵀ ∇_{q_i} ℓ_k. Longer paths, over further users, are only in the social influence.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from assent.data.problem import Problem
from assent.influence.factors import Factors, pair_scores
from assent.influence.inverse import InfluenceSettings, Solution, solve, system_per_row
from assent.models.mf import MF
from assent.support.arrays import Floats, Ints, slices
from assent.support.errors import AssentError
from assent.support.runtime import flushed
from assent.support.sparse import SparseMatrix

_MOST_ENTRIES = 100_000_000
"""Largest number of entries of one effect matrix: about 5 GB while it is built."""


@dataclass(frozen=True)
class Block:
    """A block of training rows with what every product needs: rows [n], samples [n, 1 + draws]."""

    rows: slice
    users: Tensor
    items: Tensor
    p: Tensor  # [n, d]
    q: Tensor  # [n, 1 + draws, d]
    slope: Tensor
    """∂ℓ/∂s of each sample times its weight in the row, without õ: [n, 1 + draws]."""
    bend: Tensor  # a σ(1−σ): [n, 1 + draws]
    twist: Tensor  # a (σ − y) for the full Hessian, 0 for Gauss-Newton: [n, 1 + draws]


@dataclass(frozen=True)
class Curvature(Factors):
    """The derivatives of matrix factorisation at an anchor.

    Vectors are tensors [n_users + n_items, d]: the user table's rows, then the item table's.
    """

    model: MF

    @cached_property
    def _only_block(self) -> Block | None:
        """The block of a problem that has only one, kept between products."""
        first, *more = slices(*self._cut)
        return None if more else self._block(first)

    def blocks(self) -> Iterator[Block]:
        """Return the training rows in blocks that bound memory."""
        if self._only_block is not None:
            return iter((self._only_block,))
        return (self._block(rows) for rows in slices(*self._cut))

    @property
    def _cut(self) -> tuple[int, int]:
        """The number of training rows, and that of a block."""
        rows, samples = self.samples.items.shape
        return rows, max(1, self.samples_at_once // samples)

    def _block(self, rows: slice) -> Block:
        samples, (user_table, item_table) = self.samples, self.tables
        users, items, at_anchor = samples.users[rows], samples.items[rows], samples.anchor[rows, None]
        p, q = F.embedding(users, user_table), F.embedding(items, item_table)
        sigma = torch.sigmoid(pair_scores(p, q))
        labels = torch.zeros_like(samples.weights)
        labels[0] = 1
        slope = samples.weights * (sigma - labels)
        bend = at_anchor * samples.weights * sigma * (1 - sigma)
        twist = at_anchor * slope if self.full else torch.zeros_like(slope)
        return Block(rows, users, items, p, q, slope, bend, twist)

    def _gathered(self, block: Block, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return a vector at the users, [n, 1, d], and at the items, [n, 1 + draws, d], of a block."""
        xu = F.embedding(block.users, x[: self.n_users]).unsqueeze(1)
        return xu, F.embedding(block.items, x[self.n_users :])

    def _add(self, out: Tensor, block: Block, to_users: Tensor, to_items: Tensor) -> None:
        """Add numbers of samples, both [n, 1 + draws, d], to a vector at their users and at their items."""
        out.index_add_(0, block.users, to_users.sum(1))
        out.index_add_(0, self.n_users + block.items.flatten(), to_items.flatten(0, 1))

    def row_derivatives(self, block: Block, xu: Tensor, xi: Tensor) -> Tensor:
        """Return the derivative of each row's loss along `xu[n, 1, d]` and `xi[n, 1 + draws, d]`: [n]."""
        p = block.p.unsqueeze(1)
        by_score = block.slope * ((xu * block.q) + (xi * p)).sum(-1)
        by_penalty = self.model.l2 * self.samples.weights * ((xu * p) + (xi * block.q)).sum(-1)
        return (by_score + by_penalty).sum(1)

    @cached_property
    def ridge(self) -> Tensor:
        """The diagonal from penalty and damping: c · (weight of the samples that touch a row) + damping."""
        weight = self.samples.anchor[:, None] * self.samples.weights
        touched = torch.zeros(self.n_users + self.model.n_items, dtype=weight.dtype)
        touched.index_add_(0, self.samples.users, weight.sum(1))
        touched.index_add_(0, self.n_users + self.samples.items.flatten(), weight.flatten())
        return (self.model.l2 * touched + self.damping).unsqueeze(1)

    @cached_property
    def diagonal(self) -> Tensor:
        """The diagonal of H, never below the damping: [n_users + n_items, d]."""
        total = self.zeros()
        for block in self.blocks():
            bend = block.bend.unsqueeze(-1)
            self._add(total, block, bend * block.q.square(), bend * block.p.square().unsqueeze(1))
        return (total + self.ridge).clamp_min(1e-8)

    def precondition(self, x: Tensor) -> Tensor:
        """Return x divided by the diagonal of H."""
        return x / self.diagonal

    def product(self, x: Tensor) -> Tensor:
        """Return H x for a vector x."""
        out = self.ridge * x
        for block in self.blocks():
            xu, xi = self._gathered(block, x)
            change, twist = _change(block, xu, xi), block.twist.unsqueeze(-1)
            self._add(out, block, change * block.q + twist * xi, change * block.p.unsqueeze(1) + twist * xu)
        return out

    def along(self, x: Tensor) -> Tensor:
        """Return xᵀ ∇ℓ_k for every training row k: [Z]."""
        return torch.cat([self.row_derivatives(each, *self._gathered(each, x)) for each in self.blocks()])

    def pull(self, weights: Tensor) -> Tensor:
        """Return Σ_k weights[k] ∇ℓ_k for `weights[Z]`: a vector."""
        out = self.zeros()
        for block in self.blocks():
            weight = weights[block.rows, None]
            slope = (weight * block.slope).unsqueeze(-1)
            ridge = (self.model.l2 * weight * self.samples.weights).unsqueeze(-1)
            p = block.p.unsqueeze(1)
            self._add(out, block, slope * block.q + ridge * p, slope * p + ridge * block.q)
        return out

    def row_product(self, row: int, x: Tensor) -> Tensor:
        """Return the full, undamped Hessian of one row's loss times x."""
        return self.of_row(row).product(x)

    def of_row(self, row: int) -> "Curvature":
        """Return the full, undamped curvature of one row's loss."""
        users, items = self.samples.users[row : row + 1], self.samples.items[row : row + 1]
        one = replace(self.samples, users=users, items=items, anchor=self.samples.anchor.new_ones(1))
        return replace(self, samples=one, full=True, damping=0.0)


def _change(block: Block, xu: Tensor, xi: Tensor) -> Tensor:
    """Return a σ(1−σ) times the change of each sample's score along xu and xi: [n, 1 + draws, 1]."""
    return (block.bend * ((xu * block.q).sum(-1) + pair_scores(block.p, xi))).unsqueeze(-1)


def own_in_stars(
    curvature: Curvature, settings: InfluenceSettings, of_rows: Tensor | None = None
) -> tuple[Tensor, float | None]:
    """Return the effect of each row on its owner's loss, [Z], and the largest residual of the users' systems.

    `of_rows[n]` weigh the validation rows in their owners' losses; default: 1 each.
    """
    stars = Stars(curvature)
    solution = stars.solve(curvature.own_gradient(of_rows), settings)
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
            back = _change(block, xu, xj) * block.q + block.twist.unsqueeze(-1) * xj
            out.index_add_(0, block.users, back.sum(1))
        return out

    def precondition(self, x: Tensor) -> Tensor:
        """Return x divided by the diagonal of the users' blocks."""
        return x / self.curvature.diagonal[: self.curvature.n_users]

    def solve(self, b: Tensor, settings: InfluenceSettings) -> Solution:
        """Return x_u of every user for the gradients `b[n_users, d]`."""
        return solve(self.product, self.precondition, b, system_per_row, settings)

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


def check_entries(wanted: int) -> None:
    """Raise if an effect matrix has too many entries for memory."""
    if wanted > _MOST_ENTRIES:
        raise AssentError(
            f"effects between users: {wanted:,} pairs, more than the {_MOST_ENTRIES:,} kept in "
            "memory; predict losses by one solve instead (predicted_losses)"
        )


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

    The entries of the owners are `own[Z]`. It is for estimators that solve systems. Contacts are handled in
    blocks; each has as many entries as its item has rows. Raises an `AssentError` if there are too many
    entries for memory.
    """
    items = curvature.samples.items[:, 0].numpy()
    order, counts = np.argsort(items, kind="stable"), np.bincount(items, minlength=curvature.model.n_items)
    start = np.cumsum(counts) - counts
    reached = np.concatenate([curvature.valid.items.numpy().ravel(), items])
    wanted = int(counts[reached[reached < len(counts)]].sum())
    check_entries(wanted)
    gradients = torch.cat([b.slope[:, :1] * b.p + curvature.model.l2 * b.q[:, 0] for b in curvature.blocks()])
    users, rows = [problem.train.users], [np.arange(len(own))]
    values = [own.astype(curvature.diagonal.numpy().dtype)]
    for theirs, touched, x in _contacts(problem, curvature, settings, contacts_at_once):
        # All pairs of a contact and a training row with its item, whoever's it is.
        lengths = counts[touched]
        contact = np.repeat(np.arange(len(touched)), lengths)
        within = np.arange(len(contact)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        row = order[start[touched][contact] + within]
        foreign = problem.train.users[row] != theirs[contact]
        contact, row = contact[foreign], row[foreign]
        users.append(theirs[contact])
        rows.append(row)
        values.append((x[contact] * gradients[row]).sum(-1).numpy())
    shape = (problem.n_users, len(own))
    return SparseMatrix.of(np.concatenate(values), np.concatenate(users), np.concatenate(rows), shape)


def _contacts(
    problem: Problem, curvature: Curvature, settings: InfluenceSettings, at_once: int
) -> Iterator[tuple[Ints, Ints, Tensor]]:
    """Yield pairs of a user and an item, with the sensitivity of the user's loss to the item's embedding.

    Users are in the problem's indices, [n], items in the model's, [n]; sensitivities are [n, d]. First come
    the validation candidates of every user, then the items of their training rows.
    """
    valid, (_, slopes) = curvature.valid, curvature.valid_slopes
    scale = curvature.diagonal[curvature.n_users :]
    known = (valid.users < curvature.n_users)[:, None] & (valid.items < curvature.model.n_items)
    for pairs in torch.nonzero(known).split(at_once):  # type: ignore[no-untyped-call]
        place, column = pairs.unbind(1)
        items = valid.items[place, column]
        p = F.embedding(valid.users[place], curvature.tables[0])
        x = slopes[place, column].unsqueeze(-1) * p / F.embedding(items, scale)
        yield problem.valid.users[place.numpy()], items.numpy(), x
    star = Stars(curvature).solve(curvature.own_gradient(), settings).x
    for block in curvature.blocks():
        xu, items = F.embedding(block.users, star), block.items[:, 0]
        along = block.bend[:, 0] * (xu * block.q[:, 0]).sum(-1)
        x = -(along.unsqueeze(-1) * block.p + block.twist[:, :1] * xu) / F.embedding(items, scale)
        yield problem.train.users[block.rows], items.numpy(), x
