"""LiSSA as the paper describes it: H⁻¹ b by N_J steps, each with the Hessian of a single sample.

    x_j = b + (I − ∇²ℓ_s) x_{j−1},    s drawn uniformly from the anchor's rows at every step

Here H is the Hessian of the *mean* training loss. Kept as the paper has it, to compare with: a single row
touches so few parameters that the result hardly differs from a multiple of b.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from assent.arrays import Ints
from assent.influence.curvature import Curvature, row_derivatives


def sampled_rows(curvature: Curvature, *, steps: int, seed: int) -> Ints:
    """The anchor's rows s that the steps use: [steps]."""
    rows = np.flatnonzero(curvature.samples.anchor.numpy())
    return np.random.default_rng(seed).choice(rows, size=steps)


def lissa_social(curvature: Curvature, b: Tensor, rows: Ints) -> Tensor:
    """H⁻¹ b for a vector over all parameters, [n_users + n_items, d]."""
    x = b
    for row in rows:
        x = b + x - _of_row(curvature, int(row)).product(x)
    return x


@dataclass(frozen=True)
class LissaStars:
    """H⁻¹ ∇L_u in every user's star: her own coordinates, and those of the items of the sampled rows."""

    x: Tensor
    """[n_users, d]"""
    items: dict[int, Tensor]
    """Row → [1 + draws, d]; 0 for a row that is not in it."""


def lissa_stars(curvature: Curvature, b: Tensor, rows: Ints) -> LissaStars:
    """The recursion in all stars at once for b[n_users, d]; a sampled row concerns its own user only."""
    x = b
    items: dict[int, Tensor] = {}
    for row in map(int, rows):
        one = _of_row(curvature, row)
        block = next(one.blocks())
        user = int(block.users[0])
        xi = items.get(row, torch.zeros_like(block.q[0]))
        whole = torch.zeros_like(one.diagonal)
        whole[user] = x[user]
        whole[one.n_users + block.items[0]] = xi
        image = one.product(whole)
        x = b + x
        x[user] -= image[user]
        items[row] = xi - image[one.n_users + block.items[0]]
    return LissaStars(x, items)


def along_lissa_stars(curvature: Curvature, solution: LissaStars) -> Tensor:
    """The derivative of each row's loss along its own user's star: [Z]."""
    weights, c = curvature.samples.weights, curvature.model.l2
    parts = []
    for block in curvature.blocks():
        xi = torch.zeros_like(block.q)
        for row, value in solution.items.items():
            if block.rows.start <= row < block.rows.start + len(xi):
                xi[row - block.rows.start] = value
        xu = F.embedding(block.users, solution.x).unsqueeze(1)
        parts.append(row_derivatives(block, xu, xi, weights, c))
    return torch.cat(parts)


def _of_row(curvature: Curvature, row: int) -> Curvature:
    """The full Hessian of one row's loss, undamped."""
    samples = curvature.samples
    here = slice(row, row + 1)
    one = replace(
        samples,
        users=samples.users[here],
        items=samples.items[here],
        anchor=torch.ones_like(samples.anchor[here]),
    )
    return replace(curvature, samples=one, full=True, damping=0.0)
