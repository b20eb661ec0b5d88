import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assent.support.sparse import SparseMatrix


@settings(deadline=None, derandomize=True)
@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 20), st.integers(0, 2**16))
def test_products_are_those_of_the_dense_matrix(height: int, width: int, entries: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, columns = rng.integers(height, size=entries), rng.integers(width, size=entries)
    values = rng.normal(size=entries)
    dense = np.zeros((height, width))
    np.add.at(dense, (rows, columns), values)
    matrix = SparseMatrix.of(values, rows, columns, (height, width))
    assert matrix.shape == dense.shape
    np.testing.assert_allclose(matrix.toarray(), dense, atol=1e-12)
    vector, several = rng.normal(size=width), rng.normal(size=(width, 3))
    np.testing.assert_allclose(matrix @ vector, dense @ vector, atol=1e-12)
    np.testing.assert_allclose(matrix @ several, dense @ several, atol=1e-12)


def test_products_have_the_precision_of_the_entries() -> None:
    place = np.zeros(1, dtype=np.int64)
    single = SparseMatrix.of(np.array([1 / 3], dtype=np.float32), place, place, (1, 1))
    assert float((single @ np.ones(1))[0]) == pytest.approx(1 / 3, rel=1e-7)
    assert float((single @ np.ones(1))[0]) != 1 / 3
