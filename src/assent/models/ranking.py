"""The best candidates of a model's scores, with ties broken at random but reproducibly."""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from assent.support.arrays import Bools, Ints
from assent.support.errors import AssentError
from assent.support.hashing import mix

Scores = npt.NDArray[np.floating[Any]]
"""Floating-point array [rows, candidates]; larger is better, -inf marks an excluded candidate."""


def top_candidates(scores: Scores, users: Ints, *, k: int, seed: int) -> Ints:
    """Return the columns of each row's k best candidates, best first: [rows, k], -1 where none is left.

    Candidates with equal scores are ordered by a hash of (`seed`, user, column), where `users[rows]` are the
    rows' owners. A model that cannot tell items apart thus ranks at chance level, and a row's ranking does
    not depend on the other rows. A smaller k gives a prefix of the same list. Raises if a score is NaN.
    """
    best = torch.topk(torch.from_numpy(scores), min(k + 1, scores.shape[1]))
    values, columns = best.values.numpy(), best.indices.numpy()
    if values.size and np.isnan(values[:, 0]).any():  # NaN counts as the largest
        raise AssentError("scores: the model has diverged (NaN); train it with a lower learning rate")
    order = np.lexsort((mix(seed, users[:, None], columns), -values), axis=1)[:, :k]
    top = np.full((len(scores), k), -1, dtype=np.int64)
    top[:, : order.shape[1]] = np.take_along_axis(np.where(values > -np.inf, columns, -1), order, axis=1)
    if values.shape[1] > k:
        # Where candidates tie for the last place, topk would choose among them.
        crowded = values[:, k] == values[:, k - 1]
        top[crowded] = _top_of_crowded(scores[crowded], users[crowded], k=k, seed=seed)
    return top


def _top_of_crowded(scores: Scores, users: Ints, *, k: int, seed: int) -> Ints:
    """Return the k best columns of rows where more candidates tie for the last place than there is room."""
    rows, columns = np.nonzero(_contenders(scores, users, k=k, seed=seed))
    draw = mix(seed, users[rows], columns)
    columns = columns[np.lexsort((draw, -scores[rows, columns], rows))]
    places = np.arange(len(rows)) - np.searchsorted(rows, rows)
    kept = places < k
    top = np.full((len(scores), k), -1, dtype=np.int64)
    top[rows[kept], places[kept]] = columns[kept]
    return top


def _contenders(scores: Scores, users: Ints, *, k: int, seed: int) -> Bools:
    """Mark a few candidates that include each row's k best, which alone are sorted then: [rows, candidates].

    They are the candidates above the k-th best score, and the k first drawn of those that tie with it.
    """
    allowed = scores > -np.inf
    n_candidates = scores.shape[1]
    if n_candidates <= k:
        return allowed
    threshold = torch.topk(torch.from_numpy(scores), k).values[:, -1:].numpy()
    contends = allowed & (scores >= threshold)
    crowded = np.flatnonzero(contends.sum(axis=1) > k)
    tied = scores[crowded] == threshold[crowded]
    draw = mix(seed, users[crowded, None], np.arange(n_candidates))
    draw[~tied] = np.iinfo(np.uint64).max
    first_drawn = draw <= np.partition(draw, k - 1, axis=1)[:, k - 1, None]
    contends[crowded] &= ~tied | first_drawn
    return contends
