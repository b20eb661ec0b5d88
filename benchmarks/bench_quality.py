"""Test NDCG@5 of the models on everything, mean of five seeds, and the seconds of one training.

    python benchmarks/bench_quality.py [MODEL ...]

Popularity and neighbours of items stand beside them.
"""

import sys
import time

import numpy as np
from assent.settings import Settings
from assent.workbench import Workbench

from assent.evaluation.evaluate import evaluate
from assent.models import MODELS
from assent.support.statistics import mean_and_error
from baselines import item_knn, popularity
from common import load, ndcg, verdict

TARGETS = {"diginetica": 22.0, "steam": 39.0, "amazon_video_games": 8.5}
"""What MF has to reach; the other models have to reach Diginetica's, and to beat popularity on the rest."""


def main(models: list[str]) -> None:
    for name, target in TARGETS.items():
        problem = load(name)
        assert problem.test_candidates is not None
        references = {}
        for baseline in (popularity, item_knn):
            scores = baseline(problem, problem.test.users, problem.test_candidates)
            references[baseline.__name__] = ndcg(problem, problem.test, scores)
            print(f"{name}, {baseline.__name__}: NDCG@5 {references[baseline.__name__]:.2f} %", flush=True)
        everything = np.ones(len(problem.train), dtype=np.bool_)
        for model in models:
            settings = Settings.model_validate({"model": model})
            found, seconds = [], []
            for seed in range(5):
                start = time.perf_counter()
                trained = Workbench(problem, settings, seed).final(everything)
                seconds.append(time.perf_counter() - start)
                found.append(100 * evaluate(problem, trained, everything, price=0.1)["ndcg"])
            mean, error = mean_and_error(found)
            print(f"{name}, {model}: NDCG@5 {mean:.2f} ± {error:.2f} %, {np.mean(seconds):.1f} s a training")
            needed = target if model == "mf" or name == "diginetica" else references["popularity"]
            verdict(f"{name}, {model}, NDCG@5", mean, needed, "%", at_most=False)
            verdict(f"{name}, {model}, slowest training", max(seconds), 10, "s")


if __name__ == "__main__":
    main(sys.argv[1:] or list(MODELS))
