"""What shards cost in quality, and what they save when somebody withdraws an interaction.

    bench_shards.py                                           all data sets and models
    bench_shards.py --datasets steam --models ials --seeds 3
    bench_shards.py --datasets gowalla --models ials --shards 1,8 --seeds 1 --target 0.2

A live fit with `worth` within half of the violation, unsharded (1) and with more and more shards, on the same
split with the same seeds. Prints for each number of shards

    NDCG@5  of the model on test rows, and its difference from the unsharded fit's, over the seeds
    fresh   seconds of CPU, and by the clock, of the fit
    update  the same of the exact update after one disclosed interaction was withdrawn, which takes untouched
            shards over; without shards everything is done anew

and the last as a share of the fit in so many shards, which it is equal to, and of the unsharded fit. What is
done is kept in the file `--log`, one JSON record per line, and not repeated.
"""

import json
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from assent.data.door import assign
from assent.data.interactions import Interactions
from assent.data.live import live_problem
from assent.data.problem import Protocol, make_problem
from assent.runs.folder import Run
from assent.runs.plan import RunPlan
from assent.runs.run import fit
from assent.runs.update import update
from common import Option, load_log, read_options, seconds, settings_of, verdict, with_error


def without_one(log: Interactions, run: Run) -> Interactions:
    """Return the log without a disclosed interaction of the run, the middle one."""
    disclosed = run.selection.filter("disclosed").select("user", "item")
    gone = disclosed[disclosed.height // 2]
    return replace(log, table=log.table.join(gone, on=["user", "item"], how="anti", maintain_order="left"))


def measured(name: str, model: str, shards: int, seed: int) -> dict[str, Any]:
    """Fit, withdraw an interaction, and fit again with what is kept; return the quality and both costs."""
    log = assign(load_log(name, quick=given.quick), "random", seed)
    plan = RunPlan(budget=0.5, seed=seed, seeds=1, shards=shards if shards > 1 else None)
    settings, runs = settings_of(model, quick=given.quick), list[Run]()

    def fitted(out: Path) -> None:
        split, live = make_problem(log, Protocol.PAPER_TABLES, seed=seed), live_problem(log, seed=seed)
        runs.append(fit(log, split, out, plan, settings, live=live))

    with tempfile.TemporaryDirectory() as folder:
        fresh = timed(lambda: fitted(Path(folder) / "fresh"))
        again = fresh
        if shards > 1 and seed == 0:
            left = without_one(log, runs[0])
            again = timed(lambda: runs.append(update(runs[0], left, Path(folder) / "update")))
            same = {each["entry"] for each in runs[0].shards} & {each["entry"] for each in runs[1].shards}
            assert len(same) == shards - 1, f"{len(same)} of {shards} shards were taken over"
        ndcg = 100 * runs[0].quality["reached"]["mean"]
    return {"data": name, "model": model, "shards": shards, "seed": seed,
            "ndcg": ndcg, "fresh": fresh, "update": again}  # fmt: skip


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Return the seconds that `work` takes: of CPU, and by the clock."""
    started = time.perf_counter()
    return seconds(work), time.perf_counter() - started


def curve(name: str, model: str) -> None:
    """Print quality and costs for all numbers of shards."""
    found: dict[int, list[dict[str, Any]]] = {}
    for seed in range(given.seeds):
        for shards in given.shards:
            key = {"data": name, "model": model, "shards": shards, "seed": seed}
            known = [each for each in kept() if key.items() <= each.items()]
            record = known[0] if known else measured(name, model, shards, seed)
            if not known:
                with given.log.open("a") as file:
                    file.write(json.dumps(record) + "\n")
            found.setdefault(shards, []).append(record)
    base = found[given.shards[0]]
    for shards, records in found.items():
        lost = [each["ndcg"] - other["ndcg"] for each, other in zip(records, base, strict=True)]
        fresh, again, whole = records[0]["fresh"], records[0]["update"], base[0]["fresh"]
        of_own, of_whole = ([mine / of for mine, of in zip(again, all_of, strict=True)]
                            for all_of in (fresh, whole))  # fmt: skip
        print(
            f"{name}, {model}, {shards:2} shards: NDCG@5 {with_error([each['ndcg'] for each in records])}, "
            f"difference {with_error(lost)}; CPU (clock): fresh {of_two(fresh, 1)} s, "
            f"update {of_two(again, 1)} s, {of_two(of_own, 2)} of the fresh fit in shards, "
            f"{of_two(of_whole, 2)} of the one without",
            flush=True,
        )
        if given.target and shards > 1:
            for share, of in ((of_own[0], "in shards"), (of_whole[0], "without shards")):
                label = f"{name}, {model}, {shards} shards: update, as a share of a fresh fit {of}"
                verdict(label, share, given.target)
            part = 100 * float(np.mean(lost)) / float(np.mean([each["ndcg"] for each in base]))
            print(f"{name}, {model}, {shards} shards: {part:+.1f} % of NDCG@5", flush=True)


def of_two(pair: Sequence[float], digits: int) -> str:
    """Return a figure of CPU, and that by the clock in brackets."""
    cpu, clock = pair
    return f"{cpu:.{digits}f} ({clock:.{digits}f})"


def kept() -> list[dict[str, Any]]:
    """Return the records of what was done before."""
    return [json.loads(line) for line in given.log.read_text().splitlines()] if given.log.exists() else []


if __name__ == "__main__":
    given = read_options(
        __doc__,
        datasets=Option(("simulation", "steam", "diginetica"), "data sets", quick=("simulation",)),
        models=Option(("ials", "mf", "lightgcn"), "models", quick=("mf",)),
        shards=Option((1, 2, 4, 8, 16), "numbers of shards; the first is compared with", quick=(1, 2)),
        seeds=Option(3, "seeds", quick=1),
        target=Option(0.0, "largest share of a fresh fit that an update should take; 0: none"),
        log=Option(Path(tempfile.gettempdir()) / "bench_shards.jsonl", "file of what is done", type=Path),
    )
    warnings.simplefilter("ignore")
    for dataset in given.datasets:
        for kind in given.models:
            curve(dataset, kind)
