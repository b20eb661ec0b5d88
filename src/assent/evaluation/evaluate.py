"""Evaluate a trained recommender on a problem: ranking metrics, violation and reward."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol as Structure

import numpy as np
import torch
from torch import Tensor

from assent.data.problem import Problem, Protocol, Rows, samples_of
from assent.evaluation.metrics import checked_cutoffs, mean_metrics, metrics_at, rewards, top_hits
from assent.models.losses import Loss
from assent.support.arrays import Bools, Floats, Ints, Strings, positions, slices, sum_by
from assent.support.compiled import compiled
from assent.support.errors import AssentError
from assent.support.progress import SILENT, Progress
from assent.training import Trained

_ROWS = 4096
"""Validation or test rows per block."""


class Scorer(Structure):
    """What can be judged among candidates: a `Trained`, or anything else that scores."""

    @property
    def user_ids(self) -> Strings:
        """Its users, sorted: [n_users]."""

    @property
    def item_ids(self) -> Strings:
        """Its items, sorted: [n_items]."""

    def scores(self, users: Tensor, items: Tensor) -> Tensor:
        """Return the logits of `users[n]` with `items[n, m]`, in its indices: [n, m]."""


def candidate_scores(problem: Problem, trained: Scorer, users: Ints, candidates: Ints) -> Floats:
    """Return the scores of `candidates[n, m]` for `users[n]`, both in the problem's indices: [n, m].

    Users and items that the model does not know get the scores of its unknown ones.
    """
    known_users = torch.from_numpy(positions(trained.user_ids, problem.user_ids))
    known_items = torch.from_numpy(positions(trained.item_ids, problem.item_ids))
    found = np.zeros(candidates.shape)
    for here in slices(len(users), _ROWS):
        found[here] = trained.scores(known_users[users[here]], known_items[candidates[here]]).numpy()
    return found


class HeldOut(StrEnum):
    """Rows that no model is trained on."""

    VALIDATION = "validation"
    """They steer early stopping and influence."""
    TEST = "test"
    """Only evaluation looks at them."""

    def of(self, problem: Problem) -> "Judged":
        """Return these rows of a problem; raise for test rows that are ranked among all items."""
        if self is HeldOut.VALIDATION:
            return Judged(problem.valid, problem.valid_candidates)
        if problem.test_candidates is None:
            raise AssentError(
                f"losses of test rows: protocol {problem.protocol} samples no candidates for them; "
                f"accepted: {Protocol.PAPER_TABLES}"
            )
        return Judged(problem.test, problem.test_candidates)


@dataclass(frozen=True)
class Judged:
    """Held-out rows with their candidates, to compute losses of."""

    rows: Rows
    candidates: Ints  # the items that each row is ranked among, its own first: [n, m]

    def losses(self, problem: Problem, trained: Scorer, loss: Loss) -> Floats:
        """Return the loss of every user, summed over their samples, 0 without samples: [n_users]."""
        given = torch.from_numpy(candidate_scores(problem, trained, self.rows.users, self.candidates))
        losses = loss.of(loss.scale(given) * given).numpy()
        return sum_by(self.rows.users, losses, problem.n_users)

    def metrics(self, problem: Problem, trained: Scorer, ks: Sequence[int]) -> dict[str, Floats]:
        """Return the metrics at each k of every row's own item among its candidates: [n] each."""
        scores = candidate_scores(problem, trained, self.rows.users, self.candidates)
        scores[_repeated(self.candidates, problem.n_items)] = -np.inf
        relevant = np.zeros(scores.shape, dtype=np.bool_)
        relevant[:, 0] = True
        hits = top_hits(scores, relevant, self.rows.users, k=max(ks), seed=problem.seed)
        return metrics_at(ks, hits, np.ones(len(hits), dtype=np.int64))

    def samples(self, n_users: int) -> Ints:
        """Return how many samples each user has: [n_users]."""
        return samples_of(self.rows, self.candidates, n_users)


def validation_losses(problem: Problem, trained: Scorer, loss: Loss = Loss.BCE) -> Floats:
    """Return L(T^u) of every user, summed over the validation samples, 0 without samples: [n_users]."""
    return HeldOut.VALIDATION.of(problem).losses(problem, trained, loss)


def validation_ndcg(problem: Problem, trained: Scorer, *, k: int = 5) -> Floats:
    """Return NDCG@k of every validation row's own item among its sampled negatives: [len(valid)]."""
    return HeldOut.VALIDATION.of(problem).metrics(problem, trained, (k,))["ndcg"]


def validation_quality(problem: Problem, trained: Scorer) -> Floats:
    """Return the mean validation NDCG@5 of everybody who has validation rows, by their index: [n]."""
    return by_person(problem.valid, validation_ndcg(problem, trained))


def by_person(rows: Rows, values: Floats) -> Floats:
    """Return the mean of `values[len(rows)]` over the rows of everybody who has one, by index: [n]."""
    _, people, counts = np.unique(rows.users, return_inverse=True, return_counts=True)
    return sum_by(people, values, len(counts)) / counts


