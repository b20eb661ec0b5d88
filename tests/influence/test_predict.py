import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from torch import Tensor
from torch.testing import assert_close

from assent.influence.estimate import predicted_losses
from assent.influence.inverse import Estimator, InfluenceSettings, sampled_rows
from assent.models.losses import Loss
from assent.support.arrays import Bools, Floats

from .cases import CASES, STAR_CASES, Case
from .oracle import Oracle, hessian

SOLVABLE = [
    (case, estimator)
    for case in CASES
    for estimator in Estimator
    if case in STAR_CASES or estimator is not Estimator.TRUNCATED
]
"""Without the full Hessians that are not definite."""

selections = arrays(np.bool_, len(STAR_CASES[0].anchor), elements=st.booleans())


def predicted(case: Case, settings: InfluenceSettings, selection: Bools) -> Floats:
    found: Floats = predicted_losses(case.linearised(settings), selection[None], settings, case.seed)[0]
    return found


def dense_inverse(oracle: Oracle, b: Tensor, settings: InfluenceSettings, seed: int) -> Tensor:
    """What each estimator has for H⁻¹ b."""
    match settings.estimator:
        case Estimator.GRADIENT_DOT:
            return b / oracle.samples.anchor.sum()
        case Estimator.LISSA:
            hessians, x = hessian(oracle.train_losses, oracle.theta), b
            for row in sampled_rows(oracle.samples, steps=settings.lissa_steps, seed=seed):
                x = b + x - hessians[row] @ x
            return x / oracle.samples.anchor.sum()
        case _:
            solution: Tensor = torch.linalg.solve(oracle.matrix, b)
            return solution


@pytest.mark.parametrize("loss", Loss)
@pytest.mark.parametrize(("case", "estimator"), SOLVABLE, ids=str)
def test_losses_move_with_the_parameters(case: Case, estimator: Estimator, loss: Loss) -> None:
    settings = case.settings(estimator, loss=loss)
    selection = np.random.default_rng(1).random(len(case.anchor)) < 0.5
    oracle = case.oracle(settings)
    change = torch.from_numpy(selection.astype(np.float64)) - oracle.samples.anchor
    moved = -dense_inverse(oracle, change @ oracle.train_gradients, settings, case.seed)
    before = oracle.sum_per_user(oracle.valid_losses(oracle.theta))
    expected = before + oracle.user_gradients @ moved
    found = torch.from_numpy(predicted(case, settings, selection))
    assert_close(found, expected, rtol=1e-6, atol=1e-8)
    # A model that ranks worse than chance is calibrated to next to no scale.
    assert (expected - before).abs().max() > 1e-3 * min(1.0, float(oracle.valid.scale.min()))


@pytest.mark.parametrize("estimator", Estimator)
@pytest.mark.parametrize("case", STAR_CASES, ids=str)
def test_at_the_anchor_nothing_changes(case: Case, estimator: Estimator) -> None:
    settings = case.settings(estimator)
    found = case.influence(settings)
    assert_close(predicted(case, settings, case.anchor), found.losses)


@pytest.mark.parametrize("estimator", Estimator)
@pytest.mark.parametrize("case", STAR_CASES, ids=str)
@given(selection=selections)
@settings(deadline=None, max_examples=20)
def test_the_changes_of_all_users_add_up_to_the_social_influence(
    case: Case, estimator: Estimator, selection: Bools
) -> None:
    """The adjoint: Σ_u ∇L_uᵀ H⁻¹ g = gᵀ H⁻¹ Σ_u ∇L_u, for an H⁻¹ that is linear and symmetric.

    One step of LiSSA is; the product of several is not symmetric, and a truncated inverse is not linear.
    """
    chosen = case.settings(estimator, lissa_steps=1)
    found = case.influence(chosen)
    total = predicted(case, chosen, selection).sum() - found.losses.sum()
    change = selection.astype(np.float64) - case.anchor
    assert total == pytest.approx(-change @ found.social, rel=1e-6, abs=1e-8)
