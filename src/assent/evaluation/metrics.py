"""How good a ranking is, and the reward that weighs it against what was disclosed.

A ranking is judged from two arrays: `hits[users, k]`, whether a user's j-th recommended item is one of her
test items, and `n_relevant[users]`, how many test items she has. That is enough for one test item among
sampled negatives and for several test items among all items alike. All metrics are fractions in [0, 1].
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from assent.support.arrays import Bools, Floats, Ints
from assent.support.errors import AssentError
from assent.support.hashing import mix

Scores = npt.NDArray[np.floating[Any]]
"""Floating-point array [rows, candidates]; larger is better, -inf marks an excluded candidate."""


def top_candidates(scores: Scores, users: Ints, *, k: int, seed: int) -> Ints:
    """The columns of each row's k best candidates, best first: [rows, k], -1 where none is left.

    Candidates with equal scores stand in a random order that (`seed`, user, column) alone determine: a model
    that cannot tell items apart ranks at chance level, and a row's ranking depends neither on the batch it
    comes in nor on the other rows. `users[rows]` are the rows' owners.
    """
    best = torch.topk(torch.from_numpy(scores), min(k + 1, scores.shape[1]))
    values, columns = best.values.numpy(), best.indices.numpy()
    if values.size and np.isnan(values[:, 0]).any():  # NaN counts as the largest
        raise AssentError("scores: the model has diverged (NaN); train it with a lower learning rate")
    order = np.lexsort((mix(seed, users[:, None], columns), -values), axis=1)[:, :k]
    top = np.full((len(scores), k), -1, dtype=np.int64)
    top[:, : order.shape[1]] = np.take_along_axis(np.where(values > -np.inf, columns, -1), order, axis=1)
    if values.shape[1] > k:
        # Which of those that tie for the last place is drawn must not depend on how topk breaks ties.
        crowded = values[:, k] == values[:, k - 1]
        top[crowded] = _top_of_crowded(scores[crowded], users[crowded], k=k, seed=seed)
    return top


def _top_of_crowded(scores: Scores, users: Ints, *, k: int, seed: int) -> Ints:
    """The same, for rows where more candidates tie for the last place than there is room."""
    rows, columns = np.nonzero(_contenders(scores, users, k=k, seed=seed))
    draw = mix(seed, users[rows], columns)
    columns = columns[np.lexsort((draw, -scores[rows, columns], rows))]
    places = np.arange(len(rows)) - np.searchsorted(rows, rows)
    kept = places < k
    top = np.full((len(scores), k), -1, dtype=np.int64)
    top[rows[kept], places[kept]] = columns[kept]
    return top


def top_hits(scores: Scores, relevant: Bools, users: Ints, *, k: int, seed: int) -> Bools:
    """Whether the j-th of each row's k best candidates is relevant: [rows, k].

    `relevant[rows, candidates]` marks the test items; ties and exclusions are those of `top_candidates`.
    """
    top = top_candidates(scores, users, k=k, seed=seed)
    # -1 (no candidate left) would otherwise read the last column.
    return np.take_along_axis(relevant, top, axis=1) & (top >= 0)


def ranking_metrics(hits: Bools, n_relevant: Ints) -> dict[str, Floats]:
    """Every metric at k for every user, from `hits[users, k]` and `n_relevant[users]` (at least 1 each).

    With h the number of hits and n that of relevant items, discounts d_j = 1 / log2(j + 1), j = 1..k:
        precision  h / k
        recall     h / n
        f1         2 · precision · recall / (precision + recall) = 2h / (k + n), hence 0 without a hit
        ndcg       sum of d_j over the hits / sum of d_j over j ≤ min(k, n)
        mrr        1 / place of the first hit, 0 without one
        hit        1 if h > 0, else 0
    """
    if (n_relevant < 1).any():
        raise ValueError("n_relevant: a user without test items has no metrics; leave her out")
    k = hits.shape[1]
    places = np.arange(1, k + 1)
    discounts = 1 / np.log2(places + 1)
    n_hits = hits.sum(axis=1)
    ideal = np.cumsum(discounts)[np.minimum(k, n_relevant) - 1]
    return {
        "precision": n_hits / k,
        "recall": n_hits / n_relevant,
        "f1": 2 * n_hits / (k + n_relevant),
        "ndcg": hits @ discounts / ideal,
        "mrr": (hits / places).max(axis=1),
        "hit": (n_hits > 0).astype(np.float64),
    }


class RewardForm(StrEnum):
    """What becomes of the loss of a user's validation samples T^u in her reward."""

    SUM = "sum"
    """Their sum, as eq. 1 is written."""
    MEAN = "mean"
    """Their mean, as in the paper's tables."""

    def weights(self, n_samples: Ints) -> Floats:
        """What one unit of each user's summed loss counts, for `n_samples[users]` samples: [users].

        A user without samples counts as one with their mean number does. Her own loss is 0, so that matters
        only where rows of another kind stand for her validation rows.
        """
        if self is RewardForm.SUM or not n_samples.any():
            return np.ones(len(n_samples))
        return 1 / np.where(n_samples > 0, n_samples, n_samples[n_samples > 0].mean())


def rewards(loss_sum: Floats, n_samples: Ints, disclosed: Floats, *, price: float) -> dict[str, Floats]:
    """Every user's reward (eq. 1) on both scales of the loss: `reward_sum` and `reward_mean`, [users].

        z_u = −L(T^u) − price · Σ_k o_k β_k

    `loss_sum[users]` is the loss summed over the `n_samples[users]` validation samples T^u. `reward_sum`
    takes this sum as L, as eq. 1 is written; `reward_mean` takes the mean over T^u, as the paper's tables
    do. A user without validation samples has loss 0. `disclosed[users]` is Σ_k o_k β_k, the unwillingness
    disclosed.
    """
    paid = price * disclosed
    return {
        "reward_sum": -loss_sum - paid,
        "reward_mean": -loss_sum / np.maximum(n_samples, 1) - paid,
    }


def mean_metrics(per_user: Mapping[str, Floats]) -> dict[str, float]:
    """The mean over users of each metric or reward: the figures of a run's record."""
    for name, values in per_user.items():
        if not len(values):
            raise AssentError(f"{name}: no user to average over; the split left every user without such rows")
    return {name: float(values.mean()) for name, values in per_user.items()}


def _contenders(scores: Scores, users: Ints, *, k: int, seed: int) -> Bools:
    """Few candidates that include each row's k best, so that only these need sorting: [rows, candidates].

    They are all candidates above the k-th best score, and of those that tie with it the k first drawn.
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
