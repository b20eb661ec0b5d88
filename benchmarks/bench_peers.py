"""assent beside other libraries: quality, CPU seconds and memory, in one run.

    bench_peers.py                                           small logs, three seeds
    bench_peers.py --datasets gowalla --systems ials,implicit-als --seeds 1
    bench_peers.py --datasets gowalla_public_split --systems ials-wide,implicit-als-wide --seeds 1

Every system is tuned on the same validation rows, trained with what was found, once a seed, and ranks the
test rows. Peers get training rows alone. Each system has a process and one thread of its own.

- Quality is test NDCG@5 in %, among sampled negatives. In the public split it is recall@20 and NDCG@20 among
  all items.
- assent's searches are those of `--tune`. A trial trains for a third of the epochs. Early stopping looks at
  validation rows, ranked among its own sampled negatives.
- A peer's search has the shape of assent's quick one: 8 trials, first of one setting, then of another. A
  trial trains in full and is judged by NDCG@5 of the validation rows among `Problem.valid_candidates`.
  `implicit-als-grid` tries 32 settings instead.
- Systems called `wide` have 256 dimensions: `implicit-als-wide` with the settings that were found with 64,
  `ials-wide` with those of five that rank the validation rows best among all items.
- The peers' vectors are ranked by assent's evaluation. Users and items that a peer does not know score 0.
- Peak memory includes Python, torch and the data, which every process loads.

Peers are not dependencies: `pip install assent[peers]` gets implicit. LensKit wants pandas below 3. RecBole
is left out: its latest release, 1.2.1, stops in NumPy 2, whose `float_` is gone.
"""

import importlib.util
import json
import math
import os
import resource
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product
from multiprocessing import get_context
from typing import Any, TypeVar

import numpy as np
import polars as pl
import torch
from scipy import sparse

from assent.data.door import assign
from assent.data.problem import Problem, Protocol, Rows, make_problem_from_parts, parts_of
from assent.data.readers import read_interactions
from assent.evaluation.evaluate import ranked_metrics
from assent.lab import Lab, everything
from assent.lab.tuning import tuned
from assent.models import MF, IALSSettings, Sizes
from assent.models.mf import MFSettings
from assent.support.arrays import Floats
from assent.support.runtime import one_thread
from assent.support.statistics import mean_and_error
from assent.training import Settings, Trained, Tune
from common import (
    QUICK_USERS,
    REAL,
    Option,
    data_folder,
    load,
    read_options,
    settings_of,
    train,
    validation_ndcg,
    verdict,
    with_error,
)

PUBLIC = "gowalla_public_split"
DIMENSION, ITERATIONS = 64, 16
"""Of all systems, where not said otherwise."""
BPR_ITERATIONS = 100
WIDE = 512
WIDE_TRIED = ((0.1, 10.0), (0.1, 30.0), (0.1, 100.0), (0.2, 30.0))
"""`strength` and `unobserved` of iALS that are tried with `WIDE` dimensions."""
WIDE_EPOCHS = (4, 8, 12)
"""Lengths of training that are tried, the first with all of these settings."""
TARGETS = {"diginetica": 24.9, "steam": 39.4, "amazon_video_games": 9.5, "gowalla": 44.0}
"""Test NDCG@5 in % that tuned iALS has to reach, on small logs within a standard error."""
PUBLIC_TARGETS = {"recall": 0.175, "ndcg": 0.147}
PUBLISHED = {"recall": 0.183, "ndcg": 0.155}
"""LightGCN in the public split, as its authors report it."""
TIMES_IMPLICIT = 1.3
"""Most CPU seconds of an iALS training, in those of implicit's."""

Result = TypeVar("Result")
Values = Mapping[str, float]
"""Settings of a peer."""
Rounds = Sequence[tuple[str, Sequence[float]]]
"""Of a search: a setting, and the factors to multiply it by."""


