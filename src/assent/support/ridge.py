"""Many small ridge regressions at once, in compiled code.

Row r has entries k with a column j(k) and a weight c_k. With a table of vectors t_j [columns, d], a matrix G
[d, d] and a ridge ρ_r, the regression of row r is

    A_r x_r = b_r,    A_r = G + Σ_k c_k t_j t_jᵀ + ρ_r I,    b_r = Σ_k c_k t_j

In the basis of G's eigenvectors G is diagonal (`turned`), and a product with it costs d instead of d². With
D = G + ρ_r I there, S = D^−½ and the scaled entries U [entries, d] of √c_k t_jᵀ S,

    A_r⁻¹ = S (I + Uᵀ U)⁻¹ S = S (I − Uᵀ (I + U Uᵀ)⁻¹ U) S

so that the system of a row with fewer entries than d is as small as the number of its entries.

Rows are independent of each other, so the results are the same bytes whatever the number of threads.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from assent.support.arrays import Ints, slices
from assent.support.compiled import grouped_twice, kernel
from assent.support.runtime import row_threads

Array = npt.NDArray[Any]
"""float32 or float64; all arrays of one call have the same precision."""
STEPS = 3
"""Conjugate-gradient steps of `improve`: enough where it starts from the last epoch's solution."""
BLOCK = 2**12
"""Rows of a table whose products are taken at once; sums over blocks are taken in double precision."""
_TINY = 1e-30
"""Squared residual at which nothing is left to improve."""
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
    order: npt.NDArray[np.int32]
    """[entries], the place of each entry in the arrays that they were made of."""

    @classmethod
    def of(cls, rows: Ints, columns: Ints, weights: Array, length: int) -> "Entries":
        """Group entries at (`rows[m]`, `columns[m]`) with `weights[m]` by row; rows are below `length`.

        Entries of a row are sorted by column, so that sums do not depend on the order in which they come.
        """
        starts, order = grouped_twice(rows, columns, length, 1 + int(columns.max(initial=-1)))
        return cls(starts, columns[order].astype(np.int32), weights[order], order)

    @cached_property
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
    """G: [d, d]; its diagonal, [d], where the regressions are turned."""
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


def in_blocks(table: Array, basis: Array) -> Array:
    """Return `table[n, d]` @ `basis[d, d]`, by `BLOCK` rows at a time: [n, d].

    The rounding of a product depends on its number of rows. So whole blocks have the same bytes whatever
    stands before or after them.
    """
    found = np.empty_like(table)
    for rows in slices(len(table), BLOCK):
        np.matmul(table[rows], basis, out=found[rows])
    return found


def gram_parts(table: Array) -> list[Array]:
    """Return TᵀT of every `BLOCK` rows of a table; `summed` adds them up."""
    return [table[rows].T @ table[rows] for rows in slices(len(table), BLOCK)]


def summed(parts: Iterable[Array], d: int) -> Array:
    """Return the sum of matrices [d, d], in double precision, in the order given."""
    return sum(parts, np.zeros((d, d)))


def basis_of(gram: Array, kind: Any) -> tuple[Array, Array]:
    """Return the eigenvalues of `gram[d, d]`, [d], and the basis of its eigenvectors, [d, d], as `kind`."""
    values, basis = np.linalg.eigh(gram.astype(np.float64))
    return np.maximum(values, 0).astype(kind), basis.astype(kind)


def turned(rows: Regressions) -> tuple[Regressions, Array]:
    """Return the regressions in the basis of G's eigenvectors, and that basis: [d, d].

    A vector x is x @ basis there, and back y @ basis.T.
    """
    gram, basis = basis_of(rows.gram, rows.table.dtype)
    return rows._replace(table=in_blocks(rows.table, basis), gram=gram), basis


def solve_rows(rows: Regressions, x: Array) -> None:
    """Set each `x[n, d]` to the solution of its regression; rows without entries become 0."""
    solve_turned(*turned(rows), x)


