"""How accurate influence is: agreement between anchors, and own influence against a solve for every user.

Two anchors differ by a tenth of their rows; what they disagree on is noise of the estimate. Prints the
correlation of influence between them by loss and damping, then that of own influence from groups of users,
and from MF's stars, with an exact solve for each of 100 users.
"""

import itertools

import numpy as np
import torch

from assent.influence.autodiff import Autodiff
from assent.influence.closed_form import Curvature
from assent.influence.estimate import own_by_groups, own_influence
from assent.influence.inverse import InfluenceSettings, inverse_product
from assent.lab import Lab
from assent.lab.anchors import linearised, random_anchors
from assent.methods.ifrqe import IFRQEpp
from assent.models.losses import Loss
from common import REAL, Option, load, read_options, settings_of


def agreement(name: str, lab: Lab) -> None:
    for loss, damping in itertools.product(Loss, (0.05, 0.5)):
        influence = InfluenceSettings(loss=loss, damping=damping)
        found = IFRQEpp(anchors=2, influence=influence).estimates(lab)
        own, social = (np.corrcoef(*values)[0][1] for values in (found.own, found.social))
        print(f"{name}, {loss} loss, damping {damping}: own {own:.2f}, social {social:.2f}", flush=True)


def against_exact(name: str, lab: Lab, users: int) -> None:
    settings = InfluenceSettings()
    [anchor] = random_anchors(lab, 1, rate=0.9)
    closed = linearised(lab, anchor, lab.train([anchor])[0], settings)
    assert isinstance(closed, Curvature)
    model = Autodiff(closed.model, closed.samples, closed.valid, closed.loss, closed.full, closed.damping)
    owners, judged = model.samples.users.numpy(), model.valid.users.numpy()
    some = np.random.default_rng(0).choice(np.intersect1d(owners, judged), users, replace=False)
    exact = np.zeros(len(owners))
    for user in some:
        b, direct = model.valid_gradient(torch.from_numpy((judged == user).astype(np.float32)))
        values = model.along(inverse_product(model, b, settings, 0).x) - direct
        exact[owners == user] = values.numpy()[owners == user]
    theirs = np.isin(owners, some)
    found = {"stars": own_influence(closed, settings, 0)[0]}
    for groups in (8, 16, 32):
        grouped = settings.model_copy(update={"groups": groups})
        found[f"{groups} groups"] = own_by_groups(model, grouped, 0)[0]
    for label, each in found.items():
        correlation = np.corrcoef(each.numpy()[theirs], exact[theirs])[0, 1]
        print(f"{name}, {label}: correlation {correlation:.3f} with a solve for every user", flush=True)


if __name__ == "__main__":
    given = read_options(
        __doc__,
        datasets=Option(REAL, "data sets", quick=REAL[:1]),
        users=Option(100, "users who are solved for exactly", quick=10),
    )
    for data in given.datasets:
        one_lab = Lab(load(data, quick=given.quick), settings_of(quick=given.quick))
        agreement(data, one_lab)
        against_exact(data, one_lab, given.users)
