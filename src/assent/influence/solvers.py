"""Solving H x = b when only products with H are cheap, for many independent systems at once.

The last axes of a tensor hold one system; `dot` says which, by summing over them and keeping the dimensions,
so that every system has its own step length.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Operator = Callable[[Tensor], Tensor]
"""A symmetric linear map."""
Dot = Callable[[Tensor, Tensor], Tensor]
"""Inner products of the systems in two tensors."""


@dataclass(frozen=True)
class Solution:
    """`x` with the relative residual |b − H x| / |b| of its worst system, after `iterations` products.

    None where no system was solved.
    """

    x: Tensor
    residual: float | None
    iterations: int


def one_system(a: Tensor, b: Tensor) -> Tensor:
    """The whole tensor is one system."""
    return (a * b).sum().reshape((1,) * a.dim())


def system_per_row(a: Tensor, b: Tensor) -> Tensor:
    """Each row of a matrix is a system of its own."""
    return (a * b).sum(1, keepdim=True)


def conjugate_gradients(
    matvec: Operator, b: Tensor, *, precondition: Operator, dot: Dot, tolerance: float, iterations: int
) -> Solution:
    """Preconditioned conjugate gradients until every residual is below `tolerance`, or `iterations` are done.

    A system stops by itself when it has converged, when b = 0, and where the curvature along its next
    direction is not positive (Steihaug's rule): H need not be definite, but then x is only as far along flat
    directions as the steps before went, like a training run that stopped early.
    """
    x = torch.zeros_like(b)
    residual = b.clone()
    direction = precondition(residual)
    gain = dot(residual, direction)
    size = dot(b, b)
    active = size > 0
    done = 0
    while done < iterations and active.any():
        image = matvec(direction)
        curvature = dot(direction, image)
        active = active & (curvature > 0)
        step = torch.where(active, gain / curvature.clamp_min(_TINY), 0)
        x = x + step * direction
        residual = residual - step * image
        corrected = precondition(residual)
        renewed = dot(residual, corrected)
        direction = corrected + torch.where(active, renewed / gain.clamp_min(_TINY), 0) * direction
        gain = renewed
        active = active & (dot(residual, residual) > tolerance**2 * size)
        done += 1
    worst = (dot(residual, residual) / size.clamp_min(_TINY)).sqrt().max()
    return Solution(x, float(worst), done)


_TINY = 1e-30
"""Keeps 0 / 0 of systems with b = 0 at 0."""
