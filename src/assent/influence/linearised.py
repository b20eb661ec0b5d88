"""What influence needs to know of a trained model, whoever differentiates it."""

from typing import Protocol

from torch import Tensor

from assent.influence.lissa import lissa, sampled_rows
from assent.influence.samples import TrainSamples, ValidSamples
from assent.influence.settings import Estimator, InfluenceSettings
from assent.influence.solvers import Dot, Operator, Solution, conjugate_gradients, one_system


class Linearised(Protocol):
    """The losses of a model around its parameters θ and the selection õ that it was trained on.

    F(θ, o) = Σ_k o_k ℓ_k is the training loss, L_n the loss of validation row n. A *vector* is a tensor with
    a number for each parameter, in a shape of the implementation's choice.
    """

    @property
    def samples(self) -> TrainSamples:
        """The rows of F."""

    @property
    def valid(self) -> ValidSamples:
        """The validation rows."""

    def product(self, x: Tensor) -> Tensor:
        """H x for a vector x, with H = ∂²F/∂θ² (or its Gauss-Newton part) plus damping."""

    def precondition(self, x: Tensor) -> Tensor:
        """x divided by, or nearly by, the diagonal of H."""

    def row_product(self, row: int, x: Tensor) -> Tensor:
        """∂²ℓ_row/∂θ² x: the Hessian of one row's loss, undamped."""

    def along(self, x: Tensor) -> Tensor:
        """xᵀ ∂²F/∂θ∂o_k for every training row k: [Z]."""

    def pull(self, weights: Tensor) -> Tensor:
        """Σ_k weights[k] ∂²F/∂θ∂o_k for `weights[Z]`: a vector."""

    def valid_scores(self) -> Tensor:
        """The scores of every validation row's candidates: [n, 1 + m]."""

    def valid_losses(self) -> Tensor:
        """L_n of every validation row: [n]."""

    def valid_gradient(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """The derivatives of Σ_n weights[n] L_n: by θ, a vector, and by o, [Z]."""

    def valid_changes(self, moves: Tensor, changes: Tensor) -> Tensor:
        """moves[r]ᵀ ∂L_n/∂θ + Σ_k changes[r, k] ∂L_n/∂o_k of every validation row: [R, n].

        `moves` are R vectors, `changes[R, Z]` what each does to the selection.
        """


def inverse_product(model: Linearised, b: Tensor, settings: InfluenceSettings, seed: int) -> Solution:
    """H⁻¹ b, with H the Hessian of the *summed* loss, as the estimator stands for it."""
    match settings.estimator:
        case Estimator.GRADIENT_DOT:
            return Solution(b / anchor_size(model), None, 0)
        case Estimator.LISSA:
            rows = sampled_rows(model.samples, steps=settings.lissa_steps, seed=seed)
            return Solution(lissa(model.row_product, b, rows) / anchor_size(model), None, len(rows))
        case _:
            return solve(model.product, model.precondition, b, one_system, settings)


def solve(
    product: Operator, precondition: Operator, b: Tensor, dot: Dot, settings: InfluenceSettings
) -> Solution:
    """H⁻¹ b: to convergence for Gauss-Newton, cut off for the full Hessian."""
    truncated = settings.estimator is Estimator.TRUNCATED
    return conjugate_gradients(
        product,
        b,
        precondition=precondition,
        dot=dot,
        tolerance=settings.tolerance,
        iterations=settings.truncation if truncated else settings.iterations,
    )


def anchor_size(model: Linearised) -> float:
    """Z: the identity and LiSSA stand for the inverse Hessian of the mean loss, not of the sum."""
    return float(model.samples.anchor.sum())
