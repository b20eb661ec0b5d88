"""A sparse matrix whose products with dense ones use torch's threaded kernels.

scipy multiplies on one core; on the influence between people torch is about three times as fast.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse
from torch import Tensor

from assent.support.arrays import Floats, Ints


@dataclass(frozen=True)
class SparseMatrix:
    """A real matrix in compressed sparse rows; products have the precision of its entries."""

    rows: Tensor
    """A `torch.sparse_csr` tensor."""

    @classmethod
    def of(
        cls, values: npt.NDArray[np.floating], rows: Ints, columns: Ints, shape: tuple[int, int]
    ) -> "SparseMatrix":
        """Build the matrix with entries `values[n]` at (`rows[n]`, `columns[n]`); repeated places add up."""
        matrix = sparse.csr_array(sparse.coo_array((values, (rows, columns)), shape=shape))
        starts, places = (torch.from_numpy(each.astype(np.int32)) for each in (matrix.indptr, matrix.indices))
        return cls(_compressed(starts, places, torch.from_numpy(matrix.data), shape))

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns."""
        height, width = self.rows.shape
        return height, width

    def __matmul__(self, other: Floats) -> Floats:
        """Multiply with a vector or a matrix."""
        product = self.rows @ torch.from_numpy(other).to(self.rows.dtype)
        return product.double().numpy()

    def row(self, number: int) -> tuple[Ints, Floats]:
        """Columns and values of the entries of one row."""
        start, end = self.rows.crow_indices()[number : number + 2].tolist()
        columns = self.rows.col_indices()[start:end].long().numpy()
        return columns, self.rows.values()[start:end].double().numpy()

    def scaled(self, weights: Floats) -> "SparseMatrix":
        """Multiply row n by `weights[n]`."""
        starts = self.rows.crow_indices()
        factors = torch.from_numpy(weights).to(self.rows.dtype).repeat_interleave(starts.diff().long())
        values = self.rows.values() * factors
        return SparseMatrix(_compressed(starts, self.rows.col_indices(), values, self.shape))

    def entries(self) -> tuple[Floats, Ints, Ints]:
        """Values, rows and columns of all entries: [n] each."""
        counts = np.diff(self.rows.crow_indices().numpy())
        rows = np.repeat(np.arange(len(counts)), counts)
        return self.rows.values().numpy(), rows, self.rows.col_indices().long().numpy()

    def parts(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays that `from_parts` builds the matrix from again."""
        return {
            "starts": self.rows.crow_indices().numpy(),
            "columns": self.rows.col_indices().numpy(),
            "values": self.rows.values().numpy(),
            "shape": np.array(self.shape),
        }

    @classmethod
    def from_parts(cls, parts: Mapping[str, npt.NDArray[Any]]) -> "SparseMatrix":
        """Build the matrix from the arrays of `parts`."""
        starts, columns, values = (torch.from_numpy(parts[name]) for name in ("starts", "columns", "values"))
        height, width = parts["shape"].tolist()
        return cls(_compressed(starts, columns, values, (height, width)))

    def toarray(self) -> Floats:
        """The dense matrix."""
        return self.rows.to_dense().double().numpy()


def _compressed(starts: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta state")
        return torch.sparse_csr_tensor(starts, columns, values, size=shape, check_invariants=False)
