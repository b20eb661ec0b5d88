"""Test NDCG@5 of MF on everything, mean of five seeds, and the seconds of one training."""

import time

import numpy as np

from assent.evaluation import evaluate
from assent.settings import Settings
from assent.statistics import mean_and_error
from assent.workbench import Workbench
from common import load, verdict

TARGETS = {"diginetica": 22.0, "steam": 39.0, "amazon_video_games": 8.5}

if __name__ == "__main__":
    for name, target in TARGETS.items():
        problem = load(name)
        everything = np.ones(len(problem.train), dtype=np.bool_)
        scores, seconds = [], []
        for seed in range(5):
            start = time.perf_counter()
            trained = Workbench(problem, Settings(), seed).final(everything)
            seconds.append(time.perf_counter() - start)
            scores.append(100 * evaluate(problem, trained, everything, price=0.1)["ndcg"])
        mean, error = mean_and_error(scores)
        print(f"{name}: NDCG@5 {mean:.2f} ± {error:.2f} %")
        verdict(f"{name}, NDCG@5", mean, target, "%", at_most=False)
        verdict(f"{name}, slowest training", max(seconds), 10, "s")
