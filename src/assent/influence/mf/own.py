"""Own influence for matrix factorisation: all users' small systems at once."""

import torch
from torch import Tensor

from assent.influence.linearised import anchor_size
from assent.influence.lissa import sampled_rows
from assent.influence.mf.curvature import Curvature
from assent.influence.mf.lissa import along_lissa_stars, lissa_stars
from assent.influence.mf.stars import Stars
from assent.influence.settings import Estimator, InfluenceSettings


def own_in_stars(
    curvature: Curvature, settings: InfluenceSettings, seed: int, of_rows: Tensor | None = None
) -> tuple[Tensor, float | None]:
    """The effect of each row on its owner's loss, [Z], and the largest residual of the users' systems.

    `of_rows[n]` is what each validation row counts in its owner's loss; default: 1.
    """
    b = own_gradients(curvature, of_rows)
    match settings.estimator:
        case Estimator.GRADIENT_DOT:
            items_fixed = torch.cat([b, torch.zeros_like(curvature.tables[1])])
            return curvature.along(items_fixed) / anchor_size(curvature), None
        case Estimator.LISSA:
            rows = sampled_rows(curvature.samples, steps=settings.lissa_steps, seed=seed)
            solved = along_lissa_stars(curvature, lissa_stars(curvature, b, rows))
            return solved / anchor_size(curvature), None
        case _:
            stars = Stars(curvature)
            solution = stars.solve(b, settings)
            return stars.along(solution.x), solution.residual


def own_gradients(curvature: Curvature, of_rows: Tensor | None = None) -> Tensor:
    """∇_{p_u} Σ_n of_rows[n] L_n over the validation rows n of every user: [n_users, d]. Default: 1 each."""
    if of_rows is None:
        of_rows = torch.ones(len(curvature.valid.users), dtype=curvature.samples.anchor.dtype)
    return curvature.own_gradient(of_rows)
