"""Everybody's validation loss under a selection, without training on it: one solve for all users.

L_u(o) ≈ L_u(θ̃) + ∇L_uᵀ Δ,     Δ = −H⁻¹ Σ_k (o_k − õ_k) ∇ℓ_k
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from assent.arrays import Bools, Floats
from assent.data.problem import Problem
from assent.influence.curvature import Curvature
from assent.influence.estimate import (
    InfluenceSettings,
    ValidGradient,
    inverse_product,
    prepare,
    valid_gradient,
)
from assent.influence.samples import ValidSamples
from assent.training import Trained


@dataclass(frozen=True)
class Predictor:
    """Predicts losses around one anchor."""

    curvature: Curvature
    valid: ValidSamples
    gradient: ValidGradient
    settings: InfluenceSettings
    seed: int

    @classmethod
    def at(
        cls,
        problem: Problem,
        anchor: Bools,
        trained: Trained,
        *,
        negatives: int,
        settings: InfluenceSettings,
        seed: int,
    ) -> "Predictor":
        """Around the model `trained` on `anchor`; the arguments are those of `influence`."""
        curvature, valid = prepare(
            problem, anchor, trained, negatives=negatives, settings=settings, seed=seed
        )
        gradient = valid_gradient(curvature.model, valid, settings.loss)
        return cls(curvature, valid, gradient, settings, seed)

    def losses(self, selection: Bools) -> Floats:
        """L_u of every user under `selection[Z]`: [n_users]."""
        change = torch.from_numpy(selection).to(self.curvature.samples.anchor) - self.curvature.samples.anchor
        moved = inverse_product(self.curvature, self.curvature.pull(-change), self.settings, self.seed).x
        return self.valid.per_user(self.gradient.losses + self._along(moved))

    def _along(self, x: Tensor) -> Tensor:
        """The change of each validation row's loss when the parameters move by x: [n]."""
        n_users = self.curvature.n_users
        nothing = x.new_zeros(1, x.shape[1])
        users, items = (
            table.detach() for table in (self.curvature.model.user_table, self.curvature.model.item_table)
        )
        x_users, x_items = torch.cat([x[:n_users], nothing]), torch.cat([x[n_users:], nothing])
        parts = []
        for start in range(0, len(self.valid.users), 4096):
            here = slice(start, start + 4096)
            u, i = self.valid.users[here], self.valid.items[here]
            p, q = F.embedding(u, users), F.embedding(i, items)
            xp, xq = F.embedding(u, x_users), F.embedding(i, x_items)
            scores = (q @ xp.unsqueeze(-1) + xq @ p.unsqueeze(-1)).squeeze(-1)
            parts.append((self.gradient.slopes[here] * scores).sum(1))
        return torch.cat(parts)
