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
from numba import njit
from scipy import sparse

from assent.support.arrays import Ints
from assent.support.runtime import row_threads

Array = npt.NDArray[Any]
"""float32 or float64; all arrays of one call have the same precision."""
BLOCK = 64
"""Coordinates that `improve` solves for at once: larger systems cost more than they gain."""
AT_ONCE = 64
"""Entries whose products are summed at once."""
_SYSTEM = 64
"""What solving a row's system costs, in entries."""
kernel: Callable[..., Any] = njit(
    nogil=True, fastmath={"reassoc", "contract", "arcp", "nsz"}, error_model="numpy", cache=True
)
"""Compiles a function; sums may be taken in any order, but not a number stays not a number."""


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
        """Group entries at (`rows[m]`, `columns[m]`) with `weights[m]` by row; rows are below `length`."""
        order = np.argsort(rows, kind="stable")
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


def improve(rows: Regressions, x: Array, block: int = BLOCK) -> None:
    """Move each `x[n, d]` towards the solution of its regression, in place; rows without entries become 0.

    One block of coordinates after the other is set to its best value given the others. With `block` ≥ d the
    result is the solution.
    """
    longest = int(np.diff(rows.starts).max(initial=0))
    if longest:
        each_part(rows.starts, _improve, rows, x, min(block, x.shape[1]), longest)
    else:
        x[:] = 0


def inverse_times(rows: Regressions, b: Array) -> Array:
    """Return A_r⁻¹ b_r for every row and given `b[n, d]`: [n, d]."""
    x = np.empty_like(b)
    each_part(rows.starts, _inverse_times, rows, b, x)
    return x


@kernel
def fill(A: Array, rows: Regressions, r: int, low: int, gathered: Array, product: Array) -> None:
    """Set `A[n, n]` to the coordinates low … low + n of A_r; the last two are memory to work in."""
    n, end = len(A), rows.starts[r + 1]
    for i in range(n):
        for j in range(n):
            A[i, j] = rows.gram[low + i, low + j]
        A[i, i] += rows.ridge[r]
    k = rows.starts[r]
    while k < end:
        many = min(len(gathered), end - k)
        for q in range(many):
            t, root = rows.table[rows.columns[k + q]], np.sqrt(rows.weights[k + q])
            for j in range(n):
                gathered[q, j] = root * t[low + j]
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
def _improve(first: int, last: int, rows: Regressions, x: Array, block: int, longest: int) -> None:
    table, d, n = rows.table, x.shape[1], 0
    scores = np.empty(longest, x.dtype)
    for r in range(first, last):
        start, end, w = rows.starts[r], rows.starts[r + 1], x[r]
        if start == end:
            w[:] = 0
            continue
        for k in range(start, end):
            scores[k - start] = np.dot(table[rows.columns[k]], w)
        for low in range(0, d, block):
            if n != min(block, d - low):
                n = min(block, d - low)
                A, product = np.empty((n, n), x.dtype), np.empty((n, n), x.dtype)
                gathered, b = np.empty((AT_ONCE, n), x.dtype), np.empty(n, x.dtype)
            fill(A, rows, r, low, gathered, product)
            for i in range(n):
                b[i] = -np.dot(rows.gram[low + i], w) - rows.ridge[r] * w[low + i]
            for k in range(start, end):
                t, missing = table[rows.columns[k]], rows.weights[k] * (1 - scores[k - start])
                for j in range(n):
                    b[j] += missing * t[low + j]
            solve(np.linalg.cholesky(A), b)
            for i in range(n):
                w[low + i] += b[i]
            if low + n < d:
                for k in range(start, end):
                    scores[k - start] += np.dot(table[rows.columns[k]][low : low + n], b)


@kernel
def _inverse_times(first: int, last: int, rows: Regressions, b: Array, x: Array) -> None:
    d = x.shape[1]
    A, product, gathered = (
        np.empty((d, d), x.dtype),
        np.empty((d, d), x.dtype),
        np.empty((AT_ONCE, d), x.dtype),
    )
    for r in range(first, last):
        fill(A, rows, r, 0, gathered, product)
        x[r] = b[r]
        solve(np.linalg.cholesky(A), x[r])
