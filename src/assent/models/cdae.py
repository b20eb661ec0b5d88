"""CDAE: an autoencoder of each user's disclosed items, with an embedding per user."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from assent.models.contract import Draws, Evidence, ModelSettings, Recommender, Sizes
from assent.models.layers import (
    STRENGTHS,
    Form,
    Histories,
    dot,
    lookup,
    mean_row,
    noise_edge,
    prior,
    squares,
    with_ones,
)

_ACTIVATIONS = {"identity": lambda x: x, "tanh": torch.tanh, "sigmoid": torch.sigmoid, "relu": torch.relu}


class CDAESettings(ModelSettings):
    """Settings of CDAE (docs/models.md says how the defaults were chosen)."""

    dimension: int = Field(64, ge=1, description="hidden units")
    activation: Literal["identity", "tanh", "sigmoid", "relu"] = Field(
        "identity", description="h, of hidden units"
    )
    corruption: float = Field(0.25, ge=0, lt=1, description="q, share of the input left out in training")
    strength: float = Field(0.5, ge=0, description="of the L2 penalty, in units of the data's noise")
    input_strength: float = Field(0.5, ge=0, description="the same, of the input weights W")
    tie: float = Field(1.2, ge=0, description="the same, of the differences between W and W'")
    bias_prior: float = Field(20.0, ge=0, description="samples that the prior of an item's bias equals")
    hidden_bias_decay: float = Field(1.0, ge=0, description="L2 coefficient of the hidden units' biases")
    initial_scale: float = Field(0.1, gt=0, description="standard deviation of the initial weights")
    form: Form = Field(Form.ASSENT, description="plain: W and W' start apart, as in its paper")


class CDAE(Recommender):
    """Collaborative denoising autoencoder (Wu et al., 2016), trained with binary cross-entropy.

        z_u = h(Σ_j o_j W_j + V_u + b),   s(u, i) = W'_i · z_u + b'_i

    j runs over the disclosed items of the user. While training, each is left out with probability q and
    counts 1/(1 − q) otherwise, alike for all samples of the user in a batch: so a batch reads every history
    once, and memory is linear in the rows however long one history is. The penalty of a sample is

        c/2 · (|V_u|² + |W'_i|²) + Σ_j o_j (c'/2 · |W_j|² + t/2 · |W_j − W'_j|²) + d/2 · |b|²

    plus a prior on b', with c, c' and t in units of `noise_edge`. W and W' start equal (in the plain form
    apart) and t keeps them close, so that similar items support each other from few rows. The prior keeps b'
    from fitting the counts of rare items, which would leave too little loss to learn from. An unknown user
    has no input and the mean V; an unknown item has the mean W' and b'.
    """

    name: ClassVar[str] = "cdae"
    Settings: ClassVar[type[ModelSettings]] = CDAESettings
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {"influence": {"damping": 20.0}}
    search: ClassVar[Sequence[tuple[str, Sequence[float]]]] = STRENGTHS
    settings: CDAESettings

    def __init__(self, sizes: Sizes, settings: CDAESettings) -> None:
        super().__init__(sizes, settings)
        self.l2 = settings.strength * noise_edge(sizes)
        self.input_l2 = settings.input_strength * noise_edge(sizes)
        self.bias_l2 = prior(settings.bias_prior, sizes)
        self.tie = settings.tie * noise_edge(sizes)
        d = settings.dimension
        self.input_table = nn.Parameter(torch.zeros(sizes.items, d))
        self.input_bias = nn.Parameter(torch.zeros(d))
        self.user_table = nn.Parameter(torch.zeros(sizes.users + 1, d))
        self.item_table = nn.Parameter(torch.zeros(sizes.items + 1, d))
        self.item_bias = nn.Parameter(torch.zeros(sizes.items + 1))

    @torch.no_grad()
    def initialise(self, draws: Draws) -> None:
        """Draw W and V, normal with standard deviation `initial_scale`; W' = W unless plain; biases are 0."""
        scale = self.settings.initial_scale
        draws.items(self.input_table, std=scale)
        if self.settings.form is Form.PLAIN:
            draws.items(self.item_table, std=scale)
        else:
            self.item_table[:-1] = self.input_table
        draws.users(self.user_table, std=scale)
        self.input_bias.zero_()
        self.item_bias.zero_()

    def prepare(self, evidence: Evidence) -> Histories:
        """Return the disclosed items of every user."""
        return Histories.of(evidence, self.n_users)

    def forward(self, users: Tensor, items: Tensor, prepared: Histories) -> tuple[Tensor, Tensor]:
        """Return logits and penalties of `users[n]` with `items[n, m]`: two tensors [n, m]."""
        z, lengths = self._hidden(users, prepared)
        out = lookup(self.item_table, items)
        logits = dot(out, z.unsqueeze(1)) + self.item_bias[items]
        decay = self.settings.hidden_bias_decay
        of_biases = decay * squares(self.input_bias) + self.bias_l2 * squares(self.item_bias[:-1])
        return logits, 0.5 * (lengths.unsqueeze(1) + self.l2 * squares(out) + of_biases)

    def _hidden(self, users: Tensor, histories: Histories) -> tuple[Tensor, Tensor]:
        """Return z [n, d] of `users[n]`, and c |V_u|² + Σ_j o_j (c' |W_j|² + t |W_j − W'_j|²) [n]."""
        distinct, which = torch.unique(users, return_inverse=True)
        places, items, weights = histories.of_users(distinct)
        own, read = lookup(self.user_table, distinct), lookup(self.input_table, items)
        weights = weights.to(own.dtype)
        corrupted = F.dropout(weights, self.settings.corruption, self.training)
        total = (own + self.input_bias).index_add(0, places, corrupted.unsqueeze(1) * read)
        apart = read - lookup(self.item_table, items)
        of_input = weights * (self.input_l2 * squares(read) + self.tie * squares(apart))
        lengths = (self.l2 * squares(own)).index_add(0, places, of_input)
        z = _ACTIVATIONS[self.settings.activation](total)
        return z.index_select(0, which), lengths.index_select(0, which)

    def score_all(self, users: Tensor, prepared: Histories) -> Tensor:
        """Return the logits of every item, the unknown one last: [n, n_items + 1]."""
        return self._hidden(users, prepared)[0] @ self.item_table.T + self.item_bias

    def vectors(self, prepared: Histories) -> tuple[Tensor, Tensor]:
        """Return [z_u, 1] and [W'_i, b'_i]."""
        z = self._hidden(torch.arange(self.n_users + 1), prepared)[0]
        return with_ones(z), torch.cat([self.item_table, self.item_bias.unsqueeze(1)], dim=1)

    @torch.no_grad()
    def finish(self) -> None:
        """Give the unknown user and item the mean parameters."""
        for table in (self.user_table, self.item_table, self.item_bias):
            table[-1] = mean_row(table[:-1])
