"""Curvature of matrix factorisation in closed form: products with its Hessian that never form a matrix.

The anchor's loss F(θ) = Σ_k õ_k ℓ_k(θ) is a sum over samples (u, i) with score s = p_u · q_i, label y and
weight a. With σ = σ(s), a sample contributes to the Hessian

    ∂²/∂p∂p = a σ(1−σ) q qᵀ + a c I      ∂²/∂q∂q = a σ(1−σ) p pᵀ + a c I
    ∂²/∂p∂q = a σ(1−σ) q pᵀ + a (σ − y) I

Gauss-Newton leaves out the last term, a (σ − y) I, and is positive semi-definite. In the full Hessian this
term carries a change from a user to their items and on to other users of these items.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional as F

from assent.influence.linearised import TrainSamples, ValidSamples
from assent.models.losses import Loss
from assent.models.mf import MF
from assent.support.arrays import slices


@dataclass(frozen=True)
class Block:
    """A block of training rows with what every product needs: rows [n], samples [n, 1 + draws]."""

    rows: slice
    users: Tensor
    items: Tensor
    p: Tensor
    """[n, d]"""
    q: Tensor
    """[n, 1 + draws, d]"""
    slope: Tensor
    """∂ℓ/∂s of each sample times its weight in the row, without õ: [n, 1 + draws]."""
    bend: Tensor
    """a σ(1−σ): [n, 1 + draws]"""
    twist: Tensor
    """a (σ − y) for the full Hessian, 0 for Gauss-Newton: [n, 1 + draws]"""


@dataclass(frozen=True)
class Curvature:
    """The derivatives of matrix factorisation at an anchor: a `Linearised` in closed form.

    Vectors are tensors [n_users + n_items, d]: the user table's rows, then the item table's.
    """

    model: MF
    samples: TrainSamples
    valid: ValidSamples
    loss: Loss
    full: bool
    """Full Hessian rather than Gauss-Newton."""
    damping: float
    """Added to the diagonal of H."""
    samples_at_once: int = 2**18
    """Samples per block: 64 MB per gathered embedding table at dimension 64."""

    @cached_property
    def tables(self) -> tuple[Tensor, Tensor]:
        """The embeddings of the known users and items."""
        users, items = self._whole_tables
        return users[:-1], items[:-1]

    @property
    def n_users(self) -> int:
        """Number of users: the row of a vector at which the items begin."""
        return self.model.n_users

    @cached_property
    def _only_block(self) -> Block | None:
        """The block of a problem that has only one, kept between products."""
        blocks = self._make_blocks()
        first = next(blocks)
        return first if next(blocks, None) is None else None

    def blocks(self) -> Iterator[Block]:
        """Return the training rows in blocks that bound memory."""
        return self._make_blocks() if self._only_block is None else iter((self._only_block,))

    def _make_blocks(self) -> Iterator[Block]:
        samples, (users, items) = self.samples, self.tables
        labels = torch.zeros_like(samples.weights)
        labels[0] = 1
        for rows in self._slices(*samples.items.shape):
            p = F.embedding(samples.users[rows], users)
            q = F.embedding(samples.items[rows], items)
            sigma = torch.sigmoid((q @ p.unsqueeze(-1)).squeeze(-1))
            slope = samples.weights * (sigma - labels)
            at_anchor = samples.anchor[rows, None]
            yield Block(
                rows=rows,
                users=samples.users[rows],
                items=samples.items[rows],
                p=p,
                q=q,
                slope=slope,
                bend=at_anchor * samples.weights * sigma * (1 - sigma),
                twist=at_anchor * slope if self.full else torch.zeros_like(slope),
            )

    def _slices(self, rows: int, samples: int) -> Iterator[slice]:
        """Return slices of so many rows, with so many samples each, for the blocks."""
        return slices(rows, max(1, self.samples_at_once // samples))

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
        total = self._zeros()
        for block in self.blocks():
            total.index_add_(0, block.users, (block.bend.unsqueeze(-1) * block.q.square()).sum(1))
            square = block.bend.unsqueeze(-1) * block.p.square().unsqueeze(1)
            total.index_add_(0, self.n_users + block.items.flatten(), square.flatten(0, 1))
        return (total + self.ridge).clamp_min(1e-8)

    def precondition(self, x: Tensor) -> Tensor:
        """Return x divided by the diagonal of H."""
        return x / self.diagonal

    def product(self, x: Tensor) -> Tensor:
        """Return H x for a vector x."""
        x_users, x_items = x[: self.n_users], x[self.n_users :]
        out = self.ridge * x
        for block in self.blocks():
            xu = F.embedding(block.users, x_users).unsqueeze(1)
            xi = F.embedding(block.items, x_items)
            change = block.bend * ((xu * block.q).sum(-1) + (xi @ block.p.unsqueeze(-1)).squeeze(-1))
            change, twist = change.unsqueeze(-1), block.twist.unsqueeze(-1)
            out.index_add_(0, block.users, (change * block.q + twist * xi).sum(1))
            to_items = change * block.p.unsqueeze(1) + twist * xu
            out.index_add_(0, self.n_users + block.items.flatten(), to_items.flatten(0, 1))
        return out

    def along(self, x: Tensor) -> Tensor:
        """Return xᵀ ∇ℓ_k for every training row k: [Z]."""
        x_users, x_items = x[: self.n_users], x[self.n_users :]
        parts = []
        for block in self.blocks():
            xu = F.embedding(block.users, x_users).unsqueeze(1)
            xi = F.embedding(block.items, x_items)
            parts.append(self.row_derivatives(block, xu, xi))
        return torch.cat(parts)

    def pull(self, weights: Tensor) -> Tensor:
        """Return Σ_k weights[k] ∇ℓ_k for `weights[Z]`: a vector."""
        c = self.model.l2
        out = self._zeros()
        for block in self.blocks():
            weight = weights[block.rows, None]
            slope = (weight * block.slope).unsqueeze(-1)
            ridge = (c * weight * self.samples.weights).unsqueeze(-1)
            p = block.p.unsqueeze(1)
            out.index_add_(0, block.users, (slope * block.q + ridge * p).sum(1))
            out.index_add_(
                0, self.n_users + block.items.flatten(), (slope * p + ridge * block.q).flatten(0, 1)
            )
        return out

    def row_product(self, row: int, x: Tensor) -> Tensor:
        """Return the full, undamped Hessian of one row's loss times x."""
        return self.of_row(row).product(x)

    def of_row(self, row: int) -> "Curvature":
        """Return the full, undamped curvature of one row's loss."""
        here = slice(row, row + 1)
        one = replace(
            self.samples,
            users=self.samples.users[here],
            items=self.samples.items[here],
            anchor=torch.ones_like(self.samples.anchor[here]),
        )
        return replace(self, samples=one, full=True, damping=0.0)

    @cached_property
    def valid_slopes(self) -> tuple[Tensor, Tensor]:
        """L_n of every validation row, [n], and its slopes by the scores, [n, 1 + m]."""
        losses: list[Tensor] = []
        slopes: list[Tensor] = []
        for rows, p, q in self._valid_blocks():
            scores = (q @ p.unsqueeze(-1)).squeeze(-1).requires_grad_()
            losses.append(self.loss.of(self.valid.scale[rows] * scores))
            slopes += torch.autograd.grad(losses[-1].sum(), scores)
        return torch.cat(losses).detach(), torch.cat(slopes)

    def valid_scores(self) -> Tensor:
        """Return the scores of every validation row's candidates: [n, 1 + m]."""
        return torch.cat([(q @ p.unsqueeze(-1)).squeeze(-1) for _, p, q in self._valid_blocks()])

    def valid_losses(self) -> Tensor:
        """Return L_n of every validation row: [n]."""
        return self.valid_slopes[0]

    def valid_gradient(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradient of Σ_n weights[n] L_n by θ, a vector, and by the selection, 0: [Z]."""
        users, items = self._whole_tables
        to_items = torch.zeros_like(items)
        for rows in self._valid_rows(weights):
            slope, p = self._weighed(rows, weights), F.embedding(self.valid.users[rows], users)
            pulled = (slope.mT * p.unsqueeze(1)).flatten(0, 1)
            to_items.index_add_(0, self.valid.items[rows].flatten(), pulled)
        gradient = torch.cat([self.own_gradient(weights), to_items[:-1]])  # the last is the unknown item's
        return gradient, torch.zeros_like(self.samples.anchor)

    def own_gradient(self, weights: Tensor | None = None) -> Tensor:
        """Return ∇_{p_u} Σ_n weights[n] L_n of every user; default: weights of 1: [n_users, d]."""
        if weights is None:
            weights = torch.ones_like(self.valid_slopes[0])
        users, items = self._whole_tables
        to_users = torch.zeros_like(users)
        for rows in self._valid_rows(weights):
            q = F.embedding(self.valid.items[rows], items)
            to_users.index_add_(0, self.valid.users[rows], (self._weighed(rows, weights) @ q).squeeze(1))
        return to_users[:-1]

    def _weighed(self, rows: Tensor, weights: Tensor) -> Tensor:
        """Return the slopes of weights[n] L_n by the scores of validation rows: [n, 1, 1 + m]."""
        return (weights[rows, None] * self.valid_slopes[1][rows]).unsqueeze(1)

    def valid_changes(self, moves: Tensor, changes: Tensor) -> Tensor:
        """Return moves[r]ᵀ ∇L_n of every validation row, which ignores the selection itself: [R, n]."""
        return torch.stack([self._valid_change(x) for x in moves])

    def _valid_change(self, x: Tensor) -> Tensor:
        nothing = x.new_zeros(1, x.shape[1])
        x_users, x_items = (torch.cat([part, nothing]) for part in (x[: self.n_users], x[self.n_users :]))
        parts = []
        for rows, p, q in self._valid_blocks():
            xp = F.embedding(self.valid.users[rows], x_users)
            xq = F.embedding(self.valid.items[rows], x_items)
            scores = (q @ xp.unsqueeze(-1) + xq @ p.unsqueeze(-1)).squeeze(-1)
            parts.append((self.valid_slopes[1][rows] * scores).sum(1))
        return torch.cat(parts)

    @property
    def _whole_tables(self) -> tuple[Tensor, Tensor]:
        """The embeddings, those of the unknown user and item last."""
        return self.model.user_table.detach(), self.model.item_table.detach()

    def _valid_blocks(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Yield validation rows with their users' embeddings, [n, d], and their items', [n, 1 + m, d]."""
        users, items = self._whole_tables
        for rows in self._valid_rows(torch.ones(len(self.valid.users))):
            yield rows, F.embedding(self.valid.users[rows], users), F.embedding(self.valid.items[rows], items)

    def _valid_rows(self, weights: Tensor) -> Iterator[Tensor]:
        """Return the validation rows of nonzero weight in blocks."""
        counted = weights.nonzero().flatten()
        return (counted[here] for here in self._slices(len(counted), self.valid.items.shape[1]))

    def _zeros(self) -> Tensor:
        users, items = self.tables
        return users.new_zeros(len(users) + len(items), users.shape[1])
