"""Every user's predicted reward under a joint selection, against retraining on it."""

import time

import numpy as np

from assent.settings import Settings
from assent.workbench import Workbench
from common import load, verdict

if __name__ == "__main__":
    for name in ("diginetica", "steam", "amazon_video_games"):
        problem = load(name)
        bench = Workbench(problem, Settings(), seed=0)
        estimates = bench.estimates(2, effects=True)
        rng = np.random.default_rng(0)
        selections = [rng.random(len(problem.train)) < 0.8 for _ in range(200)]
        bench.final(selections[0])
        start = time.perf_counter()
        for selection in selections[:3]:
            bench.final(selection)
        training = (time.perf_counter() - start) / 3
        start = time.perf_counter()
        for selection in selections:
            estimates.predicted_rewards(selection, 0.1)
        scoring = (time.perf_counter() - start) / len(selections)
        print(f"{name}: retraining {training:.2f} s, scoring {1000 * scoring:.3f} ms")
        verdict(f"{name}, retraining / scoring", training / scoring, 1000, "", at_most=False)
