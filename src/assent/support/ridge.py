"""Many small ridge regressions at once, in compiled code.

Row r has entries k with a column j(k) and a weight c_k. With a table of vectors t_j [columns, d], a matrix G
[d, d] and a ridge ρ_r, the regression of row r is

    A_r x_r = b_r,    A_r = G + Σ_k c_k t_j t_jᵀ + ρ_r I,    b_r = Σ_k c_k t_j

Rows are independent of each other, so the results are the same bytes whatever the number of threads.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from assent.support.arrays import Ints
from assent.support.compiled import kernel
from assent.support.runtime import row_threads

Array = npt.NDArray[Any]
"""float32 or float64; all arrays of one call have the same precision."""
STEPS = 3
"""Conjugate-gradient steps of `improve`: enough where it starts from the last epoch's solution."""
_TINY = 1e-30
"""Squared residual at which nothing is left to improve."""
AT_ONCE = 64
"""Entries whose products are summed at once."""
_SYSTEM = 64
"""What solving a row's system costs, in entries."""


@dataclass(frozen=True)
class Entries:
    """The entries of n rows: row r has `columns[starts[r] : starts[r + 1]]` and the weights there."""

    starts: Ints
    """[n + 1]"""
    columns: npt.NDArray[np.int32]
    """[entries]"""
    weights: Array
    """[entries]"""
    order: Ints
    """[entries], the place of each entry in the arrays that they were made of."""

    @classmethod
    def of(cls, rows: Ints, columns: Ints, weights: Array, length: int) -> "Entries":
        """Group entries at (`rows[m]`, `columns[m]`) with `weights[m]` by row; rows are below `length`.

        Entries of a row are sorted by column, so that sums do not depend on the order in which they come.
        """
        order = np.lexsort((columns, rows))
        starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=length))])
        return cls(starts, columns[order].astype(np.int32), weights[order], order)

    @property
    def sums(self) -> Array:
        """The sum of the weights of each row: [n]."""
        ends = np.concatenate([[0.0], np.cumsum(self.weights, dtype=np.float64)])
        return np.asarray(ends[self.starts[1:]] - ends[self.starts[:-1]], dtype=self.weights.dtype)

    def totals(self, table: Array) -> Array:
        """Return b_r of every row: [n, d]."""
        shape = len(self.starts) - 1, len(table)
        found: Array = sparse.csr_array((self.weights, self.columns, self.starts), shape=shape) @ table
        return found

    def take(self, rows: Ints) -> "Entries":
        """Return the entries of `rows[m]` alone, in this order; a row may be taken twice."""
        sizes = self.starts[rows + 1] - self.starts[rows]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        places = np.arange(starts[-1]) + np.repeat(self.starts[rows] - starts[:-1], sizes)
        return Entries(starts, self.columns[places], self.weights[places], self.order[places])

    def regressions(self, table: Array, gram: Array, ridge: Array) -> "Regressions":
        """Return the regressions of the rows on `table[columns, d]`, with `gram[d, d]` and `ridge[n]`."""
        return Regressions(self.starts, self.columns, self.weights, table, gram, ridge)


class Regressions(NamedTuple):
    """The regressions of n rows, as kernels take them; `Entries` explains the first three."""

    starts: Ints
    columns: npt.NDArray[np.int32]
    weights: Array
    table: Array
    """[columns, d]"""
    gram: Array
    """G: [d, d]"""
    ridge: Array
    """ρ: [n]"""


def each_part(starts: Ints, work: Callable[..., None], *arguments: Any) -> None:
    """Call `work(first, last, *arguments)` on parts of the rows of about equal work, side by side."""
    threads, amount = row_threads(), starts + _SYSTEM * np.arange(len(starts))
    cuts = np.unique(np.searchsorted(amount, np.linspace(0, amount[-1], 8 * threads + 1))).tolist()
    parts = list(pairwise(cuts))
    if threads == 1:
        for first, last in parts:
            work(first, last, *arguments)
        return
    with ThreadPoolExecutor(threads) as pool:
        for done in [pool.submit(partial(work, first, last), *arguments) for first, last in parts]:
            done.result()


def solve_rows(rows: Regressions, x: Array) -> None:
    """Set each `x[n, d]` to the solution of its regression; rows without entries become 0."""
    each_part(rows.starts, _solve_rows, rows, x)


def improve(rows: Regressions, x: Array, steps: int = STEPS) -> None:
    """Move each `x[n, d]` towards the solution of its regression by `steps` conjugate gradients, in place.

    Rows without entries become 0. A step costs O(entries · d + d²), a solution O(entries · d² + d³).
    """
    each_part(rows.starts, _improve, rows, x, steps)


