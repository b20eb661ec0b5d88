"""What a recommender has to beat: popularity and neighbours of items, straight from the training rows."""

import numpy as np
from scipy import sparse

from assent.data.problem import Problem
from assent.support.arrays import Floats, Ints


def popularity(problem: Problem, users: Ints, candidates: Ints) -> Floats:
    """How many training rows each of `candidates[n, m]` has, whoever asks: [n, m]."""
    counts = np.bincount(problem.train.items, minlength=problem.n_items).astype(np.float64)
    return counts[candidates]


def item_knn(problem: Problem, users: Ints, candidates: Ints) -> Floats:
    """Σ_j cos(i, j) of `candidates[n, m]` over the training items j of `users[n]`: [n, m].

    The cosine of two items is that of their columns of the training rows, users × items.
    """
    train = problem.train
    counts = np.maximum(1, np.bincount(train.items, minlength=problem.n_items))
    ones = np.ones(len(train))
    taken = sparse.csr_array((ones, (train.users, train.items)), shape=(problem.n_users, problem.n_items))
    unit = sparse.csr_array(taken @ sparse.diags_array(1 / np.sqrt(counts)))
    similar = sparse.csr_array(unit.T @ unit)
    every: Floats = sparse.csr_array(taken @ similar).toarray()
    return every[users[:, None], candidates]
