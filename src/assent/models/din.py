"""DIN: a user is represented by the disclosed items that matter for the item in question."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from assent.models.contract import Draws, Evidence, ModelSettings, Recommender, Sizes
from assent.models.layers import (
    STRENGTHS,
    Form,
    Histories,
    Perceptron,
    lookup,
    mean_row,
    noise_edge,
    prior,
    squares,
)

_NUMBERS = 2**22
"""Numbers per temporary tensor: 16 MB."""


class DINSettings(ModelSettings):
    """Settings of DIN (docs/models.md says how the defaults were chosen)."""

    dimension: int = Field(64, ge=1, description="length of the embeddings")
    history: int = Field(50, ge=1, description="latest disclosed interactions that are read")
    attention: int = Field(16, ge=1, description="hidden units of the attention")
    hidden: tuple[int, ...] = Field((32,), min_length=1, description="widths of the layers after it")
    strength: float = Field(0.75, ge=0, description="of the L2 penalty, in units of the data's noise")
    decay: float = Field(0.4, ge=0, description="L2 coefficient of the layers, around their centre")
    attention_decay: float = Field(1.0, ge=0, description="the same, of the attention's layers")
    bias_prior: float = Field(20.0, ge=0, description="samples that the prior of an item's bias equals")
    initial_scale: float = Field(0.1, gt=0, description="standard deviation of the initial embeddings")
    layer_scale: float = Field(0.1, ge=0, description="size of the initial weights of layers")
    form: Form = Field(Form.ASSENT, description="plain: layers start around 0 and items have no bias")


class _Past(NamedTuple):
    """The histories of some users: `places[p]` among these users, items with embeddings `e[p, d]`."""

    places: Tensor
    items: Tensor
    weights: Tensor
    e: Tensor


class DIN(Recommender):
    """Deep interest network (Zhou et al., 2018), trained with binary cross-entropy.

        s(u, i) = B([v, e_i, v ⊙ e_i]) + b_i, v = Σ_j o_j a_j e_j, a_j = A([e_j, e_i, e_j − e_i, e_j ⊙ e_i])

    j runs over the latest disclosed items of the user except i, so that a training row does not see itself. A
    (the activation unit) and B are perceptrons. As in the paper there is no softmax, so that the size of v
    says how much of the history matters. SiLU is the paper's Dice with fixed statistics. Users have no
    embeddings.

    The centre of A is 1, that of B is v · e_i: training starts at a product of embeddings. In the plain form
    both centres are 0 and there is no b_i. The penalty of a
    sample is c/2 · (|e_i|² + Σ_j o_j |e_j|²) + decay/2 · |layers − centre|² plus a prior on the biases b. An
    unknown user has no history; an unknown item has the mean embedding and bias.
    """

    name: ClassVar[str] = "din"
    Settings: ClassVar[type[ModelSettings]] = DINSettings
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "training": {"epochs": 50, "learning_rate": 0.025},
        "influence": {"damping": 20.0, "groups": 10, "draws": 1},
    }
    search: ClassVar[Sequence[tuple[str, Sequence[float]]]] = STRENGTHS
    samples_at_once: ClassVar[int] = 2**11
    """Fewer than of other models: a sample has a row of numbers for each item of its user's history."""
    settings: DINSettings

    def __init__(self, sizes: Sizes, settings: DINSettings) -> None:
        super().__init__(sizes, settings)
        self.l2 = settings.strength * noise_edge(sizes)
        self.bias_l2 = prior(settings.bias_prior, sizes)
        d = settings.dimension
        self.item_table = nn.Parameter(torch.zeros(sizes.items + 1, d))
        self.item_bias = nn.Parameter(torch.zeros(sizes.items + 1))
        is_plain = settings.form is Form.PLAIN
        self.attention = Perceptron((4 * d, settings.attention, 1), constant=0 if is_plain else 1)
        carried = None if is_plain else slice(2 * d, 3 * d)
        self.scorer = Perceptron((3 * d, *settings.hidden, 1), carried=carried)

    @torch.no_grad()
    def initialise(self, draws: Draws) -> None:
        """Draw embeddings, normal with standard deviation `initial_scale`, and both perceptrons."""
        draws.items(self.item_table, std=self.settings.initial_scale)
        self.attention.initialise(draws, self.settings.layer_scale)
        self.scorer.initialise(draws, self.settings.layer_scale)

    def prepare(self, evidence: Evidence) -> Histories:
        """Return the latest disclosed items of every user."""
        return Histories.of(evidence, self.n_users, latest=self.settings.history)

    def forward(self, users: Tensor, items: Tensor, prepared: Histories) -> tuple[Tensor, Tensor]:
        """Return logits and penalties of `users[n]` with `items[n, m]`: two tensors [n, m]."""
        past = self._past(users, prepared)
        e = lookup(self.item_table, items)
        columns = self._columns(past, len(users))
        parts = zip(torch.split(items, columns, dim=1), torch.split(e, columns, dim=1), strict=True)
        logits = torch.cat([self._logits(past, *part) for part in parts], dim=1)
        of_past = e.new_zeros(len(users)).index_add(0, past.places, past.weights * squares(past.e))
        lengths = of_past.unsqueeze(1) + squares(e)
        kept = self.settings
        drift = kept.attention_decay * self.attention.drift() + kept.decay * self.scorer.drift()
        of_biases = self.bias_l2 * squares(self.item_bias[:-1])
        return logits, 0.5 * (self.l2 * lengths + drift + of_biases)

    def _past(self, users: Tensor, histories: Histories) -> _Past:
        places, items, weights = histories.of_users(users)
        e = lookup(self.item_table, items)
        return _Past(places, items, weights.to(e.dtype), e)

    def _columns(self, past: _Past, users: int) -> int:
        """Return how many items per user fit into one block for so many users."""
        return max(1, _NUMBERS // max(1, (len(past.items) + users) * self.settings.dimension))

    def _logits(self, past: _Past, items: Tensor, e: Tensor) -> Tensor:
        """Return the scores of `items[n, m]` with embeddings `e[n, m, d]` given the users' past: [n, m]."""
        shown = past.weights.unsqueeze(1) * (past.items.unsqueeze(1) != items.index_select(0, past.places))
        pull = (shown * self._attention(past, e)).unsqueeze(-1) * past.e.unsqueeze(1)
        interest = torch.zeros_like(e).index_add(0, past.places, pull)
        scores: Tensor = self.scorer(torch.cat([interest, e, interest * e], dim=-1))
        logits = scores.squeeze(-1)
        return logits if self.settings.form is Form.PLAIN else logits + self.item_bias[items]

    def _attention(self, past: _Past, e: Tensor) -> Tensor:
        """Return a of every row of the past for each item `e[n, m, d]` of its user: [p, m].

        The first layer is linear in its four inputs, so the part of a single item is computed once.
        """
        by_past, by_target, by_difference, by_product = torch.chunk(self.attention.weights[0], 4, dim=1)
        of_past = F.linear(past.e, by_past + by_difference, self.attention.biases[0])
        of_target = F.linear(e, by_target - by_difference)
        of_both = F.linear(past.e.unsqueeze(1) * e.index_select(0, past.places), by_product)
        first = of_past.unsqueeze(1) + of_target.index_select(0, past.places) + of_both
        return self.attention.after_first(first).squeeze(-1)

    def score_all(self, users: Tensor, prepared: Histories) -> Tensor:
        """Return the logits of every item, the unknown one last, in blocks: [n, n_items + 1]."""
        every = torch.arange(self.n_items + 1)
        rows = []
        for some in torch.split(users, 64):
            past = self._past(some, prepared)
            parts = torch.split(every.expand(len(some), -1), self._columns(past, len(some)), dim=1)
            scores = [self._logits(past, items, lookup(self.item_table, items)) for items in parts]
            rows.append(torch.cat(scores, dim=1))
        return torch.cat(rows)

    @torch.no_grad()
    def finish(self) -> None:
        """Give the unknown item the mean embedding and bias."""
        for table in (self.item_table, self.item_bias):
            table[-1] = mean_row(table[:-1])
