"""Matrix factorisation: s(u, i) = p_u · q_i, with L2 on the embeddings of each sample."""

from collections.abc import Sequence
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from assent.models.contract import Draws, Lookup, ModelSettings, Recommender, Sizes, Table
from assent.models.layers import STRENGTHS, dot, lookup, mean_row, noise_edge, squares
from assent.models.losses import mean_loss


class MFSettings(ModelSettings):
    """Settings of matrix factorisation (docs/models.md says how the defaults were chosen)."""

    dimension: int = Field(64, ge=1, description="length of the embeddings")
    strength: float = Field(0.65, ge=0, description="of the L2 penalty, in units of the data's noise")
    initial_scale: float = Field(0.1, gt=0, description="standard deviation of the initial embeddings")


class MF(Recommender):
    """Matrix factorisation (Koren et al., 2009), trained with binary cross-entropy.

    Each sample carries the penalty c/2 · (|p_u|² + |q_i|²) of its own embeddings, so a user with many
    interactions is regularised as many times. c is `strength` times `noise_edge`. Unknown users and items get
    the mean embedding.
    """

    name: ClassVar[str] = "mf"
    Settings: ClassVar[type[ModelSettings]] = MFSettings
    search: ClassVar[Sequence[tuple[str, Sequence[float]]]] = STRENGTHS
    settings: MFSettings

    def __init__(self, sizes: Sizes, settings: MFSettings) -> None:
        super().__init__(sizes, settings)
        self.l2 = settings.strength * noise_edge(sizes)
        self.user_table = nn.Parameter(torch.zeros(sizes.users + 1, settings.dimension))
        self.item_table = nn.Parameter(torch.zeros(sizes.items + 1, settings.dimension))

    @torch.no_grad()
    def initialise(self, draws: Draws) -> None:
        """Draw embeddings, normal with standard deviation `initial_scale`; the unknown ones are 0."""
        draws.users(self.user_table, std=self.settings.initial_scale)
        draws.items(self.item_table, std=self.settings.initial_scale)

    def forward(self, users: Tensor, items: Tensor, prepared: None = None) -> tuple[Tensor, Tensor]:
        """Return p_u · q_i and c/2 · (|p_u|² + |q_i|²) of `users[n]`, `items[n, m]`: two tensors [n, m]."""
        p, q = lookup(self.user_table, users), lookup(self.item_table, items)
        lengths = squares(p).unsqueeze(1) + squares(q)
        return dot(q, p.unsqueeze(1)), 0.5 * self.l2 * lengths

    def tables(self) -> tuple[Table, ...]:
        """Return both tables."""
        return Table(self.user_table, "users"), Table(self.item_table, "items")

    def gradients(self, users: Lookup, items: Lookup) -> tuple[float, list[Tensor]]:
        """Return the mean loss of a batch and its gradients by the rows of both tables."""
        from assent.models.by_hand import Products

        products = Products(self.user_table, self.item_table, users, items)
        loss, by_logit = mean_loss(products.logits)
        penalty, by_user, by_item, _ = products.gradients(by_logit, self.l2)
        return loss + penalty, [by_user, by_item]

    def logits(self, users: Tensor, items: Tensor, prepared: None = None) -> Tensor:
        """Return p_u · q_i of `users[n]` with `items[n, m]`: [n, m]."""
        from assent.models.by_hand import products

        return products(self.user_table, self.item_table, users, items)

    def score_all(self, users: Tensor, prepared: None = None) -> Tensor:
        """Return p_u · q_i for every item, the unknown one last: [n, n_items + 1]."""
        return lookup(self.user_table, users) @ self.item_table.T

    def vectors(self, prepared: None = None) -> tuple[Tensor, Tensor]:
        """Return p and q."""
        return self.user_table, self.item_table

    @torch.no_grad()
    def finish(self) -> None:
        """Give the unknown user and item the mean embeddings."""
        for table in (self.user_table, self.item_table):
            table[-1] = mean_row(table[:-1])
