"""What counts as certain, and least squares where more of a feature is never worth less."""

from collections.abc import Sequence

import numpy as np
from scipy.optimize import nnls

from assent.arrays import Floats, Ints

_SURE = 2.0
"""Standard errors above 0 from which an estimate counts."""
ROUNDING = 1e-9
"""Differences below this share are rounding, which decides nothing; few interactions often have them."""


def fit_rising(design: Floats, target: Floats) -> Floats:
    """Least-squares coefficients, none below 0: [p]. What is left is orthogonal to the fit."""
    sizes = np.sqrt(np.sum(design**2, axis=0))
    sizes[sizes == 0] = 1.0
    found: Floats = nnls(design / sizes, target)[0] / sizes
    return found


def is_sure(products: Floats, clusters: Sequence[Ints]) -> bool:
    """Whether the mean of `products[Z]` is above 0 for certain, by whole clusters of each numbering."""
    mean = float(products.mean())
    left = products - mean
    errors = [np.sqrt(np.sum(np.bincount(each, weights=left) ** 2)) / len(left) for each in clusters]
    return bool(mean > _SURE * (1 + ROUNDING) * max(errors))
