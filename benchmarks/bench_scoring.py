"""Every user's predicted reward under a joint selection, against retraining on it."""

import time

import numpy as np
from assent.settings import Settings
from assent.workbench import Workbench

from common import PAPERS_GAME, load, verdict

BATCH = 20
"""Selections scored at once."""

if __name__ == "__main__":
    for name in ("diginetica", "steam", "amazon_video_games"):
        problem = load(name)
        bench = Workbench(problem, Settings(value=PAPERS_GAME), seed=0)
        estimates = bench.estimates(2, effects=True)
        rng = np.random.default_rng(0)
        selections = rng.random((200, len(problem.train))) < 0.8
        bench.final(selections[0])
        start = time.perf_counter()
        for selection in selections[:3]:
            bench.final(selection)
        training = (time.perf_counter() - start) / 3
        start = time.perf_counter()
        for selection in selections:
            estimates.predicted_rewards(selection[None], 0.1)
        alone = (time.perf_counter() - start) / len(selections)
        start = time.perf_counter()
        for at in range(0, len(selections), BATCH):
            estimates.predicted_rewards(selections[at : at + BATCH], 0.1)
        scoring = (time.perf_counter() - start) / len(selections)
        print(
            f"{name}: retraining {training:.2f} s, scoring one selection {1000 * alone:.3f} ms, "
            f"one of {BATCH} at once {1000 * scoring:.3f} ms"
        )
        verdict(f"{name}, retraining / scoring alone", training / alone, 1000, "", at_most=False)
        verdict(f"{name}, retraining / scoring {BATCH} at once", training / scoring, 1000, "", at_most=False)
