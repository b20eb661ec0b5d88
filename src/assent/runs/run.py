"""Fitting a run: choose, train, evaluate and report into one folder (`folder` says what it holds)."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from assent.data.interactions import Interactions
from assent.data.problem import Problem
from assent.data.unwillingness import for_the_record
from assent.game.players import players_of
from assent.game.prices import break_even_prices
from assent.game.reasons import Reasons, reasons_of
from assent.lab.executor import SERIAL, Executor
from assent.lab.lab import Lab, Training, everything
from assent.lab.store import Store
from assent.lab.tuning import tuned
from assent.methods import Choice, Method, make_method
from assent.methods.worth import WorthMethod
from assent.models import code_of
from assent.report.data import ReportData
from assent.report.page import build_report
from assent.results.records import REFERENCES, check_price
from assent.runs.claim import claimed, forget_replaced
from assent.runs.compare import frontier, parse_methods
from assent.runs.folder import FORMAT, FRONTIER, REPORT, TUNING, WORK, Run, open_run
from assent.runs.manifest import RunFiles, hash_of_decisions
from assent.runs.measure import certificate_of, record
from assent.support.progress import SILENT, Progress, phases
from assent.training import Settings
from assent.training.stored import as_files


def selection_table(
    log: Interactions, problem: Problem, choice: Choice, budget: float | None = None
) -> pl.DataFrame:
    """One row per training interaction: what it is, whether it is disclosed, and why.

    `budget` is the share of All's violation that was to be kept within.
    """
    nothing = np.full(len(problem.train), None)
    prices = None if choice.values is None else break_even_prices(choice.values, problem.unwillingness)
    why = _reasons(problem, choice, budget)
    table = pl.DataFrame(
        {
            "user": problem.user_ids[problem.train.users],
            "item": problem.item_ids[problem.train.items],
            "unwillingness": problem.unwillingness,
            "disclosed": choice.selection,
            "value": nothing if choice.values is None else choice.values,
            "uncertainty": nothing if choice.errors is None else choice.errors,
            "price": nothing if prices is None else prices,
            "reason": nothing if why is None else why.reasons,
            "cost": nothing if why is None else why.costs,
            "together": nothing if why is None else why.together,
        },
        schema_overrides={
            **dict.fromkeys(("value", "uncertainty", "price", "cost"), pl.Float64),
            "reason": pl.String,
            "together": pl.Int64,
        },
    )
    given = _minded(log).drop("unwillingness")
    return _with_items(table.join(given, on=["user", "item"], how="left", maintain_order="left"), log)


def _reasons(problem: Problem, choice: Choice, budget: float | None) -> Reasons | None:
    """What decided on each training interaction; None where nothing was weighed against a price."""
    if choice.values is None or choice.price is None:
        return None
    players, filled = players_of(problem, choice.price), budget is not None
    return reasons_of(players, choice.values, choice.selection, filled=filled, drawn=choice.drawn)


def held_out_table(log: Interactions, problem: Problem) -> pl.DataFrame:
    """One row per interaction that nobody decides on: what it is, and what it was held out for."""
    parts = {"validation": problem.valid, "test": problem.test}
    table = pl.DataFrame(
        {
            "user": np.concatenate([problem.user_ids[rows.users] for rows in parts.values()]),
            "item": np.concatenate([problem.item_ids[rows.items] for rows in parts.values()]),
            "held_out_for": [part for part, rows in parts.items() for _ in range(len(rows))],
        },
        schema_overrides={"held_out_for": pl.String},
    )
    return _with_items(table.join(_minded(log), on=["user", "item"], how="left", maintain_order="left"), log)


def _minded(log: Interactions) -> pl.DataFrame:
    """The unwillingness of each pair of user and item, where it comes from, and whether it was given."""
    return log.minded.with_columns(given=~pl.col("source").str.starts_with("rest:"))


def _with_items(table: pl.DataFrame, log: Interactions) -> pl.DataFrame:
    """The table with the title and the categories of each row's item."""
    about = table.join(log.items, on="item", how="left", maintain_order="left")
    return about.with_columns(pl.col("category").fill_null([]))


_FEW = 0.02
"""Share of the decisions below which a price is said to decide hardly anything."""


