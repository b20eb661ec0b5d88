"""NeuMF: the sum of a product of embeddings and a perceptron of other embeddings."""

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from assent.models.contract import Draws, Lookup, ModelSettings, Recommender, Sizes, Table
from assent.models.layers import (
    STRENGTHS,
    Form,
    Perceptron,
    dot,
    lookup,
    mean_row,
    noise_edge,
    prior,
    squares,
)
from assent.models.losses import mean_loss

_NUMBERS = 2**24
"""Hidden units per block when all items are scored: 64 MB."""


class NeuMFSettings(ModelSettings):
    """Settings of NeuMF (docs/models.md says how the defaults were chosen)."""

    dimension: int = Field(64, ge=1, description="length of the embeddings of the product")
    perceptron_dimension: int = Field(16, ge=1, description="length of the embeddings of the perceptron")
    hidden: tuple[int, ...] = Field((32, 16), min_length=1, description="widths of the perceptron's layers")
    strength: float = Field(0.65, ge=0, description="of the product's L2, in units of the data's noise")
    perceptron_prior: float = Field(20.0, ge=0, description="samples that the prior of its embeddings equals")
    decay: float = Field(0.1, ge=0, description="L2 coefficient of the layers, around their centre")
    initial_scale: float = Field(0.1, gt=0, description="standard deviation of the initial embeddings")
    layer_scale: float = Field(0.3, ge=0, description="size of the initial weights of layers")
    form: Form = Field(Form.ASSENT, description="plain: ReLU, and h_G starts at random, as in its paper")
    dropout: float = Field(0.0, ge=0, lt=1, description="share of hidden units left out in training")


