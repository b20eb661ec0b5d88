"""Decide on a log in Parquet partitions that no machine needs to hold, and train iALS on what is disclosed.

    partitions → cut (which rows the budget allows) → decisions, a file for each partition
                                                    → shards of what is disclosed → half-steps → model

Each stage is a list of jobs for the executor. What is withheld is left out before the first shard is made.
The folder:

    large.json         what the work depends on, written first
    decisions/         a Parquet file for each partition: user, item, unwillingness, decision
    model.safetensors, model.json   the model; it knows the disclosed rows alone
    done.json          figures; written last, so a folder that has it is whole

Until then `.work` holds the cut, the shards and the checkpoint of the training, from which the same command
goes on. Shards know disclosed rows alone. All machines have to see the folder and the partitions.
"""

import json
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from assent.game.cut import ORDERS, AtPrice, Cut, Place, Scores, cut_within
from assent.lab.executor import SERIAL, Executor
from assent.lab.partitions import Everything, Part, Rule, Shards, Side, make_shards, parts_of
from assent.lab.sharded import train_sharded
from assent.models import IALS
from assent.runs.recommend import DISCLOSED, WITHHELD
from assent.support.errors import AssentError
from assent.support.files import locked, read_json, write_bytes, write_json
from assent.support.progress import SILENT, Advance, Progress, phases
from assent.support.runtime import code_state, made_with
from assent.training import Settings, Trained
from assent.training.stored import load, save

METHODS: Final = ("all", *ORDERS)
MARKER, DONE, DECISIONS, MODEL, WORK = "large.json", "done.json", "decisions", "model", ".work"
_LOCK = ".assent-lock"
_KEPT = "kept.json"


@dataclass(frozen=True)
class LargePlan:
    """How a large log is decided on."""

    method: str = "threshold"
    """`threshold`: the least unwillingness first; `occurrence`: items of many people and little unwillingness
    first; `value`: by `values`; `all`: everything that is not "never"."""
    budget: float | None = 0.5
    """Share of what people mind that may be disclosed."""
    price: float | None = None
    """Instead of a budget, for `value`: what one unit of unwillingness costs, in units of the values."""
    values: str | None = None
    """The column that says what disclosing a row is worth."""
    closed: float | None = None
    """Above this unwillingness, rows are not read to decide either."""
    shards: int = 8
    """About how many shards of people, and as many of items."""
    seed: int = 0

    def check(self) -> None:
        """Refuse what does not go together."""
        if self.method not in METHODS:
            raise AssentError(f"method={self.method}: accepted: {', '.join(METHODS)}")
        if (self.method == "value") != (self.values is not None):
            raise AssentError("values: accepted: a column, with method=value alone")
        if self.price is not None and (self.budget is not None or self.method != "value"):
            raise AssentError("price: accepted: for method=value, without a budget")
        if self.method == "all" and self.budget is not None:
            raise AssentError(
                f"budget={self.budget:g}: method all discloses everything; accepted: without it"
            )
        if self.price is None and self.budget is None and self.method != "all":
            raise AssentError(f"method={self.method}: needs a budget")

    def describe(self) -> dict[str, Any]:
        """Return what decisions and the model depend on, besides the log and settings."""
        return {name: value for name, value in vars(self).items() if name != "shards"}


@dataclass(frozen=True)
class Large:
    """What was made of a large log."""

    folder: Path
    trained: Trained
    figures: dict[str, Any]
    """Rows by decision, people, items, the violation and its share."""


