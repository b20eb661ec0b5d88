"""Made-up runs for the tests of the report."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from assent.game.players import Players
from assent.game.prices import break_even_prices
from assent.game.reasons import reasons_of
from assent.report.data import ReportData
from assent.support.statistics import Interval, mean_and_error

SEEDS = (1, 2, 3)
FRONTIER: Mapping[tuple[str, str], Sequence[float]] = {
    ("ifrqe++", "welfare"): (0.36, 0.39, 0.40),
    ("threshold", ""): (0.33, 0.39, 0.41),
    ("random", ""): (0.30, 0.35, 0.38),
}
POINTS = (0.25, 0.5, 0.75)


def record(
    method: str, objective: str, violation_share: float, ndcg: float, seed: int, **more: Any
) -> dict[str, Any]:
    """A record whose NDCG wobbles with the seed, by the same amount for all methods up to a small rest."""
    quality = ndcg + 0.002 * (seed - 2) + 0.0002 * ((seed + len(method)) % 3 - 1)
    return {
        "dataset": "toy",
        "model": "mf",
        "method": method,
        "objective": objective,
        "price": 0.5,
        "seed": seed,
        "violation": 2.4 * violation_share,
        "violation_share": violation_share,
        "reward_sum": -50 - violation_share,
        "reward_mean": -0.5 - violation_share,
        "precision": quality / 3,
        "recall": 1.3 * quality,
        "f1": 0.45 * quality,
        "ndcg": quality,
        "mrr": 0.9 * quality,
        "hit": 1.3 * quality,
        "seconds": 20.0 + seed,
    } | more


def run_records(
    way: tuple[str, str] = ("ifrqe++", "welfare"),
    *,
    violation_share: float = 0.5,
    ndcg: float = 0.39,
    everything: float = 0.40,
    nothing: float = 0.05,
    seeds: Sequence[int] = SEEDS,
    reference: bool = True,
) -> list[dict[str, Any]]:
    """A run's own table: its method, All with a `reference`, and Nothing."""
    ends = [("all", "", 1.0, everything)] if reference else []
    ends += [("nothing", "", 0.0, nothing)]
    own = [] if way in (("all", ""), ("nothing", "")) else [(*way, violation_share, ndcg)]
    return [record(*what, seed) for what in (*own, *ends) for seed in seeds]


def frontier_records(seeds: Sequence[int] = SEEDS) -> list[dict[str, Any]]:
    """Three methods at three points, with All at 1 and Nothing at 0."""
    ends = [r | {"point": r["violation_share"]} for r in run_records(("all", ""), seeds=seeds)]
    return [
        record(*way, point, ndcg, seed, point=point)
        for way, qualities in FRONTIER.items()
        for point, ndcg in zip(POINTS, qualities, strict=True)
        for seed in seeds
    ] + ends


def selection(rows: int = 300, users: int = 50, price: float = 0.5, seed: int = 0) -> pl.DataFrame:
    """A selection at a price from random influence; every 20th interaction is free, some titles unknown."""
    rng = np.random.default_rng(seed)
    unwillingness = np.where(np.arange(rows) % 20 == 0, 0.0, rng.uniform(0, 0.99, rows))
    influence = rng.normal(0.2, 0.3, rows)
    items = np.minimum(rng.geometric(0.05, rows), 60)
    owners, disclosed = np.sort(rng.integers(0, users, rows)), influence > price * unwillingness
    why = reasons_of(Players(owners, users, unwillingness, price), influence, disclosed)
    return pl.DataFrame(
        {
            "user": [f"u{n:03d}" for n in owners],
            "item": [f"i{n}" for n in items],
            "title": [f"Title {n}" if n % 3 else None for n in items],
            "category": [["Action", "Indie"] if n % 2 else ["Puzzle"] if n % 5 else [] for n in items],
            "unwillingness": unwillingness,
            "given": True,
            "disclosed": disclosed,
            "value": influence,
            "uncertainty": np.where(np.arange(rows) % 3 == 0, 2.0, 0.1) * abs(influence),
            "worth_owner": 0.5 * influence,
            "error_owner": np.where(np.arange(rows) % 3 == 0, 2.0, 0.1) * abs(influence),
            "worth_everybody": influence,
            "error_everybody": np.where(np.arange(rows) % 3 == 0, 2.0, 0.1) * abs(influence),
            "price": break_even_prices(influence, unwillingness),
            "reason": why.reasons,
            "cost": why.costs,
            "together": why.together,
        },
        schema_overrides={"title": pl.String, "category": pl.List(pl.String)},
    )


def without_estimates(table: pl.DataFrame) -> pl.DataFrame:
    """The selection as a method without estimates gives it."""
    estimated = (
        "value", "uncertainty", "worth_owner", "error_owner", "worth_everybody", "error_everybody", "price",
        "reason", "cost", "together",
    )  # fmt: skip
    return table.with_columns(pl.lit(None, dtype=table.schema[column]).alias(column) for column in estimated)


def quality_of(
    records: Sequence[Mapping[str, Any]], way: tuple[str, str] = ("ifrqe++", "welfare"), **asked: Any
) -> dict[str, Any]:
    """What a run says about the quality of its records, with intervals over seeds alone."""
    ndcgs = {
        method: np.array([r["ndcg"] for r in records if (r["method"], r["objective"]) == whose])
        for method, whose in {"own": way, "all": ("all", ""), "nothing": ("nothing", "")}.items()
    }
    own, everything, nothing = ndcgs["own"], ndcgs["all"], ndcgs["nothing"]
    kept = None
    if everything.any():
        ratio = own.mean() / everything.mean()
        kept = interval(ratio + (own - ratio * everything) / everything.mean())
    point: dict[str, Any] = {
        "budget": 0.5,
        "price": 0.7,
        "keep_quality": None,
        "confidence": None,
        "tried": [],
    }
    return {
        "seeds": sorted({r["seed"] for r in records}),
        "people": 50,
        "reached": interval(own),
        "kept": kept,
        "above_nothing": interval(own - nothing),
        "operating_point": point | asked,
    }


def interval(values: Any) -> dict[str, float]:
    """The interval of a mean over seeds."""
    mean, error = mean_and_error(values)
    return vars(Interval.around(mean, [((error or 0.0) ** 2, 1000)]))


def report_data(**changes: Any) -> ReportData:
    """A whole run, with some fields changed; its quality is that of its records unless it is given."""
    if "quality" not in changes:
        way = (changes.get("method", "ifrqe++"), changes.get("objective", "welfare"))
        changes["quality"] = quality_of(changes.get("records", run_records()), way)
    data = ReportData(
        dataset="toy",
        protocol="paper-tables",
        settings={
            "method": "ifrqe++",
            "price": 0.5,
            "unwillingness": "random",
            "seeds": list(SEEDS),
            "training": {"epochs": 60, "learning_rate": 0.02, "batch_size": None, "inner": {"deep": True}},
        },
        method="ifrqe++",
        objective="welfare",
        records=run_records(),
        frontier=frontier_records(),
        selection=selection(),
        quality={},
    )
    return replace(data, **changes)
