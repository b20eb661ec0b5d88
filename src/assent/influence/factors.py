"""The validation losses of models whose score is p_u · q_i, and their derivatives: for MF and iALS."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional as F

from assent.influence.linearised import Linearised
from assent.models import IALS, MF


@dataclass(frozen=True)
class Factors(Linearised):
    """A model of a vector per user and per item.

    Vectors in the sense of `Linearised` are tensors [n_users + n_items, d]: the user table's rows, then the
    item table's.
    """

    model: MF | IALS
    samples_at_once: int = 2**14
    """Samples per block: 4 MB per gathered embedding table at dimension 64, so that caches hold it."""

    @property
    def n_users(self) -> int:
        """Number of users: the row of a vector at which the items begin."""
        return self.model.n_users

    @property
    def tables(self) -> tuple[Tensor, Tensor]:
        """The embeddings of users and items, those of the unknown last."""
        return self.model.user_table.detach(), self.model.item_table.detach()

    def logits(self, scores: Tensor) -> Tensor:
        """Return the model's logits from the scores p_u · q_i."""
        return scores

    @cached_property
    def valid_slopes(self) -> tuple[Tensor, Tensor]:
        """L_n of every validation row, [n], and its slopes by the scores, [n, 1 + m]."""
        losses: list[Tensor] = []
        slopes: list[Tensor] = []
        for rows, p, q in self._valid_blocks():
            scores = pair_scores(p, q).requires_grad_()
            losses.append(self.loss.of(self.valid.scale[rows] * self.logits(scores)))
            slopes += torch.autograd.grad(losses[-1].sum(), scores)
        return torch.cat(losses).detach(), torch.cat(slopes)

    def valid_scores(self) -> Tensor:
        """Return the scores of every validation row's candidates: [n, 1 + m]."""
        return torch.cat([self.logits(pair_scores(p, q)) for _, p, q in self._valid_blocks()])

    def valid_losses(self) -> Tensor:
        """Return L_n of every validation row: [n]."""
        return self.valid_slopes[0]

    def valid_gradient(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradient of Σ_n weights[n] L_n by θ, a vector, and by the selection, 0: [Z]."""
        users, items = self.tables
        to_items = torch.zeros_like(items)
        for rows in self.valid_rows(self.samples_at_once, weights):
            slope, p = self._weighed(rows, weights), F.embedding(self.valid.users[rows], users)
            pulled = (slope.mT * p.unsqueeze(1)).flatten(0, 1)
            to_items.index_add_(0, self.valid.items[rows].flatten(), pulled)
        gradient = torch.cat([self.own_gradient(weights), to_items[:-1]])  # the last is the unknown item's
        return gradient, torch.zeros_like(self.samples.anchor)

    def own_gradient(self, weights: Tensor | None = None) -> Tensor:
        """Return ∇_{p_u} Σ_n weights[n] L_n of every user; default: weights of 1: [n_users, d]."""
        if weights is None:
            weights = torch.ones_like(self.valid_slopes[0])
        users, items = self.tables
        to_users = torch.zeros_like(users)
        for rows in self.valid_rows(self.samples_at_once, weights):
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

    def _valid_blocks(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Yield validation rows with their users' embeddings, [n, d], and their items', [n, 1 + m, d]."""
        users, items = self.tables
        for rows in self.valid_rows(self.samples_at_once):
            yield rows, F.embedding(self.valid.users[rows], users), F.embedding(self.valid.items[rows], items)

    def zeros(self) -> Tensor:
        """Return the vector 0."""
        users, items = self.tables
        return users.new_zeros(len(users) + len(items) - 2, users.shape[1])


def pair_scores(p: Tensor, q: Tensor) -> Tensor:
    """Return q · p for `p[n, d]` and `q[n, m, d]`: [n, m]."""
    return (q @ p.unsqueeze(-1)).squeeze(-1)
