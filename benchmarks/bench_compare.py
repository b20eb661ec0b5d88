"""How often `worth` (nash) has a true reward at or above that of its rivals, in both forms of the reward.

    bench_compare.py --datasets diginetica,steam --models mf --repeats 3 --jobs 2 --out FOLDER

A place is a data set, a model and a price. `worth` is cross-fitted influence on the loss of the reward (bce).
Proactive is left out by default, because it trains about 150 models per cell. To include it:
`--methods random,threshold,proactive,worth:nash --rivals random,threshold,all,proactive`. With `--warm 5`,
each of its trainings goes on from the one before for 5 epochs. FOLDER keeps finished cells.
"""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from assent.evaluation.metrics import RewardForm
from assent.lab import Store
from assent.results.comparison import Comparison
from assent.results.records import way_of
from assent.runs.compare import compare, parse_methods
from assent.support.runtime import cores
from common import Option, load, read_options, settings_of, verdict, workers

OURS = ("worth", "nash")


def judge(rows: Sequence[dict[str, Any]], rivals: Sequence[str], form: str) -> None:
    """Print in which share of the places `worth` is at or above all rivals, and significantly above all."""
    places: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        if row["method"] in rivals and way_of(row) != OURS:
            places.setdefault((row["dataset"], row["model"], row["price"]), []).append(row)
    above = [all(row["ahead"] >= 0 for row in place) for place in places.values()]
    sure = [
        all(row["ahead"] > 0 and row["p"] is not None and row["p"] <= 0.05 for row in place)
        for place in places.values()
    ]
    of = f"share of {len(places)} places"
    names = ", ".join(rivals)
    verdict(f"{form}: at or above {names}, {of}", sum(above) / len(places), 0.9, at_most=False)
    verdict(f"{form}: significantly above all, {of}", sum(sure) / len(places), 2 / 3, at_most=False)


def main(given: argparse.Namespace, folder: Path) -> None:
    for form in map(RewardForm, given.forms):
        reward = {"reward": form}
        game = {**reward, "influence": {"loss": "bce"}}
        exploring = {**reward, "warm_epochs": given.warm}
        own = {
            "worth": {**game, "source": "cross-fitted"},
            **dict.fromkeys(("ifrqe", "ifrqe++"), game),
            **dict.fromkeys(("proactive", "scratch"), exploring),
        }
        models = [
            (
                settings_of(model, quick=given.quick),
                parse_methods(",".join(given.methods), model=model, settings=own),
            )
            for model in given.models
        ]
        rows = []
        for name in given.datasets:
            with workers(given.jobs) as executor:
                records = compare(
                    load(name, quick=given.quick),
                    models,
                    prices=given.prices,
                    seeds=range(given.repeats),
                    store=Store(folder / "cells"),
                    executor=executor,
                )
            comparison = Comparison(records, form, OURS)
            comparison.write(folder / f"{name}-{form}")
            rows += comparison.standings()
            print((folder / f"{name}-{form}" / "compare.md").read_text())
        judge(rows, given.rivals, form)


if __name__ == "__main__":
    asked = read_options(
        __doc__,
        datasets=Option(("diginetica",), "data sets"),
        models=Option(("mf",), "recommenders"),
        methods=Option(("random", "threshold", "ifrqe++:nash", "worth:nash"), "methods"),
        rivals=Option(("random", "threshold", "all"), "methods that worth is compared with"),
        prices=Option((0.1, 0.5, 1.0, 2.0), "prices", quick=(0.1,)),
        forms=Option(("sum", "mean"), "forms of the reward"),
        repeats=Option(3, "training seeds"),
        jobs=Option(cores(), "processes"),
        warm=Option(None, "epochs of Proactive's trainings after the first", type=int),
        out=Option(None, "folder of cells and tables", type=Path),
    )
    with tempfile.TemporaryDirectory() as temporary:
        main(asked, asked.out or Path(temporary))
