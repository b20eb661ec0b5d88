import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from assent.game.paper.tables import simplex_shift
from assent.support.arrays import Floats

from .games import steady


def projected(point: Floats) -> Floats:
    """The nearest point of the simplex, by sorting."""
    falling = np.sort(point)[::-1]
    shifts = (np.cumsum(falling) - 1) / np.arange(1, len(point) + 1)
    nearest: Floats = np.maximum(point - shifts[np.flatnonzero(falling > shifts)[-1]], 0)
    return nearest


@steady
@given(st.integers(0, 2**32), st.integers(1, 12))
def test_the_shift_is_that_of_the_projection(seed: int, length: int) -> None:
    rng = np.random.default_rng(seed)
    points = rng.normal(0, rng.choice([0.01, 1, 100]), (5, length))
    shifts = simplex_shift(points, np.ones_like(points))
    for point, shift in zip(points, shifts, strict=True):
        np.testing.assert_allclose(np.maximum(point - shift, 0), projected(point), atol=1e-12)


@steady
@given(st.integers(0, 2**32))
def test_counts_stand_for_repeated_numbers_and_zero_for_none(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values, counts = rng.normal(size=(1, 6)), rng.integers(0, 4, (1, 6)).astype(np.float64)
    counts[0, 0] = 1
    written_out = np.repeat(values[0], counts[0].astype(np.int64))
    shift = simplex_shift(values, counts)[0]
    np.testing.assert_allclose(np.maximum(written_out - shift, 0), projected(written_out), atol=1e-12)


def test_the_projection_is_nearer_than_any_other_point() -> None:
    rng = np.random.default_rng(0)
    point = rng.normal(size=(1, 5))
    nearest = np.maximum(point - simplex_shift(point, np.ones_like(point))[:, None], 0)
    assert abs(nearest.sum() - 1) < 1e-12
    others = rng.dirichlet(np.ones(5), 2000)
    assert (np.linalg.norm(others - point, axis=1) >= np.linalg.norm(nearest - point)).all()
