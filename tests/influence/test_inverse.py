from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from assent.influence.inverse import Dot, Solution, conjugate_gradients, one_system, system_per_row

TOLERANCE = 1e-10


@dataclass
class Systems:
    """`matrices[n, d, d]` with right-hand sides `b[n, d]`; counts the products that are asked for."""

    matrices: Tensor
    b: Tensor
    products: int = 0

    def product(self, x: Tensor) -> Tensor:
        self.products += 1
        return (self.matrices @ x.unsqueeze(-1)).squeeze(-1)

    def precondition(self, x: Tensor) -> Tensor:
        return x / self.matrices.diagonal(dim1=1, dim2=2).abs().clamp_min(0.1)

    def solve(
        self, *, dot: Dot = system_per_row, tolerance: float = TOLERANCE, iterations: int = 200
    ) -> Solution:
        return conjugate_gradients(
            self.product,
            self.b,
            precondition=self.precondition,
            dot=dot,
            tolerance=tolerance,
            iterations=iterations,
        )

    def residuals(self, x: Tensor) -> Tensor:
        """|b − H x| / |b| of each system, 0 where b = 0."""
        error = (self.b - (self.matrices @ x.unsqueeze(-1)).squeeze(-1)).norm(dim=1)
        return torch.where(self.b.norm(dim=1) > 0, error / self.b.norm(dim=1), 0)


@st.composite
def systems(draw: st.DrawFn, lowest: float = 0.1) -> Systems:
    """Random symmetric systems with eigenvalues from `lowest` to 10; every third has b = 0."""
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    n, d = draw(st.integers(1, 8)), draw(st.integers(1, 6))
    bases = torch.linalg.qr(torch.randn(n, d, d, generator=generator, dtype=torch.float64)).Q
    values = lowest + (10 - lowest) * torch.rand(n, d, generator=generator, dtype=torch.float64)
    b = torch.randn(n, d, generator=generator, dtype=torch.float64)
    b[::3] = 0
    return Systems(bases @ torch.diag_embed(values) @ bases.mT, b)


@given(systems())
@settings(deadline=None)
def test_definite_systems_are_solved_all_at_once(given_systems: Systems) -> None:
    solution = given_systems.solve()
    expected = torch.linalg.solve(given_systems.matrices, given_systems.b)
    assert_close(solution.x, expected, rtol=1e-7, atol=1e-7)
    assert solution.residual is not None
    assert solution.residual <= TOLERANCE
    assert solution.iterations == given_systems.products


@given(systems(), st.integers(0, 3), st.sampled_from([0.5, 1e-3, 1e-9]))
@settings(deadline=None)
def test_the_residual_claimed_is_the_true_one(
    given_systems: Systems, iterations: int, tolerance: float
) -> None:
    solution = given_systems.solve(iterations=iterations, tolerance=tolerance)
    true = given_systems.residuals(solution.x).max().item()
    assert solution.residual == pytest.approx(true, abs=1e-12)
    assert solution.iterations <= iterations
    assert solution.iterations == iterations or true <= tolerance


@given(systems())
@settings(deadline=None)
def test_a_system_does_not_depend_on_its_neighbours(given_systems: Systems) -> None:
    together = given_systems.solve(tolerance=1e-3).x
    for row, x in enumerate(together):
        one = slice(row, row + 1)
        alone = Systems(given_systems.matrices[one], given_systems.b[one]).solve(tolerance=1e-3).x
        assert_close(alone[0], x, rtol=1e-9, atol=1e-12)


@given(systems(lowest=-10.0))
@settings(deadline=None)
def test_indefinite_systems_stop_without_breaking_anything(given_systems: Systems) -> None:
    solution = given_systems.solve()
    residuals = given_systems.residuals(solution.x)
    assert solution.x.isfinite().all()
    assert (solution.x[::3] == 0).all()
    assert solution.residual == pytest.approx(residuals.max().item(), rel=1e-6, abs=1e-8)
    definite = torch.linalg.eigvalsh(given_systems.matrices)[:, 0] > 1e-2
    assert (residuals[definite] < 1e-6).all()


def test_a_step_against_the_curvature_is_not_taken() -> None:
    hill = Systems(-torch.eye(3).expand(2, 3, 3), torch.ones(2, 3))
    solution = hill.solve()
    assert (solution.x == 0).all()
    assert solution.residual == pytest.approx(1.0)
    assert solution.iterations == 1


def test_the_steps_before_a_hill_are_kept() -> None:
    matrix = torch.diag(torch.tensor([1.0, 4.0, -1.0], dtype=torch.float64))
    saddle = Systems(matrix.expand(1, 3, 3), torch.tensor([[1.0, 1.0, 0.1]], dtype=torch.float64))
    solution = saddle.solve(dot=one_system)
    energies = 0.5 * (solution.x * saddle.product(solution.x)).sum() - (solution.x * saddle.b).sum()
    assert solution.x.abs().sum() > 0
    assert solution.residual is not None
    assert solution.residual > TOLERANCE
    assert energies < 0


def test_nothing_asked_costs_nothing() -> None:
    idle = Systems(torch.eye(2).expand(3, 2, 2), torch.zeros(3, 2))
    solution = idle.solve()
    assert (solution.x == 0).all()
    assert (solution.residual, solution.iterations, idle.products) == (0.0, 0, 0)


@given(systems())
@settings(deadline=None)
def test_one_system_takes_the_whole_tensor_as_a_vector(given_systems: Systems) -> None:
    solution = given_systems.solve(dot=one_system)
    expected = torch.linalg.solve(given_systems.matrices, given_systems.b)
    assert_close(solution.x, expected, rtol=1e-7, atol=1e-7)
    error = (given_systems.b - given_systems.product(solution.x)).norm() / given_systems.b.norm().clamp_min(1)
    assert solution.residual is not None
    assert solution.residual <= TOLERANCE
    assert error <= 2 * TOLERANCE
