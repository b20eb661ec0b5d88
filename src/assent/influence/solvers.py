"""Solving H x = b when only products with H are cheap; many independent systems at once.

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
    """`x` with the relative residual |b − H x| / |b| of its worst system, after `iterations` products."""

    x: Tensor
    residual: float
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
    """Preconditioned conjugate gradients for positive definite H, until every residual is below `tolerance`.

    Systems that have converged, and those with b = 0, stay as they are.
    """
    x = torch.zeros_like(b)
    residual = b.clone()
    direction = precondition(residual)
    gain = dot(residual, direction)
    size = dot(b, b)
    goal = tolerance**2 * size
    done = 0
    for _ in range(iterations):
        active = dot(residual, residual) > goal
        if not active.any():
            break
        image = matvec(direction)
        step = torch.where(active, gain / dot(direction, image).clamp_min(_TINY), 0)
        x = x + step * direction
        residual = residual - step * image
        corrected = precondition(residual)
        renewed = dot(residual, corrected)
        direction = corrected + torch.where(active, renewed / gain.clamp_min(_TINY), 0) * direction
        gain = renewed
        done += 1
    return Solution(x, _worst(dot(residual, residual), size), done)


def truncated_series(
    matvec: Operator, b: Tensor, *, precondition: Operator, dot: Dot, steps: int
) -> Solution:
    """`steps` steps of x ← x + M⁻¹(b − H x): the Neumann series of H⁻¹ in M⁻¹H, cut off.

    Needs no definiteness: directions of small or negative curvature are followed for a few steps only, as
    by a training run that stops early.
    """
    x = torch.zeros_like(b)
    for _ in range(steps):
        x = x + precondition(b - matvec(x))
    residual = b - matvec(x)
    return Solution(x, _worst(dot(residual, residual), dot(b, b)), steps)


_TINY = 1e-30
"""Keeps 0 / 0 of systems with b = 0 at 0."""


def _worst(residual: Tensor, size: Tensor) -> float:
    return float((residual / size.clamp_min(_TINY)).sqrt().max())
