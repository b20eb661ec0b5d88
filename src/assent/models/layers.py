"""What the models do with tables of embeddings.

Linear layers with a smooth activation between them: the neural part of NeuMF and DIN.

How strong a penalty has to be for a log of this size: the unit of the models' L2 strengths.

The evidence user by user: what DIN's histories and CDAE's input vectors are gathered from.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from assent.models.contract import Evidence, Sizes


def lookup(table: Tensor, indices: Tensor) -> Tensor:
    """`table[n, d]` at `indices[...]`: [..., d].

    As F.embedding, whose gradient takes three times as long to scatter.
    """
    return table.index_select(0, indices.flatten()).view(*indices.shape, table.shape[1])


def dot(x: Tensor, y: Tensor) -> Tensor:
    """x · y over the last dimension; the others broadcast.

    vecdot takes half the time of a batched matrix product or of squares and sums, with its gradients.
    """
    product: Tensor = torch.linalg.vecdot(x, y)
    return product


def squares(x: Tensor) -> Tensor:
    """|x|² over the last dimension."""
    return dot(x, x)


def mean_row(table: Tensor) -> Tensor:
    """The mean of the rows: what is known of nobody in particular; 0 where there are none."""
    return table.sum(0) / max(1, len(table))


class Perceptron(nn.Module):
    """x → W_n φ(… φ(W_1 x + b_1) …) + b_n with φ = SiLU.

    SiLU, x σ(x), stands where the papers have ReLU: it has the second derivatives that influence needs.

    The layers have a centre, around which they start and from which `drift` is measured: there they give
    `constant` plus, with `carried`, the sum of those inputs. φ(x) − φ(−x) = x for SiLU, so two units of
    opposite weights carry a number through a layer.
    """

    def __init__(self, widths: Sequence[int], *, constant: float = 0, carried: slice | None = None) -> None:
        super().__init__()
        weights = [torch.zeros(out, into) for into, out in pairwise(widths)]
        biases = [torch.zeros(out) for out in widths[1:]]
        biases[-1].fill_(constant)
        if carried is not None:
            pair = torch.tensor([[1.0, -1.0], [-1.0, 1.0]])
            weights[0][:2, carried] = pair[0].unsqueeze(1)
            for weight in weights[1:]:
                weight[:2, :2] = pair[: len(weight)]
        self.weights, self.biases = nn.ParameterList(weights), nn.ParameterList(biases)
        self.centre: Tensor
        self.register_buffer("centre", torch.cat([x.flatten() for x in weights + biases]), persistent=False)

    @torch.no_grad()
    def initialise(self, generator: torch.Generator, scale: float) -> None:
        """Weights normal around their centre with standard deviation `scale` / √inputs; biases at theirs."""
        sizes = [value.numel() for value in self.parameters()]
        for value, centre in zip(self.parameters(), torch.split(self.centre, sizes), strict=True):
            value.copy_(centre.view_as(value))
        for weight in self.weights:
            noise = torch.empty_like(weight).normal_(generator=generator)
            weight.add_(noise, alpha=scale / math.sqrt(weight.shape[1]))

    def forward(self, x: Tensor) -> Tensor:
        """The last layer's output for `x[..., inputs]`."""
        return self.after_first(F.linear(x, self.weights[0], self.biases[0]))

    def after_first(self, x: Tensor) -> Tensor:
        """The same from the first layer's output on, for callers that compute that piece by piece."""
        for weight, bias in zip(list(self.weights)[1:], list(self.biases)[1:], strict=True):
            x = F.linear(F.silu(x), weight, bias)
        return x

    def drift(self) -> Tensor:
        """The sum of the squared differences of weights and biases from their centre."""
        return (torch.cat([value.flatten() for value in self.parameters()]) - self.centre).square().sum()


def noise_edge(sizes: Sizes) -> float:
    """The L2 coefficient at which matrix factorisation of pure noise collapses to zero.

    Near zero embeddings the loss pulls p_u and q_i together by ½ per positive, against c per sample. All is
    zero once c exceeds the largest singular value of the pulls, normalised by samples per user and per item;
    for positives placed at random that is

        ½ / (1 + negatives) · (1/√(rows per user) + 1/√(rows per item))

    What stands out of the noise survives a penalty somewhat below it. A fixed c would be weak on sparse logs
    and wipe out dense ones. Without rows there is nothing to penalise: 0.
    """
    if not sizes.rows:
        return 0.0
    per_user, per_item = sizes.rows / sizes.users, sizes.rows / sizes.items
    return 0.5 / (1 + sizes.negatives) * (1 / math.sqrt(per_user) + 1 / math.sqrt(per_item))


def prior(samples: float, sizes: Sizes) -> float:
    """The L2 coefficient, on a whole table, of a prior that weighs as much as so many samples of each row.

    The penalty c/2 · |table|² is in the loss of every sample, of which there are rows · (1 + negatives). An
    item that occurs much less than `samples` times then stays near 0, one that occurs much more is free. It
    suits what is known of popular items alone; an L2 penalty of each sample holds both back alike.
    """
    return samples / max(1, sizes.rows * (1 + sizes.negatives))


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
