"""How often IFRQE++ (nash) has a true reward at or above the rivals', in both forms of the reward.

python benchmarks/bench_compare.py --data diginetica,steam --models mf --repeats 3 --jobs 2 --out FOLDER

A place is a data set, a model and a price. By default Proactive is left out: it trains some 150 models for
each cell. `--methods random,threshold,proactive,ifrqe++:nash --rivals random,threshold,all,proactive` has it,
for all data and models with ten repeats that takes days; with `--warm 5` each of its trainings goes on from
the one before for 5 epochs. What is done is kept in FOLDER.
"""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from assent.runs.frontier import parse_methods
from assent.settings import Settings

from assent.evaluation.metrics import RewardForm
from assent.report.data import way_of
from assent.runs.compare import compare
from assent.runs.outcome import Outcome, mark
from assent.support.runtime import cores
from common import load, verdict

OURS = ("ifrqe++", "nash")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", default="diginetica", help="data sets, separated by commas")
    parser.add_argument("--models", default="mf")
    parser.add_argument("--methods", default="random,threshold,ifrqe:nash,ifrqe++:nash")
    parser.add_argument("--rivals", default="random,threshold,all")
    parser.add_argument("--prices", default="0.1,0.5,1,2")
    parser.add_argument("--forms", default="sum,mean")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=cores())
    parser.add_argument("--warm", type=int, help="epochs of Proactive's trainings after the first")
    parser.add_argument("--out", type=Path, default=None)
    return parser.parse_args()


def judged(rows: Sequence[dict[str, Any]], rivals: Sequence[str], form: str) -> None:
    """Print in which share of the places ours is at or above all rivals, and significantly above all."""
    places: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        if row["method"] in rivals and way_of(row) != OURS:
            places.setdefault((row["dataset"], row["model"], row["price"]), []).append(row)
    above = [all(row["ahead"] >= 0 for row in place) for place in places.values()]
    sure = [all(row["ahead"] > 0 and mark(row["p"]) for row in place) for place in places.values()]
    names = ", ".join(rivals)
    verdict(
        f"{form}: at or above {names}, share of {len(places)}",
        sum(above) / len(places),
        0.9,
        "",
        at_most=False,
    )
    verdict(f"{form}: significantly above all of them", sum(sure) / len(places), 2 / 3, "", at_most=False)


def main(options: argparse.Namespace, folder: Path) -> None:
    for form in map(RewardForm, options.forms.split(",")):
        rows = []
        for name in options.data.split(","):
            settings = [
                Settings.model_validate(
                    {
                        "model": model,
                        "reward": form,
                        "influence": {"loss": "bce"},
                        "value": {"source": "cross-fitted"},
                        "proactive": {"warm_epochs": options.warm},
                    }
                )
                for model in options.models.split(",")
            ]
            records = compare(
                load(name),
                settings,
                methods=parse_methods(options.methods),
                prices=[float(price) for price in options.prices.split(",")],
                seeds=range(options.repeats),
                jobs=options.jobs,
                folder=folder / "cells",
            )
            outcome = Outcome(records, form, OURS)
            outcome.write(folder / f"{name}-{form}")
            rows += outcome.rows
            print((folder / f"{name}-{form}" / "compare.md").read_text())
        judged(rows, options.rivals.split(","), form)


if __name__ == "__main__":
    asked = parsed()
    if asked.out is not None:
        main(asked, asked.out)
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(asked, Path(temporary))
