"""Names for the arrays that the stages hand to each other.

A sparse matrix that is multiplied with dense ones, by the threaded kernels that come with torch.

scipy's product runs on one core; on the matrices of `influence.effects` these are three times as fast.
"""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse
from torch import Tensor

Floats = npt.NDArray[np.float64]
"""float64 array; the docstring of its owner gives the shape."""
Ints = npt.NDArray[np.int64]
"""int64 array, usually indices."""
Bools = npt.NDArray[np.bool_]
"""bool array; a *selection* is one of length `len(problem.train)`."""
Signs = npt.NDArray[np.int8]
"""int8 array of −1, 0 and 1."""
Strings = npt.NDArray[np.str_]
"""Unicode array, usually sorted ids."""


def sum_by(index: Ints, weights: Floats, length: int) -> Floats:
    """Sum `weights[n]` over equal values of `index[n]`: [length]."""
    return np.bincount(index, weights=weights, minlength=length).astype(np.float64, copy=False)


def slices(length: int, size: int) -> Iterator[slice]:
    """Slices of `size` one after the other up to `length`, the last perhaps shorter: what bounds memory."""
    for start in range(0, length, size):
        yield slice(start, min(start + size, length))


def positions(known: Ints | Strings, values: Ints | Strings) -> Ints:
    """Where each of `values` stands in the sorted `known`; `len(known)` for those that are not in it."""
    if not len(known):
        return np.zeros(values.shape, dtype=np.int64)
    places = np.minimum(np.searchsorted(known, values), len(known) - 1)
    return np.where(known[places] == values, places, len(known))


@dataclass(frozen=True)
class SparseMatrix:
    """A real matrix in compressed rows; products are taken in the precision of its entries."""

    rows: Tensor
    """Compressed sparse rows."""

    @classmethod
    def of(
        cls, values: npt.NDArray[np.floating], rows: Ints, columns: Ints, shape: tuple[int, int]
    ) -> "SparseMatrix":
        """The matrix whose entries at (`rows[n]`, `columns[n]`) are `values[n]`; repeated ones add up."""
        matrix = sparse.csr_array(sparse.coo_array((values, (rows, columns)), shape=shape))
        with _no_beta_warning():
            compressed = torch.sparse_csr_tensor(
                torch.from_numpy(matrix.indptr.astype(np.int32)),
                torch.from_numpy(matrix.indices.astype(np.int32)),
                torch.from_numpy(matrix.data),
                size=shape,
                check_invariants=False,
            )
        return cls(compressed)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        height, width = self.rows.shape
        return height, width

    def __matmul__(self, other: Floats) -> Floats:
        """The product with a vector or a matrix."""
        product = self.rows @ torch.from_numpy(other).to(self.rows.dtype)
        return product.double().numpy()

    def row(self, number: int) -> tuple[Ints, Floats]:
        """The columns in which a row has entries, and these."""
        start, end = self.rows.crow_indices()[number : number + 2].tolist()
        columns = self.rows.col_indices()[start:end].long().numpy()
        return columns, self.rows.values()[start:end].double().numpy()

    def scaled(self, weights: Floats) -> "SparseMatrix":
        """The matrix with row n multiplied by `weights[n]`."""
        counts = self.rows.crow_indices().diff().long()
        factors = torch.from_numpy(weights).to(self.rows.dtype).repeat_interleave(counts)
        with _no_beta_warning():
            return SparseMatrix(
                torch.sparse_csr_tensor(
                    self.rows.crow_indices(),
                    self.rows.col_indices(),
                    self.rows.values() * factors,
                    size=self.shape,
                    check_invariants=False,
                )
            )

    def parts(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays that `from_parts` makes the matrix of again."""
        return {
            "starts": self.rows.crow_indices().numpy(),
            "columns": self.rows.col_indices().numpy(),
            "values": self.rows.values().numpy(),
            "shape": np.array(self.shape),
        }

    @classmethod
    def from_parts(cls, parts: Mapping[str, npt.NDArray[Any]]) -> "SparseMatrix":
        """The matrix that `parts` took apart."""
        starts, columns, values = (torch.from_numpy(parts[name]) for name in ("starts", "columns", "values"))
        height, width = parts["shape"].tolist()
        with _no_beta_warning():
            return cls(
                torch.sparse_csr_tensor(starts, columns, values, size=(height, width), check_invariants=False)
            )

    def toarray(self) -> Floats:
        """All entries, zeros included."""
        return self.rows.to_dense().double().numpy()


@contextmanager
def _no_beta_warning() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta state")
        yield
