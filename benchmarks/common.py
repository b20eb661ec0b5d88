"""What the benchmarks share: where the data is, how a command is measured."""

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl
from assent.worth.settings import Source, ValueSettings

from assent.data.interactions import Interactions
from assent.data.named import cut
from assent.data.problem import Problem, Protocol, Rows
from assent.data.readers import read_interactions
from assent.data.simulate import simulate
from assent.data.split import make_problem
from assent.data.unwillingness import assign
from assent.evaluation import evaluate as evaluation
from assent.evaluation.metrics import ranking_metrics, top_hits
from assent.support.arrays import Floats
from assent.training import Trained

PAPERS_GAME = ValueSettings(source=Source.INFLUENCE)
"""Influence at every anchor for itself."""
ROOT = Path(__file__).resolve().parents[1]


def data_folder() -> Path:
    """The folder with the real data sets: ASSENT_DATA, or ../shared/data beside the project."""
    folder = Path(os.environ.get("ASSENT_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        print(f"skipped: no data at {folder}; set ASSENT_DATA to the folder with the data sets")
        sys.exit(0)
    return folder


def load(
    name: str,
    *,
    protocol: Protocol = Protocol.PAPER_TABLES,
    seed: int = 0,
    source: str = "random",
    earlier: bool = False,
) -> Problem:
    """A real data set, or the `simulation` of the demo, with unwillingness from `source`, split.

    `gowalla` is a part of it, which nothing was chosen on.
    With `earlier`, the last row of every user is left out first: a split to make choices on.
    """
    if name == "simulation":
        log = simulate(preference="learnable", users=2400, items=500, noise=0.3, seed=seed)
    elif name == "gowalla":
        log = some_of_gowalla()
    else:
        log = read_interactions(data_folder() / name)
    if earlier:
        at = pl.struct("time", pl.int_range(pl.len()))
        log = replace(log, table=log.table.filter(at.rank("ordinal").over("user") < pl.len().over("user")))
    return make_problem(assign(log, source, seed), protocol, seed=seed)


def some_of_gowalla(people: int = 4000, most: int = 60) -> Interactions:
    """People with 5 to 20 check-ins at places with at most `most`, drawn by lot; so is their order."""
    log = cut(read_interactions(data_folder() / "gowalla"), most)
    rng = np.random.default_rng(0)
    chosen = rng.choice(log.table["user"].unique().sort().to_numpy(), size=people, replace=False)
    table = log.table.filter(pl.col("user").is_in(chosen.tolist()))
    order = pl.Series("time", rng.permutation(table.height)).cast(table.schema["time"])
    return replace(log, table=table.with_columns(order))


def validation_ndcg(problem: Problem, trained: Trained) -> float:
    """NDCG@5 in % of the validation rows among their candidates: what settings are chosen on."""
    return 100 * float(evaluation.validation_ndcg(problem, trained).mean())


def ndcg(problem: Problem, rows: Rows, scores: Floats) -> float:
    """NDCG@5 in % of `rows[n]` whose own items have the first of `scores[n, m]`; ties are drawn."""
    relevant = np.zeros(scores.shape, dtype=np.bool_)
    relevant[:, 0] = True
    hits = top_hits(scores, relevant, rows.users, k=5, seed=problem.seed)
    return 100 * float(ranking_metrics(hits, np.ones(len(hits), dtype=np.int64))["ndcg"].mean())


@dataclass(frozen=True)
class Cost:
    """What a command took."""

    cpu: float
    """Seconds of user and system time."""
    wall: float
    """Seconds."""
    peak: float
    """GB of resident memory."""


def measure(arguments: list[str], *, threads: int) -> Cost:
    """Run the assent command with so many threads and measure it; its own output goes to stderr."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    environment = os.environ | {"OMP_NUM_THREADS": str(threads), "POLARS_MAX_THREADS": str(threads)}
    command = [str(Path(sys.executable).with_name("assent")), *arguments]
    subprocess.run(command, check=True, env=environment, stdout=sys.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Cost(
        cpu=after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        wall=time.perf_counter() - start,
        peak=after.ru_maxrss / 2**20,
    )


def seconds(work: Callable[[], object]) -> float:
    """CPU time that `work` takes, of all threads: other programs that run meanwhile hardly change it."""
    start = time.process_time()
    work()
    return time.process_time() - start


def verdict(name: str, value: float, limit: float, unit: str, *, at_most: bool = True) -> None:
    """Print a figure beside its target."""
    met = value <= limit if at_most else value >= limit
    sign = "≤" if at_most else "≥"
    print(f"{name}: {value:.4g} {unit} (target {sign} {limit:g} {unit}) {'met' if met else 'MISSED'}")
