"""A run: from a log to a selection, a model, its figures and a report, in one folder.

    settings.json      what the run depends on, written first
    selection.parquet  one row per training interaction: disclosed or withheld, value, break-even price
    held_out.parquet   one row per interaction that was held out for validation or test
    model.safetensors, model.json   the final model; it knows the disclosed interactions alone
    certificate.json   how far the decision can be trusted: gains by deviating, predicted and true reward
    metrics.json       flat records: the method, All and Nothing
    frontier.json      flat records of all methods within budgets, where that was asked for
    report.html        for people; written last, so a folder that has it is whole

Until the run is done, the folder `.work` holds anchors and the state of trainings. They know withheld
interactions and are deleted at the end. So is `.replaced`, a run that was in the folder before.
"""

import warnings
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from assent.data.interactions import Interactions
from assent.data.problem import Problem
from assent.data.rules import for_the_record
from assent.game.estimates import Objective
from assent.methods import Choice, make_method
from assent.models import code_of
from assent.report.data import ReportData
from assent.report.page import build_report
from assent.runs.folder import MARKER, REPORT, WORK, claimed, forget_replaced
from assent.runs.frontier import frontier, parse_methods
from assent.runs.records import Stopwatch, certificate_of, check_price, record
from assent.runs.tables import held_out_table, selection_table
from assent.settings import Settings
from assent.support.errors import AssentError
from assent.support.files import read_json, write_json, write_text, write_with
from assent.support.progress import SILENT, Progress
from assent.training import Trained
from assent.training.stored import FORMAT, check_format, files_of, load, save
from assent.workbench import Workbench

_IDLE = 0.02
"""Share of the decisions below which a price is said to decide hardly anything."""


@dataclass(frozen=True)
class RunPlan:
    """What a run is asked to do."""

    method: str = "ifrqe++"
    objective: Objective = Objective.WELFARE
    price: float = 0.1
    """Loss units that one unit of unwillingness is worth, in the decision and in the rewards."""
    seed: int = 0
    unwillingness: str = "column"
    """Where the unwillingness came from; the record keeps no ids of it (`for_the_record`)."""
    points: tuple[float, ...] = ()
    """Budgets, as shares of All's violation, at which the report compares all methods; none: it does not."""
    frontier_seeds: int = 2
    """Seeds of that comparison."""
    frontier_methods: str | None = None
    """Its methods, as `parse_methods` reads them; None: all."""
    budget: float | None = None
    """Share of All's violation to keep within; the price of the decision is then found, not given."""
    rest: str | None = None
    """What stands for unwillingness that nobody gave, one of `RESTS`."""

    def __post_init__(self) -> None:
        check_price(self.price)


@dataclass(frozen=True)
class Run:
    """A finished run, read from its folder."""

    folder: Path
    settings: dict[str, Any]
    selection: pl.DataFrame
    held_out: pl.DataFrame
    trained: Trained
    records: list[dict[str, Any]]
    certificate: dict[str, Any]
    """How far the decision can be trusted (`game.certificate`)."""


def fit(
    log: Interactions,
    problem: Problem,
    out: Path,
    plan: RunPlan,
    settings: Settings,
    *,
    replace: bool = False,
    progress: Progress = SILENT,
) -> Run:
    """Choose, train, evaluate and report into the folder `out`.

    An unfinished run of the same plan in `out` is continued; any other folder there is refused, or with
    `replace` any that is no run's.
    """
    description = describe(problem, plan, settings)
    with claimed(out, description, replace=replace):
        return _fit(log, problem, out, plan, settings, description=description, progress=progress)


def _fit(
    log: Interactions,
    problem: Problem,
    out: Path,
    plan: RunPlan,
    settings: Settings,
    *,
    description: dict[str, Any],
    progress: Progress,
) -> Run:
    bench = Workbench(problem, settings, plan.seed, progress, out / WORK)
    watch = Stopwatch(bench)
    method = make_method(plan.method, plan.objective)
    choice = method.at_price(bench, plan.price) if plan.budget is None else method.within(bench, plan.budget)
    if problem.wishes.are_plain:
        _warn_if_price_is_idle(choice)
    # Before anything is written: a training that fails at once has nothing to go on from.
    trained = _final(bench, choice, out / "model")
    table = selection_table(log, problem, choice, plan.budget)
    write_with(out / "selection.parquet", table.write_parquet)
    held_out = held_out_table(log, problem)
    write_with(out / "held_out.parquet", held_out.write_parquet)
    own = record(bench, method, choice, trained, price=plan.price, watch=watch)
    certificate = certificate_of(bench, choice, trained, plan.price)
    write_json(out / "certificate.json", certificate)
    records = [own] + [
        _reference(bench, name, plan.price) for name in ("all", "nothing") if name != method.name
    ]
    write_json(out / "metrics.json", records)
    compared = _compare(problem, plan, settings, out, progress) if plan.points else []
    data = ReportData(
        dataset=problem.name,
        protocol=problem.protocol,
        settings=description,
        method=method.name,
        objective=own["objective"],
        records=records,
        frontier=compared,
        selection=table,
        certificate=certificate,
    )
    with progress.task("report", 1):
        page = build_report(data)
    # The report marks the run as finished, so nothing that knows withheld interactions may outlive it. It is
    # only deleted once the page is there: a run that is killed before goes on from it.
    bench.clear()
    forget_replaced(out)
    write_text(out / REPORT, page)
    return Run(out, description, table, held_out, trained, records, certificate)


