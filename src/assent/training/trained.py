"""A trained recommender, ready to be asked."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from assent.arrays import Strings
from assent.data.problem import Rows
from assent.models import Evidence, Recommender


def evidence_of(rows: Rows) -> Evidence:
    """Disclosed rows, in a model's indices, as what it reads: each counts in full."""
    weights = torch.ones(len(rows), dtype=torch.get_default_dtype())
    return Evidence(torch.from_numpy(rows.users), torch.from_numpy(rows.items), weights)


@dataclass(frozen=True)
class Trained:
    """A trained recommender with the ids that its indices mean."""

    model: Recommender
    user_ids: Strings
    item_ids: Strings
    seed: int
    epochs: int
    """Epoch whose parameters were kept."""
    monitor: float | None
    """Validation NDCG@5 of those parameters, as early stopping measures it; None without validation rows."""
    rows: Rows | None = None
    """The disclosed interactions that the model reads, in its indices; None if it reads none."""
    seconds_before: float = 0.0
    """What killed processes spent on a training that was continued, by the wall clock; no part of a file."""

    @cached_property
    @torch.no_grad()
    def _prepared(self) -> Any:
        self.model.eval()
        return None if self.rows is None else self.model.prepare(evidence_of(self.rows))

    @torch.no_grad()
    def scores(self, users: Tensor, items: Tensor) -> Tensor:
        """Logits of `users[n]` with `items[n, m]`, in the model's indices: [n, m]."""
        logits: Tensor = self.model(users, items, self._prepared)[0]
        return logits

    @torch.no_grad()
    def scores_of_all(self, users: Tensor) -> Tensor:
        """Logits of `users[n]` for every item and, last, for an unknown one: [n, n_items + 1]."""
        return self.model.score_all(users, self._prepared)
