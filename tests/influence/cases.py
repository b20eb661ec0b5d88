"""The table of small problems that all of influence is tested on."""

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import torch

from assent.data.problem import Problem, Protocol, Rows, make_problem
from assent.data.simulate import simulate
from assent.influence.closed_form import Curvature
from assent.influence.estimate import Influence, influence, linearise
from assent.influence.inverse import Estimator, InfluenceSettings
from assent.lab import Lab, Store
from assent.lab.anchors import random_anchors
from assent.models import MF, Draws, MFSettings, Sizes
from assent.models.losses import Loss
from assent.support.arrays import Bools
from assent.training import Settings, Trained, TrainingSettings

from .oracle import Oracle, minimise


@dataclass(frozen=True, eq=False)
class Case:
    """A problem, an anchor and a model in double precision, with what `linearise` asks for besides."""

    name: str
    problem: Problem
    anchor: Bools
    trained: Trained
    negatives: int
    draws: int
    seed: int = 0

    @property
    def model(self) -> MF:
        assert isinstance(self.trained.model, MF)
        return self.trained.model

    @property
    def arguments(self) -> dict[str, Any]:
        """What `linearise` takes besides the settings."""
        return {
            "problem": self.problem,
            "anchor": self.anchor,
            "trained": self.trained,
            "negatives": self.negatives,
            "seed": self.seed,
        }

    def settings(self, estimator: Estimator, **changes: Any) -> InfluenceSettings:
        """Settings with which every solver runs to the end; no default is relied on."""
        values: dict[str, Any] = {
            "estimator": estimator,
            "loss": Loss.PAIRWISE,
            "damping": 0.1,
            "draws": self.draws,
            "truncation": 2000,
            "tolerance": 1e-12,
            "iterations": 2000,
            "lissa_steps": 20,
        }
        return InfluenceSettings(**values | changes)

    def linearised(self, settings: InfluenceSettings) -> Curvature:
        """The model in closed form."""
        found = linearise(**self.arguments, settings=settings)
        assert isinstance(found, Curvature)
        return found

    def influence(self, settings: InfluenceSettings) -> Influence:
        """Own and social influence at the anchor."""
        return influence(self.linearised(settings), settings, self.seed)

    def oracle(self, settings: InfluenceSettings, *, at_once: int = 2**18) -> Oracle:
        """The same model with dense derivatives; `at_once` samples make a block of the closed form."""
        curvature = replace(self.linearised(settings), samples_at_once=at_once)
        return Oracle(curvature, settings, np.unique(self.problem.train.users))

    def __str__(self) -> str:
        return self.name


def random_case(
    name: str,
    *,
    items: int = 8,
    rate: float = 1.0,
    strength: float = 0.65,
    scale: float = 0.7,
    negatives: int = 1,
    draws: int = 1,
    seed: int = 0,
) -> Case:
    """A model with random parameters on a random log of 7 users, with 3 training rows each.

    The first user and the first item have no training row, so that the model's indices are not the problem's.
    The second user has two validation rows, the last one none.
    """
    users, per_user = 7, 3
    rng = np.random.default_rng(7)
    taken = np.stack([1 + rng.permutation(items - 1)[:per_user] for _ in range(users - 1)])
    owners = np.array([0, 1, 1, *range(2, users - 1)])
    candidates = np.stack([rng.permutation(items)[:4] for _ in owners])
    problem = Problem(
        name=name,
        protocol="by hand",
        seed=0,
        user_ids=np.array([f"u{u:02}" for u in range(users)]),
        item_ids=np.array([f"i{i:02}" for i in range(items)]),
        train=Rows(np.repeat(np.arange(1, users), per_user), taken.flatten()),
        valid=Rows(owners, candidates[:, 0]),
        test=Rows(owners[:0], candidates[:0, 0]),
        unwillingness=rng.random(taken.size),
        valid_candidates=candidates,
        test_candidates=None,
    )
    anchor = rng.random(taken.size) < rate
    known_users, known_items = np.unique(problem.train.users), np.unique(problem.train.items)
    sizes = Sizes(len(known_users), len(known_items), int(anchor.sum()), negatives)
    model = MF(sizes, MFSettings(dimension=3, strength=strength, initial_scale=scale)).double()
    model.initialise(Draws.numbered(model.sizes, 7))
    model.finish()
    trained = Trained(model, problem.user_ids[known_users], problem.item_ids[known_items], 0, 1, None)
    return Case(name, problem, anchor, trained, negatives, draws, seed)


@cache
def learnable_case(*, users: int, items: int, dimension: int) -> Case:
    """A trained model on a simulated log in which there is something to learn."""
    log = simulate(preference="learnable", users=users, items=items, seed=1)
    problem = make_problem(log, Protocol.PAPER_TABLES, negatives=10)
    settings = Settings(
        model="mf",
        model_settings=MFSettings(dimension=dimension, strength=0.65),
        training=TrainingSettings(epochs=60, evaluate_every=60, negatives=1),
    )
    lab = Lab(problem, settings, 0, Store.temporary())
    anchors = random_anchors(lab, 1, rate=0.9)
    [trained] = lab.train(anchors)
    trained.model.double()
    return Case(f"learnable {users} x {items}", problem, anchors[0].selection, trained, negatives=1, draws=4)


def trained_case() -> Case:
    """A small model as training leaves it, with a loss that the negatives influence draws do not minimise."""
    return learnable_case(users=40, items=30, dimension=3)


@cache
def settled_case() -> Case:
    """The same at a minimum of the loss with the negatives that influence draws, where Theorem 1 holds."""
    case = trained_case()
    oracle = case.oracle(case.settings(Estimator.TRUNCATED))
    theta = oracle.table(minimise(oracle.anchor_loss, oracle.theta))
    model = MF(case.model.sizes, case.model.settings).double()
    with torch.no_grad():
        model.user_table[:-1] = theta[: model.n_users]
        model.item_table[:-1] = theta[model.n_users :]
    model.finish()
    return replace(case, name="settled", trained=replace(case.trained, model=model))


CASES = (
    random_case("everything disclosed"),
    random_case("some rows withheld", rate=0.6, draws=4, negatives=2),
    random_case("no penalty", rate=0.8, strength=0.0),
    random_case("saturated scores", rate=0.8, scale=3.0, draws=2),
    # With these seeds no item is twice among the samples of a user.
    random_case("items apart", items=30, rate=0.8, strength=2.0, negatives=2, seed=8),
    random_case("items apart, all disclosed", items=20, strength=2.0, seed=1),
)
"""Every operator is compared with its dense oracle on each of these."""

STAR_CASES = CASES[-2:]
"""Those for which a user's system in their star is the one that `own` documents, and definite."""
