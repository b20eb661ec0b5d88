"""How good a run's recommendations are, with an interval, and the least budget that keeps the quality.

Quality is NDCG@k on test rows of the split, for each person the mean over the seeds. A ratio of two
qualities, q = mean a / mean b over n people, has the variance

    Var(a − q b) / (n mean(b)²)  +  the variance of the ratio between S seeds / S

The first term is chance between people, paired; the second is what other seeds would have given, which a
single seed cannot tell. Intervals are of 95 %, by Student's t.

`least_budget` searches the least budget at which a model ranks *validation* rows at least `keep` times as
well as one of everything, by the metric and among the items that test rows are ranked by. The budget counts
as good enough if that is to be expected of other rows of as many people with the chance `confidence`: the
margin has the noise of both the rows that judge and the others, √2 standard errors. What another seed would
have given is not in it. Methods select without what validation rows say, as far as they can
(`Method.untold_within`).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtri

from assent.data.problem import Problem
from assent.evaluation.evaluate import ranked_metrics
from assent.game.players import floors_alone, players_of
from assent.lab.lab import Lab, Task, Training, everything
from assent.lab.store import Entry
from assent.methods import Method, make_method
from assent.runs.measure import Cell, quality_by_person
from assent.runs.plan import MOST_SEEDS, RunPlan
from assent.support.arrays import Bools, Floats
from assent.support.statistics import Interval

_NARROW = 0.02
"""Half of an interval, as a share of the quality, that needs no further seed."""
_MANY = 500_000
"""Training rows from which on one seed has to do: a second takes as long as all else."""
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


def measure_quality(
    lab: Lab, plan: RunPlan, budget: float | None, *, live: bool, beside: Sequence[Task] = ()
) -> Quality:
    """Measure the plan's method on the lab's problem, with further seeds where one is noisy.

    Tasks that are computed `beside` the first measurement keep workers busy that would have nothing to do.
    """
    with_all = not live or plan.reference or plan.keep_quality is not None or bool(plan.points)
    names = [name for name in ("all", "nothing") if name != plan.method.name and (with_all or name != "all")]
    methods = [plan.method, *map(make_method, names)]
    least, most = plan.seeds or 1, plan.seeds or 1
    if live and plan.seeds is None and len(lab.problem.train) < _MANY:
        least, most = 2, MOST_SEEDS
    found: list[list[Entry]] = []
    while True:
        at_seed = lab.with_seed(plan.seed + len(found))
        cells = [Cell(method, plan.reward_price, budget, plan.k) for method in methods]
        if not found:
            lab.run([*cells, *beside], "quality")
        found.append([at_seed.run([cell])[0] for cell in cells])
        by_method = list(zip(*found, strict=True))
        records = [[dict(entry.facts) for entry in entries] for entries in by_method]
        ndcgs = [np.array([entry.arrays["ndcg"] for entry in entries]) for entries in by_method]
        quality = quality_of(plan.seed, [method.name for method in methods], records, ndcgs)
        width = quality.kept or quality.reached
        is_narrow = width.half <= _NARROW * abs(width.mean)
        if len(found) == most or (len(found) >= least and is_narrow):
            return quality


def quality_of(
    first: int, names: Sequence[str], records: Sequence[Sequence[dict[str, Any]]], ndcgs: Sequence[Floats]
) -> Quality:
    """Return the quality of the first of some methods, from the records and the NDCG@k, [S, n], of each.

    The S seeds begin with `first`. The other methods are "nothing" and, where it was measured, "all".
    """
    named = dict(zip(names, ndcgs, strict=True))
    own, nothing, everybody = ndcgs[0], named["nothing"], named.get("all")
    return Quality(
        seeds=tuple(range(first, first + len(own))),
        records=tuple(each for of_method in records for each in of_method),
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


def _variance(values: Floats) -> list[tuple[float, int]]:
    """The variance of the mean of `values[S, n]`, between n people and between S seeds, with its freedom."""
    return [
        (float(values.mean(axis=axis).var(ddof=1)) / count, count - 1)
        for axis, count in ((0, values.shape[1]), (1, values.shape[0]))
        if count > 1
    ]


@dataclass(frozen=True)
class Least:
    """The least budget that keeps the quality, and what was tried."""

    budget: float
    tried: tuple[Mapping[str, float], ...]
    """For each budget its ratio to All's quality on validation rows, and the lower end of what to expect."""


def least_budget(
    lab: Lab, method: Method, keep: float, confidence: float, *, k: int = 5, least: float = 0.0
) -> Least:
    """Search the least budget, from `least` on, that keeps the share `keep` of All's NDCG@k."""
    margin, judged = math.sqrt(2) * float(ndtri(confidence)), _judged_by_validation(lab.problem)

    def ranked(selection: Bools, label: str) -> Floats:
        [trained] = lab.train([Training(selection, label=label)], label)
        return quality_by_person(judged, ranked_metrics(judged, trained, k=k)["ndcg"])

    base = ranked(everything(lab.problem), "model of everything")
    size = float(base.mean()) or 1.0
    low, high, tried = least, 1.0, list[Mapping[str, float]]()
    for step in range(_STEPS + 1):
        budget = least if step == 0 else (low + high) / 2
        found = ranked(method.untold_within(lab, budget), f"trial {step + 1}: {budget:.0%}")
        ratio, beyond = float(found.mean()) / size, (found - keep * base) / size
        error = float(beyond.std(ddof=1)) / math.sqrt(len(beyond)) if len(beyond) > 1 else math.inf
        expected = max(0.0, ratio - margin * error)
        tried.append({"budget": budget, "kept": ratio, "expected": expected})
        is_enough = expected >= keep
        low, high = (low, budget) if is_enough else (budget, high)
        if is_enough and budget == least:
            break
    return Least(high, tuple(tried))


def least_for_floors(problem: Problem) -> float:
    """Return the least budget that everybody's floors fit into."""
    if problem.wishes.floor is None:
        return 0.0
    players = players_of(problem)
    return players.shared_budget(1.0).least_share(floors_alone(players))


def _judged_by_validation(problem: Problem) -> Problem:
    """The problem with its validation rows in the place of the test rows, which are not looked at."""
    return replace(
        problem,
        valid=problem.valid[:0],
        valid_candidates=problem.valid_candidates[:0],
        test=problem.valid,
        test_candidates=None if problem.test_candidates is None else problem.valid_candidates,
    )
