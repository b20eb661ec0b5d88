"""Parts that the models share: embedding tables, a perceptron, units of L2 penalties, histories."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from assent.models.contract import Draws, Evidence, Sizes

STRENGTHS: Sequence[tuple[str, Sequence[float]]] = (("strength", (0.15, 0.4, 2.0)), ("strength", (0.65, 1.5)))
"""The search for settings of a model that is regularised by its `strength`."""
_WITHHELD = 3
"""Rows of weight 0 that are kept per row that is read: without a limit, a person who withholds a long history
would make memory quadratic in its length."""


def lookup(table: Tensor, indices: Tensor) -> Tensor:
    """Return `table[n, d]` at `indices[...]`: [..., d]. Three times as fast as F.embedding in backward."""
    return table.index_select(0, indices.flatten()).view(*indices.shape, table.shape[1])


def dot(x: Tensor, y: Tensor) -> Tensor:
    """Return x · y over the last dimension; the others broadcast. Twice as fast as a batched product."""
    product: Tensor = torch.linalg.vecdot(x, y)
    return product


def squares(x: Tensor) -> Tensor:
    """Return |x|² over the last dimension."""
    return dot(x, x)


def with_ones(table: Tensor) -> Tensor:
    """Return the table with a column of ones appended: products with it add the other side's last number."""
    return torch.cat([table, table.new_ones(len(table), 1)], dim=1)


def mean_row(table: Tensor) -> Tensor:
    """Return the mean of the rows, 0 if there are none: the embedding of the unknown."""
    return table.sum(0) / max(1, len(table))


class Form(StrEnum):
    """Whose form of a model it is; docs/models.md says what differs."""

    ASSENT = "assent"
    """Starts at a product of embeddings, so that it learns from few rows."""
    PLAIN = "plain"
    """As in the model's paper: starts at random around 0."""


class Hidden(NamedTuple):
    """The units of a layer for n inputs."""

    x: Tensor  # before their activation: [n, units]
    active: Tensor  # after activation and dropout: [n, units]
    kept: Tensor | None  # what dropout multiplied them by; None without dropout: [n, units]


class Perceptron(nn.Module):
    """x → W_n φ(… φ(W_1 x + b_1) …) + b_n with φ = SiLU, x σ(x), or ReLU.

    The papers have ReLU; influence needs second derivatives. The layers start around a centre, from which
    `drift` is measured. At the centre the output is `constant` plus the sum of the inputs in `carried`: two
    units of opposite weights carry a number through a layer, since φ(x) − φ(−x) = x. While training, the
    share `dropout` of the hidden units is left out.
    """

    def __init__(
        self,
        widths: Sequence[int],
        *,
        constant: float = 0,
        carried: slice | None = None,
        activation: Literal["silu", "relu"] = "silu",
        dropout: float = 0,
    ) -> None:
        super().__init__()
        self._activation, self._dropout = activation, dropout
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
    def initialise(self, draws: Draws, scale: float) -> None:
        """Draw weights around their centre, normal with deviation `scale` / √inputs; biases are at theirs."""
        for value, centre in zip(self.parameters(), self._centres(), strict=True):
            value.copy_(centre)
        for weight in self.weights:
            draws.layer(weight, std=scale / math.sqrt(weight.shape[1]))

    def forward(self, x: Tensor) -> Tensor:
        """Return the last layer's output for `x[..., inputs]`."""
        return self.after_first(F.linear(x, self.weights[0], self.biases[0]))

    def after_first(self, x: Tensor) -> Tensor:
        """Return the last layer's output, given the first layer's output before its activation."""
        for weight, bias in zip(list(self.weights)[1:], list(self.biases)[1:], strict=True):
            x = F.linear(self._hidden(x).active, weight, bias)
        return x

    def _hidden(self, x: Tensor) -> Hidden:
        active = F.silu(x) if self._activation == "silu" else F.relu(x)
        if not (self._dropout and self.training):
            return Hidden(x, active, None)
        kept = F.dropout(torch.ones_like(active), self._dropout)
        return Hidden(x, active * kept, kept)

    @torch.no_grad()
    def layers_after_first(self, first: Tensor) -> tuple[list[Hidden], Tensor]:
        """Return the hidden layers from `first[n, units]` on, and the output: [n, outputs]."""
        found, x = list[Hidden](), first
        for weight, bias in zip(list(self.weights)[1:], list(self.biases)[1:], strict=True):
            found.append(self._hidden(x))
            x = F.linear(found[-1].active, weight, bias)
        return found, x

    @torch.no_grad()
    def backward_to_first(self, layers: list[Hidden], by_output: Tensor) -> Tensor:
        """Return the gradient by the first layer's output, [n, units], and set `grad` of the layers after it.

        `layers` are the hidden ones of `layers_after_first`, `by_output[n, outputs]` the gradient by the
        output.
        """
        gradient, weights, biases = by_output, list(self.weights)[1:], list(self.biases)[1:]
        for (x, active, kept), weight, bias in zip(layers[::-1], weights[::-1], biases[::-1], strict=True):
            weight.grad, bias.grad = gradient.T @ active, gradient.sum(0)
            gradient = gradient @ weight if kept is None else (gradient @ weight) * kept
            if self._activation == "silu":
                gradient = torch.ops.aten.silu_backward(gradient, x)
            else:
                gradient = torch.where(x > 0, gradient, 0)
        return gradient

    @torch.no_grad()
    def add_drift_gradients(self, decay: float) -> None:
        """Add the gradients of decay/2 · `drift` to `grad` of all layers."""
        for value, centre in zip(self.parameters(), self._centres(), strict=True):
            if value.grad is not None:
                value.grad.add_(value - centre, alpha=decay)

    def _centres(self) -> list[Tensor]:
        """Return the centre of every parameter."""
        values = list(self.parameters())
        parts = torch.split(self.centre, [value.numel() for value in values])
        return [part.view_as(value) for part, value in zip(parts, values, strict=True)]

    def drift(self) -> Tensor:
        """Return |weights and biases − centre|²."""
        return (torch.cat([value.flatten() for value in self.parameters()]) - self.centre).square().sum()


