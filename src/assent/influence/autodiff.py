"""Derivatives of a model's losses by its parameters and by the selection, for any recommender.

With o in [0, 1]^Z, the training loss F(θ, o) = Σ_k o_k ℓ_k(θ, o) and the validation losses L_u(θ, o) depend
on the selection twice: as the weights of the rows, and as the evidence that the model reads (graph, history,
input). Then

    −dL/do_k = ∇_θLᵀ H⁻¹ ∂²F/∂θ∂o_k − ∂L/∂o_k

so a withheld interaction is missed in both places. All products come from automatic differentiation,
backwards over backwards, and never form a matrix. Vectors are flat: all parameters of the model, one after
another, [P].
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from assent.influence.linearised import Parameters, TrainSamples, ValidSamples
from assent.influence.settings import Estimator
from assent.models import Evidence, Recommender
from assent.models.losses import Loss
from assent.support.arrays import slices
from assent.support.errors import AssentError

_KEPT = 2**17
"""Samples up to which the graphs are kept between products."""
_PROBES = 8
"""Random signs that the diagonal is estimated with."""


@dataclass(frozen=True)
class Graph:
    """The training loss of some rows with its first derivatives, ready to be differentiated again."""

    o: Tensor
    """[Z], the selection as a variable."""
    loss: Tensor
    by_parameters: Tensor
    """∇_θ F of these rows: [P]."""


@dataclass(frozen=True)
class Autodiff:
    """The derivatives at an anchor's model, with `damping` on the diagonal of the Hessian."""

    model: Recommender
    samples: TrainSamples
    valid: ValidSamples
    loss: Loss
    full: bool
    """Full Hessian rather than Gauss-Newton."""
    damping: float

    @cached_property
    def parameters(self) -> Parameters:
        """What is differentiated by."""
        return Parameters(tuple(self.model.parameters()))

    def product(self, x: Tensor) -> Tensor:
        """H x, with the Hessian or the Gauss-Newton matrix of F."""
        total = self.damping * x
        if self.full:
            for graph in self._graphs():
                total = total + self.parameters.constants(graph.by_parameters @ x)
            return total
        for rows in self._chunks():
            total = total + self._gauss_newton(rows, x)
        return total

    def precondition(self, x: Tensor) -> Tensor:
        """x divided by the diagonal of the Gauss-Newton matrix."""
        return x / (self.curved + self.damping)

    def along(self, x: Tensor) -> Tensor:
        """xᵀ ∂²F/∂θ∂o_k for every training row k: [Z]."""
        total = torch.zeros_like(self.samples.anchor)
        for graph in self._graphs():
            (by_o,) = torch.autograd.grad(
                graph.by_parameters @ x, graph.o, retain_graph=True, allow_unused=True
            )
            total += 0 if by_o is None else by_o
        return total

    def pull(self, weights: Tensor) -> Tensor:
        """Σ_k weights[k] ∂²F/∂θ∂o_k for `weights[Z]`: [P]."""
        total = self.parameters.zeros()
        for graph in self._graphs():
            (by_o,) = torch.autograd.grad(graph.loss, graph.o, create_graph=True)
            total += self.parameters.constants(by_o @ weights)
        return total

    @cached_property
    def curved(self) -> Tensor:
        """The diagonal of the undamped Gauss-Newton matrix, estimated with random signs: [P]."""
        generator = torch.Generator().manual_seed(0)
        total = self.parameters.zeros()
        for rows in self._chunks():
            logits, penalty, bend = self._forward(rows, self.samples.anchor)
            for _ in range(_PROBES):
                signs = _signs(logits, generator)
                total += self.parameters.slopes(logits, signs * bend.sqrt(), retain=True).square() / _PROBES
            by_penalty = self.parameters.slopes(penalty, create=True)
            signs = _signs(total, generator)
            total += (self.parameters.constants(by_penalty @ signs) * signs).clamp_min(0)
        return total

    @cached_property
    def learnt(self) -> Tensor:
        """Whether any training row, were all disclosed, depends on a parameter: [P].

        The parameters of unknown users and items are not learnt: they never move.
        """
        generator = torch.Generator().manual_seed(0)
        depends = self.parameters.zeros().bool()
        for rows in self._chunks():
            logits, penalty, _ = self._forward(rows, torch.ones_like(self.samples.anchor))
            # Weights that are no round numbers, so that equal derivatives do not cancel.
            along = torch.rand(logits.shape, generator=generator).to(logits)
            depends |= self.parameters.slopes(logits, along, retain=True) != 0
            depends |= self.parameters.slopes(penalty, retain=True) != 0
        return depends

    def row_product(self, row: int, x: Tensor) -> Tensor:
        """∂²ℓ_row/∂θ² x, with the anchor's rows as evidence."""
        here = slice(row, row + 1)
        prepared = self._prepare(self.samples.anchor)
        losses = self.model.losses(self.samples.users[here], self.samples.items[here], prepared)
        gradient = self.parameters.slopes((losses @ self.samples.weights).sum(), create=True)
        return self.parameters.constants(gradient @ x)

    def valid_scores(self) -> Tensor:
        """The scores of every validation row's candidates: [n, 1 + m]."""
        with torch.no_grad():
            prepared = self._prepare(self.samples.anchor)
            return torch.cat([self._scores(rows, prepared) for rows in self._valid_chunks()])

    def valid_losses(self) -> Tensor:
        """The loss of every validation row: [n]."""
        with torch.no_grad():
            prepared = self._prepare(self.samples.anchor)
            return torch.cat([self._valid(rows, prepared) for rows in self._valid_chunks()])

    def valid_gradient(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Of Σ weights[n] L_n over the validation rows: the gradient by θ, [P], and by o, [Z].

        The first is 0 for parameters that are not `learnt`.
        """
        by_parameters = torch.zeros_like(self.learnt, dtype=self.samples.anchor.dtype)
        by_o = torch.zeros_like(self.samples.anchor)
        for rows in self._valid_chunks(weights):
            o = self.samples.anchor.clone().requires_grad_()
            value = self._valid(rows, self._prepare(o)) @ weights[rows]
            *parts, direct = torch.autograd.grad(value, (*self.parameters.tensors, o), allow_unused=True)
            by_parameters += self.parameters.flat(parts)
            by_o += torch.zeros_like(o) if direct is None else direct
        return torch.where(self.learnt, by_parameters, 0), by_o

    def valid_changes(self, moves: Tensor, changes: Tensor) -> Tensor:
        """moves[r]ᵀ ∂L_n/∂θ + Σ_k changes[r, k] ∂L_n/∂o_k of every validation row: [R, n].

        The gradient Σ_n lever_n ∂L_n is taken once for all r; its product with a move is linear in the lever.
        """
        parts = []
        for rows in self._valid_chunks():
            o = self.samples.anchor.clone().requires_grad_()
            losses = self._valid(rows, self._prepare(o))
            lever = torch.ones_like(losses, requires_grad=True)
            *by_parameters, by_o = torch.autograd.grad(
                losses, (*self.parameters.tensors, o), lever, create_graph=True, allow_unused=True
            )
            slopes = [self.parameters.flat(by_parameters), *([] if by_o is None else [by_o])]
            along = [(move, change)[: len(slopes)] for move, change in zip(moves, changes, strict=True)]
            each = [torch.autograd.grad(slopes, lever, one, retain_graph=True)[0] for one in along]
            parts.append(torch.stack(each))
        return torch.cat(parts, dim=1)

    # -- graphs ------------------------------------------------------------------------------------

    def _prepare(self, o: Tensor) -> object:
        return self.model.prepare(Evidence(self.samples.users, self.samples.items[:, 0], o))

    def _valid(self, rows: Tensor, prepared: object) -> Tensor:
        return self.loss.of(self.valid.scale[rows] * self._scores(rows, prepared))

    def _scores(self, rows: Tensor, prepared: object) -> Tensor:
        scores: Tensor = self.model(self.valid.users[rows], self.valid.items[rows], prepared)[0]
        return scores

    def _valid_chunks(self, weights: Tensor | None = None) -> tuple[Tensor, ...]:
        """The validation rows that count, in chunks that bound memory."""
        counted = torch.ones(len(self.valid.users)) if weights is None else weights
        return torch.split(torch.nonzero(counted).flatten(), self._size(self.valid.items))

    def _chunks(self) -> Iterator[slice]:
        return slices(len(self.samples.users), self._size(self.samples.items))

    def _size(self, items: Tensor) -> int:
        """Rows of `items[n, samples]` in a chunk."""
        return max(1, self.model.samples_at_once // items.shape[1])

    def _make_graphs(self) -> Iterator[Graph]:
        for rows in self._chunks():
            o = self.samples.anchor.clone().requires_grad_()
            losses = self.model.losses(self.samples.users[rows], self.samples.items[rows], self._prepare(o))
            loss = o[rows] @ (losses @ self.samples.weights)
            yield Graph(o, loss, self.parameters.slopes(loss, create=True))

    @cached_property
    def _kept_graphs(self) -> list[Graph] | None:
        return list(self._make_graphs()) if self.samples.items.numel() <= _KEPT else None

    def _graphs(self) -> Iterator[Graph]:
        return self._make_graphs() if self._kept_graphs is None else iter(self._kept_graphs)

    def _forward(self, rows: slice, o: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Logits of the training samples, the sum of their penalties, and a σ(1−σ) of each."""
        prepared = self._prepare(o)
        logits, penalties = self.model(self.samples.users[rows], self.samples.items[rows], prepared)
        weights = o[rows, None] * self.samples.weights
        sigma = torch.sigmoid(logits.detach())
        return logits, (weights * penalties).sum(), weights * sigma * (1 - sigma)

    def _gauss_newton(self, rows: slice, x: Tensor) -> Tensor:
        """Jᵀ (a σ(1−σ)) J x of the logits, plus the penalties' Hessian times x."""
        if not knows(type(self.model), Estimator.GAUSS_NEWTON):
            raise AssentError(
                f"influence: Gauss-Newton needs the cross-entropy of the logits, and model {self.model.name} "
                "has losses of its own; accepted: another estimator"
            )
        logits, penalty, bend = self._forward(rows, self.samples.anchor)
        lever = torch.zeros_like(logits, requires_grad=True)
        pulled = self.parameters.slopes(logits, lever, create=True)
        (moved,) = torch.autograd.grad(pulled @ x, lever, retain_graph=True)
        by_logits = self.parameters.slopes(logits, bend * moved, retain=True)
        return by_logits + self.parameters.constants(self.parameters.slopes(penalty, create=True) @ x)


def knows(model: type[Recommender], estimator: Estimator) -> bool:
    """Whether an estimator can be had for a model: Gauss-Newton rests on the cross-entropy of its logits."""
    return estimator is not Estimator.GAUSS_NEWTON or model.losses is Recommender.losses


def _signs(like: Tensor, generator: torch.Generator) -> Tensor:
    """Random signs, ±1, in the shape of `like`."""
    return torch.randint(2, like.shape, generator=generator).to(like) * 2 - 1
