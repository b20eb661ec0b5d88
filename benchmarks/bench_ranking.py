"""Ranking all items for all users of Gowalla with MF."""

import time

import numpy as np
from assent.settings import Settings
from assent.workbench import Workbench

from assent.data.problem import Protocol
from assent.evaluation.evaluate import ranked_metrics
from common import load, verdict

if __name__ == "__main__":
    problem = load("gowalla", protocol=Protocol.FULL)
    settings = Settings.model_validate({"training": {"epochs": 1}})
    trained = Workbench(problem, settings, seed=0).final(np.ones(len(problem.train), dtype=np.bool_))
    start = time.perf_counter()
    ranked_metrics(problem, trained)
    seconds = time.perf_counter() - start
    print(f"{problem.n_users:,} users, {problem.n_items:,} items")
    verdict("ranking all items for all users", seconds, 30, "s")
