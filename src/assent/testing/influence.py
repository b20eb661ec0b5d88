"""Influence of the recommender under test, against dense matrices made of finite differences."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

from assent.data.simulate import simulate
from assent.data.split import make_problem
from assent.influence.estimate import linearise, own_by_groups, social_influence
from assent.influence.linearised import Linearised
from assent.influence.settings import InfluenceSettings
from assent.models import Evidence, Recommender, Sizes, model_class
from assent.models.checks import make_model
from assent.testing.subject import Subject
from assent.training import Trained

_STEP = 1e-4
"""Of the finite differences, whose error is of its square."""
_MOST_PARAMETERS = 3000
"""A dense matrix of these takes a few seconds."""
_SEED = 0


class InfluenceContract(Subject):
    """Part of `RecommenderContract`: the derivatives that the methods rest on."""

    tiny: ClassVar[Mapping[str, Any]] = {"dimension": 3}
    """Settings that make the model small enough for dense matrices; those that it does not have are left."""

    def test_influence_is_the_dense_implicit_derivative(self) -> None:
        """Own and social influence are −dL/do through parameters and evidence, solved with a dense Hessian.

        −dL/do_k = ∇_θLᵀ H⁻¹ ∂²F/∂θ∂o_k − ∂L/∂o_k
        """
        log = simulate(preference="learnable", users=5, items=20, seed=_SEED)
        problem = make_problem(log, "paper-tables", negatives=2)
        model = self._tiny_model(
            len(problem.user_ids), len(np.unique(problem.train.items)), len(problem.train)
        )
        # Shares of interactions, so that no count of them is a round number, where a model may have a kink.
        anchor = np.random.default_rng(_SEED).uniform(0.1, 0.9, len(problem.train))
        items = problem.item_ids[np.unique(problem.train.items)]
        trained = Trained(model, problem.user_ids, items, _SEED, 1, None)

        def linearised(settings: InfluenceSettings) -> Linearised:
            return linearise(problem, anchor, trained, negatives=1, settings=settings, seed=_SEED)

        exact = {"truncation": 5000, "tolerance": 1e-11, "draws": 1, "groups": len(problem.user_ids)}
        dense = Dense(model, linearised(InfluenceSettings.model_validate(exact)), InfluenceSettings())
        settings = InfluenceSettings.model_validate({**exact, "damping": dense.enough_damping})
        at = linearised(settings)
        found = {
            "social": social_influence(at, settings, _SEED)[0],
            "own": own_by_groups(at, settings, _SEED)[0],
        }
        effects = dense.effects(settings.damping)
        owners, judged = dense.at.samples.users, dense.at.valid.users
        own = torch.stack([effects[judged == owner, k].sum() for k, owner in enumerate(owners)])
        size = float(effects.abs().max())
        assert size > 1e-6, "no interaction has any effect"
        torch.testing.assert_close(found["social"], effects.sum(0), rtol=1e-3, atol=1e-4 * size)
        torch.testing.assert_close(found["own"], own, rtol=1e-3, atol=1e-4 * size)

    def _tiny_model(self, n_users: int, n_items: int, n_rows: int) -> Recommender:
        chosen = self._chosen({})
        kind = model_class(chosen.model)
        fitting = {key: value for key, value in self.tiny.items() if key in kind.Settings.model_fields}
        settings = chosen.model_settings.model_copy(update=fitting)
        model = make_model(kind, Sizes(n_users, n_items, n_rows, 1), settings, _SEED).double().eval()
        size = sum(parameter.numel() for parameter in model.parameters())
        if size > _MOST_PARAMETERS:
            pytest.fail(f"{size} parameters are too many for a dense matrix; set `tiny` to smaller settings")
        return model


@dataclass(frozen=True)
class Dense:
    """Derivatives of a small model around its parameters θ and a selection o.

    Those by θ come from autograd, all others from differences.
    """

    model: Recommender
    at: Linearised
    settings: InfluenceSettings

    @cached_property
    def hessian(self) -> Tensor:
        """∂²F/∂θ², undamped: [P, P]."""
        theta, o = self._theta(), self.at.samples.anchor
        columns = []
        for place in range(len(theta)):
            move = torch.zeros_like(theta)
            move[place] = _STEP
            rise = self._gradient(self._training_loss, theta + move, o)
            columns.append((rise - self._gradient(self._training_loss, theta - move, o)) / (2 * _STEP))
        self._set(theta)
        matrix = torch.stack(columns, dim=1)
        return (matrix + matrix.T) / 2

    @property
    def enough_damping(self) -> float:
        """What makes the Hessian definite."""
        return 1 - 2 * min(0.0, float(torch.linalg.eigvalsh(self.hessian)[0]))

    def effects(self, damping: float) -> Tensor:
        """−dL_n/do_k of every validation row: [n, Z]."""
        theta, o = self._theta(), self.at.samples.anchor
        mixed = self._by_selection(lambda at: self._gradient(self._training_loss, theta, at), o)
        direct = self._by_selection(lambda at: self._valid_losses(at).detach(), o)
        rows = [self._gradient(partial(self._valid_loss, n), theta, o) for n in range(len(direct))]
        damped = self.hessian + damping * torch.eye(len(theta), dtype=theta.dtype)
        effects: Tensor = torch.stack(rows) @ torch.linalg.solve(damped, mixed) - direct
        return effects

    def _by_selection(self, function: Callable[[Tensor], Tensor], o: Tensor) -> Tensor:
        """The derivative of `function(o)[m]` by every o_k: [m, Z]."""
        columns = []
        for k in range(len(o)):
            more, less = o.clone(), o.clone()
            more[k] += _STEP
            less[k] -= _STEP
            columns.append((function(more) - function(less)) / (2 * _STEP))
        return torch.stack(columns, dim=1)

    def _training_loss(self, o: Tensor) -> Tensor:
        """F(θ, o) = Σ_k o_k ℓ_k(θ, o)."""
        samples = self.at.samples
        losses = self.model.losses(samples.users, samples.items, self._prepare(o))
        return o @ (losses @ samples.weights)

    def _valid_losses(self, o: Tensor) -> Tensor:
        """L_n(θ, o) of every validation row: [n]."""
        valid = self.at.valid
        return self.settings.loss.of(self.model(valid.users, valid.items, self._prepare(o))[0])

    def _valid_loss(self, n: int, o: Tensor) -> Tensor:
        return self._valid_losses(o)[n]

    def _prepare(self, o: Tensor) -> Any:
        samples = self.at.samples
        return self.model.prepare(Evidence(samples.users, samples.items[:, 0], o))

    def _gradient(self, function: Callable[[Tensor], Tensor], theta: Tensor, o: Tensor) -> Tensor:
        """The gradient of `function(o)` by the parameters, at `theta`: [P]."""
        self._set(theta)
        parameters = tuple(self.model.parameters())
        found = torch.autograd.grad(function(o), parameters, allow_unused=True)
        return torch.cat(
            [
                (torch.zeros_like(like) if part is None else part).flatten()
                for part, like in zip(found, parameters, strict=True)
            ]
        )

    def _theta(self) -> Tensor:
        return torch.nn.utils.parameters_to_vector(self.model.parameters()).detach().clone()

    def _set(self, theta: Tensor) -> None:
        torch.nn.utils.vector_to_parameters(theta, self.model.parameters())