@dataclass(frozen=True)
class Peer:
    """A recommender of another library whose scores are products of vectors."""

    library: str
    start: Values
    fit: Callable[[Problem, Values, int, int], tuple[Floats, Floats]]
    """Of a problem, settings, iterations and a seed; returns the vectors of all users and of all items."""
    rounds: Rounds
    iterations: int = ITERATIONS
    grid: bool = False
    """Whether to try all factors of one setting with all of the other."""
    wide: bool = False
    """Whether to go on from the settings found to `WIDE` dimensions."""


@dataclass(frozen=True)
class Ours:
    """A model of assent with a way to tune it."""

    model: str
    tune: Tune
    wide: bool = False
    """Whether to search with `WIDE` dimensions, by recall@20 of validation rows among all items, and to
    train on these rows too afterwards."""


@dataclass(frozen=True)
class Row:
    """What a system reached and what it took."""

    quality: Mapping[str, Sequence[float]]
    """Test metrics, a value per seed."""
    found: Mapping[str, Any]
    validation: float
    """NDCG@5 in % of the validation rows, of the first seed."""
    trials: int
    search_cpu: float
    training_cpu: Sequence[float]
    plain_cpu: float | None
    """CPU seconds of a training at the initial settings, without looks at validation rows, on Gowalla."""
    peak: float
    """GB."""


def taken(problem: Problem) -> sparse.csr_matrix[np.float32]:
    """Return the training rows as a matrix of ones: [n_users, n_items]."""
    rows = problem.train
    ones, shape = np.ones(len(rows), np.float32), (problem.n_users, problem.n_items)
    return sparse.csr_matrix((ones, (rows.users, rows.items)), shape=shape)


def implicit_als(problem: Problem, values: Values, iterations: int, seed: int) -> tuple[Floats, Floats]:
    """Train implicit's ALS."""
    from implicit.cpu.als import AlternatingLeastSquares

    model = AlternatingLeastSquares(
        factors=int(values["factors"]),
        regularization=values["regularization"],
        alpha=values["alpha"],
        iterations=iterations,
        num_threads=1,
        random_state=seed,
        dtype=np.float32,
    )
    model.fit(taken(problem), show_progress=False)
    return model.user_factors, model.item_factors


def implicit_bpr(problem: Problem, values: Values, iterations: int, seed: int) -> tuple[Floats, Floats]:
    """Train implicit's BPR; its vectors have one entry more, for the item's bias."""
    from implicit.cpu.bpr import BayesianPersonalizedRanking

    model = BayesianPersonalizedRanking(
        factors=int(values["factors"]),
        regularization=values["regularization"],
        learning_rate=values["learning_rate"],
        iterations=iterations,
        num_threads=1,
        random_state=seed,
    )
    model.fit(taken(problem), show_progress=False)
    return model.user_factors, model.item_factors


def lenskit_als(problem: Problem, values: Values, iterations: int, seed: int) -> tuple[Floats, Floats]:
    """Train LensKit's ALS for implicit feedback."""
    from lenskit.als import ImplicitMFScorer
    from lenskit.data import from_interactions_df
    from lenskit.training import TrainingOptions

    rows = pl.DataFrame({"user_id": problem.train.users, "item_id": problem.train.items})
    dimension = int(values["factors"])
    scorer = ImplicitMFScorer(
        embedding_size=dimension,
        regularization=values["regularization"],
        weight=values["alpha"],
        epochs=iterations,
    )
    scorer.train(from_interactions_df(rows.to_pandas()), TrainingOptions(rng=seed))
    users, items = np.zeros((problem.n_users, dimension)), np.zeros((problem.n_items, dimension))
    users[scorer.users.ids()] = scorer.user_embeddings
    items[scorer.items.ids()] = scorer.item_embeddings
    return users, items


