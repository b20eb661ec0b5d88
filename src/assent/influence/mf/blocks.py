"""Training rows of matrix factorisation, with what products of their second derivatives need."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from assent.arrays import slices
from assent.influence.samples import TrainSamples

_CHUNK = 2**18
"""Samples handled at once: 64 MB per gathered embedding table at dimension 64."""


@dataclass(frozen=True)
class Block:
    """Some training rows with what every product needs of them; rows [n], samples [n, 1 + draws]."""

    rows: slice
    users: Tensor
    items: Tensor
    p: Tensor
    """[n, d]"""
    q: Tensor
    """[n, 1 + draws, d]"""
    slope: Tensor
    """∂ℓ/∂s of each sample, times its weight: a-free, so also for rows outside the anchor."""
    bend: Tensor
    """a σ(1−σ), [n, 1 + draws]"""
    twist: Tensor
    """a (σ − y) for the full Hessian, 0 for Gauss-Newton, [n, 1 + draws]"""


def chunks(rows: int, samples: int) -> Iterator[slice]:
    """Slices of so many rows, of so many samples each, that bound memory."""
    return slices(rows, max(1, _CHUNK // samples))


def make_blocks(samples: TrainSamples, tables: tuple[Tensor, Tensor], *, full: bool) -> Iterator[Block]:
    """The training rows in chunks that bound memory, with `tables` of known users and items.

    With `full`, `twist` is that of the full Hessian.
    """
    users, items = tables
    labels = torch.zeros_like(samples.weights)
    labels[0] = 1
    for rows in chunks(*samples.items.shape):
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
            twist=at_anchor * slope if full else torch.zeros_like(slope),
        )


def row_derivatives(block: Block, xu: Tensor, xi: Tensor, weights: Tensor, c: float) -> Tensor:
    """The derivative of each row's loss along `xu[n, 1, d]` of its user and `xi[n, 1 + draws, d]`: [n]."""
    p = block.p.unsqueeze(1)
    by_score = block.slope * ((xu * block.q) + (xi * p)).sum(-1)
    by_penalty = c * weights * ((xu * p) + (xi * block.q)).sum(-1)
    return (by_score + by_penalty).sum(1)
