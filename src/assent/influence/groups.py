"""The effect of everybody's interactions on their owners, from a few solves over all parameters.

A right-hand side per user would be exact and far too many. Users are dealt into groups, each user with a
random sign ε, and one solve gives the influence on Σ_u ε_u L_u of a group. Read at the rows of user u and
multiplied by ε_u it is

    −dL_u/do_k  +  Σ_{v ≠ u} ε_u ε_v (what k does to L_v)

Her own effect in full, plus noise of mean 0: what one interaction does to each of the others is small, and
more groups make the others fewer. It holds for any model, through everything that its scores depend on.
"""

import numpy as np
import torch
from torch import Tensor

from assent.influence.linearised import Linearised, inverse_product
from assent.influence.settings import InfluenceSettings


def own_by_groups(
    model: Linearised, settings: InfluenceSettings, seed: int, of_rows: Tensor | None = None
) -> tuple[Tensor, float | None]:
    """The effect of each training row on its owner's loss, [Z], and the largest residual of the solves.

    `of_rows[n]` is what each validation row counts in its owner's loss; default: 1.
    """
    owners, judged = model.samples.users, model.valid.users
    n_users = 1 + int(max(owners.max(), judged.max()))
    rng = np.random.default_rng((seed, 5))
    count = min(settings.groups, n_users)
    group = torch.from_numpy(rng.permutation(n_users) % count)
    sign = torch.from_numpy(rng.integers(2, size=n_users) * 2 - 1).to(model.samples.anchor)
    own, residuals = torch.zeros_like(model.samples.anchor), []
    for number in range(count):
        weights = torch.where(group == number, sign, 0)[judged] * (1 if of_rows is None else of_rows)
        if not weights.any():
            continue
        b, direct = model.valid_gradient(weights)
        solution = inverse_product(model, b, settings, seed)
        hers = group[owners] == number
        own[hers] = (sign[owners] * (model.along(solution.x) - direct))[hers]
        if solution.residual is not None:
            residuals.append(solution.residual)
    return own, max(residuals, default=None)
