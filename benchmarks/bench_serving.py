"""Serving Gowalla: recommendations for everybody, and an export with its index, on two cores.

    bench_serving.py                          iALS with 64 and with 256 dimensions
    bench_serving.py --dimensions 128 --k 50
    bench_serving.py --cases unknown

gowalla   a plain training on all training rows (`assent fit --method all`), then `recommend` and `export`.
          Times are of whole commands, by the wall clock: reading the run, scoring, writing. The index is
          asked for everybody's 10 best items; its recall is the share of the exact 10 best that it finds.
unknown   how far every model's scores for an unknown person follow popularity: Spearman's rank correlation
          over all items, and how many of the 20 best are among the 20 most popular; beside them, the share of
          test rows that a list of 20 for everybody hits
"""

import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl
import torch
from safetensors.numpy import load_file
from scipy.stats import spearmanr

from assent.models import MODELS
from assent.runs.export import INDEX, VECTORS
from assent.support.arrays import positions, slices
from common import Option, load, load_log, log_path, measure, read_options, settings_of, train, verdict

TOP = 10


def serve(folder: Path, dimension: int, k: int, quick: bool) -> None:
    run, lists, model = folder / f"run-{dimension}", folder / "recs.parquet", folder / f"model-{dimension}"
    data = str(log_path("gowalla", folder, quick=quick))
    how = ["--unwillingness", "random", "--method", "all", "--tune", "none", "--model", "ials"]
    short = ["--set", "training.epochs=2"] if quick else []
    size = ["--set", f"model_settings.dimension={dimension}"]
    measure(["fit", data, *how, *size, *short, "--jobs", "2", "--out", str(run)], threads=2)
    written = ["recommend", str(run), "--all", "--k", str(k), "--to", str(lists), "--replace"]
    cost = measure(written, threads=2)
    people = load_log("gowalla", quick=quick).table["user"].n_unique()
    assert pl.read_parquet(lists)["user"].n_unique() == people
    name = f"gowalla, iALS with {dimension} dimensions"
    verdict(f"{name}, {k} items for all {people:,} people", cost.wall, 10, "s")
    print(f"CPU {cost.cpu:.1f} s, peak {cost.peak:.2f} GB")
    exported = measure(["export", str(run), "--to", str(model)], threads=2)
    verdict(f"{name}, with the export and its index", cost.wall + exported.wall, 30, "s")
    sizes = ", ".join(f"{file.name} {file.stat().st_size / 2**20:.1f} MB" for file in sorted(model.iterdir()))
    print(f"CPU {exported.cpu:.1f} s, peak {exported.peak:.2f} GB; {sizes}")
    recall(name, model)


def recall(name: str, model: Path) -> None:
    """Print how many of the best items the index finds, and how fast it and all products are."""
    from usearch.index import Index

    tensors = load_file(model / VECTORS)
    users, items = tensors["users"], torch.from_numpy(tensors["items"])
    index = Index.restore(model / INDEX, view=True)
    assert index is not None
    start = time.perf_counter()
    found = index.search(users, TOP, threads=1).keys
    took = time.perf_counter() - start
    blocks = (torch.from_numpy(users[here]) for here in slices(len(users), 256))
    exact = torch.cat([torch.topk(block @ items.T, TOP).indices for block in blocks]).numpy()
    hits = [np.isin(theirs, best).sum() for theirs, best in zip(exact, found, strict=True)]
    verdict(f"{name}, recall@{TOP} of the index", float(np.mean(hits)) / TOP, 0.95, at_most=False)
    print(f"the index: {1e6 * took / len(users):.0f} µs a person, one thread", flush=True)


def unknown(name: str, model: str, quick: bool) -> None:
    problem = load(name, quick=quick)
    trained = train(problem, settings_of(model, quick=quick))
    ids, rows = trained.item_ids, problem.item_ids[problem.train.items]
    counts = np.bincount(positions(ids, rows), minlength=len(ids))
    scores = trained.scores_of_all(torch.tensor([len(trained.user_ids)]))[0, :-1].numpy()
    best, popular = (np.argsort(-each, kind="stable")[:20] for each in (scores, counts))
    hits = [np.isin(problem.item_ids[problem.test.items], ids[each]).mean() for each in (best, popular)]
    print(
        f"{name}, {model}: rank correlation {spearmanr(scores, counts).statistic:.2f}, "
        f"{len(np.intersect1d(best, popular))} of the 20 most popular; "
        f"hits {hits[0]:.1%}, popular items {hits[1]:.1%}",
        flush=True,
    )


if __name__ == "__main__":
    given = read_options(
        __doc__,
        cases=Option(("gowalla", "unknown"), "what to measure"),
        datasets=Option(("simulation", "steam"), "data sets of `unknown`", quick=("simulation",)),
        dimensions=Option((64, 256), "lengths of the vectors", quick=(16,)),
        k=Option(20, "items for each person"),
    )
    if "gowalla" in given.cases:
        with tempfile.TemporaryDirectory() as place:
            for dimension in given.dimensions:
                serve(Path(place), dimension, given.k, given.quick)
    if "unknown" in given.cases:
        for name in given.datasets:
            for model in MODELS:
                unknown(name, model, given.quick)
