"""A log in which there is something to learn, and what popularity alone makes of it."""

from functools import cache

import numpy as np

from assent.arrays import Bools, Floats
from assent.data.problem import Problem
from assent.data.simulator import simulate
from assent.data.split import make_problem
from assent.metrics import ranking_metrics, top_hits


@cache
def planted_problem() -> Problem:
    """120 users with tastes of their own for 60 items, and no accidents; test rows are ranked among all."""
    log = simulate(preference="learnable", users=120, items=60, noise=0, seed=0)
    return make_problem(log, "full", negatives=5)


def everything(problem: Problem) -> Bools:
    """The selection that discloses every training row: [len(train)]."""
    return np.ones(len(problem.train), dtype=np.bool_)


def popularity_ndcg(problem: Problem) -> Floats:
    """NDCG@5 on the test rows for every user when items are ranked by how many training rows they have."""
    counts = np.bincount(problem.train.items, minlength=problem.n_items).astype(np.float64)
    scores = np.tile(counts, (problem.n_users, 1))
    for part in (problem.train, problem.valid):
        scores[part.users, part.items] = -np.inf
    relevant = np.zeros(scores.shape, dtype=np.bool_)
    relevant[problem.test.users, problem.test.items] = True
    hits = top_hits(scores, relevant, np.arange(problem.n_users), k=5, seed=0)
    return ranking_metrics(hits, relevant.sum(axis=1))["ndcg"]
