"""Own and social influence of every training interaction at an anchor.

    g_k = −dL/do_k = ∇Lᵀ H⁻¹ ∂²F/∂θ∂o_k − ∂L/∂o_k

is how much disclosing interaction k lowers the validation loss L, to first order; for a model that does not
read the interactions as input this is ∇Lᵀ H⁻¹ ∇ℓ_k, Theorem 1 of the paper. *Own* influence takes the loss of
the interaction's owner, *social* influence the sum of everybody's. Both are in units of the loss summed over
T^u. Around an anchor õ they predict L(o) ≈ L(õ) − Σ_k (o_k − õ_k) g_k: centred, which agrees with the paper's
formula at the optimum and is more accurate at a model that stopped before it.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from assent.arrays import Bools, Floats, Ints
from assent.data.problem import Problem
from assent.denormals import flushed
from assent.influence.autodiff import Autodiff
from assent.influence.groups import own_by_groups
from assent.influence.linearised import Linearised, inverse_product
from assent.influence.mf.curvature import Curvature
from assent.influence.mf.own import own_in_stars
from assent.influence.samples import ValidSamples, train_samples, valid_samples
from assent.influence.settings import Estimator, InfluenceSettings
from assent.losses import Loss
from assent.models import MF
from assent.training import Trained, disclose


@dataclass(frozen=True)
class Influence:
    """What is known at one anchor."""

    own: Floats
    """[Z], on the owner's loss."""
    social: Floats
    """[Z], on the sum of all users' losses, weighted where weights were given."""
    losses: Floats
    """[n_users], L_u of the anchor's model."""
    residual_own: float | None
    """Largest relative residual of the users' systems; None for estimators that solve none."""
    residual_social: float | None
    """Relative residual of the one system of the sum."""


def linearise(
    problem: Problem,
    anchor: Bools | Floats,
    trained: Trained,
    *,
    negatives: int,
    settings: InfluenceSettings,
    seed: int,
    targets: Ints | None = None,
) -> Linearised:
    """The model `trained` on the rows of `anchor[Z]` (or shares of them), ready to be differentiated.

    The model's vocabulary must be that of all training rows; `negatives` is how many each had in training.
    The training rows `targets`, which the anchor withholds, follow the validation rows as further ones.
    """
    data = disclose(problem, np.ones(len(problem.train), dtype=np.bool_))
    if not (
        np.array_equal(data.user_ids, trained.user_ids) and np.array_equal(data.item_ids, trained.item_ids)
    ):
        raise ValueError("influence: the anchor's model must know the users and items of all training rows")
    model = trained.model.eval()
    samples = train_samples(
        data,
        anchor,
        draws=settings.draws_for(len(problem.train)),
        per_row=negatives,
        seed=seed,
        dtype=next(model.parameters()).dtype,
    )
    valid = valid_samples(problem, np.unique(problem.train.users), np.unique(problem.train.items))
    if targets is not None:
        valid = valid.followed_by(problem, data, targets, seed=seed)
    full = settings.estimator is not Estimator.GAUSS_NEWTON
    plain: Curvature | Autodiff
    if type(model) is MF:  # a subclass may score otherwise
        plain = Curvature(model, samples, valid, settings.loss, full, settings.damping)
    else:
        plain = Autodiff(model, samples, valid, settings.loss, full, settings.damping)
    if settings.loss is not Loss.CALIBRATED:
        return plain
    return replace(plain, valid=_calibrated(plain, len(problem.valid)))


def _calibrated(model: Linearised, n_valid: int) -> ValidSamples:
    """The validation rows, the first `n_valid` and the others each at the scale that is best for them."""
    scores = model.valid_scores()
    parts = [part for part in (scores[:n_valid], scores[n_valid:]) if len(part)]
    scale = [torch.full((len(part), 1), Loss.CALIBRATED.scale(part)) for part in parts]
    return replace(model.valid, scale=torch.cat(scale).to(scores))


def influence(
    model: Linearised, settings: InfluenceSettings, seed: int, weights: Floats | None = None
) -> Influence:
    """Own and social influence of all training rows at an anchor.

    `weights[n_users]` say what each user's loss counts in the sum that social influence is about; default: 1.
    """
    own, own_residual = own_influence(model, settings, seed)
    of_rows = None if weights is None else weights[model.valid.owners.numpy()]
    social, social_residual = social_influence(model, settings, seed, of_rows)
    return Influence(
        own=own.double().numpy(),
        social=social.double().numpy(),
        losses=model.valid.per_user(model.valid_losses()),
        residual_own=own_residual,
        residual_social=social_residual,
    )


@flushed()
def social_influence(
    model: Linearised, settings: InfluenceSettings, seed: int, weights: Floats | None = None
) -> tuple[Tensor, float | None]:
    """The effect of each row on the sum of all validation losses, [Z], and the residual of its one solve.

    `weights[n]` say what the loss of each validation row counts in that sum; default: 1.
    """
    b, direct = model.valid_gradient(_of_rows(model, weights))
    solution = inverse_product(model, b, settings, seed)
    return model.along(solution.x) - direct, solution.residual


@flushed()
def own_influence(
    model: Linearised, settings: InfluenceSettings, seed: int, weights: Floats | None = None
) -> tuple[Tensor, float | None]:
    """The effect of each row on its owner's loss, [Z], and the largest residual of the solves.

    `weights[n]` say what each validation row counts in its owner's loss; default: 1.
    """
    of_rows = _of_rows(model, weights)
    if isinstance(model, Curvature):
        return own_in_stars(model, settings, seed, of_rows)
    return own_by_groups(model, settings, seed, of_rows)


def _of_rows(model: Linearised, weights: Floats | None) -> Tensor:
    given = torch.ones(len(model.valid.users)) if weights is None else torch.from_numpy(weights)
    return given.to(model.samples.anchor)
