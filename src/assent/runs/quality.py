"""How good a run's recommendations are, with an interval, and the least budget that keeps the quality.

Quality is NDCG@k on test rows of the split, for each person the mean over the seeds. A ratio of two
qualities, q = mean a / mean b over n people, has the variance

    Var(a − q b) / (n mean(b)²)  +  the variance of the ratio between S seeds / S

The first term is chance between people, paired; the second is what another seed would have given. Intervals
are of 95 %.

`least_budget` searches the least budget at which a model ranks *validation* rows at least `keep` times as
well as one of everything. The budget counts as good enough if that is to be expected of other rows of as many
people with the chance `confidence`: the margin has the noise of both the rows that judge and the others, √2
standard errors. Methods select without what validation rows say, as far as they can
(`Method.untold_within`).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtri

from assent.evaluation.evaluate import validation_quality
from assent.lab.lab import Lab, Training, everything
from assent.lab.store import Entry
from assent.methods import Method, make_method
from assent.runs.measure import Cell
from assent.runs.plan import MOST_SEEDS, RunPlan
from assent.support.arrays import Floats
from assent.support.cost import Cost
from assent.support.statistics import Interval

_NARROW = 0.02
"""Half of an interval, as a share of the quality, that needs no further seed."""
_STEPS = 6
"""Budgets that are tried: the least is found up to 1/64 of what people mind."""


@dataclass(frozen=True)
class Quality:
    """What the seeds say about the run's method, and about models of everything and of nothing."""

    seeds: tuple[int, ...]
    records: tuple[dict[str, Any], ...]
    """Those of the method for each seed, then of All, where it was measured, and of Nothing."""
    people: int
    """Number of people with test rows."""
    reached: Interval
    """NDCG@k of the method."""
    kept: Interval | None
    """The ratio to All's; None where that was not measured, or is 0."""
    above_nothing: Interval
    """The difference from Nothing's."""

    def facts(self) -> dict[str, Any]:
        """All but the records, as JSON."""
        found = {"reached": self.reached, "kept": self.kept, "above_nothing": self.above_nothing}
        intervals = {name: None if each is None else vars(each) for name, each in found.items()}
        return {"seeds": list(self.seeds), "people": self.people, **intervals}


def measure_quality(lab: Lab, plan: RunPlan, budget: float | None, *, live: bool) -> Quality:
    """Measure the plan's method on the lab's problem, with further seeds where one is noisy."""
    with_all = not live or plan.reference or plan.keep_quality is not None or bool(plan.points)
    names = [name for name in ("all", "nothing") if name != plan.method.name and (with_all or name != "all")]
    methods = [plan.method, *map(make_method, names)]
    most = plan.seeds or (MOST_SEEDS if live else 1)
    found: list[list[Entry]] = []
    while True:
        seed = plan.seed + len(found)
        at_seed = replace(lab, seed=seed)
        at_seed.__dict__["fingerprint"] = lab.fingerprint
        cells = [Cell(method, plan.reward_price, budget, plan.k) for method in methods]
        found.append([at_seed.run([cell])[0] for cell in cells])
        quality = _quality(plan.seed, methods, found)
        width = quality.kept or quality.reached
        if len(found) == most or (plan.seeds is None and width.half <= _NARROW * abs(width.mean)):
            return quality


def _quality(first: int, methods: Sequence[Method], found: Sequence[Sequence[Entry]]) -> Quality:
    ndcgs = {
        method.name: np.array([entries[place].arrays["ndcg"] for entries in found])
        for place, method in enumerate(methods)
    }
    own, nothing, everybody = ndcgs[methods[0].name], ndcgs["nothing"], ndcgs.get("all")
    return Quality(
        seeds=tuple(range(first, first + len(found))),
        records=tuple(dict(entries[m].facts) for m in range(len(methods)) for entries in found),
        people=own.shape[1],
        reached=Interval.around(float(own.mean()), _variance(own)),
        kept=None if everybody is None else _ratio(own, everybody),
        above_nothing=Interval.around(float((own - nothing).mean()), _variance(own - nothing)),
    )


def _ratio(ours: Floats, theirs: Floats) -> Interval | None:
    """The ratio of the means of `ours[S, n]` and `theirs[S, n]`; None if theirs is 0."""
    base = float(theirs.mean())
    if base <= 0:
        return None
    ratio = float(ours.mean()) / base
    return Interval.around(ratio, _variance((ours - ratio * theirs) / base))


def _variance(values: Floats) -> float:
    """The variance of the mean of `values[S, n]`, of S seeds and n people."""
    seeds, people = values.shape
    between_people = float(values.mean(axis=0).var(ddof=1)) / people if people > 1 else 0.0
    between_seeds = float(values.mean(axis=1).var(ddof=1)) / seeds if seeds > 1 else 0.0
    return between_people + between_seeds


@dataclass(frozen=True)
class Least:
    """The least budget that keeps the quality, and what was tried."""

    budget: float
    tried: tuple[Mapping[str, float], ...]
    """For each budget its ratio to All's quality on validation rows, and the lower end of what to expect."""
    cost: Cost


def least_budget(lab: Lab, method: Method, keep: float, confidence: float) -> Least:
    """Search the least budget with which the method keeps the share `keep` of All's quality."""
    margin = math.sqrt(2) * float(ndtri(confidence))
    [reference] = lab.train([Training(everything(lab.problem), label="everything")], "model of everything")
    base, cost = validation_quality(lab.problem, reference), reference.cost
    low, high, tried = 0.0, 1.0, list[Mapping[str, float]]()
    for step in range(_STEPS):
        budget = (low + high) / 2
        selection = method.untold_within(lab, budget)
        label = f"trial {step + 1}: {budget:.0%}"
        [trained] = lab.train([Training(selection, label=label)], label)
        cost += trained.cost
        found = validation_quality(lab.problem, trained)
        ratio = float(found.mean()) / float(base.mean()) if base.any() else 1.0
        beyond = (found - keep * base) / (float(base.mean()) or 1.0)
        error = float(beyond.std(ddof=1)) / math.sqrt(len(beyond)) if len(beyond) > 1 else math.inf
        expected = ratio - margin * error
        tried.append({"budget": budget, "kept": ratio, "expected": expected})
        low, high = (low, budget) if expected >= keep else (budget, high)
    return Least(high, tuple(tried), cost)
