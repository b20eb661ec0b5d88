"""What influence and predictions by it cost, against training a model (CPU time, one thread).

Prints, for every data set: own and social influence of all interactions at one anchor, for every model; for
MF also influence at 3 anchors with the game, and everybody's predicted reward under a joint selection.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from assent.data.problem import Problem
from assent.game.estimates import Objective
from assent.game.solve import solve
from assent.influence.estimate import own_influence, social_influence
from assent.lab import Lab
from assent.lab.anchors import linearised, random_anchors
from assent.methods import influence_settings
from assent.methods.ifrqe import IFRQEpp
from assent.models import MODELS
from assent.support.runtime import one_thread
from common import REAL, Option, load, read_options, seconds, settings_of, train, verdict

BATCH = 20
"""Selections that are scored at once."""


def model_cost(name: str, problem: Problem, model: str, *, quick: bool) -> None:
    """Print what own and social influence cost at one anchor, in trainings of it."""
    lab, settings = Lab(problem, settings_of(model, quick=quick)), influence_settings(model)
    first, anchor = random_anchors(lab, 2, rate=0.9)
    lab.train([first])  # warms up
    training = seconds(lambda: lab.train([anchor]))
    [trained] = lab.train([anchor])

    def influence(compute: Callable[..., object]) -> None:
        compute(linearised(lab, anchor, trained, settings), settings, 0)

    for level, compute, limit in (("social", social_influence, 1), ("own", own_influence, 5)):
        taken = seconds(partial(influence, compute))
        verdict(f"{name}, {model}, {level} / training", taken / training, limit)


def game_cost(name: str, problem: Problem, *, quick: bool) -> None:
    """Print what influence at all anchors and the game cost, in trainings of one anchor."""
    lab, method = Lab(problem, settings_of(quick=quick)), IFRQEpp()
    anchors = random_anchors(lab, method.anchors, rate=method.anchor_rate)
    lab.train(anchors[:1])  # warms up
    training = seconds(lambda: lab.train(anchors[1:])) / (len(anchors) - 1)
    influence = seconds(lambda: method.estimates(lab))
    estimates = method.estimates(lab)
    for objective in Objective:
        total = influence + seconds(partial(solve, estimates, objective=objective, price=0.1))
        title = f"{name}, mf, influence at {len(anchors)} anchors + {objective} game / training one"
        verdict(title, total / training, 1)


def scoring_cost(name: str, problem: Problem, *, quick: bool) -> None:
    """Print how much faster a predicted reward is than retraining, for one selection and for many."""
    settings = settings_of(quick=quick)
    estimates = IFRQEpp(anchors=2).estimates(Lab(problem, settings), effects=True)
    selections = np.random.default_rng(0).random((200, len(problem.train))) < 0.8
    training = seconds(lambda: [train(problem, settings, 0, each) for each in selections[:3]]) / 3

    def score(at_once: int) -> float:
        parts = [selections[at : at + at_once] for at in range(0, len(selections), at_once)]
        work = seconds(lambda: [estimates.predicted_rewards(part, 0.1) for part in parts])
        return work / len(selections)

    for at_once in (1, BATCH):
        taken = score(at_once)
        print(f"{name}: retraining {training:.2f} s, scoring {1000 * taken:.3f} ms, {at_once} at once")
        verdict(f"{name}, retraining / scoring {at_once} at once", training / taken, 1000, at_most=False)


if __name__ == "__main__":
    given = read_options(
        __doc__,
        datasets=Option(REAL, "data sets", quick=REAL[:1]),
        models=Option(tuple(MODELS), "recommenders"),
    )
    with one_thread():
        for data in given.datasets:
            loaded = load(data, quick=given.quick)
            for each_model in given.models:
                model_cost(data, loaded, each_model, quick=given.quick)
            if "mf" in given.models:
                game_cost(data, loaded, quick=given.quick)
                scoring_cost(data, loaded, quick=given.quick)
