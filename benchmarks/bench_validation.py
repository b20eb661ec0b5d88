"""Validation NDCG@5 of every model's defaults beside popularity and item neighbours: a guard for defaults.

Two seeds, on everything; on Diginetica also on nine tenths of the rows, where less data wants other settings.
"""

import numpy as np
from assent.settings import Settings
from assent.workbench import Workbench

from assent.data.problem import Problem
from assent.models import MODELS
from assent.support.arrays import Bools
from baselines import item_knn, popularity
from common import load, ndcg, validation_ndcg

MIXTURES = (0.3, 1.0, 3.0, 10.0)


def references(problem: Problem) -> dict[str, float]:
    """Popularity, neighbours, and the best sum of log popularity and weighted neighbours."""
    rows = problem.valid
    popular = popularity(problem, rows.users, problem.valid_candidates)
    near = item_knn(problem, rows.users, problem.valid_candidates)
    mixed = [ndcg(problem, rows, np.log1p(popular) + weight * near) for weight in MIXTURES]
    return {
        "popularity": ndcg(problem, rows, popular),
        "item_knn": ndcg(problem, rows, near),
        "their best mixture": max(mixed),
    }


def of_model(problem: Problem, model: str, selection: Bools) -> float:
    settings = Settings.model_validate({"model": model})
    found = [validation_ndcg(problem, Workbench(problem, settings, s).final(selection)) for s in range(2)]
    return float(np.mean(found))


if __name__ == "__main__":
    for name in ("diginetica", "steam", "amazon_video_games"):
        problem = load(name)
        everything = np.ones(len(problem.train), dtype=np.bool_)
        for reference, value in references(problem).items():
            print(f"{name}, {reference}: {value:.2f} %", flush=True)
        for model in MODELS:
            print(f"{name}, {model}: {of_model(problem, model, everything):.2f} %", flush=True)
            if name == "diginetica":
                most = np.random.default_rng(0).random(len(everything)) < 0.9
                print(f"{name}, {model}, nine tenths: {of_model(problem, model, most):.2f} %", flush=True)