@dataclass(frozen=True)
class RunPlan:
    """What a run is asked to do."""

    method: Method = field(default_factory=WorthMethod)
    """How to choose."""
    price: float = 0.1
    """Loss units that one unit of unwillingness is worth, in the decision and in the rewards."""
    budget: float | None = None
    """Share of All's violation to keep within; the price of the decision is then found, not given."""
    seed: int = 0
    k: tuple[int, ...] = (5,)
    """Lengths of the lists that metrics are taken of; the report shows the first."""
    unwillingness: str = "column"
    """Where the unwillingness came from; the record keeps no ids of it (`for_the_record`)."""
    rest: str | None = None
    """What stands for unwillingness that nobody gave, one of `RESTS`."""
    closed: float | None = None
    """The limit of unwillingness above which the log was not read."""
    points: tuple[float, ...] = ()
    """Budgets, as shares of All's violation, at which the report compares methods; none: it does not."""
    frontier_seeds: int = 2
    """Number of seeds of that comparison."""
    frontier_methods: tuple[Method, ...] = ()
    """Its methods; none: the usual ones."""

    def __post_init__(self) -> None:
        check_price(self.price)

    def compared(self, model: str) -> Sequence[Method]:
        """Return the methods that the report compares."""
        return self.frontier_methods or parse_methods(None, model=model)

    def check(self, problem: Problem, model: str) -> None:
        """Refuse budgets and wishes at which a method cannot decide."""
        self.method.check(problem, self.budget)
        for point in self.points:
            for method in self.compared(model):
                method.check(problem, point)


def fit(
    log: Interactions,
    problem: Problem,
    out: str | Path,
    plan: RunPlan | None = None,
    settings: Settings | None = None,
    *,
    replace: bool = False,
    executor: Executor = SERIAL,
    progress: Progress = SILENT,
) -> Run:
    """Choose, train, evaluate and report into the folder `out`.

    An unfinished run of the same plan in `out` is continued; any other folder there is refused, or with
    `replace` any that is no run's.
    """
    folder, plan, settings = Path(out), plan or RunPlan(), settings or Settings()
    plan.check(problem, settings.model)
    description = describe(problem, plan, settings)
    with claimed(folder, description, replace=replace) as files:
        store = Store(folder / WORK)
        lab = Lab(problem, settings, plan.seed, store, executor, progress)
        return _fit(log, lab, files, plan, description)


def _fit(log: Interactions, lab: Lab, files: RunFiles, plan: RunPlan, description: dict[str, Any]) -> Run:
    problem, method, price, asked = lab.problem, plan.method, plan.price, lab
    with phases(lab.progress, _weights(plan)) as phase:
        with phase("tuning"):
            at_all = tuned(asked, everything(problem))
        lab = asked.with_settings(at_all.settings)
        with phase("decision"):
            choice = method.at_price(lab, price) if plan.budget is None else method.within(lab, plan.budget)
        if problem.wishes.are_plain:
            _warn_if_price_decides_little(choice)
        others = [make_method(name) for name in REFERENCES if name != method.name]
        choices = [choice, *(each.at_price(lab, price) for each in others)]
        with phase("tuning of the final models"):
            searches = [tuned(asked, each.selection) for each in choices]
        labels = ["final model", *(each.name for each in others)]
        trainings = [
            Training(each.selection, label=label, settings=search.settings)
            for each, label, search in zip(choices, labels, searches, strict=True)
        ]
        with phase("final models"):
            models = lab.train(trainings, "final model, All and Nothing")
        choices = [
            replace(each, cost=each.cost + search.cost)
            for each, search in zip(choices, searches, strict=True)
        ]
        choices[0] = choice = replace(choices[0], cost=choices[0].cost + at_all.cost)
        tuning = {"all": at_all.facts(), "disclosed": searches[0].facts()}
        files.write_json(TUNING, tuning)
        for name, content in as_files(models[0], "model").items():
            files.write(name, content)
        table = selection_table(log, problem, choice, plan.budget)
        files.write_table("selection.parquet", table)
        files.write_table("held_out.parquet", held_out_table(log, problem))
        files.write_table("sealed.parquet", log.sealed)
        with phase("quality"):
            certificate = certificate_of(lab, method, choice, models[0], price)
            files.write_json("certificate.json", certificate)
            records = [
                record(lab, who, chosen, trained, price=price, k=plan.k)
                for who, chosen, trained in zip([method, *others], choices, models, strict=True)
            ]
            files.write_json("metrics.json", records)
        compared: list[dict[str, Any]] = []
        if plan.points:
            with phase("frontier"):
                compared = _compare(asked, plan)
        if compared:
            files.write_json(FRONTIER, compared)
        with phase("report"), lab.progress.task("report", 1):
            page = build_report(report_data(description, tuning, records, compared, table, certificate))
    files.write(REPORT, page.encode())
    # The manifest marks the run as finished, so nothing that knows withheld interactions may outlive it. The
    # store is deleted only once all else is written: a run that is killed before goes on from it.
    lab.store.clear()
    forget_replaced(files.folder)
    files.finish(problem=description["fingerprint"], decisions=hash_of_decisions(table))
    return open_run(files.folder, lab.settings.model)


