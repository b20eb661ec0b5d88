"""Time and memory of whole commands, and what the demo shows.

    bench_runs.py                                            all of them
    bench_runs.py --cases authors,histories

authors     IFRQE++ (T = 3) and `worth` on the authors' simulation file, one core; the authors' IFRQE++ takes
            36 to 40 min and 3.5 GB
histories   fits with one history of 5,000 and one of 50,000 interactions against histories of ten, for every
            model of `--models` and method of `--methods`: memory must not grow
demo        `assent demo`: its time, and how far `worth` is above Random and Threshold
gowalla     `worth` on a million interactions, two cores; then ranking all items for all users
growth      `worth` on simulated logs of 10^5 to 10^7 interactions, two cores; `--out FOLDER` draws the times
            to FOLDER/fit_growth.svg
"""

import itertools
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

from assent.data.problem import Protocol
from assent.evaluation.evaluate import ranked_metrics
from assent.models import MODELS
from assent.support.files import read_json
from assent.support.statistics import paired_difference
from common import Option, draw_growth, load, log_path, measure, read_options, settings_of, train, verdict


def fit_at_price(data: Path, out: Path, *how: str) -> list[str]:
    """Return the arguments of a fit on a log without unwillingness of its own."""
    return ["fit", str(data), "--unwillingness", "random", "--price", "0.1", *how, "--out", str(out)]


def authors(folder: Path, quick: bool) -> None:
    data = log_path("simulation_authors", folder, quick=quick)
    for name, more in (("ifrqe++", ("--anchors", "3")), ("worth", ())):
        cost = measure(fit_at_price(data, folder / name, "--method", name, *more, "--jobs", "1"))
        verdict(f"authors' file, {name}, CPU of the whole run", cost.cpu, 60, "s")
        verdict(f"authors' file, {name}, peak memory", cost.peak, 1, "GB")
        print(f"wall clock: {cost.wall:.1f} s")


def histories(folder: Path, quick: bool) -> None:
    sizes = [(4_000, 2_000, 1_000)] if quick else [(20_000, 8_000, 5_000), (100_000, 80_000, 50_000)]
    for rows, items, long in sizes:
        logs = {longest: log_with(folder, rows, items, longest) for longest in (10, long)}
        for model, method in itertools.product(given.models, given.methods):
            how = ("--model", model, "--method", method, "--budget", "0.5", "--tune", "none", "--jobs", "1")
            peaks = {}
            for longest, log in logs.items():
                out = folder / f"run-{rows}-{longest}-{model}-{method}"
                cost = measure(["fit", str(log), *how, "--out", str(out)])
                peaks[longest] = cost.peak
                name = f"{model}, {method}, {rows:,} interactions, longest history {longest:,}"
                print(f"{name}: {cost.peak:.2f} GB, {cost.wall:.1f} s", flush=True)
            # DIN reads the latest 50 rows of a history.
            limit = 3.0 if model == "din" else 1.5
            verdict(f"{model}, {method}: peak memory, {long:,} / 10", peaks[long] / peaks[10], limit)


def log_with(folder: Path, rows: int, items: int, longest: int) -> Path:
    """Write a log in which one person has a history of so many rows, and the others ten each."""
    rng = np.random.default_rng(0)
    users = ["long"] * longest + [f"u{k // 10}" for k in range(rows - longest)]
    chosen = np.concatenate([rng.permutation(items)[:longest], rng.integers(items, size=rows - longest)])
    log = pl.DataFrame({"user": users, "item": chosen, "unwillingness": rng.random(rows)})
    file = folder / f"log-{rows}-{longest}.csv"
    log.unique(["user", "item"], maintain_order=True).write_csv(file)
    return file


def demo(folder: Path, quick: bool) -> None:
    cost = measure(["demo", "--out", str(folder / "demo")])
    records = read_json(folder / "demo" / "frontier.json")
    verdict("demo, wall clock", cost.wall, 90, "s")

    def scores(method: str, objective: str, point: float) -> list[float]:
        chosen = [
            r for r in records if (r["method"], r["objective"], r["point"]) == (method, objective, point)
        ]
        return [100 * record["ndcg"] for record in sorted(chosen, key=lambda record: record["seed"])]

    for point in sorted({record["point"] for record in records} - {0.0, 1.0}, reverse=True):
        ours = scores("worth", "welfare", point)
        for rival in ("random", "threshold"):
            gain = paired_difference(ours, scores(rival, "", point))
            print(f"at {point:.0%}: NDCG@5 {np.mean(ours):.1f} %, standard error {gain.error:.2f}")
            limit = 2 * (gain.error or 0)
            verdict(f"at {point:.0%}, above {rival}", gain.mean, limit, "points", at_most=False)


def gowalla(folder: Path, quick: bool) -> None:
    data = log_path("gowalla", folder, quick=quick)
    cost = measure(fit_at_price(data, folder / "run", "--jobs", "2"))
    verdict("gowalla, wall clock", cost.wall / 60, 3, "min")
    verdict("gowalla, peak memory of one process", cost.peak, 3, "GB")
    print(f"of all processes together: {cost.total:.2f} GB")
    print(f"CPU: {cost.cpu / 60:.1f} min")
    problem = load("gowalla", quick=quick, protocol=Protocol.FULL)
    trained = train(problem, settings_of(epochs=1))
    start = time.perf_counter()
    ranked_metrics(problem, trained)
    print(f"{problem.n_users:,} users, {problem.n_items:,} items")
    verdict("gowalla, ranking all items for all users", time.perf_counter() - start, 30, "s")


def growth(folder: Path, quick: bool) -> None:
    sizes = (30_000, 60_000) if quick else (100_000, 1_000_000, 10_000_000)
    walls = []
    for rows in sizes:
        log = folder / f"{rows}.parquet"
        sized = "--users", str(rows * 3 // 100), "--items", str(rows // 100), "--rows", str(rows)
        measure(["simulate", *sized, "--to", str(log)])
        how = ("--budget", "0.5", "--jobs", "2", "--out", str(folder / f"run-{rows}"))
        cost = measure(["fit", str(log), *how])
        walls.append(cost.wall)
        print(
            f"{rows:,} interactions: {cost.wall:.0f} s, CPU {cost.cpu:.0f} s, "
            f"{cost.peak:.2f} GB in one process, {cost.total:.2f} GB in all",
            flush=True,
        )
    for rows, less, more in zip(sizes[1:], walls, walls[1:], strict=False):
        verdict(f"{rows:,} interactions against a tenth", more / less, 12, "times")
    verdict(f"{sizes[-1]:,} interactions, wall clock", walls[-1] / 60, 30, "min")
    verdict(f"{sizes[-1]:,} interactions, peak memory of one process", cost.peak, 10, "GB")
    if given.out is not None:
        draw_growth(given.out / "fit_growth.svg", sizes, {"fit": walls}, "seconds of a whole fit, two cores")


CASES = {"authors": authors, "histories": histories, "demo": demo, "gowalla": gowalla, "growth": growth}

if __name__ == "__main__":
    given = read_options(
        __doc__,
        cases=Option(tuple(CASES), "which commands"),
        models=Option(tuple(MODELS), "models of the histories", quick=("ials", "cdae")),
        methods=Option(("worth", "ifrqe++"), "methods of the histories", quick=("worth",)),
        out=Option(None, "folder for pictures", type=Path),
    )
    for name in given.cases:
        with tempfile.TemporaryDirectory() as temporary:
            CASES[name](Path(temporary), given.quick)
