"""Everybody's validation loss under a selection, without training on it: one solve for all users.

L_u(o) ≈ L_u(θ̃, õ) + ∇L_uᵀ Δ + Σ_k (o_k − õ_k) ∂L_u/∂o_k,     Δ = −H⁻¹ Σ_k (o_k − õ_k) ∂²F/∂θ∂o_k
"""

import torch

from assent.arrays import Bools, Floats
from assent.influence.linearised import Linearised, inverse_product
from assent.influence.settings import InfluenceSettings


def predicted_losses(model: Linearised, selection: Bools, settings: InfluenceSettings, seed: int) -> Floats:
    """L_u of every user under `selection[Z]`, predicted around the anchor of `model`: [n_users]."""
    change = torch.from_numpy(selection).to(model.samples.anchor) - model.samples.anchor
    moved = inverse_product(model, model.pull(-change), settings, seed).x
    return model.valid.per_user(model.valid_losses() + model.valid_change(moved, change))