def solve_turned(there: Regressions, basis: Array, x: Array) -> None:
    """Solve regressions that are `turned`."""
    _check_solvable(there)
    each_part(there.starts, _solve_rows, there, basis, x)


def improve(rows: Regressions, x: Array, steps: int = STEPS) -> None:
    """Move each `x[n, d]` towards the solution of its regression by `steps` conjugate gradients, in place.

    Rows without entries become 0. A step costs O(entries · d), a solution O(entries · d · min(entries, d)).
    """
    improve_turned(*turned(rows), x, steps)


def improve_turned(there: Regressions, basis: Array, x: Array, steps: int = STEPS) -> None:
    """Improve regressions that are `turned`."""
    y = in_blocks(x, basis)
    each_part(there.starts, _improve, there, y, steps)
    x[:] = in_blocks(y, basis.T)


def inverse_times(rows: Regressions, b: Array) -> Array:
    """Return A_r⁻¹ b_r for every row and given `b[n, d]`: [n, d]."""
    there, basis = turned(rows)
    _check_solvable(there)
    x = b @ basis
    each_part(rows.starts, _inverse_times, there, x)
    return np.asarray(x @ basis.T)


def _check_solvable(rows: Regressions) -> None:
    """Raise if rounding errors of entries, divided by the least of D, would be as large as solutions."""
    if len(rows.ridge) and len(rows.table):
        least, size = rows.gram.min() + rows.ridge.min(), np.einsum("nd,nd->n", rows.table, rows.table).max()
        if least <= np.finfo(rows.table.dtype).eps * size:
            raise np.linalg.LinAlgError("systems are not positive definite")


@kernel
def room(rows: Regressions, first: int, last: int) -> Array:
    """Memory for the scaled entries of any of the rows `first` to `last`: [longest, d]."""
    longest = 0
    for r in range(first, last):
        longest = max(longest, rows.starts[r + 1] - rows.starts[r])
    return np.empty((longest, rows.table.shape[1]), rows.table.dtype)


@kernel
def scale_entries(rows: Regressions, r: int, shift: Any, scale: Array, entries: Array) -> int:
    """Set `scale[d]` to the diagonal of S, with ρ + `shift`, and `entries` to U; return the length of U.

    Entries of weight 0 are left out.
    """
    n, d = 0, len(scale)
    for j in range(d):
        scale[j] = 1 / np.sqrt(rows.gram[j] + rows.ridge[r] + shift)
    for k in range(rows.starts[r], rows.starts[r + 1]):
        if rows.weights[k] > 0:
            t, root = rows.table[rows.columns[k]], np.sqrt(rows.weights[k])
            for j in range(d):
                entries[n, j] = root * t[j] * scale[j]
            n += 1
    return n


@kernel
def plus_identity(matrix: Array) -> Array:
    """Add the identity to `matrix[n, n]`, in place; return it."""
    for i in range(len(matrix)):
        matrix[i, i] += 1
    return matrix


@kernel
def _solve(matrix: Array, b: Array) -> None:
    """Solve the positive definite system `matrix[n, n]` x = `b[n]`, in place."""
    L = np.linalg.cholesky(matrix)
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
def solution(U: Array, roots: Array, scale: Array) -> Any:
    """Return A⁻¹ b of a row, from its scaled entries `U[n, d]` and √c, `roots[n]`: [d]."""
    if U.shape[0] < U.shape[1]:
        few = roots.copy()
        _solve(plus_identity(np.dot(U, U.T)), few)
        return np.dot(few, U) * scale
    many = np.dot(roots, U)
    _solve(plus_identity(np.dot(U.T, U)), many)
    return many * scale