def open_run(folder: Path) -> Run:
    """Read a finished run; an unfinished one, another version's or another program's folder is refused."""
    if not folder.is_dir():
        raise AssentError(f"{folder}: no such run folder; make one with assent fit DATA --out {folder}")
    description = read_json(folder / MARKER)
    check_format(folder / MARKER, description)
    if not (folder / REPORT).exists():
        raise AssentError(f"{folder}: the run is not finished; repeat the assent fit that began it")
    selection, held_out = (_read_table(folder / f"{name}.parquet") for name in ("selection", "held_out"))
    records = read_json(folder / "metrics.json")
    certificate = read_json(folder / "certificate.json")
    return Run(folder, description, selection, held_out, load(folder / "model"), records, certificate)


def describe(problem: Problem, plan: RunPlan, settings: Settings) -> dict[str, Any]:
    """All that a run depends on, as JSON; two equal ones give equal runs."""
    method = make_method(plan.method, plan.objective)
    return {
        "format": FORMAT,
        "assent": version("assent"),
        "dataset": problem.name,
        "protocol": problem.protocol,
        "fingerprint": problem.fingerprint(),
        "method": plan.method,
        "objective": method.objective.value if method.objectives else "",
        "price": plan.price,
        "budget": plan.budget,
        "seed": plan.seed,
        "split_seed": problem.seed,
        "negatives": problem.valid_candidates.shape[1] - 1,
        "unwillingness": for_the_record(plan.unwillingness),
        "rest": plan.rest,
        "wishes": problem.wishes.summary(),
        "frontier_points": list(plan.points),
        "frontier_seeds": [plan.seed + s for s in range(plan.frontier_seeds)] if plan.points else [],
        "frontier_methods": plan.frontier_methods,
        **settings.model_dump(mode="json"),
        **({"code": code} if (code := code_of(settings.model)) else {}),
    }


def _read_table(file: Path) -> pl.DataFrame:
    try:
        return pl.read_parquet(file)
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException):
        raise AssentError(f"{file}: missing or damaged; run the fit again") from None


def _warn_if_price_is_idle(choice: Choice) -> None:
    """Say so where the price is so low that unwillingness decides hardly anything."""
    if choice.values is None or not choice.price:
        return
    changed = float(np.mean(choice.selection != (choice.values > 0)))
    if changed < _IDLE:
        warnings.warn(
            f"at price {choice.price:g} unwillingness decides {changed:.1%} of the interactions; "
            "raise --price, or name what may be disclosed with --budget",
            stacklevel=2,
        )


def _final(bench: Workbench, choice: Choice, path: Path) -> Trained:
    """The model of a choice: the one that this run, killed later, has saved already, or trained now."""
    if files_of(path)[1].exists():
        try:
            return load(path)
        except AssentError:
            pass  # half-written or damaged: trained again
    trained = bench.final(choice.selection)
    save(trained, path)
    return trained


def _reference(bench: Workbench, name: str, price: float) -> dict[str, Any]:
    watch = Stopwatch(bench)
    method = make_method(name)
    choice = method.at_price(bench, price)
    return record(bench, method, choice, bench.final(choice.selection, label=name), price=price, watch=watch)


def _compare(
    problem: Problem, plan: RunPlan, settings: Settings, out: Path, progress: Progress
) -> list[dict[str, Any]]:
    compared = frontier(
        problem,
        settings,
        methods=parse_methods(plan.frontier_methods, pooled=settings.value.is_pooled),
        points=plan.points,
        seeds=[plan.seed + s for s in range(plan.frontier_seeds)],
        price=plan.price,
        cache=out / WORK,
        progress=progress,
    )
    write_json(out / "frontier.json", compared)
    return compared
