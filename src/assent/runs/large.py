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

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from assent.game.cut import ORDERS, AtPrice, Cut, cut_within
from assent.lab.executor import SERIAL, Executor
from assent.lab.partitions import Everything, Part, Rule, Shards, make_shards, parts_of
from assent.lab.sharded import train_sharded
from assent.models import IALS
from assent.runs.folder import DISCLOSED, KINDS, LARGE, WITHHELD, Run, open_run
from assent.runs.plan import USUAL_BUDGET
from assent.runs.recommend import recommend
from assent.support.errors import AssentError
from assent.support.files import locked, read_json, write_bytes, write_json
from assent.support.progress import SILENT, Advance, Progress, phases
from assent.support.runtime import code_state, made_with
from assent.training import Settings, Trained
from assent.training.stored import load, save

METHODS: Final = ("all", *ORDERS)
DONE, DECISIONS, MODEL, WORK = "done.json", "decisions", "model", ".work"
_LOCK = ".assent-lock"
_CUT = "cut.json"


@dataclass(frozen=True)
class LargePlan:
    """How a large log is decided on."""

    method: str = "threshold"
    """`threshold`: the least unwillingness first; `occurrence`: items of many people and little unwillingness
    first; `value`: by `values`; `all`: everything that is not "never"."""
    budget: float | None = None
    """Share of what people mind that may be disclosed; None: the usual one, unless there is a price."""
    price: float | None = None
    """Instead of a budget, for `value`: what one unit of unwillingness costs, in units of the values."""
    values: str | None = None
    """The column that says what disclosing a row is worth."""
    closed: float | None = None
    """Above this unwillingness, rows are not read to decide either."""
    shards: int = 8
    """About how many shards of people, and as many of items."""
    seed: int = 0

    def __post_init__(self) -> None:
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
        if self.budget is not None and not 0 <= self.budget <= 1:
            raise AssentError(f"budget={self.budget:g}: accepted: a number from 0 to 1")

    @property
    def within(self) -> float | None:
        """The budget, unless there is a price instead or everything is disclosed."""
        if self.budget is None and self.price is None and self.method != "all":
            return USUAL_BUDGET
        return self.budget

    def describe(self) -> dict[str, Any]:
        """Return what decisions and the model depend on, besides the log and settings."""
        about = {name: value for name, value in vars(self).items() if name != "shards"}
        return about | {"budget": self.within}


@dataclass(frozen=True)
class Large:
    """What was made of a large log."""

    folder: Path
    trained: Trained
    figures: dict[str, Any]
    """Rows by decision, people, items, the violation and its share."""

    def had(self) -> pl.LazyFrame:
        """Return every pair of a person and an item that they have had; titles are not known."""
        table = pl.scan_parquet(self.folder / DECISIONS / "*.parquet")
        return table.select("user", "item", title=pl.lit(None, pl.String), kind="decision")

    def recommend(
        self, users: str | Sequence[str] | None = None, k: int = 10, *, include: Sequence[str] = ()
    ) -> pl.DataFrame:
        """Return the k best items for each of `users`, None for everybody, as `Run.recommend` does."""
        return recommend(self, users, k, include=include)


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
    settings = settings or Settings()
    if settings.model != IALS.name:
        raise AssentError(f"model {settings.model}: large logs are for {IALS.name} alone")
    if out.resolve().is_relative_to(source.resolve()):
        raise AssentError(f"{out}: it lies in the folder of partitions; accepted: another place")
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
            write_json(out / LARGE, about, private=True)
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
            rule = _rule(parts, plan, work / _CUT, executor, progress)
        with phase("decisions"), progress.task("writing decisions", len(parts)) as advance:
            (out / DECISIONS).mkdir(0o700, exist_ok=True)
            counted = executor.map(_write_decisions, parts, (out / DECISIONS, rule), advance)
        with phase("shards"):
            shards = Shards.kept(work / "shards")
            if shards is None or len(shards.user_shards) > plan.shards:
                shutil.rmtree(work / "shards", ignore_errors=True)
                shards = make_shards(
                    parts, work / "shards", count=plan.shards, executor=executor, rule=rule, progress=progress
                )
                shards.keep()
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
    if not (folder / DONE).is_file():
        raise AssentError(f"{folder}: no finished model of a large log; repeat the command that began it")
    figures = {name: value for name, value in read_json(folder / DONE).items() if name != "seconds"}
    return Large(folder, load(folder / MODEL), figures)


def open_any(folder: Path, model: str | None = None) -> Run | Large:
    """Read a run, or what was made of a large log; `model` names a model of your own, as in `open_run`."""
    return open_large(folder) if (folder / LARGE).is_file() else open_run(folder, model)


def _rule(parts: Sequence[Part], plan: LargePlan, file: Path, executor: Executor, progress: Progress) -> Rule:
    """Return what decides on rows; a cut is kept in a file."""
    if plan.price is not None:
        return AtPrice(plan.price)
    if plan.within is None:
        return Everything()
    cut = Cut.kept(file)
    if cut is None:
        order = next(each for each in ORDERS if each == plan.method)
        cut = cut_within(parts, order, plan.within, executor=executor, progress=progress)
        cut.keep(file)
    return cut


_Counts = dict[str, tuple[int, float]]
"""Of each kind, how many rows there are, and what people mind in them."""


def _write_decisions(shared: tuple[Path, Rule], part: Part, tell: Advance) -> _Counts:
    """Write what was decided on each row of a part, and count it."""
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
    tell()
    here = {kind: table.filter(pl.col("decision") == kind)["unwillingness"].to_numpy() for kind in KINDS}
    return {kind: (len(minded), float(minded.sum())) for kind, minded in here.items()}


def _figures(counted: Sequence[_Counts]) -> dict[str, Any]:
    """Add up the rows of each kind, and say which share of what people mind is disclosed."""
    rows, minded = ({kind: sum(each[kind][n] for each in counted) for kind in KINDS} for n in range(2))
    whole = minded[DISCLOSED] + minded[WITHHELD]
    return rows | {"violation_share": minded[DISCLOSED] / whole if whole else 0.0}


def _check(out: Path, about: dict[str, Any], *, replace: bool) -> None:
    """Refuse a folder that holds something else, or a finished result; with `replace`, delete the latter."""
    if not out.exists() or not any(out.iterdir()):
        return
    if not (out / LARGE).is_file():
        raise AssentError(f"{out}: already exists, and holds no large log's model; choose another folder")
    if replace:
        _delete(out)
    elif (out / DONE).exists():
        raise AssentError(f"{out}: holds a finished model; choose another folder, or replace=True")
    elif read_json(out / LARGE) != about:
        raise AssentError(
            f"{out}: holds unfinished work on other data or settings; choose another folder, or replace=True"
        )


def _delete(out: Path) -> None:
    """Delete what `fit_large` wrote; other files are left alone."""
    for name in (DONE, f"{MODEL}.json", f"{MODEL}.safetensors", LARGE):
        (out / name).unlink(missing_ok=True)
    for name in (DECISIONS, WORK):
        if not (out / name).is_symlink():
            shutil.rmtree(out / name, ignore_errors=True)
