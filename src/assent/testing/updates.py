"""Changes of mind at random, and whether an exact update is byte for byte what a fit gives.

A sequence starts from a small log. Each step changes it: interactions are added, minds change, also to never
and back, rows and whole people are withdrawn, rows and people return, items disappear. After every step the
run is updated, with a store that lives through the sequence, and fitted from scratch, without one.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from assent.data.interactions import Interactions
from assent.data.live import live_problem
from assent.data.problem import make_problem
from assent.data.readers import from_frame
from assent.lab.executor import SERIAL, Executor
from assent.lab.store import Store
from assent.methods import Method, make_method
from assent.runs.calibration import Calibration
from assent.runs.folder import Run
from assent.runs.plan import RunPlan
from assent.runs.run import fit
from assent.runs.update import update
from assent.support.files import as_json
from assent.training import Settings

PEOPLE, ITEMS = 16, 24
_CLOCKED: Final = ("seconds",)
"""What a clock says is no figure of a run."""
_BYTES: Final = (
    "settings.json", "model.safetensors", "model.json", "selection.parquet", "held_out.parquet",
    "sealed.parquet", "certificate.json", "quality.json",
)  # fmt: skip
_FIGURES: Final = ("metrics.json", "tuning.json")


@dataclass(frozen=True)
class Way:
    """How the runs of a sequence are made."""

    settings: Settings
    method: Method = field(default_factory=lambda: make_method("worth", source="structure"))
    keep_calibration: bool = False
    point: Mapping[str, Any] = field(default_factory=lambda: {"budget": 0.5})
    """The operating point, as `RunPlan` takes it: budget, price or keep_quality."""
    shards: int | None = None

    @property
    def plan(self) -> RunPlan:
        """The plan of every fit."""
        return RunPlan(method=self.method, seeds=1, shards=self.shards, **self.point)


def some_table(rng: np.random.Generator) -> pl.DataFrame:
    """Draw a small log in the order of time; everybody has from four to ten rows."""
    rows = [
        (f"u{user:02}", f"i{item:02}", float(place), _mind(rng))
        for user in range(PEOPLE)
        for place, item in enumerate(rng.permutation(ITEMS)[: rng.integers(4, 11)])
    ]
    return pl.DataFrame(rows, ["user", "item", "time", "unwillingness"], orient="row")


def _mind(rng: np.random.Generator) -> float:
    return float(rng.choice([0.0, 1.0, round(float(rng.random()), 3)], p=[0.2, 0.1, 0.7]))


def changed(table: pl.DataFrame, away: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """Change a log in one to three ways; `away` are rows that were withdrawn earlier and may return."""
    for _ in range(rng.integers(1, 4)):
        table = _changed_once(table, away, rng)
    return table


def _changed_once(table: pl.DataFrame, away: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    some = pl.Series(rng.random(table.height) < rng.choice([0.02, 0.2]))
    people, items = (table[name].unique().sort().to_list() for name in ("user", "item"))
    known = {*table.select("user", "item").iter_rows()}
    drawn = {(str(rng.choice([*people, "newcomer"])), f"i{rng.integers(ITEMS + 3):02}") for _ in range(6)}
    added = [(*pair, 100.0 + rng.integers(9), _mind(rng)) for pair in sorted(drawn - known)]
    minds = pl.Series([_mind(rng) for _ in range(table.height)])
    is_never, minded = pl.col("unwillingness") == 1, pl.col("unwillingness")
    gone = away.join(table, on=["user", "item"], how="anti", maintain_order="left")
    back = gone.filter(pl.Series(rng.random(gone.height) < 0.5))
    absent = gone.filter(~pl.col("user").is_in(people))["user"].unique().sort().to_list()
    returning = gone.filter(pl.col("user") == (str(rng.choice(absent)) if absent else ""))
    ways = {
        "add": pl.concat([table, pl.DataFrame(added, table.schema, orient="row")]),
        "mind": table.with_columns(unwillingness=pl.when(some).then(minds).otherwise(minded)),
        "never": table.with_columns(unwillingness=pl.when(some).then(1.0).otherwise(minded)),
        "back": table.with_columns(unwillingness=pl.when(is_never).then(0.3).otherwise(minded)),
        "withdraw": table.filter(~some),
        "leave": table.filter(pl.col("user") != str(rng.choice(people))),
        "return": pl.concat([table, back]),
        "come back": pl.concat([table, returning]),
        "vanish": table.filter(pl.col("item") != str(rng.choice(items))),
    }
    return ways[str(rng.choice(list(ways)))]


def log_of(table: pl.DataFrame) -> Interactions:
    """Return the log of a table."""
    return from_frame(table, name="log")


def fresh(
    table: pl.DataFrame, out: Path, way: Way, store: Store | None = None, like: Run | None = None
) -> Run:
    """Fit a log from scratch; with `like`, by the calibration of that run."""
    log = log_of(table)
    split, live = make_problem(log, "paper-tables", negatives=5), live_problem(log, negatives=5)
    kept = None if like is None else Calibration.of(like)
    return fit(log, split, out, way.plan, way.settings, live=live, calibration=kept, store=store)


def differing(one: Run, other: Run) -> list[str]:
    """Return the names of the files that differ in more than what a clock says."""
    found = [name for name in _BYTES if one.manifest.files.get(name) != other.manifest.files.get(name)]
    for name in _FIGURES:
        first, second = (as_json(_timeless(json.loads(run.manifest.read(name)))) for run in (one, other))
        found += [name] if first != second else []
    return found


def _timeless(value: Any) -> Any:
    match value:
        case dict():
            return {key: _timeless(each) for key, each in value.items() if key not in _CLOCKED}
        case list():
            return [_timeless(each) for each in value]
    return value


def differences(
    way: Way, folder: Path, *, seed: int, steps: int = 3, start: pl.DataFrame | None = None,
    executor: Executor = SERIAL,
) -> list[str]:  # fmt: skip
    """Go through one sequence; return what differs: "step 2: model.json", ..."""
    rng = np.random.default_rng(seed)
    table = some_table(rng) if start is None else start
    store, found, seen = Store(folder / "store"), list[str](), table
    run = fresh(table, folder / "run0", way, store)
    for number in range(1, steps + 1):
        now = changed(table, seen, rng)
        seen = pl.concat([seen, now]).unique(["user", "item"], keep="last", maintain_order=True)
        log = log_of(now)
        out = folder / f"run{number}"
        after = update(
            run,
            log,
            out,
            keep_calibration=way.keep_calibration,
            store=store,
            executor=executor,
        )
        alone = fresh(now, folder / f"fresh{number}", way, like=run if way.keep_calibration else None)
        found += [f"step {number}: {name}" for name in differing(after, alone)]
        run, table = after, now
    return found