ALS_START = {"factors": float(DIMENSION), "regularization": 1.0, "alpha": 10.0}
ALS_ROUNDS = (("regularization", (0.1, 0.3, 3.0, 10.0)), ("alpha", (0.3, 3.0, 10.0)))
ALS_GRID = (
    ("regularization", (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)),
    ("alpha", (0.1, 0.3, 1.0, 3.0)),
)
BPR_START = {"factors": float(DIMENSION), "regularization": 0.01, "learning_rate": 0.03}
BPR_ROUNDS = (("regularization", (0.3, 3.0, 10.0, 30.0)), ("learning_rate", (0.3, 3.0, 10.0)))
SYSTEMS: dict[str, Peer | Ours] = {
    "ials": Ours("ials", Tune.QUICK),
    "ials-thorough": Ours("ials", Tune.THOROUGH),
    "ials-wide": Ours("ials", Tune.QUICK, wide=True),
    "mf": Ours("mf", Tune.THOROUGH),
    "lightgcn": Ours("lightgcn", Tune.THOROUGH),
    "implicit-als": Peer("implicit", ALS_START, implicit_als, ALS_ROUNDS),
    "implicit-als-grid": Peer("implicit", ALS_START, implicit_als, ALS_GRID, grid=True),
    "implicit-als-wide": Peer("implicit", ALS_START, implicit_als, ALS_ROUNDS, wide=True),
    "implicit-bpr": Peer("implicit", BPR_START, implicit_bpr, BPR_ROUNDS, BPR_ITERATIONS),
    "lenskit-als": Peer("lenskit", ALS_START, lenskit_als, ALS_ROUNDS),
}
LARGE = ("gowalla", PUBLIC)


def problem_of(name: str, *, quick: bool) -> Problem:
    """Return a data set, split; the public split is its own column."""
    if name != PUBLIC:
        return load(name, quick=quick)
    log = read_interactions(data_folder() / name)
    if quick:
        first = log.table["user"].unique().sort().head(QUICK_USERS)
        log = replace(log, table=log.table.filter(pl.col("user").is_in(first.to_list())))
    return make_problem_from_parts(*parts_of(assign(log, "random", 0)), Protocol.FULL, seed=0)


def ranked_by(problem: Problem, users: Floats, items: Floats, seed: int) -> Trained:
    """Return vectors as a model that assent evaluates."""
    settings = MFSettings(dimension=users.shape[1])
    model = MF(Sizes(problem.n_users, problem.n_items, len(problem.train), 1), settings)
    with torch.no_grad():
        model.user_table[:-1] = torch.from_numpy(users)
        model.item_table[:-1] = torch.from_numpy(items)
    return Trained(model.eval(), problem.user_ids, problem.item_ids, seed, 0, None)


def timed(work: Callable[[], Result]) -> tuple[Result, float]:
    """Return what `work` returns and its CPU seconds."""
    start = time.process_time()
    return work(), time.process_time() - start


def search(start: Values, rounds: Rounds, judge: Callable[[Values], float]) -> tuple[Values, int]:
    """Return the best values found, one setting after the other, and the number of trials."""
    best, best_score, trials = start, judge(start), 1
    for name, factors in rounds:
        for values in [{**best, name: best[name] * factor} for factor in factors]:
            score, trials = judge(values), trials + 1
            if score > best_score:
                best, best_score = values, score
    return best, trials


def every(start: Values, rounds: Rounds, judge: Callable[[Values], float]) -> tuple[Values, int]:
    """Return the best of all combinations of the factors, and the number of trials."""
    names, factors = zip(*rounds, strict=True)
    tried = [
        {**start, **{name: start[name] * factor for name, factor in zip(names, each, strict=True)}}
        for each in product(*factors)
    ]
    return max(tried, key=judge), len(tried)


def of_peer(peer: Peer, problem: Problem, seeds: int, *, quick: bool, plain: bool) -> Row:
    """Tune, train and test a peer; `plain` asks for the seconds of a training at its initial settings."""
    iterations = 2 if quick else peer.iterations

    def trained(values: Values, seed: int) -> Trained:
        return ranked_by(problem, *peer.fit(problem, values, iterations, seed), seed)

    def judged(values: Values) -> float:
        return validation_ndcg(problem, trained(values, problem.seed))

    work = partial(peer.fit, problem, peer.start, iterations, 0)
    plain_cpu = min(timed(work)[1] for _ in range(2)) if plain else None
    (best, trials), cpu = timed(partial(every if peer.grid else search, peer.start, peer.rounds, judged))
    best = {**best, "factors": WIDE} if peer.wide else best
    runs = [timed(partial(trained, best, seed)) for seed in range(seeds)]
    return row_of(problem, runs, best, trials, cpu, plain_cpu)


