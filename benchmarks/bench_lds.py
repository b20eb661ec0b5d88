"""Does the default estimator order selections better than gradient-dot and LiSSA do?

    bench_lds.py                                             MF on all data sets
    bench_lds.py --models mf,neumf,lightgcn,din,cdae --out FOLDER
    bench_lds.py --datasets diginetica --selections 12 --truth-seeds 2
    bench_lds.py --rows test                                 the losses of rows that no estimator has seen

Linear datamodeling scores by retraining (`assent lds`), own / social. The rivals stand at one anchor, as in
the paper. Two are judged: `averaged`, what the default measures, and `combined`, the values that it decides
by, which are about rows to come, not about the losses of these. A pair of data set and model where no
estimator has a score above 0.1 has no signal and is not judged. Gauss-Newton is judged on MF alone. With
--out, retrainings, anchors and predictions are kept there, so that a killed benchmark goes on; the folder may
be one of `assent lds --out`.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from assent.settings import Settings
from assent.worth.settings import Source

from assent.evaluation.evaluate import HeldOut
from assent.influence.settings import Estimator
from assent.models import MF, MODELS
from assent.runs.lds import AVERAGED, LEVELS, RETRAINED, RIVALS, LdsPlan, Orders, predict_orders
from common import load, verdict

DATASETS = ("diginetica", "steam", "amazon_video_games", "simulation")
SIGNAL = 0.1
"""A score above which an estimator knows something."""
ASKED = LdsPlan()
"""How much is to be retrained; less is a reduction."""

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
    """Print on which share of the pairs with a signal `ours` is above all rivals, and surely so.

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
    for text, key, share in (("above", "behind", 1.0), ("surely above", "behind_low", 2 / 3)):
        met = [all(scores[rival][key] > 0 for rival in RIVALS) for scores in known]
        found = sum(met) / len(met)
        verdict(f"{level}: {ours} {text} {names}, share of pairs", found, share, "", at_most=False)
        for scores, is_met in zip(known, met, strict=True):
            if not is_met:
                place = scores[RIVALS[0]]
                print(f"  not on {place['dataset']}, {place['model']}")


def reductions(given: argparse.Namespace) -> list[str]:
    """What was asked for and is not done in full, in words."""
    datasets, models = given.datasets.split(","), given.models.split(",")
    counts = (
        ("data sets", sum(name in datasets for name in DATASETS), len(DATASETS)),
        ("models", sum(name in models for name in MODELS), len(MODELS)),
        ("selections", given.selections, ASKED.selections),
        ("training seeds of the truth", given.truth_seeds, ASKED.seeds),
    )
    return [f"{done} of {asked} {name}" for name, done, asked in counts if done < asked]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--datasets", default=",".join(DATASETS))
    parser.add_argument("--models", default="mf")
    parser.add_argument("--selections", type=int, default=ASKED.selections)
    parser.add_argument("--truth-seeds", type=int, default=ASKED.seeds)
    parser.add_argument("--rows", type=HeldOut, default=HeldOut.VALIDATION, help="validation or test")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    pairs: list[Orders] = []
    for name in given.datasets.split(","):
        problem = load(name)
        for model in given.models.split(","):
            settings = Settings.model_validate({"model": model})
            estimators = tuple(Estimator) if model == MF.name else (settings.influence.estimator, *RIVALS)
            plan = LdsPlan(
                selections=given.selections, seeds=given.truth_seeds, estimators=estimators, rows=given.rows
            )
            about = f"R = {plan.selections}, truth over {plan.seeds} seeds, {plan.rows} rows"
            print(f"{name}, {model}, {about}", flush=True)
            pairs.append(predict_orders(problem, settings, plan, seed=given.seed, cache=given.out))
            show(pairs[-1].records())
    for ours in (AVERAGED, Source.COMBINED.value):
        records = [pair.records(ours) for pair in pairs]
        for level in LEVELS:
            judge(records, level, ours)
    print(f"reduced: {', '.join(reductions(given)) or 'nothing'}")
