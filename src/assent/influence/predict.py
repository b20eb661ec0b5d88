"""Everybody's validation loss under selections, without training on them: one solve each for all users.

L_u(o) ≈ L_u(θ̃, õ) + ∇L_uᵀ Δ + Σ_k (o_k − õ_k) ∂L_u/∂o_k,     Δ = −H⁻¹ Σ_k (o_k − õ_k) ∂²F/∂θ∂o_k
"""

import numpy as np
import torch

from assent.arrays import Bools, Floats, slices
from assent.denormals import flushed
from assent.influence.linearised import Linearised, inverse_product
from assent.influence.settings import InfluenceSettings

_AT_ONCE = 16
"""Selections whose moves are held together."""


@flushed()
def predicted_losses(model: Linearised, selections: Bools, settings: InfluenceSettings, seed: int) -> Floats:
    """L_u of every user, [R, n_users], under `selections[R, Z]`, predicted around the anchor of `model`."""
    before, found = model.valid_losses(), []
    for part in slices(len(selections), _AT_ONCE):
        changes = torch.from_numpy(selections[part]).to(model.samples.anchor) - model.samples.anchor
        moves = torch.stack([inverse_product(model, model.pull(-each), settings, seed).x for each in changes])
        found += [model.valid.per_user(before + each) for each in model.valid_changes(moves, changes)]
    return np.array(found)
