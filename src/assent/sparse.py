"""A sparse matrix that is multiplied with dense ones, by the threaded kernels that come with torch.

scipy's product runs on one core; on the matrices of `influence.effects` these are three times as fast.
"""

import warnings
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse
from torch import Tensor

from assent.arrays import Floats, Ints


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
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta state")
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

    def toarray(self) -> Floats:
        """All entries, zeros included."""
        return self.rows.to_dense().double().numpy()