def evaluate(
    problem: Problem,
    trained: Trained,
    selection: Bools,
    *,
    price: float,
    k: int | Sequence[int] = 5,
    ranked: Mapping[str, Floats] | None = None,
    rewards_on: HeldOut = HeldOut.VALIDATION,
    progress: Progress = SILENT,
) -> dict[str, float]:
    """Return one flat record: violation, its share of the violation of All, both rewards, mean metrics at k.

    The rewards use the binary cross-entropy of the validation rows (eq. 1) unless `rewards_on` names others,
    the metrics the test rows. With several k the first one's metrics are called `ndcg`, `hit`, …, those of a
    further k `ndcg@10`, `hit@10`. `ranked` are the `ranked_metrics`, where they are known.
    """
    if ranked is None:
        ranked = ranked_metrics(problem, trained, k=k, progress=progress)
    return figures(
        problem, trained, selection, price=price, ranked=ranked, rewards_on=rewards_on, progress=progress
    )


def figures(
    problem: Problem,
    trained: Scorer,
    selection: Bools,
    *,
    price: float,
    ranked: Mapping[str, Floats],
    rewards_on: HeldOut = HeldOut.VALIDATION,
    progress: Progress = SILENT,
) -> dict[str, float]:
    """Return what `evaluate` returns of a model whose metrics are known."""
    disclosed = sum_by(problem.train.users, problem.unwillingness * selection, problem.n_users)
    judged = rewards_on.of(problem)
    with progress.task(f"{rewards_on} losses", 1):
        losses = judged.losses(problem, trained, Loss.BCE)
    costs = problem.wishes.cost(disclosed)
    per_user = rewards(losses, judged.samples(problem.n_users), costs, price=price)
    everything = problem.violation()
    violation = problem.violation(selection)
    return {
        "violation": violation,
        "violation_share": violation / everything if everything else 0.0,
        **mean_metrics(per_user),
        **mean_metrics(ranked),
    }


def ranked_metrics(
    problem: Problem,
    trained: Trained,
    *,
    k: int | Sequence[int] = 5,
    progress: Progress = SILENT,
    scores_at_once: int = 2**23,
) -> dict[str, Floats]:
    """Return every metric at k for every user with test rows, in the order of their indices.

    Items are ranked once for all k; names are those of `evaluate`. `scores_at_once` bounds the memory where
    all items are ranked: 2**23 scores are 32 MB.
    """
    ks = checked_cutoffs(k)
    if problem.test_candidates is not None:
        with progress.task("ranking sampled items", 1):
            return HeldOut.TEST.of(problem).metrics(problem, trained, ks)
    users, n_relevant = np.unique(problem.test.users, return_counts=True)
    past, future = _by_user(problem.train, problem.valid), _by_user(problem.test)
    known_users = torch.from_numpy(positions(trained.user_ids, problem.user_ids[users]))
    columns = torch.from_numpy(positions(trained.item_ids, problem.item_ids))
    blocks = list(slices(len(users), max(1, scores_at_once // problem.n_items)))
    parts = []
    with progress.task("ranking all items", len(blocks)) as advance:
        for here in blocks:
            # Items that a user has a past row of, withheld or not, are no candidates: the candidates do not
            # depend on the selection, so all selections are compared on the same task.
            scores = trained.scores_of_all(known_users[here])[:, columns].numpy()
            scores[_pairs(past, users[here])] = -np.inf
            relevant = np.zeros(scores.shape, dtype=np.bool_)
            relevant[_pairs(future, users[here])] = True
            parts.append(top_hits(scores, relevant, users[here], k=max(ks), seed=problem.seed))
            advance()
    return metrics_at(ks, np.concatenate(parts), n_relevant)


@compiled
def _repeated(candidates: Ints, n_items: int) -> Bools:
    """Which of `candidates[n, m]` stand in their row before: they make up the number, and rank nowhere."""
    again = np.zeros(candidates.shape, dtype=np.bool_)
    met = np.full(n_items + 1, -1, dtype=np.int64)  # the last row that has an item; -1 counts as an item too
    for n in range(candidates.shape[0]):
        for j in range(candidates.shape[1]):
            again[n, j] = met[candidates[n, j] + 1] == n
            met[candidates[n, j] + 1] = n
    return again


def _by_user(*parts: Rows) -> Rows:
    """Return the rows of all parts, sorted by user."""
    users = np.concatenate([part.users for part in parts])
    order = np.argsort(users, kind="stable")
    return Rows(users[order], np.concatenate([part.items for part in parts])[order])


def _pairs(rows: Rows, users: Ints) -> tuple[Ints, Ints]:
    """Return (place in the sorted `users`, item) of those of the sorted `rows` that belong to `users`."""
    near = rows[np.searchsorted(rows.users, users[0]) : np.searchsorted(rows.users, users[-1], side="right")]
    place = positions(users, near.users)
    theirs = place < len(users)
    return place[theirs], near.items[theirs]
