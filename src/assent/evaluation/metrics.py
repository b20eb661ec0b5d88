"""Ranking metrics, and the reward that weighs validation loss against violation.

Metrics are computed from two arrays: `hits[users, k]`, whether the j-th recommended item of a user is one of
their test items, and `n_relevant[users]`, how many test items they have. This covers one test item among
sampled negatives and several test items among all items. All metrics are fractions in [0, 1].
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum

import numpy as np
import torch

from assent.support.arrays import Bools, Floats, Ints, mix
from assent.support.errors import AssentError
from assent.training.ranking import Scores


def checked_cutoffs(k: int | Sequence[int]) -> tuple[int, ...]:
    """Return the cut-offs k as a tuple; raise unless they are distinct positive integers, at least one."""
    ks = tuple(k) if isinstance(k, Sequence) else (k,)
    proper = all(isinstance(each, int) and not isinstance(each, bool) and each > 0 for each in ks)
    if not ks or not proper or len(set(ks)) < len(ks):
        raise AssentError(f"k={k!r}: accepted: one or more positive integers, each once")
    return ks


def top_candidates(scores: Scores, users: Ints, *, k: int, seed: int) -> Ints:
    """Return the columns of each row's k best candidates, best first: [rows, k], -1 where none is left.

    Candidates with equal scores are ordered by a hash of (`seed`, user, column), where `users[rows]` are the
    rows' owners. A model that cannot tell items apart thus ranks at chance level, and a row's ranking does
    not depend on the other rows. A smaller k gives a prefix of the same list. Raises if a score is NaN.
    """
    best = torch.topk(torch.from_numpy(scores), min(k + 1, scores.shape[1]))
    values, columns = best.values.numpy(), best.indices.numpy()
    if values.size and np.isnan(values[:, 0]).any():  # NaN counts as the largest
        raise AssentError("scores: the model has diverged (NaN); train it with other settings")
    if values.shape[1] > k:
        # Where candidates tie for the last place, topk would choose among them: the hash does.
        [tied] = np.nonzero(values[:, k] == values[:, k - 1])
        last = values[tied, k, None]
        drawn = mix(seed, users[tied, None], np.arange(scores.shape[1]))
        drawn[scores[tied] > last] = 0
        drawn[scores[tied] < last] = np.iinfo(np.uint64).max
        columns, values = columns[:, :k], values[:, :k]
        columns[tied] = np.argpartition(drawn, k - 1, axis=1)[:, :k]
        values[tied] = np.take_along_axis(scores[tied], columns[tied], axis=1)
    order = np.lexsort((mix(seed, users[:, None], columns), -values), axis=1)
    top = np.full((len(scores), k), -1, dtype=np.int64)
    top[:, : order.shape[1]] = np.take_along_axis(np.where(values > -np.inf, columns, -1), order, axis=1)
    return top


def top_hits(scores: Scores, relevant: Bools, users: Ints, *, k: int, seed: int) -> Bools:
    """Return whether the j-th of each row's k best candidates is relevant: [rows, k].

    `relevant[rows, candidates]` marks the test items; `users[rows]` and `seed` break ties.
    """
    top = top_candidates(scores, users, k=k, seed=seed)
    # -1 (no candidate left) would otherwise read the last column.
    return np.take_along_axis(relevant, top, axis=1) & (top >= 0)


def ranking_metrics(hits: Bools, n_relevant: Ints) -> dict[str, Floats]:
    """Return every metric at k for every user, from `hits[users, k]` and `n_relevant[users]` ≥ 1.

    With h hits, n relevant items and discounts d_j = 1 / log2(j + 1), j = 1..k:
        precision  h / k
        recall     h / n
        f1         2 · precision · recall / (precision + recall) = 2h / (k + n), hence 0 without a hit
        ndcg       sum of d_j over the hits / sum of d_j over j ≤ min(k, n)
        mrr        1 / place of the first hit, 0 without one
        hit        1 if h > 0, else 0
    """
    if (n_relevant < 1).any():
        raise ValueError("n_relevant: 0 for some user; expected only users with test items")
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


def metrics_at(ks: Sequence[int], hits: Bools, n_relevant: Ints) -> dict[str, Floats]:
    """Return the metrics at several cut-offs from `hits[users, max(ks)]`.

    Those of the first k have plain names (`ndcg`), those of a further k are called `ndcg@k`.
    """
    found: dict[str, Floats] = {}
    for k in ks:
        suffix = "" if k == ks[0] else f"@{k}"
        metrics = ranking_metrics(np.ascontiguousarray(hits[:, :k]), n_relevant)
        found |= {f"{name}{suffix}": values for name, values in metrics.items()}
    return found


class RewardForm(StrEnum):
    """How the loss of a user's validation samples T^u enters their reward."""

    SUM = "sum"
    """As a sum, as eq. 1 is written."""
    MEAN = "mean"
    """As a mean, as in the paper's tables."""

    def weights(self, n_samples: Ints) -> Floats:
        """Return the weight of each user's summed loss in their reward, for `n_samples[users]`: [users].

        A user without samples gets the weight of the mean number of samples. Their own loss is 0, so it only
        matters where other rows stand for their validation rows.
        """
        if self is RewardForm.SUM or not n_samples.any():
            return np.ones(len(n_samples))
        return 1 / np.where(n_samples > 0, n_samples, n_samples[n_samples > 0].mean())


def rewards(loss_sum: Floats, n_samples: Ints, disclosed: Floats, *, price: float) -> dict[str, Floats]:
    """Return every user's reward (eq. 1) as `reward_sum` and as `reward_mean`: [users] each.

        z_u = −L(T^u) − price · Σ_k o_k β_k

    `loss_sum[users]` is the loss summed over the `n_samples[users]` validation samples T^u, 0 for a user
    without any; `disclosed[users]` is Σ_k o_k β_k, the disclosed unwillingness.
    """
    paid = price * disclosed
    mean = -loss_sum / np.maximum(n_samples, 1)
    return {"reward_sum": -loss_sum - paid, "reward_mean": mean - paid}


def mean_metrics(per_user: Mapping[str, Floats]) -> dict[str, float]:
    """Return the mean over users of each metric or reward; raise if there are no users."""
    for name, values in per_user.items():
        if not len(values):
            raise AssentError(f"{name}: no user to average over; the split left every user without such rows")
    return {name: float(values.mean()) for name, values in per_user.items()}