def fit_large(
    source: Path,
    out: Path,
    plan: LargePlan,
    settings: Settings | None = None,
    *,
    replace: bool = False,
    executor: Executor = SERIAL,
    progress: Progress = SILENT,
) -> Large:
    """Decide on all rows of the Parquet files in `source`, train on what is disclosed, and write `out`.

    The settings are taken as they are. The model has the bytes of a training in memory on the same rows, for
    any number of shards and any executor.
    """
    plan.check()
    settings = settings or Settings()
    if settings.model != IALS.name:
        raise AssentError(f"model {settings.model}: large logs are for {IALS.name} alone")
    parts = parts_of(source, closed=plan.closed, values=plan.values)
    about = {
        "assent": "a large log, decided on",
        "made_with": made_with() | {"code": code_state()},
        "partitions": [[part.file.name, part.file.stat().st_size] for part in parts],
        **plan.describe(),
        "settings": settings.model_dump(mode="json"),
    }
    _check(out, about, replace=replace)
    out.mkdir(0o700, parents=True, exist_ok=True)
    with locked(out / _LOCK, wait=False) as held:
        if not held:
            raise AssentError(f"{out}: another process is at work in this folder; wait for it")
        try:
            write_json(out / MARKER, about, private=True)
            return _fit(parts, out, plan, settings, executor, progress)
        finally:
            (out / _LOCK).unlink(missing_ok=True)


def _fit(
    parts: Sequence[Part],
    out: Path,
    plan: LargePlan,
    settings: Settings,
    executor: Executor,
    progress: Progress,
) -> Large:
    work, started = out / WORK, time.time()
    work.mkdir(0o700, exist_ok=True)
    weights = {
        "deciding": 2.0,
        "decisions": 1.0,
        "shards": 3.0,
        "training": 1.0 * settings.training.last_epoch,
    }
    with phases(progress, weights) as phase:
        with phase("deciding"):
            rule = _kept_rule(work) or _rule(parts, plan, executor, progress)
            _keep_rule(work, rule)
        with phase("decisions"), progress.task("writing decisions", len(parts)) as advance:
            (out / DECISIONS).mkdir(0o700, exist_ok=True)
            counted = executor.map(_write_decisions, parts, (out / DECISIONS, rule), advance)
        with phase("shards"):
            shards = _kept_shards(work / "shards")
            if shards is None or len(shards.user_shards) > plan.shards:
                shutil.rmtree(work / "shards", ignore_errors=True)
                shards = make_shards(
                    parts, work / "shards", count=plan.shards, executor=executor, rule=rule, progress=progress
                )
                _keep_shards(shards)
        with phase("training"):
            trained = train_sharded(
                shards,
                settings,
                seed=plan.seed,
                executor=executor,
                progress=progress,
                checkpoint=work / "training.progress",
            )
    save(trained, out / MODEL)
    figures = _figures(counted) | {"users": len(shards.user_ids), "items": len(shards.item_ids)}
    write_json(out / DONE, figures | {"seconds": time.time() - started}, private=True)
    shutil.rmtree(work)
    return Large(out, trained, figures)


def open_large(folder: Path) -> Large:
    """Read what `fit_large` wrote."""
    figures = {name: value for name, value in read_json(folder / DONE).items() if name != "seconds"}
    return Large(folder, load(folder / MODEL), figures)


def _rule(parts: Sequence[Part], plan: LargePlan, executor: Executor, progress: Progress) -> Rule:
    if plan.method == "all":
        return Everything()
    if plan.price is not None:
        return AtPrice(plan.price)
    assert plan.budget is not None
    order = next(each for each in ORDERS if each == plan.method)
    return cut_within(parts, order, plan.budget, executor=executor, progress=progress)


def _write_decisions(shared: tuple[Path, Rule], part: Part, tell: Advance) -> dict[str, float]:
    """Write what was decided on each row of a part; return how many rows there are, and what people mind."""
    folder, rule = shared
    rows = part.rows().with_row_index("row")
    read = rows.filter(pl.col("reason").is_null())
    said = np.where(rule.disclosed(part, read), DISCLOSED, WITHHELD)
    decided = read.select("row").with_columns(said=pl.Series(said, dtype=pl.String))
    table = rows.join(decided, on="row", how="left", maintain_order="left")
    table = table.select("user", "item", "unwillingness", decision=pl.coalesce("said", "reason"))
    content = BytesIO()
    table.write_parquet(content)
    write_bytes(folder / part.file.name, content.getbuffer(), private=True)
    sums = table.group_by("decision").agg(rows=pl.len(), minded=pl.col("unwillingness").sum())
    tell()
    return {
        f"{kind} {decision}": float(value)
        for decision, *values in sums.iter_rows()
        for kind, value in zip(("rows", "minded"), values, strict=True)
    }


