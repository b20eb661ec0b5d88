"""LightGCN: embeddings averaged over the graph of disclosed interactions, then multiplied."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from assent.models.contract import Draws, Evidence, ModelSettings, Recommender, Sizes
from assent.models.layers import STRENGTHS, dot, lookup, mean_row, noise_edge, squares
from assent.support.sparse import SparseMatrix


class LightGCNSettings(ModelSettings):
    """Settings of LightGCN (docs/models.md says how the defaults were chosen)."""

    dimension: int = Field(64, ge=1, description="length of the embeddings")
    layers: int = Field(3, ge=0, description="steps over the graph; 0 is matrix factorisation")
    strength: float = Field(0.5, ge=0, description="of the L2 penalty, in units of the data's noise")
    initial_scale: float = Field(0.1, gt=0, description="standard deviation of the initial embeddings")


class Propagated(NamedTuple):
    """Embeddings after propagation, the unknown one last."""

    users: Tensor  # [n_users + 1, d]
    items: Tensor  # [n_items + 1, d]


class LightGCN(Recommender):
    """LightGCN (He et al., 2020), trained with binary cross-entropy.

        E^(k+1) = Â E^(k),   Ê = (E^(0) + … + E^(K)) / (K + 1),   s(u, i) = ê_u · ê_i

    Â_ui = Â_iu = o_ui / √(d_u d_i) for every row of the evidence, with d = max(1, sum of a node's weights o).
    Without the 1, a node's only edge would have the weight o/√o, whose derivative at o = 0 is infinite. At a
    sum of exactly 1 the derivative is the left one. The penalty c/2 · (|e_u|² + |e_i|²) of a sample is on the
    embeddings before propagation, as in the paper. Unknown users and items get the mean embedding after it.
    """

    name: ClassVar[str] = "lightgcn"
    Settings: ClassVar[type[ModelSettings]] = LightGCNSettings
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "training": {"epochs": 60, "learning_rate": 0.02},
        "influence": {"loss": "calibrated"},
    }
    samples_at_once: ClassVar[int] = 2**17
    search: ClassVar[Sequence[tuple[str, Sequence[float]]]] = STRENGTHS
    settings: LightGCNSettings

    def __init__(self, sizes: Sizes, settings: LightGCNSettings) -> None:
        super().__init__(sizes, settings)
        self.l2 = settings.strength * noise_edge(sizes)
        self.user_table = nn.Parameter(torch.zeros(sizes.users + 1, settings.dimension))
        self.item_table = nn.Parameter(torch.zeros(sizes.items + 1, settings.dimension))
        self._graph: _Graph | None = None

    @torch.no_grad()
    def initialise(self, draws: Draws) -> None:
        """Draw embeddings, normal with standard deviation `initial_scale`."""
        draws.users(self.user_table, std=self.settings.initial_scale)
        draws.items(self.item_table, std=self.settings.initial_scale)

    def prepare(self, evidence: Evidence) -> Propagated:
        """Return Ê of every user and item, differentiable by embeddings and weights to any order."""
        base = torch.cat([self.user_table[:-1], self.item_table[:-1]])
        constant = self.training and not evidence.weights.requires_grad
        mean = self._by_matrix(evidence, base) if constant else self._by_edge(evidence, base)
        users, items = torch.split(mean, [self.n_users, self.n_items])
        return Propagated(_with_mean(users), _with_mean(items))

    def _by_edge(self, evidence: Evidence, base: Tensor) -> Tensor:
        """Return the mean of `base` and its layers, edge by edge: differentiable by everything."""
        edges = self._edges(evidence).repeat(2).unsqueeze(1)
        ends = evidence.users, evidence.items + self.n_users
        into, out_of = torch.cat(ends), torch.cat(ends[::-1])
        total = base
        for _ in range(self.settings.layers):
            total = base.index_add(0, into, edges * lookup(total, out_of))
        return total / (1 + self.settings.layers)

    def _by_matrix(self, evidence: Evidence, base: Tensor) -> Tensor:
        """Return the mean of `base` and its layers, for constant weights: half the time of a training step.

        The sparse matrix is kept from one step to the next.
        """
        if self._graph is None or not self._graph.is_of(evidence, base.dtype):
            nodes = self.n_users + self.n_items
            ends = evidence.users.numpy(), evidence.items.numpy() + self.n_users
            rows, columns = np.concatenate(ends), np.concatenate(ends[::-1])
            edges = self._edges(evidence).detach().repeat(2).numpy()
            matrix = SparseMatrix.of(edges, rows, columns, (nodes, nodes)).rows
            self._graph = _Graph(evidence, evidence.weights.clone(), matrix)
        mean: Tensor = _MeanOfLayers.apply(base, self._graph.matrix, self.settings.layers)  # type: ignore[no-untyped-call]
        return mean

    def _edges(self, evidence: Evidence) -> Tensor:
        """Return o / √(d_u d_i) of every row of the evidence: [n]."""
        weights = evidence.weights.to(self.user_table.dtype)
        d_users = weights.new_zeros(self.n_users).index_add(0, evidence.users, weights)
        d_items = weights.new_zeros(self.n_items).index_add(0, evidence.items, weights)
        d_users, d_items = (torch.where(d > 1, d, 1) for d in (d_users, d_items))
        return weights / (d_users[evidence.users] * d_items[evidence.items]).sqrt()

    def forward(self, users: Tensor, items: Tensor, prepared: Propagated) -> tuple[Tensor, Tensor]:
        """Return ê_u · ê_i and c/2 · (|e_u|² + |e_i|²) of `users[n]`, `items[n, m]`: two tensors [n, m]."""
        p, q = lookup(prepared.users, users), lookup(prepared.items, items)
        own = squares(lookup(self.user_table, users))
        lengths = own.unsqueeze(1) + squares(lookup(self.item_table, items))
        return dot(q, p.unsqueeze(1)), 0.5 * self.l2 * lengths

    def score_all(self, users: Tensor, prepared: Propagated) -> Tensor:
        """Return ê_u · ê_i for every item, the unknown one last: [n, n_items + 1]."""
        return lookup(prepared.users, users) @ prepared.items.T

    def vectors(self, prepared: Propagated) -> tuple[Tensor, Tensor]:
        """Return ê of users and items."""
        return prepared.users, prepared.items

    def finish(self) -> None:
        """Do nothing: `prepare` computes the embeddings of the unknown."""


def _with_mean(table: Tensor) -> Tensor:
    """Return the table with the mean of its rows appended."""
    return torch.cat([table, mean_row(table).unsqueeze(0)])


@dataclass(frozen=True)
class _Graph:
    """Â as a sparse matrix [users + items, users + items], with the evidence it was built from."""

    evidence: Evidence
    weights: Tensor
    matrix: Tensor

    def is_of(self, evidence: Evidence, dtype: torch.dtype) -> bool:
        """Return whether this is the graph of `evidence`; its weights may have been overwritten since."""
        same = self.evidence is evidence and torch.equal(self.weights, evidence.weights)
        return same and self.matrix.dtype == dtype


class _MeanOfLayers(torch.autograd.Function):
    """x → (x + Â x + … + Â^K x) / (K + 1), computed as x + Â (x + Â (x + …)).

    Â is symmetric, so this map is its own gradient.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, matrix: Tensor, layers: int) -> Tensor:
        ctx.matrix, ctx.layers = matrix, layers
        total = x
        for _ in range(layers):
            total = torch.addmm(x, matrix, total)
        return total / (1 + layers)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return _MeanOfLayers.apply(gradient, ctx.matrix, ctx.layers), None, None  # type: ignore[no-untyped-call]