def of_ours(ours: Ours, problem: Problem, seeds: int, *, quick: bool, plain: bool) -> Row:
    """Tune, train and test a model of assent; `plain` as for a peer."""
    asked = settings_of(ours.model, quick=quick).model_copy(update={"tune": ours.tune})
    plain_cpu = plain_seconds(problem, asked) if plain else None
    if ours.wide:
        (best, trials), cpu = timed(partial(wide_search, problem, asked, quick=quick))
        problem = with_validation_rows(problem)
    else:
        found, cpu = timed(lambda: tuned(Lab(problem, asked), everything(problem)))
        best, trials = found.settings, len(found.attempts)
    runs = [timed(partial(train, problem, best, seed)) for seed in range(seeds)]
    return row_of(problem, runs, best.model_settings.model_dump(mode="json"), trials, cpu, plain_cpu)


def wide_search(problem: Problem, settings: Settings, *, quick: bool) -> tuple[Settings, int]:
    """Return the settings that rank validation rows best among all items, and the number of trials."""
    none = replace(problem, valid=problem.valid[:0], valid_candidates=problem.valid_candidates[:0])
    judged = replace(none, test=problem.valid, test_candidates=None)
    dimension, (first, *longer) = (16, (1, 2)) if quick else (WIDE, WIDE_EPOCHS)

    @cache
    def recall(strength: float, unobserved: float, epochs: int) -> float:
        trained = train(none, made(strength, unobserved, epochs))
        return float(ranked_metrics(judged, trained, k=20)["recall"].mean())

    def made(strength: float, unobserved: float, epochs: int) -> Settings:
        model = IALSSettings(dimension=dimension, strength=strength, unobserved=unobserved)
        training = settings.training.model_copy(update={"epochs": epochs})
        return settings.model_copy(update={"model_settings": model, "training": training})

    best = max(WIDE_TRIED, key=lambda tried: recall(*tried, first))
    epochs = max((first, *longer), key=lambda tried: recall(*best, tried))
    return made(*best, epochs), recall.cache_info().currsize


def with_validation_rows(problem: Problem) -> Problem:
    """Return the problem with its validation rows in training, where published figures have them."""
    rows = [(part.users, part.items) for part in (problem.train, problem.valid)]
    users, items = (np.concatenate(each) for each in zip(*rows, strict=True))
    order = np.argsort(users, kind="stable")
    return replace(
        problem,
        train=Rows(users[order], items[order]),
        unwillingness=np.zeros(len(order)),
        valid=problem.valid[:0],
        valid_candidates=problem.valid_candidates[:0],
    )


def plain_seconds(problem: Problem, settings: Settings) -> float:
    """Return CPU seconds of a training of `ITERATIONS` epochs without validation rows, the least of two."""
    as_many = settings.training.model_copy(update={"epochs": ITERATIONS, "evaluate_every": ITERATIONS})
    settings = settings.model_copy(update={"training": as_many})
    blind = replace(problem, valid=problem.valid[:0], valid_candidates=problem.valid_candidates[:0])
    return min(timed(partial(train, blind, settings))[1] for _ in range(2))


def row_of(
    problem: Problem,
    runs: Sequence[tuple[Trained, float]],
    found: Mapping[str, Any],
    trials: int,
    search_cpu: float,
    plain_cpu: float | None,
) -> Row:
    """Look at the test rows, once for every trained model, and sum up."""
    k = 5 if problem.test_candidates is not None else 20
    validation = validation_ndcg(problem, runs[0][0]) if len(problem.valid) else math.nan
    metrics = [ranked_metrics(problem, trained, k=k) for trained, _ in runs]
    return Row(
        quality={name: [float(each[name].mean()) for each in metrics] for name in ("recall", "ndcg")},
        found=found,
        validation=validation,
        trials=trials,
        search_cpu=search_cpu,
        training_cpu=[seconds for _, seconds in runs],
        plain_cpu=plain_cpu,
        peak=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    )