def _figures(counted: Sequence[dict[str, float]]) -> dict[str, Any]:
    total: dict[str, float] = {}
    for each in counted:
        for name, value in each.items():
            total[name] = total.get(name, 0.0) + value
    minded = {kind: total.get(f"minded {kind}", 0.0) for kind in (DISCLOSED, WITHHELD)}
    found: dict[str, Any] = {
        name.removeprefix("rows "): int(value) for name, value in sorted(total.items()) if name[:5] == "rows "
    }
    whole = sum(minded.values())
    return found | {"violation_share": minded[DISCLOSED] / whole if whole else 0.0}


def _check(out: Path, about: dict[str, Any], *, replace: bool) -> None:
    """Refuse a folder that holds something else, or a finished result; with `replace`, delete the latter."""
    if not out.exists() or not any(out.iterdir()):
        return
    if not (out / MARKER).is_file():
        raise AssentError(f"{out}: already exists, and holds no large log's model; choose another folder")
    if replace:
        _delete(out)
    elif (out / DONE).exists():
        raise AssentError(f"{out}: holds a finished model; choose another folder, or replace=True")
    elif read_json(out / MARKER) != about:
        raise AssentError(
            f"{out}: holds unfinished work on other data or settings; choose another folder, or replace=True"
        )


def _delete(out: Path) -> None:
    """Delete what `fit_large` wrote; other files are left alone."""
    for name in (DONE, f"{MODEL}.json", f"{MODEL}.safetensors", MARKER):
        (out / name).unlink(missing_ok=True)
    for name in (DECISIONS, WORK):
        if not (out / name).is_symlink():
            shutil.rmtree(out / name, ignore_errors=True)


def _keep_rule(work: Path, rule: Rule) -> None:
    """Keep a cut for the same command."""
    if isinstance(rule, Cut):
        scores = rule.scores
        about = {
            "order": scores.order,
            "last": rule.last and [*map(str, rule.last)],
            "item_ids": scores.item_ids.tolist(),
            "counts": scores.counts.tolist(),
        }
        write_bytes(work / "cut.json", json.dumps(about).encode(), private=True)


def _kept_rule(work: Path) -> Rule | None:
    with suppress(AssentError):
        about = read_json(work / "cut.json")
        ids, counts = np.array(about["item_ids"], dtype=np.str_), np.array(about["counts"], dtype=np.int64)
        last = None
        if about["last"] is not None:
            kinds = float, float, str, float, int, int
            last = Place(*(kind(each) for kind, each in zip(kinds, about["last"], strict=True)))
        return Cut(Scores(about["order"], ids, counts), last)
    return None


def _keep_shards(shards: Shards) -> None:
    """Say that all shards are there, and what they are."""
    about = {
        "user_ids": shards.user_ids.tolist(),
        "item_ids": shards.item_ids.tolist(),
        "users": shards.users,
        "items": shards.items,
        "rows": shards.rows,
    }
    write_bytes(shards.folder / _KEPT, json.dumps(about).encode(), private=True)


def _kept_shards(folder: Path) -> Shards | None:
    with suppress(AssentError):
        about = read_json(folder / _KEPT)
        users, items = (np.array(about[name], dtype=np.str_) for name in ("user_ids", "item_ids"))
        of_users, of_items = (
            Side(kind, length, tuple(cuts)) for kind, length, cuts in (about["users"], about["items"])
        )
        return Shards(folder, users, items, of_users, of_items, about["rows"])
    return None
