"""NDCG@5 of all models trained on everything, beside popularity and item neighbours; seconds of a training.

    bench_quality.py                                         test rows, five seeds
    bench_quality.py --rows validation --seeds 2             a guard for defaults, without a look at test rows

With validation rows, Diginetica also has nine tenths of its rows, where less data wants other settings.
"""

import numpy as np
from scipy import sparse

from assent.data.problem import Problem
from assent.evaluation.evaluate import HeldOut, evaluate
from assent.evaluation.metrics import ranking_metrics, top_hits
from assent.lab import everything
from assent.models import MODELS
from assent.support.arrays import Bools, Floats, Ints
from assent.training import Settings
from common import Option, load, read_options, settings_of, train, validation_ndcg, verdict, with_error

TARGETS = {"diginetica": 22.0, "steam": 39.0, "amazon_video_games": 8.5}
"""What MF has to reach; other models have to reach Diginetica's and to beat popularity elsewhere."""
MIXTURES = (0.3, 1.0, 3.0, 10.0)
"""Weights of item neighbours beside log popularity."""


def popularity(problem: Problem, candidates: Ints) -> Floats:
    """Return how many training rows each of `candidates[n, m]` has: [n, m]."""
    counts = np.bincount(problem.train.items, minlength=problem.n_items).astype(np.float64)
    return counts[candidates]


def item_knn(problem: Problem, users: Ints, candidates: Ints) -> Floats:
    """Return Σ_j cos(i, j) for items i of `candidates[n, m]` over the training items j of `users[n]`: [n, m].

    The cosine of two items is that of their columns of the training rows, users × items.
    """
    train_rows = problem.train
    counts = np.maximum(1, np.bincount(train_rows.items, minlength=problem.n_items))
    ones, shape = np.ones(len(train_rows)), (problem.n_users, problem.n_items)
    taken = sparse.csr_array((ones, (train_rows.users, train_rows.items)), shape=shape)
    unit = sparse.csr_array(taken @ sparse.diags_array(1 / np.sqrt(counts)))
    similar = sparse.csr_array(unit.T @ unit)
    every: Floats = sparse.csr_array(taken @ similar).toarray()
    return every[users[:, None], candidates]


def references(problem: Problem, rows: HeldOut) -> dict[str, float]:
    """Return NDCG@5 in % of popularity, of item neighbours and of their best mixture."""
    judged = rows.of(problem)
    users = judged.rows.users

    def ndcg(scores: Floats) -> float:
        relevant = np.zeros(scores.shape, dtype=np.bool_)
        relevant[:, 0] = True
        hits = top_hits(scores, relevant, users, k=5, seed=problem.seed)
        return 100 * float(ranking_metrics(hits, np.ones(len(hits), dtype=np.int64))["ndcg"].mean())

    popular, near = popularity(problem, judged.candidates), item_knn(problem, users, judged.candidates)
    mixed = max(ndcg(np.log1p(popular) + weight * near) for weight in MIXTURES)
    return {"popularity": ndcg(popular), "item neighbours": ndcg(near), "their best mixture": mixed}


def of_model(
    problem: Problem, settings: Settings, rows: HeldOut, seeds: int, selection: Bools
) -> tuple[list[float], list[float]]:
    """Return NDCG@5 in % and the seconds of the training, for every seed."""
    found, taken = [], []
    for seed in range(seeds):
        trained = train(problem, settings, seed, selection)
        taken.append(trained.cost.seconds)
        found.append(
            validation_ndcg(problem, trained)
            if rows is HeldOut.VALIDATION
            else 100 * evaluate(problem, trained, selection, price=0.1)["ndcg"]
        )
    return found, taken


if __name__ == "__main__":
    given = read_options(
        __doc__,
        datasets=Option(tuple(TARGETS), "data sets", quick=("diginetica",)),
        models=Option(tuple(MODELS), "recommenders"),
        rows=Option(HeldOut.TEST.value, "test or validation"),
        seeds=Option(5, "training seeds", quick=2),
    )
    rows = HeldOut(given.rows)
    for name in given.datasets:
        problem = load(name, quick=given.quick)
        known = references(problem, rows)
        for reference, value in known.items():
            print(f"{name}, {reference}: NDCG@5 {value:.2f} %", flush=True)
        whole = everything(problem)
        for model in given.models:
            settings = settings_of(model, quick=given.quick)
            found, taken = of_model(problem, settings, rows, given.seeds, whole)
            print(f"{name}, {model}: NDCG@5 {with_error(found)} %, {np.mean(taken):.1f} s a training")
            if rows is HeldOut.TEST:
                needed = TARGETS[name] if model == "mf" or name == "diginetica" else known["popularity"]
                verdict(f"{name}, {model}, NDCG@5", found, needed, "%", at_most=False)
                verdict(f"{name}, {model}, slowest training", max(taken), 10, "s")
            elif name == "diginetica":
                most = np.random.default_rng(0).random(len(whole)) < 0.9
                found, _ = of_model(problem, settings, rows, given.seeds, most)
                print(f"{name}, {model}, nine tenths: NDCG@5 {with_error(found)} %", flush=True)
