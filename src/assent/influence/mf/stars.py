"""The effect of a user's interactions on her own validation loss: one small system per user, all at once.

A user's loss reaches her own rows through the star around her: her embedding p_u and those of the items in
her samples, every other user held fixed. In a star, an item's block of the Hessian is taken by its diagonal
(the penalty of all its samples dominates it), and the item is eliminated:

    S_u = A_u − Σ_j B_uj D_j⁻¹ B_ujᵀ,    S_u x_u = ∇_{p_u} L_u,    x_j = −D_j⁻¹ B_ujᵀ x_u

with A, B, D the blocks of `curvature`; an item that is twice among her samples counts as two that are alike.
The systems share nothing, so one tensor [users, d] holds all of them.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from assent.influence.linearised import solve
from assent.influence.mf.blocks import Block, row_derivatives
from assent.influence.mf.curvature import Curvature
from assent.influence.settings import InfluenceSettings
from assent.influence.solvers import Solution, system_per_row


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
