"""The evidence user by user: what DIN's histories and CDAE's input vectors are gathered from."""

from dataclasses import dataclass

import torch
from torch import Tensor

from assent.models.base import Evidence


@dataclass(frozen=True)
class Histories:
    """The evidence rows `start[u] : start[u + 1]` of every user u; the unknown user, the last, has none."""

    start: Tensor
    """[n_users + 2]"""
    items: Tensor
    """[rows]"""
    weights: Tensor
    """[rows]"""

    @classmethod
    def of(cls, evidence: Evidence, n_users: int, *, latest: int | None = None) -> "Histories":
        """All rows, or only those with fewer than `latest` later rows of weight above 0 of the same user.

        Rows of weight 0 take up no place, so that they leave no trace; but they stay, for derivatives.
        """
        users, items, weights = evidence.users, evidence.items, evidence.weights
        counts = torch.bincount(users, minlength=n_users + 1)
        if latest is not None and len(users) and int(counts.max()) > latest:
            kept = _later(users, weights.detach() > 0, counts) < latest
            users, items, weights = users[kept], items[kept], weights[kept]
            counts = torch.bincount(users, minlength=n_users + 1)
        return cls(torch.cat([counts.new_zeros(1), counts.cumsum(0)]), items, weights)

    def of_users(self, users: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The rows of `users[n]` one after the other: place in `users`, item and weight of each, [p] each."""
        first = self.start[users]
        counts = self.start[users + 1] - first
        places = torch.repeat_interleave(torch.arange(len(users)), counts)
        ends = counts.cumsum(0)
        rows = torch.arange(len(places)) + (first - ends + counts)[places]
        return places, self.items[rows], self.weights.index_select(0, rows)


def _later(users: Tensor, counted: Tensor, counts: Tensor) -> Tensor:
    """How many counted rows of the same user come after each row: [rows]."""
    until = counted.long().cumsum(0)
    last = counts.cumsum(0)[users] - 1
    return until[last] - until
