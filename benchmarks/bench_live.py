"""What a live run gains over an experiment, and whether quality that is to be kept is kept.

    bench_live.py                                            both, on all data sets
    bench_live.py --cases latest --datasets steam --seeds 3

latest   the last interaction of every person is held back, and the rest is fitted twice within half of the
         violation: live (the model is trained on all that is disclosed) and as an experiment (trained without
         the last two rows that it knows). Both models rank what was held back.
keep     the least budget that keeps 95 % of the quality, found on validation rows, by `worth` and by
         Threshold: in how many runs 95 % is kept on test rows, and what each discloses for it. Every run has
         another seed of unwillingness, of the split's draws and of the trainings.
"""

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from assent.data.door import assign
from assent.data.interactions import Interactions
from assent.data.live import live_problem
from assent.data.problem import Protocol, make_problem
from assent.evaluation.evaluate import ranked_metrics
from assent.lab import Lab, everything
from assent.lab.tuning import tuned
from assent.methods import make_method
from assent.runs.measure import Cell
from assent.runs.plan import USUAL_CONFIDENCE, RunPlan
from assent.runs.quality import least_budget
from assent.runs.run import fit
from common import REAL, Option, load_log, read_options, settings_of, verdict, workers

KEEP = 0.95


def without_latest(log: Interactions) -> Interactions:
    """Return a log without the last row of everybody who has several."""
    count, place = pl.len().over("user"), pl.int_range(pl.len()).over("user")
    ordered = log.table.sort("user", "time", maintain_order=True)
    return replace(log, table=ordered.filter((count == 1) | (place < count - 1)))


def latest(name: str) -> None:
    """Print how both models rank what came after."""
    gains, ndcgs = [], {"live": list[float](), "experiment": list[float]()}
    for seed in range(given.seeds):
        log = assign(load_log(name, quick=given.quick), "random", seed)
        after = make_problem(log, Protocol.PAPER_TABLES, seed=seed)
        before = without_latest(log)
        split = make_problem(before, Protocol.PAPER_TABLES, seed=seed)
        plan = RunPlan(make_method(given.method), budget=0.5, seed=seed, seeds=1)
        with tempfile.TemporaryDirectory() as folder, workers(given.jobs) as executor:
            for kind, live in (("live", live_problem(before, seed=seed)), ("experiment", None)):
                run = fit(before, split, Path(folder) / kind, plan, settings, live=live, executor=executor)
                ndcgs[kind].append(100 * float(ranked_metrics(after, run.trained)["ndcg"].mean()))
        gains.append(ndcgs["live"][-1] - ndcgs["experiment"][-1])
        print(f"{name}, seed {seed}: " + ", ".join(f"{kind} {each[-1]:.2f}" for kind, each in ndcgs.items()))
    either = {kind: np.mean(each) for kind, each in ndcgs.items()}
    print(f"{name}: NDCG@5 {either['live']:.2f} live, {either['experiment']:.2f} as an experiment")
    verdict(f"{name}: gain of the live model", gains, 0, "points", at_most=False)


def keep(name: str) -> None:
    """Print in how many runs the quality is kept, and what is disclosed for it."""
    kept, shares = {"worth": list[float](), "threshold": list[float]()}, []
    for seed in range(given.runs):
        log = assign(load_log(name, quick=given.quick), "random", seed)
        problem = make_problem(log, Protocol.PAPER_TABLES, seed=seed)
        budgets = {}
        with workers(given.jobs) as executor:
            lab = Lab(problem, settings, seed, executor=executor)
            found = lab.with_settings(tuned(lab, everything(problem)).settings)
            [base] = lab.run([Cell(make_method("all"), 0.1, 1.0)])
            for name_of, ratios in kept.items():
                method = make_method(name_of)
                budgets[name_of] = least_budget(found, method, KEEP, given.confidence).budget
                [cell] = lab.run([Cell(method, 0.1, budgets[name_of])])
                ratios.append(cell.facts["ndcg"] / base.facts["ndcg"])
        shares.append(budgets)
        said = (f"{each} {kept[each][-1]:.1%} at {budget:.1%}" for each, budget in budgets.items())
        print(f"{name}, run {seed}: " + ", ".join(said), flush=True)
    for name_of, ratios in kept.items():
        budget = 100 * np.mean([each[name_of] for each in shares])
        print(
            f"{name}, {name_of}: keeps {100 * np.mean(ratios):.1f} % on average at a budget of {budget:.1f} %"
        )
    enough = 100 * float(np.mean([ratio >= KEEP for ratio in kept["worth"]]))
    verdict(f"{name}: runs of worth that keep {KEEP:.0%} on test rows", enough, 90, "%", at_most=False)
    saved = [100 * (each["threshold"] - each["worth"]) for each in shares]
    verdict(f"{name}: budget that worth saves against Threshold", saved, 0, "points", at_most=False)


CASES = {"latest": latest, "keep": keep}

if __name__ == "__main__":
    given = read_options(
        __doc__,
        cases=Option(tuple(CASES), "which of them"),
        datasets=Option((*REAL, "simulation"), "data sets"),
        method=Option("worth", "method of the case latest"),
        seeds=Option(3, "seeds of the case latest", quick=1),
        runs=Option(20, "runs of the case keep", quick=2),
        confidence=Option(USUAL_CONFIDENCE, "chance with which quality is to be kept"),
        jobs=Option(2, "processes"),
    )
    settings = settings_of("ials", quick=given.quick)
    for case in given.cases:
        for dataset in given.datasets:
            CASES[case](dataset)
