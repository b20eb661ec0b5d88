"""Own influence from groups of users, and from MF's stars, against a solve for every single user."""

import numpy as np
import torch
from assent.settings import Settings
from assent.workbench import Workbench

from assent.influence.autodiff import Autodiff
from assent.influence.estimate import own_by_groups, own_influence
from assent.influence.inverse import inverse_product
from assent.influence.mf_curvature import Curvature
from common import PAPERS_GAME, load

USERS = 100
"""Users who are solved for one by one."""

if __name__ == "__main__":
    for name in ("diginetica", "steam", "amazon_video_games"):
        settings = Settings().influence
        closed = Workbench(load(name), Settings(value=PAPERS_GAME), seed=0).linearise(0)
        assert isinstance(closed, Curvature)
        model = Autodiff(closed.model, closed.samples, closed.valid, closed.loss, closed.full, closed.damping)
        owners, judged = model.samples.users.numpy(), model.valid.users.numpy()
        some = np.random.default_rng(0).choice(np.intersect1d(owners, judged), USERS, replace=False)
        exact = np.zeros(len(owners))
        for user in some:
            b, direct = model.valid_gradient(torch.from_numpy((judged == user).astype(np.float32)))
            values = model.along(inverse_product(model, b, settings, 0).x) - direct
            exact[owners == user] = values.numpy()[owners == user]
        theirs = np.isin(owners, some)
        found = {"stars": own_influence(closed, settings, 0)[0]}
        for groups in (8, 16, 32):
            found[f"{groups} groups"] = own_by_groups(
                model, settings.model_copy(update={"groups": groups}), 0
            )[0]
        for label, values in found.items():
            correlation = np.corrcoef(values.numpy()[theirs], exact[theirs])[0, 1]
            print(f"{name}, {label}: correlation {correlation:.3f} with a solve per user")