class NeuMF(Recommender):
    """NeuMF (He et al., 2017):

        s(u, i) = h_G · (p_u ⊙ q_i) + h_M · φ(MLP([p'_u, q'_i])) + b

    The penalty of a sample is c/2 · (|p_u|² + |q_i|²) as in matrix factorisation, plus decay/2 · (|h_G − 1|²
    + |MLP|²), plus a prior on the perceptron's tables. Without the decay the layers would grow and the
    embeddings shrink until no penalty is left. h_G starts at 1, where the product is matrix factorisation,
    and is pulled there; pulled to 0 it would take the embeddings along. Unknown users and items get the mean
    embeddings. In the plain form h_G starts at random, is pulled to 0 if there is a decay, and φ is ReLU.
    """

    name: ClassVar[str] = "neumf"
    Settings: ClassVar[type[ModelSettings]] = NeuMFSettings
    search: ClassVar[Sequence[tuple[str, Sequence[float]]]] = STRENGTHS
    settings: NeuMFSettings

    def __init__(self, sizes: Sizes, settings: NeuMFSettings) -> None:
        super().__init__(sizes, settings)
        self.l2 = settings.strength * noise_edge(sizes)
        self.perceptron_l2 = prior(settings.perceptron_prior, sizes)
        wide, narrow = settings.dimension, settings.perceptron_dimension
        self.user_table = nn.Parameter(torch.zeros(sizes.users + 1, wide))
        self.item_table = nn.Parameter(torch.zeros(sizes.items + 1, wide))
        self.perceptron_user_table = nn.Parameter(torch.zeros(sizes.users + 1, narrow))
        self.perceptron_item_table = nn.Parameter(torch.zeros(sizes.items + 1, narrow))
        self.product_weights = nn.Parameter(torch.ones(wide))
        is_plain = settings.form is Form.PLAIN
        self._centre = 0.0 if is_plain else 1.0
        self.perceptron = Perceptron(
            (2 * narrow, *settings.hidden, 1),
            activation="relu" if is_plain else "silu",
            dropout=settings.dropout,
        )

    @property
    def _tables(self) -> tuple[nn.Parameter, ...]:
        return self.user_table, self.item_table, self.perceptron_user_table, self.perceptron_item_table

    @torch.no_grad()
    def initialise(self, draws: Draws) -> None:
        """Draw embeddings, normal with standard deviation `initial_scale`, and the perceptron."""
        for users, items in (self._tables[:2], self._tables[2:]):
            draws.users(users, std=self.settings.initial_scale)
            draws.items(items, std=self.settings.initial_scale)
        self.product_weights.fill_(self._centre)
        if self.settings.form is Form.PLAIN:  # the first weights of the last layer, which reads both parts
            inputs = len(self.product_weights) + self.settings.hidden[-1]
            last = self.product_weights.new_zeros(1, inputs)
            draws.layer(last, std=self.settings.layer_scale / math.sqrt(inputs))
            self.product_weights.copy_(last[0, : len(self.product_weights)])
        self.perceptron.initialise(draws, self.settings.layer_scale)

    def forward(self, users: Tensor, items: Tensor, prepared: Any = None) -> tuple[Tensor, Tensor]:
        """Return logits and penalties of `users[n]` with `items[n, m]`: two tensors [n, m]."""
        p, p_deep = lookup(self.user_table, users), lookup(self.perceptron_user_table, users)
        q, q_deep = lookup(self.item_table, items), lookup(self.perceptron_item_table, items)
        logits = self._logits(p.unsqueeze(1), q, p_deep.unsqueeze(1), q_deep)
        own = squares(p).unsqueeze(1) + squares(q)
        deep = squares(self.perceptron_user_table[:-1]).sum() + squares(self.perceptron_item_table[:-1]).sum()
        drift = self.perceptron.drift() + (self.product_weights - self._centre).square().sum()
        return logits, 0.5 * (self.l2 * own + self.perceptron_l2 * deep + self.settings.decay * drift)

    def _logits(self, p: Tensor, q: Tensor, p_deep: Tensor, q_deep: Tensor) -> Tensor:
        """Return the scores of users [n, 1, d] with items [n or 1, m, d]: [n, m]."""
        return dot(q, p * self.product_weights) + self._deep(p_deep, q_deep)

    def _deep(self, p_deep: Tensor, q_deep: Tensor) -> Tensor:
        of_users, of_items = self._first_layer(p_deep, q_deep)
        deep: Tensor = self.perceptron.after_first(of_users + of_items).squeeze(-1)
        return deep

    def _first_layer(self, p_deep: Tensor, q_deep: Tensor) -> tuple[Tensor, Tensor]:
        """Return both parts of W_1 [p', q'] + b_1, a sum: the part of a user serves all items."""
        by_user, by_item = torch.chunk(self.perceptron.weights[0], 2, dim=1)
        return F.linear(p_deep, by_user, self.perceptron.biases[0]), F.linear(q_deep, by_item)

    def tables(self) -> tuple[Table, ...]:
        """Return the tables of the product; the prior moves every row of those of the perceptron."""
        return Table(self.user_table, "users"), Table(self.item_table, "items")

    @torch.no_grad()
    def gradients(self, users: Lookup, items: Lookup) -> tuple[float, list[Tensor]]:
        """Return the mean loss of a batch and its gradients by the rows of all tables."""
        from assent.models.by_hand import Products, pair_sum_gradients, pair_sums

        layers, deep_users, deep_items = (
            self.perceptron,
            self.perceptron_user_table,
            self.perceptron_item_table,
        )
        user_rows, item_rows = torch.from_numpy(users.rows), torch.from_numpy(items.rows)
        p_deep, q_deep = lookup(deep_users, user_rows), lookup(deep_items, item_rows)
        of_users, of_items = self._first_layer(p_deep, q_deep)
        first = pair_sums(of_users, of_items, users.places, items.places)
        hidden, deep = layers.layers_after_first(first.flatten(0, 1))
        products = Products(self.user_table, self.item_table, users, items, self.product_weights)
        loss, by_logit = mean_loss(products.logits + deep.view_as(products.logits))

        penalty, by_user, by_item, self.product_weights.grad = products.gradients(by_logit, self.l2)
        by_first = layers.backward_to_first(hidden, by_logit.view(-1, 1))
        by_users, by_items = pair_sum_gradients(
            of_users, of_items, users.places, items.places, by_first.view_as(first)
        )
        layers.weights[0].grad = torch.cat([by_users.T @ p_deep, by_items.T @ q_deep], dim=1)
        layers.biases[0].grad = by_users.sum(0)
        by_deep = zip((by_users, by_items), torch.chunk(layers.weights[0], 2, dim=1), strict=True)
        for table, rows, (by_output, weight) in zip(
            (deep_users, deep_items), (user_rows, item_rows), by_deep, strict=True
        ):
            penalty += 0.5 * self.perceptron_l2 * squares(table[:-1].flatten()).item()
            table.grad = self.perceptron_l2 * table
            table.grad[-1] = 0
            table.grad.index_add_(0, rows, by_output @ weight)
        away = self.product_weights - self._centre
        self.product_weights.grad.add_(away, alpha=self.settings.decay)
        layers.add_drift_gradients(self.settings.decay)
        penalty += 0.5 * self.settings.decay * (layers.drift() + squares(away)).item()
        return loss + penalty, [by_user, by_item]

    def logits(self, users: Tensor, items: Tensor, prepared: Any = None) -> Tensor:
        """Return the logits of `users[n]` with `items[n, m]`: [n, m]."""
        from assent.models.by_hand import products

        p_deep, q_deep = lookup(self.perceptron_user_table, users), lookup(self.perceptron_item_table, items)
        product = products(self.user_table, self.item_table, users, items, self.product_weights)
        return product + self._deep(p_deep.unsqueeze(1), q_deep)

    def score_all(self, users: Tensor, prepared: Any = None) -> Tensor:
        """Return the logits of every item, the unknown one last: [n, n_items + 1]."""
        size = max(1, _NUMBERS // (max(self.settings.hidden) * (self.n_items + 1)))
        q, q_deep = self.item_table.unsqueeze(0), self.perceptron_item_table.unsqueeze(0)
        parts = []
        for some in torch.split(users, size):
            p, p_deep = lookup(self.user_table, some), lookup(self.perceptron_user_table, some)
            parts.append(self._logits(p.unsqueeze(1), q, p_deep.unsqueeze(1), q_deep))
        return torch.cat(parts)

    @torch.no_grad()
    def finish(self) -> None:
        """Give the unknown user and item the mean embeddings."""
        for table in self._tables:
            table[-1] = mean_row(table[:-1])