def inverse_times(rows: Regressions, b: Array) -> Array:
    """Return A_r⁻¹ b_r for every row and given `b[n, d]`: [n, d]."""
    x = np.empty_like(b)
    each_part(rows.starts, _inverse_times, rows, b, x)
    return x


@kernel
def fill(A: Array, rows: Regressions, r: int, gathered: Array, product: Array) -> None:
    """Set `A[d, d]` to A_r; the last two are memory to work in."""
    n, end = len(A), rows.starts[r + 1]
    A[:] = rows.gram
    for i in range(n):
        A[i, i] += rows.ridge[r]
    k = rows.starts[r]
    while k < end:
        many = min(len(gathered), end - k)
        for q in range(many):
            t, root = rows.table[rows.columns[k + q]], np.sqrt(rows.weights[k + q])
            for j in range(n):
                gathered[q, j] = root * t[j]
        here = gathered[:many]
        np.dot(here.T, here, product)
        for i in range(n):
            for j in range(n):
                A[i, j] += product[i, j]
        k += many


@kernel
def solve(L: Array, b: Array) -> None:
    """Solve L Lᵀ x = b for a lower triangular L, in place."""
    for i in range(len(b)):
        rest = b[i]
        for j in range(i):
            rest -= L[i, j] * b[j]
        b[i] = rest / L[i, i]
    for i in range(len(b) - 1, -1, -1):
        b[i] /= L[i, i]
        for j in range(i):
            b[j] -= L[i, j] * b[i]


@kernel
def _add_total(rows: Regressions, r: int, out: Array) -> None:
    """Add b_r to `out[d]`."""
    for k in range(rows.starts[r], rows.starts[r + 1]):
        t, weight = rows.table[rows.columns[k]], rows.weights[k]
        for j in range(len(out)):
            out[j] += weight * t[j]


@kernel
def _solve_rows(first: int, last: int, rows: Regressions, x: Array) -> None:
    d = x.shape[1]
    A, product = np.empty((d, d), x.dtype), np.empty((d, d), x.dtype)
    gathered = np.empty((AT_ONCE, d), x.dtype)
    for r in range(first, last):
        x[r] = 0
        if rows.starts[r] < rows.starts[r + 1]:
            _add_total(rows, r, x[r])
            fill(A, rows, r, gathered, product)
            solve(np.linalg.cholesky(A), x[r])


@kernel
def _times(rows: Regressions, r: int, x: Array, out: Array) -> None:
    """Set `out[d]` to A_r x."""
    np.dot(rows.gram, x, out)
    for j in range(len(x)):
        out[j] += rows.ridge[r] * x[j]
    for k in range(rows.starts[r], rows.starts[r + 1]):
        t, score = rows.table[rows.columns[k]], x.dtype.type(0)
        for j in range(len(x)):
            score += t[j] * x[j]
        score *= rows.weights[k]
        for j in range(len(x)):
            out[j] += score * t[j]


@kernel
def _improve(first: int, last: int, rows: Regressions, x: Array, steps: int) -> None:
    d, tiny = x.shape[1], x.dtype.type(_TINY)
    image, residual = np.empty(d, x.dtype), np.empty(d, x.dtype)
    for r in range(first, last):
        w = x[r]
        if rows.starts[r] == rows.starts[r + 1]:
            w[:] = 0
            continue
        _times(rows, r, w, image)
        residual[:] = -image
        _add_total(rows, r, residual)
        direction, size = residual.copy(), np.dot(residual, residual)
        for _ in range(steps):
            if size <= tiny:
                break
            _times(rows, r, direction, image)
            length = size / np.dot(direction, image)
            for j in range(d):
                w[j] += length * direction[j]
                residual[j] -= length * image[j]
            smaller = np.dot(residual, residual)
            for j in range(d):
                direction[j] = residual[j] + smaller / size * direction[j]
            size = smaller


@kernel
def _inverse_times(first: int, last: int, rows: Regressions, b: Array, x: Array) -> None:
    d = x.shape[1]
    A, product, gathered = (
        np.empty((d, d), x.dtype),
        np.empty((d, d), x.dtype),
        np.empty((AT_ONCE, d), x.dtype),
    )
    for r in range(first, last):
        fill(A, rows, r, gathered, product)
        x[r] = b[r]
        solve(np.linalg.cholesky(A), x[r])
