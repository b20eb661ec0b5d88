"""The compiled ridge regressions equal dense ones."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.support.ridge import Array, Entries, Regressions, improve, inverse_times, solve_rows
from assent.support.runtime import threads_for_rows


def regressions(seed: int, *, n: int = 9, columns: int = 7, d: int = 5, entries: int = 30) -> Regressions:
    """Rows with repeated columns, some without entries, with weights between 0 and 2."""
    rng = np.random.default_rng(seed)
    rows, places = rng.integers(n, size=entries), rng.integers(columns, size=entries)
    grouped = Entries.of(rows, places, rng.uniform(0, 2, entries), n)
    root = rng.standard_normal((d, d))
    return grouped.regressions(rng.standard_normal((columns, d)), root @ root.T, rng.uniform(0.1, 1, n))


def dense(rows: Regressions, r: int) -> tuple[Array, Array]:
    """A and b of a row, by the formula."""
    here = slice(rows.starts[r], rows.starts[r + 1])
    t, c = rows.table[rows.columns[here]], rows.weights[here]
    return rows.gram + (c[:, None] * t).T @ t + rows.ridge[r] * np.eye(t.shape[1]), c @ t


@given(st.integers(0, 10**6), st.integers(1, 12))
def test_every_row_is_solved_exactly(seed: int, d: int) -> None:
    rows = regressions(seed, d=d)
    x = np.random.default_rng(1).standard_normal((9, d))
    solve_rows(rows, x)
    for r in range(9):
        A, b = dense(rows, r)
        has_entries = rows.starts[r] < rows.starts[r + 1]
        np.testing.assert_allclose(x[r], np.linalg.solve(A, b) if has_entries else 0, atol=1e-9)


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_conjugate_gradients_come_nearer_to_the_solution_with_every_pass(steps: int) -> None:
    rows = regressions(3)
    solution, x = np.zeros((9, 5)), np.ones((9, 5))
    solve_rows(rows, solution)
    distances = []
    for _ in range(200):
        improve(rows, x, steps)
        distances.append(np.abs(x - solution).max())
    assert distances[0] > 1e-3
    assert distances[-1] < 1e-3 * distances[0]


def test_as_many_steps_as_coordinates_give_the_solution() -> None:
    rows = regressions(6)
    solution, x = np.zeros((9, 5)), np.ones((9, 5))
    solve_rows(rows, solution)
    improve(rows, x, 8)
    np.testing.assert_allclose(x, solution, atol=1e-6)


def test_inverses_are_those_of_dense_matrices() -> None:
    rows = regressions(4)
    b = np.random.default_rng(0).standard_normal((9, 5))
    expected = [np.linalg.solve(dense(rows, r)[0], b[r]) for r in range(9)]
    np.testing.assert_allclose(inverse_times(rows, b), expected, rtol=1e-9)


def test_results_are_the_same_bytes_with_any_number_of_threads() -> None:
    rows = regressions(5, n=500, columns=80, d=16, entries=4000)
    found = []
    for threads in (1, 2, 3):
        with threads_for_rows(threads):
            x = np.zeros((500, 16))
            improve(rows, x)
            found.append((x.tobytes(), inverse_times(rows, x).tobytes()))
    assert found[0] == found[1] == found[2]


def test_the_order_of_entries_does_not_matter() -> None:
    rng = np.random.default_rng(0)
    rows, columns, order = rng.integers(5, size=20), rng.permutation(20), rng.permutation(20)
    weights = rng.random(20).astype(np.float32)
    one, other = (Entries.of(rows[o], columns[o], weights[o], 5) for o in (np.arange(20), order))
    assert one.columns.tolist() == other.columns.tolist()
    assert one.weights.tolist() == other.weights.tolist()
    assert weights[one.order].tolist() == one.weights.tolist()


def test_rows_can_be_taken_and_summed() -> None:
    entries = Entries.of(np.array([0, 2, 2, 0]), np.array([3, 1, 0, 2]), np.array([1.0, 2.0, 3.0, 4.0]), 3)
    assert entries.sums.tolist() == [5, 0, 5]
    taken = entries.take(np.array([2, 1, 2]))
    assert taken.starts.tolist() == [0, 2, 2, 4]
    assert taken.columns.tolist() == [0, 1, 0, 1]
    table = np.arange(8.0).reshape(4, 2)
    assert taken.totals(table)[0].tolist() == (3 * table[0] + 2 * table[1]).tolist()
    assert taken.totals(table)[1].tolist() == [0, 0]
