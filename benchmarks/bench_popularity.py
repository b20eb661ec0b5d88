"""Where popularity ranks the test items: below chance means that a model which learns it ranks below chance.

    bench_popularity.py                         the simulation, Diginetica, the authors' file (a minute)
    bench_popularity.py --models ""             popularity alone
    bench_popularity.py --models mf,lightgcn,neumf,cdae

Each test item is ranked among 99 sampled ones by its number of training rows, ties by lot. Chance gives an F1
of 1.67 %. Then models of the profile `paper` are trained on all rows of the simulation file that the paper's
authors published, and judged alike.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from assent.data.problem import Problem
from assent.evaluation.evaluate import HeldOut, Scorer
from assent.lab import Lab, Store
from assent.lab.lab import Training
from assent.reproduce.plan import SIMULATION, DataSource, Plan, Where, problem_of
from assent.reproduce.profiles import Profile
from assent.support.arrays import Strings
from assent.support.runtime import one_thread
from common import Option, data_folder, load, read_options

PUBLISHED = "simulation_authors"


@dataclass(frozen=True)
class Popularity:
    """Scores items by their training rows."""

    user_ids: Strings
    item_ids: Strings
    rows: Tensor

    def scores(self, _: Tensor, items: Tensor) -> Tensor:
        """Return how many training rows the items have: [n, m]."""
        return self.rows[items]


def popularity(problem: Problem) -> Popularity:
    """Return the counts of a problem's training rows."""
    rows = np.bincount(problem.train.items, minlength=problem.n_items)
    return Popularity(problem.user_ids, problem.item_ids, torch.from_numpy(rows.astype(np.float64)))


def ranked(problem: Problem, model: Scorer) -> str:
    """Return F1, NDCG and MRR of test rows, in percent, in words."""
    found = HeldOut.TEST.of(problem).metrics(problem, model, (5,))
    return ", ".join(f"{name} {100 * float(found[name].mean()):.2f}" for name in ("f1", "ndcg", "mrr"))


def report(name: str, problem: Problem) -> None:
    """Print how popular test items are, and how popularity ranks them."""
    rows = np.bincount(problem.train.items, minlength=problem.n_items)
    candidates = HeldOut.TEST.of(problem).candidates
    own, others = rows[candidates[:, 0]], rows[candidates[:, 1:]]
    print(
        f"{name}, repeat {problem.seed + 1}: {ranked(problem, popularity(problem))}; training rows of a test "
        f"item {own.mean():.2f}, of a sampled one {others.mean():.2f}",
        flush=True,
    )


if __name__ == "__main__":
    given = read_options(
        __doc__,
        repeats=Option(3, "repeats of the first two", quick=1),
        models=Option(("mf", "lightgcn", "neumf", "cdae"), "models on the authors' file"),
    )
    where = Where(data_folder())
    for name in (SIMULATION, "diginetica"):
        for seed in range(given.repeats):
            report(name, problem_of(DataSource(name), seed, where))
    problem = load(PUBLISHED, quick=given.quick)
    report(PUBLISHED, problem)
    plan = Plan(profile=Profile.PAPER)
    for model in filter(None, given.models):
        lab = Lab(problem, plan.settings(model, SIMULATION), 0, Store.temporary())
        with one_thread():
            (trained,) = lab.train([Training(np.ones(len(problem.train), dtype=np.bool_))])
        print(f"{PUBLISHED}, {model} of everything: {ranked(problem, trained)}", flush=True)
