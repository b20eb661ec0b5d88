"""Derivatives of any model's losses by its parameters and by the selection, by automatic differentiation.

With o in [0, 1]^Z, the training loss F(θ, o) = Σ_k o_k ℓ_k(θ, o) and the validation losses L_u(θ, o) depend
on the selection twice: through the weights of the rows, and through the evidence that the model reads. Then

    −dL/do_k = ∇_θLᵀ H⁻¹ ∂²F/∂θ∂o_k − ∂L/∂o_k

Products are computed by reverse mode over reverse mode and never form a matrix. Vectors are flat: [P].
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from assent.influence.inverse import Estimator
from assent.influence.linearised import Linearised
from assent.models import IALS, Evidence, Recommender
from assent.support.arrays import slices
from assent.support.errors import AssentError

_PROBES = 8
"""Vectors of random signs that estimate the diagonal."""
_KEPT = 4
"""Most blocks whose graphs are kept: models whose samples take much memory have small blocks."""


class Graph(NamedTuple):
    """The training loss of some rows with its gradient, both differentiable again."""

    o: Tensor  # the selection as a variable: [Z]
    loss: Tensor
    by_parameters: Tensor  # ∇_θ F of these rows: [P]


@dataclass(frozen=True)
class Autodiff(Linearised):
    """The derivatives of any model at an anchor."""

    keep_up_to: int = 2**17
    """Number of samples up to which the graphs are kept between products; at most `_KEPT` blocks."""

    @cached_property
    def parameters(self) -> tuple[Tensor, ...]:
        """The parameters θ."""
        return tuple(self.model.parameters())

    def _zeros(self) -> Tensor:
        return _flat([torch.zeros_like(each) for each in self.parameters])

    def _slopes(self, output: Tensor, along: Tensor | None = None, *, create: bool = False) -> Tensor:
        """Return ∇_θ of a number, or of outputs weighted with `along`, keeping their graph: [P].

        With `create` the result can be differentiated again.
        """
        if not output.requires_grad:
            return self._zeros()
        options = {"create_graph": create, "retain_graph": True, "materialize_grads": True}
        return _flat(torch.autograd.grad(output, self.parameters, along, **options))

    def product(self, x: Tensor) -> Tensor:
        """Return H x, with the Hessian or the Gauss-Newton matrix of F plus damping."""
        parts = (self._gauss_newton(rows, x) for rows in self._chunks())
        if self.full:
            parts = (self._slopes(graph.by_parameters @ x) for graph in self._graphs())
        return sum(parts, start=self.damping * x)

    def precondition(self, x: Tensor) -> Tensor:
        """Return x divided by the estimated diagonal of the damped Gauss-Newton matrix."""
        return x / (self.curved + self.damping)

    def along(self, x: Tensor) -> Tensor:
        """Return xᵀ ∂²F/∂θ∂o_k for every training row k: [Z]."""
        total = torch.zeros_like(self.samples.anchor)
        for graph in self._graphs():
            slope = graph.by_parameters @ x
            (by_o,) = torch.autograd.grad(slope, graph.o, retain_graph=True, materialize_grads=True)
            total += by_o
        return total

    def pull(self, weights: Tensor) -> Tensor:
        """Return Σ_k weights[k] ∂²F/∂θ∂o_k for `weights[Z]`: [P]."""
        total = self._zeros()
        for graph in self._graphs():
            (by_o,) = torch.autograd.grad(graph.loss, graph.o, create_graph=True)
            total += self._slopes(by_o @ weights)
        return total

    @cached_property
    def curved(self) -> Tensor:
        """The diagonal of the undamped Gauss-Newton matrix, estimated with random signs: [P].

        For a model that brings its solver it is that of the Hessian, where that is positive.
        """
        generator = torch.Generator().manual_seed(0)
        total = self._zeros()
        if self.model.brings_solver:
            for graph in self._graphs():
                for signs in (_signs(total, generator) for _ in range(_PROBES)):
                    total += self._slopes(graph.by_parameters @ signs) * signs / _PROBES
            return total.clamp_min(0)
        for rows in self._chunks():
            logits, penalty, bend = self._forward(rows, self.samples.anchor)
            for _ in range(_PROBES):
                signs = _signs(logits, generator)
                total += self._slopes(logits, signs * bend.sqrt()).square() / _PROBES
            by_penalty = self._slopes(penalty, create=True)
            signs = _signs(total, generator)
            total += (self._slopes(by_penalty @ signs) * signs).clamp_min(0)
        return total

    @cached_property
    def learnt(self) -> Tensor:
        """Whether the loss of any training row, were all disclosed, depends on each parameter: [P].

        False for the parameters of unknown users and items, which training never moves.
        """
        generator = torch.Generator().manual_seed(0)
        depends = self._zeros().bool()
        if self.model.brings_solver:
            lots = 0.5 + torch.rand(self.samples.anchor.shape, generator=generator).to(self.samples.anchor)
            return self._slopes(self.training_loss(lots)) != 0
        for rows in self._chunks():
            logits, penalty, _ = self._forward(rows, torch.ones_like(self.samples.anchor))
            # With random weights, equal derivatives do not cancel.
            along = torch.rand(logits.shape, generator=generator).to(logits)
            depends |= self._slopes(logits, along) != 0
            depends |= self._slopes(penalty) != 0
        return depends

    def row_product(self, row: int, x: Tensor) -> Tensor:
        """Return ∂²ℓ_row/∂θ² x, with the anchor's rows as evidence.

        The part of an own solver's objective that no row has counts as spread evenly over the rows.
        """
        if self.model.brings_solver:
            size, alone = self.samples.anchor.sum(), torch.zeros_like(self.samples.anchor)
            alone[row] = size
            gradient = self._slopes(self.training_loss(alone), create=True)
            return self._slopes(gradient @ x) / size
        here = slice(row, row + 1)
        prepared = self._prepare(self.samples.anchor)
        losses = self.model.losses(self.samples.users[here], self.samples.items[here], prepared)
        gradient = self._slopes((losses @ self.samples.weights).sum(), create=True)
        return self._slopes(gradient @ x)

    @torch.no_grad()
    def valid_scores(self) -> Tensor:
        """Return the scores of every validation row's candidates: [n, 1 + m]."""
        prepared = self._prepare(self.samples.anchor)
        return torch.cat([self._scores(rows, prepared) for rows in self._valid_rows()])

    @torch.no_grad()
    def valid_losses(self) -> Tensor:
        """Return the loss of every validation row: [n]."""
        return self.loss.of(self.valid.scale * self.valid_scores())

    def valid_gradient(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradient of Σ_n weights[n] L_n by θ, [P], 0 where not `learnt`, and by o, [Z]."""
        by_parameters, by_o = self._zeros(), torch.zeros_like(self.samples.anchor)
        for rows in self._valid_rows(weights):
            o = self.samples.anchor.clone().requires_grad_()
            value = self._valid(rows, o) @ weights[rows]
            inputs = *self.parameters, o
            *parts, direct = torch.autograd.grad(value, inputs, materialize_grads=True)
            by_parameters += _flat(parts)
            by_o += direct
        return torch.where(self.learnt, by_parameters, 0), by_o

    def valid_changes(self, moves: Tensor, changes: Tensor) -> Tensor:
        """Return moves[r]ᵀ ∂L_n/∂θ + Σ_k changes[r, k] ∂L_n/∂o_k of every validation row: [R, n].

        The gradient Σ_n lever_n ∂L_n is taken once for all r; its product with a move is linear in the lever.
        """
        parts = []
        for rows in self._valid_rows():
            o = self.samples.anchor.clone().requires_grad_()
            losses = self._valid(rows, o)
            lever = torch.ones_like(losses, requires_grad=True)
            inputs = *self.parameters, o
            found = torch.autograd.grad(losses, inputs, lever, create_graph=True, materialize_grads=True)
            # A model that reads no evidence has a constant slope by o.
            slopes = [_flat(found[:-1]), *(each for each in found[-1:] if each.requires_grad)]
            along = [(move, change)[: len(slopes)] for move, change in zip(moves, changes, strict=True)]
            each = [torch.autograd.grad(slopes, lever, one, retain_graph=True)[0] for one in along]
            parts.append(torch.stack(each))
        return torch.cat(parts, dim=1)

    def _prepare(self, o: Tensor) -> object:
        return self.model.prepare(Evidence(self.samples.users, self.samples.items[:, 0], o))

    def _valid(self, rows: Tensor, o: Tensor) -> Tensor:
        return self.loss.of(self.valid.scale[rows] * self._scores(rows, self._prepare(o)))

    def _scores(self, rows: Tensor, prepared: object) -> Tensor:
        scores: Tensor = self.model(self.valid.users[rows], self.valid.items[rows], prepared)[0]
        return scores

    def _valid_rows(self, weights: Tensor | None = None) -> tuple[Tensor, ...]:
        return self.valid_rows(self.model.samples_at_once, weights)

    def _chunks(self) -> Iterator[slice]:
        rows, samples = self.samples.items.shape
        return slices(rows, max(1, self.model.samples_at_once // samples))

    def _make_graphs(self) -> Iterator[Graph]:
        if self.model.brings_solver:
            o = self.samples.anchor.clone().requires_grad_()
            loss = self.training_loss(o)
            yield Graph(o, loss, self._slopes(loss, create=True))
            return
        for rows in self._chunks():
            o = self.samples.anchor.clone().requires_grad_()
            losses = self.model.losses(self.samples.users[rows], self.samples.items[rows], self._prepare(o))
            loss = o[rows] @ (losses @ self.samples.weights)
            yield Graph(o, loss, self._slopes(loss, create=True))

    @cached_property
    def _kept_graphs(self) -> list[Graph] | None:
        most = min(self.keep_up_to, _KEPT * self.model.samples_at_once)
        return list(self._make_graphs()) if self.samples.items.numel() <= most else None

    def _graphs(self) -> Iterator[Graph]:
        return self._make_graphs() if self._kept_graphs is None else iter(self._kept_graphs)

    def _forward(self, rows: slice, o: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return logits of training samples, the sum of their penalties, and a σ(1−σ) of each."""
        prepared = self._prepare(o)
        logits, penalties = self.model(self.samples.users[rows], self.samples.items[rows], prepared)
        weights = o[rows, None] * self.samples.weights
        sigma = torch.sigmoid(logits.detach())
        return logits, (weights * penalties).sum(), weights * sigma * (1 - sigma)

    def _gauss_newton(self, rows: slice, x: Tensor) -> Tensor:
        """Return Jᵀ (a σ(1−σ)) J x of the logits, plus the penalties' Hessian times x."""
        if not knows(type(self.model), Estimator.GAUSS_NEWTON):
            raise AssentError(
                f"estimator gauss-newton: needs binary cross-entropy, but model {self.model.name} has losses "
                "of its own; accepted: another estimator"
            )
        logits, penalty, bend = self._forward(rows, self.samples.anchor)
        lever = torch.zeros_like(logits, requires_grad=True)
        pulled = self._slopes(logits, lever, create=True)
        (moved,) = torch.autograd.grad(pulled @ x, lever, retain_graph=True)
        by_logits = self._slopes(logits, bend * moved)
        return by_logits + self._slopes(self._slopes(penalty, create=True) @ x)


def knows(model: type[Recommender], estimator: Estimator) -> bool:
    """Return whether an estimator works for a model: Gauss-Newton needs a loss that it knows."""
    usual = model.losses is Recommender.losses and model.step is Recommender.step
    return estimator is not Estimator.GAUSS_NEWTON or usual or model is IALS


def _flat(parts: Sequence[Tensor]) -> Tensor:
    """Return one tensor per parameter as one vector: [P]."""
    return torch.cat([each.flatten() for each in parts])


def _signs(like: Tensor, generator: torch.Generator) -> Tensor:
    """Return random signs, ±1, in the shape of `like`."""
    return torch.randint(2, like.shape, generator=generator).to(like) * 2 - 1