@kernel
def _solve_rows(first: int, last: int, rows: Regressions, basis: Array, x: Array) -> None:
    entries, scale, zero = room(rows, first, last), np.empty(x.shape[1], x.dtype), x.dtype.type(0)
    for r in range(first, last):
        n = scale_entries(rows, r, zero, scale, entries)
        weights = rows.weights[rows.starts[r] : rows.starts[r + 1]]
        x[r] = 0
        if n > 0:  # back from the basis row by row: the bytes do not depend on how many rows there are
            np.dot(basis, solution(entries[:n], np.sqrt(weights[weights > 0]), scale), x[r])


@kernel
def _inverse_times(first: int, last: int, rows: Regressions, x: Array) -> None:
    d = x.shape[1]
    entries, scale, zero = room(rows, first, last), np.empty(d, x.dtype), x.dtype.type(0)
    for r in range(first, last):
        n = scale_entries(rows, r, zero, scale, entries)
        U, z = entries[:n], x[r]
        for j in range(d):
            z[j] *= scale[j]
        if n >= d:
            _solve(plus_identity(np.dot(U.T, U)), z)
        elif n > 0:
            along = np.dot(U, z)
            _solve(plus_identity(np.dot(U, U.T)), along)
            z -= np.dot(along, U)
        for j in range(d):
            z[j] *= scale[j]


@kernel
def _add_products(table: Array, columns: Array, weights: Array, less: Any, x: Array, out: Array) -> None:
    """Add Σ_k c_k (t · x − less) t to `out[d]`: four entries at a time, so that `out` is read less often."""
    n, d, zero, k = len(columns), len(x), x.dtype.type(0), 0
    while k + 4 <= n:
        t0, t1 = table[columns[k]], table[columns[k + 1]]
        t2, t3 = table[columns[k + 2]], table[columns[k + 3]]
        s0, s1, s2, s3 = zero, zero, zero, zero
        for j in range(d):
            s0 += t0[j] * x[j]
            s1 += t1[j] * x[j]
            s2 += t2[j] * x[j]
            s3 += t3[j] * x[j]
        s0, s1 = weights[k] * (s0 - less), weights[k + 1] * (s1 - less)
        s2, s3 = weights[k + 2] * (s2 - less), weights[k + 3] * (s3 - less)
        for j in range(d):
            out[j] += (s0 * t0[j] + s1 * t1[j]) + (s2 * t2[j] + s3 * t3[j])
        k += 4
    while k < n:
        t0, s0 = table[columns[k]], zero
        for j in range(d):
            s0 += t0[j] * x[j]
        s0 = weights[k] * (s0 - less)
        for j in range(d):
            out[j] += s0 * t0[j]
        k += 1


@kernel
def _improve(first: int, last: int, rows: Regressions, x: Array, steps: int) -> None:
    d, zero, one, tiny = x.shape[1], x.dtype.type(0), x.dtype.type(1), x.dtype.type(_TINY)
    image, residual, direction = np.empty(d, x.dtype), np.empty(d, x.dtype), np.empty(d, x.dtype)
    for r in range(first, last):
        w, ridge, start, end = x[r], rows.ridge[r], rows.starts[r], rows.starts[r + 1]
        if start == end:
            w[:] = 0
            continue
        table, columns, weights = rows.table, rows.columns[start:end], rows.weights[start:end]
        for j in range(d):
            image[j] = (rows.gram[j] + ridge) * w[j]
        _add_products(table, columns, weights, one, w, image)
        size = zero
        for j in range(d):
            residual[j] = -image[j]
            direction[j] = residual[j]
            size += residual[j] * residual[j]
        for _ in range(steps):
            if size <= tiny:
                break
            for j in range(d):
                image[j] = (rows.gram[j] + ridge) * direction[j]
            _add_products(table, columns, weights, zero, direction, image)
            curvature, smaller = zero, zero
            for j in range(d):
                curvature += direction[j] * image[j]
            length = size / curvature
            for j in range(d):
                w[j] += length * direction[j]
                residual[j] -= length * image[j]
                smaller += residual[j] * residual[j]
            for j in range(d):
                direction[j] = residual[j] + smaller / size * direction[j]
            size = smaller
