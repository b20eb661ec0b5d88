"""Does the default estimator order selections better than gradient-dot and LiSSA do?

    bench_lds.py                                             MF on all data sets
    bench_lds.py --models mf,neumf,lightgcn,din,cdae --out FOLDER
    bench_lds.py --datasets diginetica --selections 12 --truth-seeds 2
    bench_lds.py --rows test                                 the losses of rows that no estimator has seen

Linear datamodeling scores by retraining (`assent lds`), own / social. The rivals are measured at one anchor,
as in the paper. Two of ours are judged: `averaged`, the influence that `worth` measures, and `combined`, the
values that it decides by, which are about rows to come and not about these losses. A pair of data set and
model where no estimator scores above 0.1 has no signal and is not judged. Gauss-Newton is judged on MF alone.
`--out` keeps retrainings, anchors and predictions, so that a killed benchmark goes on; the folder may be one
of `assent lds --out`.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from assent.evaluation.evaluate import HeldOut
from assent.influence.inverse import Estimator
from assent.lab import Store
from assent.methods import influence_settings
from assent.models import MF, MODELS
from assent.runs.lds import AVERAGED, LEVELS, RETRAINED, RIVALS, LdsPlan, Orders, predict_orders
from assent.worth.estimate import Source
from common import REAL, Option, load, read_options, settings_of, verdict, workers

DATASETS = (*REAL, "simulation")
SIGNAL = 0.1
"""A score above which an estimator knows something."""
FULL = LdsPlan()
"""How much is retrained for the figures of the docs."""

Record = dict[str, Any]


def show(records: Sequence[Record]) -> None:
    """Print the scores of one pair at both levels, and how far each is behind the default, with intervals."""
    for level in LEVELS:
        print(f"  {level:24}{'LDS':>7}  {'95 % interval':18}{'behind ' + AVERAGED:>16}  95 % interval")
        for each in records:
            if each["level"] == level:
                print(f"    {each['estimator']:22}" + figures(each))
    print(flush=True)


def figures(record: Record) -> str:
    if record["lds"] is None:
        return "  the truth does not vary"
    low, high, behind_low, behind_high = (
        f"{record[name]:+.3f}" for name in ("low", "high", "behind_low", "behind_high")
    )
    return f"{record['lds']:+7.3f}  {low} .. {high}  {record['behind']:+16.3f}  {behind_low} .. {behind_high}"


def judge(pairs: Sequence[Sequence[Record]], level: str, ours: str) -> None:
    """Print on which share of the pairs with a signal `ours` is above all rivals, and significantly so.

    The records say how far others are behind `ours`.
    """
    here = [
        {each["estimator"]: each for each in records if each["level"] == level and each["lds"] is not None}
        for records in pairs
    ]
    known = [
        scores
        for scores in here
        if any(each["lds"] > SIGNAL for name, each in scores.items() if name != RETRAINED)
    ]
    print(f"{level}: {len(known)} of {len(pairs)} pairs have a signal (an estimator above {SIGNAL})")
    if not known:
        return
    names = " and ".join(RIVALS)
    for text, key, share in (("above", "behind", 1.0), ("significantly above", "behind_low", 2 / 3)):
        met = [all(scores[rival][key] > 0 for rival in RIVALS) for scores in known]
        found = sum(met) / len(met)
        verdict(f"{level}: {ours} {text} {names}, share of pairs", found, share, at_most=False)
        for scores, is_met in zip(known, met, strict=True):
            if not is_met:
                place = scores[RIVALS[0]]
                print(f"  not on {place['dataset']}, {place['model']}")


def reductions(given: argparse.Namespace) -> list[str]:
    """Say what is less than in the figures of the docs."""
    counts = (
        ("data sets", sum(name in given.datasets for name in DATASETS), len(DATASETS)),
        ("models", sum(name in given.models for name in MODELS), len(MODELS)),
        ("selections", given.selections, FULL.selections),
        ("training seeds of the truth", given.truth_seeds, FULL.seeds),
    )
    return [f"{done} of {full} {name}" for name, done, full in counts if done < full]


if __name__ == "__main__":
    given = read_options(
        __doc__,
        datasets=Option(DATASETS, "data sets", quick=("steam",)),
        models=Option(("mf",), "recommenders"),
        selections=Option(FULL.selections, "random selections that are retrained on", quick=4),
        truth_seeds=Option(FULL.seeds, "trainings whose mean loss is the truth", quick=1),
        rows=Option(HeldOut.VALIDATION.value, "validation or test"),
        seed=Option(0, "seed"),
        jobs=Option(1, "processes"),
        out=Option(None, "folder of what is computed", type=Path),
    )
    pairs: list[Orders] = []
    for name in given.datasets:
        problem = load(name, quick=given.quick)
        for model in given.models:
            usual = influence_settings(model).estimator
            plan = LdsPlan(
                selections=given.selections,
                seeds=given.truth_seeds,
                estimators=tuple(Estimator) if model == MF.name else (usual, *RIVALS),
                rows=HeldOut(given.rows),
            )
            about = f"R = {plan.selections}, truth over {plan.seeds} seeds, {plan.rows} rows"
            print(f"{name}, {model}, {about}", flush=True)
            store = None if given.out is None else Store(given.out)
            settings = settings_of(model, quick=given.quick)
            with workers(given.jobs) as executor:
                pairs.append(
                    predict_orders(problem, settings, plan, seed=given.seed, store=store, executor=executor)
                )
            show(pairs[-1].records())
    for ours in (AVERAGED, Source.COMBINED.value):
        records = [pair.records(ours) for pair in pairs]
        for level in LEVELS:
            judge(records, level, ours)
    print(f"reduced: {', '.join(reductions(given)) or 'nothing'}")
