"""CPU seconds of one epoch of every model on Diginetica, as multiples of an epoch of MF."""

import time

import numpy as np
from assent.settings import Settings
from assent.workbench import Workbench

from assent.data.problem import Problem
from assent.models import MODELS
from common import load, verdict

EPOCHS = 10


def seconds(problem: Problem, model: str, epochs: int) -> float:
    """CPU seconds of a training that looks at the validation rows once, at its end."""
    settings = Settings.model_validate(
        {"model": model, "training": {"epochs": epochs, "evaluate_every": epochs}}
    )
    start = time.process_time()
    Workbench(problem, settings, 0).final(np.ones(len(problem.train), dtype=np.bool_))
    return time.process_time() - start


if __name__ == "__main__":
    problem = load("diginetica")
    costs = {}
    for model in MODELS:
        tries = [seconds(problem, model, 1 + EPOCHS) - seconds(problem, model, 1) for _ in range(3)]
        costs[model] = min(tries) / EPOCHS
        print(f"{model}: {1000 * costs[model]:.0f} ms an epoch, {costs[model] / costs['mf']:.1f} times MF's")
    verdict("LightGCN's epoch", costs["lightgcn"] / costs["mf"], 3, "times MF's")
