"""Dense derivatives of the losses, to compare the products and solvers of influence with.

A model is known by its `forward` and the losses by `assent.models.losses`; the rest is automatic
differentiation and dense linear algebra in double precision.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call, jacfwd, jacrev

from assent.influence.closed_form import Curvature
from assent.influence.inverse import Estimator, InfluenceSettings
from assent.influence.linearised import TrainSamples, ValidSamples
from assent.models import MF
from assent.models.losses import sample_losses
from assent.support.arrays import Ints

_NEWTON = 3
"""Steps that end a minimisation."""


@dataclass(frozen=True)
class Oracle:
    """Dense derivatives at the parameters θ of a curvature's model: P = (n_users + n_items) d numbers."""

    curvature: Curvature
    settings: InfluenceSettings
    known_users: Ints
    """The problem's index of each user of the model."""

    @property
    def model(self) -> MF:
        return self.curvature.model

    @property
    def samples(self) -> TrainSamples:
        return self.curvature.samples

    @property
    def valid(self) -> ValidSamples:
        return self.curvature.valid

    @property
    def theta(self) -> Tensor:
        """The embeddings of the known users, then those of the known items: [P]."""
        users, items = self.model.user_table.detach(), self.model.item_table.detach()
        return torch.cat([users[:-1], items[:-1]]).flatten()

    def train_losses(self, theta: Tensor) -> Tensor:
        """ℓ_k of every training row: [Z]."""
        return sample_losses(*self._train_forward(theta)) @ self.samples.weights

    def anchor_loss(self, theta: Tensor) -> Tensor:
        """F = Σ_k õ_k ℓ_k."""
        return self.samples.anchor @ self.train_losses(theta)

    def valid_losses(self, theta: Tensor) -> Tensor:
        """L of every validation row: [n]."""
        scores = self._forward(theta, self.valid.users, self.valid.items)[0]
        return self.settings.loss.of(self.valid.scale * scores)

    def sum_per_user(self, rows: Tensor) -> Tensor:
        """Sum `rows[n, ...]` of the validation rows over their owners: [problem users, ...]."""
        return rows.new_zeros(self.valid.n_users, *rows.shape[1:]).index_add_(0, self.valid.owners, rows)

    @cached_property
    def train_gradients(self) -> Tensor:
        """∇ℓ_k of every training row: [Z, P]."""
        return jacobian(self.train_losses, self.theta)

    @cached_property
    def user_gradients(self) -> Tensor:
        """∇L_u of every user of the problem: [problem users, P]."""
        return self.sum_per_user(jacobian(self.valid_losses, self.theta))

    @cached_property
    def matrix(self) -> Tensor:
        """The Gauss-Newton matrix for the estimator of that name, else the Hessian; with damping: [P, P]."""
        is_gauss_newton = self.settings.estimator is Estimator.GAUSS_NEWTON
        return self.gauss_newton() if is_gauss_newton else self.hessian()

    def hessian(self) -> Tensor:
        """∇²F + damping."""
        return hessian(self.anchor_loss, self.theta) + self._damping()

    def gauss_newton(self) -> Tensor:
        """Jᵀ W J of the logits, with W the second derivatives of the losses by them, + ridge."""

        def logits(theta: Tensor) -> Tensor:
            return self._train_forward(theta)[0].flatten()

        sigma = torch.sigmoid(logits(self.theta))
        weights = (self.samples.anchor[:, None] * self.samples.weights).flatten()
        J = jacobian(logits, self.theta)
        return J.T @ ((weights * sigma * (1 - sigma)).unsqueeze(1) * J) + self.ridge()

    def ridge(self) -> Tensor:
        """The Hessian of the penalties + damping."""

        def penalty(theta: Tensor) -> Tensor:
            return self.samples.anchor @ self._train_forward(theta)[1] @ self.samples.weights

        return hessian(penalty, self.theta) + self._damping()

    def star(self, user: int) -> Tensor:
        """H⁻¹ ∇_{p_u} L_u in the star around a user of the model, 0 outside of it: [P].

        Of H it has the rows and columns of p_u and of the items of their samples; an item's block is
        diagonal.
        """
        items = torch.from_numpy(np.unique(self.samples.items[self.samples.users == user]))
        own, others = self.places(torch.tensor([user])), self.places(self.model.n_users + items)
        places = torch.cat([own, others])
        system = self.matrix[places][:, places]
        system[len(own) :, len(own) :] = torch.diag(self.matrix.diagonal()[others])
        b = torch.zeros(len(places), dtype=system.dtype)
        b[: len(own)] = self.user_gradients[self.known_users[user], own]
        x = torch.zeros_like(self.theta)
        x[places] = torch.linalg.solve(system, b)
        return x

    def places(self, rows: Tensor) -> Tensor:
        """Where the numbers of some rows of the tables are in a flattened vector."""
        d = self.model.settings.dimension
        return (rows[:, None] * d + torch.arange(d)).flatten()

    def table(self, vector: Tensor) -> Tensor:
        """`vector[P]` in the shape that `Curvature` works with."""
        return vector.reshape(-1, self.model.settings.dimension)

    def _damping(self) -> Tensor:
        return self.settings.damping * torch.eye(len(self.theta), dtype=self.theta.dtype)

    def _train_forward(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        return self._forward(theta, self.samples.users, self.samples.items)

    def _forward(self, theta: Tensor, users: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
        """The model's forward with θ in place of its parameters; the unknown user and item stay."""
        known, n_users = self.table(theta), self.model.n_users
        tables = {
            "user_table": torch.cat([known[:n_users], self.model.user_table.detach()[-1:]]),
            "item_table": torch.cat([known[n_users:], self.model.item_table.detach()[-1:]]),
        }
        logits, penalties = functional_call(self.model, tables, (users, items))
        return logits, penalties


def jacobian(function: Callable[[Tensor], Tensor], at: Tensor) -> Tensor:
    """The derivatives of a vector, or of a number, by θ: [..., P]."""
    derivatives: Tensor = jacrev(function)(at)
    return derivatives


def hessian(function: Callable[[Tensor], Tensor], at: Tensor) -> Tensor:
    """The second derivatives of a vector, or of a number, by θ: [..., P, P]."""
    derivatives: Tensor = jacfwd(jacrev(function))(at)
    return derivatives


def minimise(loss: Callable[[Tensor], Tensor], start: Tensor) -> Tensor:
    """A local minimum near `start`: as near as values of the loss can tell, then by Newton's steps."""
    theta = start.clone().requires_grad_()
    optimizer = torch.optim.LBFGS(
        [theta],
        max_iter=1000,
        history_size=50,
        tolerance_grad=1e-6,
        tolerance_change=0,
        line_search_fn="strong_wolfe",
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        value = loss(theta)
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimizer.step(closure)  # type: ignore[no-untyped-call]
    found = theta.detach().flatten()

    def flat(some: Tensor) -> Tensor:
        return loss(some.view_as(start))

    for _ in range(_NEWTON):
        # Turning all embeddings alike changes nothing, so the Hessian has zeros that must not be divided by.
        inverse = torch.linalg.pinv(hessian(flat, found), rtol=1e-7, hermitian=True)
        found = found - inverse @ jacobian(flat, found)
    return found.view_as(start)
