"""Small recommenders that read the selection, and dense derivatives of any model."""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.func import functional_call, jacfwd, jacrev

from assent.influence.autodiff import Autodiff
from assent.models import Draws, Evidence, ModelSettings, Recommender, Sizes


class Reader(Recommender):
    """s(u, i) = (p_u + Σ_j o_j r_j) · q_i with a soft saturation: nothing about it is linear in θ or in o."""

    name: ClassVar[str] = "reader"
    Settings: ClassVar[type[ModelSettings]] = ModelSettings

    def __init__(self, sizes: Sizes, settings: ModelSettings) -> None:
        super().__init__(sizes, settings)
        self.user_table = nn.Parameter(torch.zeros(sizes.users + 1, 2))
        self.item_table = nn.Parameter(torch.zeros(sizes.items + 1, 2))
        self.read_table = nn.Parameter(torch.zeros(sizes.items + 1, 2))
        self.unused = nn.Parameter(torch.zeros(3))

    @torch.no_grad()
    def initialise(self, draws: Draws) -> None:
        for table in (self.user_table, self.item_table, self.read_table):
            table.normal_(std=0.5, generator=draws.generator)

    def prepare(self, evidence: Evidence) -> Tensor:
        read = evidence.weights.unsqueeze(1) * self.read_table[evidence.items]
        history = torch.zeros_like(self.user_table).index_add(0, evidence.users, read)
        return torch.tanh(self.user_table + history)

    def forward(self, users: Tensor, items: Tensor, prepared: Tensor) -> tuple[Tensor, Tensor]:
        p, q = prepared[users].unsqueeze(1), self.item_table[items]
        own = self.user_table[users].unsqueeze(1)
        return (p * q).sum(-1), 0.3 * (own.square().sum(-1) + q.square().sum(-1))

    def score_all(self, users: Tensor, prepared: Tensor) -> Tensor:
        return prepared[users] @ self.item_table.T

    def finish(self) -> None:
        """The unknown keep their initial rows."""


class PairwiseReader(Reader):
    """The same with a ranking loss of its own."""

    def losses(self, users: Tensor, items: Tensor, prepared: Tensor) -> Tensor:
        logits, penalties = self.forward(users, items, prepared)
        return nn.functional.softplus(logits - logits[:, :1]) + penalties


@dataclass(frozen=True)
class Dense:
    """Dense derivatives of F(θ, o) and of the validation losses at an anchor, in double precision."""

    of: Autodiff

    @cached_property
    def theta(self) -> Tensor:
        return torch.cat([p.detach().flatten() for p in self.of.parameters])

    def _call(self, theta: Tensor, o: Tensor, *, valid: bool) -> Tensor:
        """The samples' losses: of training rows, [Z], or of validation rows, [n]."""
        parts, start = {}, 0
        for name, value in self.of.model.named_parameters():
            parts[name] = theta[start : start + value.numel()].view_as(value)
            start += value.numel()
        named = {f"model.{name}": value for name, value in parts.items()}
        losses: Tensor = functional_call(_Losses(self.of, valid), named, (o,))
        return losses

    def train_losses(self, theta: Tensor, o: Tensor) -> Tensor:
        return self._call(theta, o, valid=False)

    def training_loss(self, theta: Tensor, o: Tensor) -> Tensor:
        return o @ self.train_losses(theta, o)

    def valid_losses(self, theta: Tensor, o: Tensor) -> Tensor:
        return self._call(theta, o, valid=True)

    @cached_property
    def hessian(self) -> Tensor:
        """∂²F/∂θ² + damping: [P, P]."""
        matrix: Tensor = jacfwd(jacrev(self.training_loss))(self.theta, self.of.samples.anchor)
        return matrix + self.of.damping * torch.eye(len(self.theta), dtype=matrix.dtype)

    @cached_property
    def mixed(self) -> Tensor:
        """∂²F/∂θ∂o: [P, Z]."""
        matrix: Tensor = jacfwd(jacrev(self.training_loss), argnums=1)(self.theta, self.of.samples.anchor)
        return matrix

    @cached_property
    def valid_jacobians(self) -> tuple[Tensor, Tensor]:
        """∂L/∂θ, [n, P], and ∂L/∂o, [n, Z]."""
        by_theta: Tensor
        by_o: Tensor
        by_theta, by_o = jacrev(self.valid_losses, argnums=(0, 1))(self.theta, self.of.samples.anchor)
        return by_theta, by_o


class _Losses(nn.Module):
    def __init__(self, of: Autodiff, valid: bool) -> None:
        super().__init__()
        self.model, self.of, self.valid = of.model, of, valid

    def forward(self, o: Tensor) -> Tensor:
        samples, valid = self.of.samples, self.of.valid
        prepared = self.model.prepare(Evidence(samples.users, samples.items[:, 0], o))
        if self.valid:
            return self.of.loss.of(valid.scale * self.model(valid.users, valid.items, prepared)[0])
        return self.model.losses(samples.users, samples.items, prepared) @ samples.weights
