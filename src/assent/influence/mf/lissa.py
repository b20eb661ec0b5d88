"""LiSSA in the star around every user at once."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from assent.arrays import Ints
from assent.influence.mf.blocks import row_derivatives
from assent.influence.mf.curvature import Curvature


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
        one = curvature.of_row(row)
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
