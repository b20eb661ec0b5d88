"""Least squares with signs that are known beforehand, and what counts as certain."""

from collections.abc import Iterator, Sequence
from itertools import chain, combinations

import numpy as np

from assent.arrays import Bools, Floats, Ints

_SURE = 2.0
"""Standard errors above 0 from which an estimate counts."""
ROUNDING = 1e-9
"""Differences below this share are rounding, which decides nothing; few interactions often have them."""


def fit(design: Floats, target: Floats, rising: Bools) -> Floats:
    """Least-squares coefficients, of `rising[p]` features none below 0: [p].

    They are the plain ones for some of the features, with 0 for the others; there are few subsets to try.
    What is left is orthogonal to the fit.
    """
    best, least = np.zeros(design.shape[1]), np.inf
    for left_out in _subsets(np.flatnonzero(rising)):
        kept = np.delete(np.arange(design.shape[1]), left_out)
        found = np.linalg.lstsq(design[:, kept], target, rcond=None)[0]
        if (found[rising[kept]] < -ROUNDING * np.abs(found).max(initial=0)).any():
            continue
        squares = float(np.sum((target - design[:, kept] @ found) ** 2))
        if squares < least * (1 - ROUNDING):
            best, least = np.zeros(design.shape[1]), squares
            best[kept] = found
        if not left_out:
            break
    return best


def _subsets(places: Ints) -> Iterator[tuple[int, ...]]:
    """All of `places`, the smallest first."""
    return chain.from_iterable(combinations(places, size) for size in range(len(places) + 1))


def is_sure(products: Floats, clusters: Sequence[Ints]) -> bool:
    """Whether the mean of `products[Z]` is above 0 for certain, by whole clusters of each numbering."""
    mean = float(products.mean())
    left = products - mean
    errors = [np.sqrt(np.sum(np.bincount(each, weights=left) ** 2)) / len(left) for each in clusters]
    return bool(mean > _SURE * (1 + ROUNDING) * max(errors))


def sure_signs(design: Floats, target: Floats, clusters: Sequence[Ints]) -> Floats:
    """The signs of the plain least-squares coefficients, 0 where they are not certain: [p].

    Rows of a cluster of any numbering share their noise.
    """
    inverse = np.linalg.pinv(design.T @ design)
    found = inverse @ (design.T @ target)
    pull = design * (target - design @ found)[:, None]
    errors = [np.sqrt(np.sum((inverse @ _sums(pull, each)) ** 2, axis=1)) for each in clusters]
    signs: Floats = np.sign(found) * (np.abs(found) > _SURE * (1 + ROUNDING) * np.max(errors, axis=0))
    return signs


def _sums(values: Floats, cluster: Ints) -> Floats:
    """The sum of `values[Z, p]` over each cluster: [p, clusters]."""
    return np.array([np.bincount(cluster, weights=column) for column in values.T])