def _weights(plan: RunPlan) -> dict[str, float]:
    """The phases of a fit, and roughly how long each takes."""
    cells = len(plan.points) * plan.frontier_seeds
    weights = {"tuning": 2, "decision": 10, "tuning of the final models": 5, "final models": 4, "quality": 1}
    return {**weights, **({"frontier": 10.0 * cells} if cells else {}), "report": 1}


def report_data(
    settings: Mapping[str, Any],
    tuning: Mapping[str, Any],
    records: Sequence[dict[str, Any]],
    compared: Sequence[dict[str, Any]],
    selection: pl.DataFrame,
    certificate: Mapping[str, Any],
) -> ReportData:
    """Return what a run's report is made of: the content of the run's other files."""
    names = {"all": "for_everything", "disclosed": "for_what_is_disclosed"}
    found = {f"settings_found_{name}": tuning[part]["found"] for part, name in names.items()}
    return ReportData(
        dataset=settings["dataset"],
        protocol=settings["protocol"],
        settings={**settings, **found},
        method=settings["method"],
        objective=settings["objective"],
        records=records,
        frontier=compared,
        selection=selection,
        certificate=certificate,
    )


def describe(problem: Problem, plan: RunPlan, settings: Settings) -> dict[str, Any]:
    """Return all that a run depends on, as JSON; two equal ones give equal runs."""
    method_settings = plan.method.model_dump(mode="json")
    return {
        "format": FORMAT,
        "assent": version("assent"),
        "dataset": problem.name,
        "protocol": problem.protocol,
        "fingerprint": problem.fingerprint(),
        "method": plan.method.name,
        "objective": plan.method.plays_for,
        "method_settings": {name: value for name, value in method_settings.items() if name != "objective"},
        "price": plan.price,
        "budget": plan.budget,
        "seed": plan.seed,
        "k": list(plan.k),
        "split_seed": problem.seed,
        "negatives": problem.valid_candidates.shape[1] - 1,
        "unwillingness": for_the_record(plan.unwillingness),
        "rest": plan.rest,
        "closed": plan.closed,
        "wishes": problem.wishes.summary(),
        "frontier_points": list(plan.points),
        "frontier_seeds": [plan.seed + s for s in range(plan.frontier_seeds)] if plan.points else [],
        "frontier_methods": [method.key for method in plan.frontier_methods],
        **settings.model_dump(mode="json"),
        **({"code": code} if (code := code_of(settings.model)) else {}),
    }


def _warn_if_price_decides_little(choice: Choice) -> None:
    """Warn where the price is so low that unwillingness decides hardly anything."""
    if choice.values is None or not choice.price:
        return
    changed = float(np.mean(choice.selection != (choice.values > 0)))
    if changed < _FEW:
        warnings.warn(
            f"at price {choice.price:g} unwillingness decides {changed:.1%} of the interactions; "
            "raise the price, or name what may be disclosed by a budget",
            stacklevel=2,
        )


def _compare(lab: Lab, plan: RunPlan) -> list[dict[str, Any]]:
    """Measure the frontier for the report."""
    return frontier(
        lab.problem,
        lab.settings,
        methods=plan.compared(lab.settings.model),
        points=plan.points,
        seeds=[plan.seed + s for s in range(plan.frontier_seeds)],
        price=plan.price,
        k=plan.k,
        store=lab.store,
        executor=lab.executor,
        progress=lab.progress,
    )