def measured(system: str, name: str, seeds: int, quick: bool) -> Row:
    """Run a system; to be called in a process of its own."""
    problem, chosen, plain = problem_of(name, quick=quick), SYSTEMS[system], name == "gowalla"
    if isinstance(chosen, Peer):
        return of_peer(chosen, problem, seeds, quick=quick, plain=plain)
    return of_ours(chosen, problem, seeds, quick=quick, plain=plain)


def in_own_process(system: str, name: str, seeds: int, quick: bool) -> Row:
    """Run a system in a new process with one thread."""
    with one_thread(), ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(measured, system, name, seeds, quick).result()


def show(name: str, system: str, row: Row) -> None:
    """Print a row."""
    public = name == PUBLIC
    quality = (
        f"recall@20 {with_error(row.quality['recall'])}, NDCG@20 {with_error(row.quality['ndcg'])}"
        if public
        else f"NDCG@5 {with_error([100 * each for each in row.quality['ndcg']])} %"
    )
    plain = "" if row.plain_cpu is None else f" ({row.plain_cpu:.1f} s plain)"
    print(
        f"{name}, {system}: {quality}; {np.mean(row.training_cpu):.1f} s CPU a training{plain}, "
        f"{row.search_cpu:.1f} s a search of {row.trials}; peak {row.peak:.2f} GB; "
        f"validation NDCG@5 {row.validation:.2f} %; {json.dumps(row.found)}",
        flush=True,
    )


def check(name: str, rows: Mapping[str, Row]) -> None:
    """Print the targets of a data set."""
    ours = {system: row for system, row in rows.items() if system.startswith("ials")}
    for system, row in ours.items():
        if name == PUBLIC:
            for metric, limit in PUBLIC_TARGETS.items():
                verdict(f"{name}, {system}, {metric}@20", row.quality[metric], limit, at_most=False)
        elif name in TARGETS:
            found = [100 * each for each in row.quality["ndcg"]]
            error = (mean_and_error(np.array(found))[1] or 0.0) if name in REAL else 0.0
            verdict(f"{name}, {system}, NDCG@5", found, TARGETS[name] - error, "%", at_most=False)
    if name == PUBLIC:
        print(f"{name}, LightGCN as published: recall@20 {PUBLISHED['recall']}, NDCG@20 {PUBLISHED['ndcg']}")
    theirs = rows.get("implicit-als")
    if name == "gowalla" and "ials" in rows and theirs is not None and theirs.plain_cpu is not None:
        times = (rows["ials"].plain_cpu or 0.0) / theirs.plain_cpu
        verdict(f"{name}, CPU of an ials training, in implicit's ALS", times, TIMES_IMPLICIT)


if __name__ == "__main__":
    given = read_options(
        __doc__,
        datasets=Option(REAL, f"data sets, also gowalla and {PUBLIC}", quick=("diginetica", PUBLIC)),
        systems=Option(tuple(each for each in SYSTEMS if "wide" not in each), "of " + ", ".join(SYSTEMS)),
        seeds=Option(3, "training seeds", quick=2),
    )
    os.environ["RAYON_NUM_THREADS"] = os.environ["LK_NUM_THREADS"] = "1"  # LensKit's
    for name in given.datasets:
        rows: dict[str, Row] = {}
        for system in given.systems:
            chosen = SYSTEMS[system]
            if isinstance(chosen, Peer) and importlib.util.find_spec(chosen.library) is None:
                print(f"{name}, {system}: skipped: not installed", flush=True)
            elif system == "lightgcn" and name in LARGE:
                print(f"{name}, {system}: skipped: too slow", flush=True)
            else:
                rows[system] = in_own_process(system, name, given.seeds, given.quick)
                show(name, system, rows[system])
        check(name, rows)
