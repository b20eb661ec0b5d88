"""Methods with settings that are quick, and labs that know what a test tells them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from assent.game.estimates import Estimates
from assent.lab import Found, Lab, Store
from assent.lab.anchors import InfluenceAt, loss_weights, random_anchors
from assent.methods import METHODS, Choice, Method, make_method
from assent.methods.ifrqe import IFRQE
from assent.support.arrays import Bools, Floats
from assent.support.cost import NO_COST
from tests.small import QUICK

SHORT: dict[str, dict[str, Any]] = {
    "worth": {"folds": 2},
    "ifrqe": {"rounds": 10},
    "ifrqe++": {"anchors": 2, "rounds": 10},
    "proactive": {"rounds": 4, "window": 2},
    "scratch": {"selections": 4, "rounds": 2},
}
"""Settings of methods that train no more than they need to be themselves."""


def quick(name: str, **settings: Any) -> Method:
    """A method with few trainings."""
    return make_method(name, **{**SHORT.get(name, {}), **settings})


def every() -> list[Method]:
    """All methods, for every objective that they can be told."""
    return [
        quick(name, **({"objective": objective} if "objective" in kind.model_fields else {}))
        for name, kind in METHODS.items()
        for objective in (kind.objectives if "objective" in kind.model_fields else [None])
    ]


EVERY = every()
ANCHORED = [method for method in EVERY if isinstance(method, IFRQE)]
VALUING = [method for method in EVERY if method.name in ("worth", "ifrqe", "ifrqe++", "scratch")]


def title(method: Method) -> str:
    return f"{method.name}-{method.plays_for}" if method.plays_for else method.name


def over(methods: Sequence[Method]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("method", methods, ids=title)


def same(one: Choice, other: Choice) -> bool:
    return one.price == other.price and np.array_equal(one.selection, other.selection)


def afresh(lab: Lab, **changes: Any) -> Lab:
    """The lab with nothing known yet."""
    return replace(lab, store=Store.temporary(), **changes)


def at_anchors(lab: Lab, method: IFRQE) -> Estimates:
    """The game that a method plays at random anchors, from what is known at each."""
    anchors = random_anchors(lab, method.n_anchors, rate=method.anchor_rate)
    settings, problem = method.influence_for(lab.settings.model), lab.problem
    tasks = [InfluenceAt(anchor, settings, method.reward) for anchor in anchors]
    known = [entry.arrays for entry in lab.run(tasks)]
    weights = loss_weights(lab, method.reward)
    return Estimates(
        owners=problem.train.users,
        n_users=problem.n_users,
        unwillingness=problem.unwillingness,
        anchors=np.array([anchor.selection for anchor in anchors]),
        own=np.array([each["own"] for each in known]) * weights[problem.train.users],
        social=np.array([each["social"] for each in known]),
        losses=np.array([each["losses"] for each in known]) * weights,
        wishes=problem.wishes,
    )


def told(lab: Lab, method: IFRQE, change: Callable[[dict[str, Floats]], dict[str, Floats]]) -> Lab:
    """A lab whose store says something else of influence at random anchors than was measured there."""
    found = afresh(lab)
    settings = method.influence_for(lab.settings.model)
    for anchor in random_anchors(lab, method.n_anchors, rate=method.anchor_rate):
        task = InfluenceAt(anchor, settings, method.reward)
        [entry] = lab.run([task])
        found.store.put(task.key(found), Found(change(dict(entry.arrays)), entry.facts), seconds=0)
    return found


@dataclass(frozen=True)
class Pretending(Lab):
    """A lab in which trainings on a selection lead to `losses` of it, at no cost."""

    losses: Callable[[Bools], Floats] | None = None

    def run(self, tasks: Any, label: str = "") -> Any:
        assert self.losses is not None
        return [
            SimpleNamespace(arrays={"losses": self.losses(task.training.selection)}, cost=NO_COST)
            for task in tasks
        ]


def lab_of(problem: Any, *, folder: Path | None = None, **more: Any) -> Lab:
    store = Store(folder) if folder else Store.temporary()
    return Lab(problem, QUICK, store=store, **more)