def noise_edge(sizes: Sizes) -> float:
    """Return the L2 coefficient c at which matrix factorisation of pure noise collapses to zero.

    Near zero the loss pulls p_u and q_i together by ½ per positive; the penalty pushes by c per sample. All
    embeddings become zero once c exceeds the largest singular value of the pulls, normalised by samples per
    user and per item. For positives placed at random that is

        ½ / (1 + negatives) · (1/√(rows per user) + 1/√(rows per item))

    Structure survives a penalty somewhat below it. A fixed c would be too weak on sparse logs and wipe out
    dense ones. Without rows: 0.
    """
    if not sizes.rows:
        return 0.0
    per_user, per_item = sizes.rows / sizes.users, sizes.rows / sizes.items
    return 0.5 / (1 + sizes.negatives) * (1 / math.sqrt(per_user) + 1 / math.sqrt(per_item))


def prior(samples: float, sizes: Sizes) -> float:
    """Return the L2 coefficient c that holds each row of a table as strongly as `samples` samples would.

    The penalty c/2 · |table|² is in the loss of each of the rows · (1 + negatives) samples. An item that
    occurs much less than `samples` times stays near 0; one that occurs much more is free. A penalty per
    sample would hold both back alike.
    """
    return samples / max(1, sizes.rows * (1 + sizes.negatives))


@dataclass(frozen=True)
class Histories:
    """The evidence by user: user u has the rows `start[u] : start[u + 1]`; the unknown user has none."""

    start: Tensor  # [n_users + 2]
    items: Tensor  # [rows]
    weights: Tensor  # [rows]

    @classmethod
    def of(cls, evidence: Evidence, n_users: int, *, latest: int | None = None) -> "Histories":
        """Group all rows by user, or only the `latest` rows of each.

        Rows of weight 0 are not counted, so that they leave no trace, but are kept for derivatives: beside
        `latest` rows at most `_WITHHELD` times as many of them. What older ones would do counts as 0.
        """
        users, items, weights = evidence.users, evidence.items, evidence.weights
        counts = torch.bincount(users, minlength=n_users + 1)
        if latest is not None and len(users) and int(counts.max()) > latest:
            shown = weights.detach() > 0
            last = counts.cumsum(0)[users] - 1  # of the row's user
            counted, hidden = shown.long().cumsum(0), (~shown).long().cumsum(0)
            kept = counted[last] - counted < latest
            kept &= shown | (hidden[last] - hidden < _WITHHELD * latest)
            users, items, weights = users[kept], items[kept], weights[kept]
            counts = torch.bincount(users, minlength=n_users + 1)
        return cls(torch.cat([counts.new_zeros(1), counts.cumsum(0)]), items, weights)

    def of_users(self, users: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the rows of `users[n]`: place in `users`, item and weight of each, [p] each."""
        first = self.start[users]
        counts = self.start[users + 1] - first
        places = torch.repeat_interleave(torch.arange(len(users)), counts)
        ends = counts.cumsum(0)
        rows = torch.arange(len(places)) + (first - ends + counts)[places]
        return places, self.items[rows], self.weights.index_select(0, rows)
