"""Fitting a run into one folder (`folder` says what it holds).

A *live* run decides on every interaction and publishes a model trained on all that is disclosed. Its quality
is measured on a split of the log, with the same method at the same operating point:

    split     tune → decide → train → test, with several seeds where one is noisy
    all rows  decide → tune and find the length of the training on disclosed rows → train on all of them

In a *sharded* live run both are done within parts of the people (`runs.shards`). An *experiment* ends with
the split: nobody's latest interactions are decided on, and its model is the one
that was tested.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from assent.data.interactions import Interactions
from assent.data.live import disclosed_split, disclosed_whole
from assent.data.problem import Problem
from assent.game.certificate import wishes_broken
from assent.game.players import players_of
from assent.lab.executor import SERIAL, Executor
from assent.lab.lab import Lab, Training, everything
from assent.lab.store import Store
from assent.lab.tuning import Tuned, tuned
from assent.methods import Choice
from assent.report.data import ReportData
from assent.report.page import build_report
from assent.runs.claim import claimed, forget_replaced
from assent.runs.compare import frontier
from assent.runs.folder import (
    FRONTIER,
    QUALITY,
    REPORT,
    SHARDS,
    SHARDS_FILE,
    TUNING,
    WORK,
    Run,
    open_run,
)
from assent.runs.manifest import RunFiles, hash_of_decisions
from assent.runs.measure import certificate_of
from assent.runs.plan import RunPlan, describe
from assent.runs.quality import Least, Quality, least_budget, least_for_floors, measure_quality
from assent.runs.tables import described, held_out_table, selection_table
from assent.support.arrays import Bools
from assent.support.errors import AssentError
from assent.support.progress import SILENT, Phase, Progress, phases
from assent.training import Settings, Trained
from assent.training.stored import as_files

_FEW = 0.02
"""Share of the decisions below which a price is said to decide hardly anything."""
CHECKED = ("predicted_reward", "true_reward", "prediction_error", "reward_loss", "reward_form")
"""Figures of a certificate that need rows which no model has seen: those of the split."""


def fit(
    log: Interactions,
    problem: Problem,
    out: str | Path,
    plan: RunPlan | None = None,
    settings: Settings | None = None,
    *,
    live: Problem | None = None,
    before: Run | None = None,
    replace: bool = False,
    executor: Executor = SERIAL,
    progress: Progress = SILENT,
) -> Run:
    """Choose, train, measure and report into the folder `out`.

    `problem` is a split of the log, to measure on. With `live`, the log's `live_problem`, the run is live;
    without, it is an experiment on the split. An unfinished run of the same plan in `out` is continued; any
    other folder there is refused, or with `replace` any that is no run's. In a sharded run, shards that have
    not changed since the run `before` are taken over from it.
    """
    folder, plan, settings = Path(out), plan or RunPlan(), settings or Settings()
    for each in (problem, live):
        if each is not None:
            plan.check(each, settings.model)
    if plan.shards is not None and live is None:
        raise AssentError(f"shards={plan.shards}: accepted: a live run, not an experiment")
    description = describe(problem, plan, settings, live)
    with claimed(folder, description, replace=replace) as files:
        store = Store(folder / WORK)
        lab = Lab(problem, settings, plan.seed, store, executor, progress)
        with phases(progress, _weights(plan, live=live is not None)) as phase:
            return _fit(log, lab, live, files, plan, description, before, phase)


def _weights(plan: RunPlan, *, live: bool) -> dict[str, float]:
    """The phases of a fit, and roughly how long each takes."""
    cells = len(plan.points) * plan.frontier_seeds
    if plan.shards is not None:
        shards = {
            f"shard {number} of {plan.shards}": 20 / plan.shards for number in range(1, plan.shards + 1)
        }
        return shards | {"quality": 2.0 * (plan.seeds or 1), "final model": 2.0, "report": 1.0}
    weights = {
        "tuning": 2.0,
        "budget": 12.0 * (plan.keep_quality is not None),
        "decision": 10.0,
        "quality": 8.0 * (plan.seeds or (2 if live else 1)),
        "decision on all": 6.0 * live,
        "final model": 4.0 * live,
        "frontier": 10.0 * cells,
        "report": 1.0,
    }
    return {name: weight for name, weight in weights.items() if weight}


def _fit(
    log: Interactions,
    lab: Lab,
    live: Problem | None,
    files: RunFiles,
    plan: RunPlan,
    description: dict[str, Any],
    before: Run | None,
    phase: Phase,
) -> Run:
    problem = lab.problem
    if live is not None and plan.shards is not None:
        from assent.runs.shards import fit_shards  # which trains the final model as here

        sharded = fit_shards(lab, live, plan, Store(files.folder / SHARDS), before, phase)
        decided, table = sharded.decided, described(sharded.table, log)
        files.write_json(SHARDS_FILE, sharded.facts)
    else:
        tried = _on_split(lab, plan, phase, live)
        decided = tried if live is None else _on_all(lab, live, plan, tried, phase)
        table = selection_table(log, live or problem, decided.choice, decided.budget)
    files.write_json(TUNING, decided.tuning)
    for name, content in as_files(decided.trained, "model").items():
        files.write(name, content)
    files.write_table("selection.parquet", table)
    files.write_table("held_out.parquet", held_out_table(log, problem))
    files.write_table("sealed.parquet", log.sealed)
    files.write_json("certificate.json", decided.certificate)
    records = [dict(each) for each in decided.quality.records]
    files.write_json("metrics.json", records)
    quality = decided.quality.facts() | {"operating_point": _operating_point(plan, decided, decided.least)}
    files.write_json(QUALITY, quality)
    compared = []
    if plan.points:
        with phase("frontier"):
            compared = _compare(lab, plan)
        files.write_json(FRONTIER, compared)
    with phase("report"), lab.progress.task("report", 1):
        page = build_report(
            report_data(description, decided.tuning, records, compared, table, decided.certificate, quality)
        )
    files.write(REPORT, page.encode())
    # The manifest marks the run as finished, so nothing that knows withheld interactions may outlive it. The
    # store is deleted only once all else is written: a run that is killed before goes on from it.
    lab.store.clear()
    forget_replaced(files.folder)
    files.finish(problem=description["fingerprint"], decisions=hash_of_decisions(table))
    return open_run(files.folder, lab.settings.model)


@dataclass(frozen=True)
class Decided:
    """Decisions, and the model of what they disclose."""

    choice: Choice
    budget: float | None
    trained: Trained
    tuning: dict[str, Any]
    certificate: dict[str, Any]
    at_all: Tuned
    quality: Quality
    least: Least | None = None


def _on_split(lab: Lab, plan: RunPlan, phase: Phase, live: Problem | None) -> Decided:
    """Decide, train and measure on the split."""
    problems = [lab.problem, *([] if live is None else [live])]
    with phase("tuning"):
        at_all = tuned(lab, everything(lab.problem))
    found, least, budget = lab.with_settings(at_all.settings), None, plan.within
    if plan.keep_quality is not None:
        with phase("budget"):
            floors = max(map(least_for_floors, problems))
            asked = plan.keep_quality, plan.confidence
            least = least_budget(found, plan.method, *asked, k=plan.k[0], least=floors)
        budget = least.budget
    with phase("decision"):
        choice = plan.decide(found, budget)
    if lab.problem.wishes.are_plain and budget is None:
        _warn_if_price_decides_little(choice)
    with phase("quality"):
        quality = measure_quality(lab, plan, budget, live=live is not None)
        final = tuned(lab, choice.selection)
        [trained] = lab.train([Training(choice.selection, label="tested model", settings=final.settings)])
        certificate = certificate_of(found, plan.method, choice, trained, plan.reward_price)
    tuning = {"all": at_all.facts(), "disclosed": final.facts()}
    return Decided(choice, budget, trained, tuning, certificate, at_all, quality, least)


def _on_all(lab: Lab, live: Problem, plan: RunPlan, tried: Decided, phase: Phase) -> Decided:
    """Decide on every row, as was tried on the split, and train on all that is disclosed."""
    with phase("decision on all"):
        everybody = replace(lab, problem=live, settings=tried.at_all.settings)
        choice = plan.decide(everybody, tried.budget, plan.method.as_found(tried.choice))
    with phase("final model"):
        final, trained = published(lab, live, choice.selection)
    checked = {name: tried.certificate[name] for name in CHECKED if name in tried.certificate}
    broken = wishes_broken(players_of(live), choice.selection)
    return replace(
        tried,
        choice=choice,
        trained=trained,
        tuning={"all": tried.at_all.facts(), "disclosed": final.facts() | {"epochs": trained.epochs}},
        certificate={**choice.certificate, **checked, **broken},
    )


def published(lab: Lab, live: Problem, selection: Bools, found: Tuned | None = None) -> tuple[Tuned, Trained]:
    """Return the settings found on disclosed rows, `selection[Z]`, and the model trained on all of them.

    The lab's settings are those asked for; with `found`, they are not searched for. Nothing here looks at a
    withheld row.
    """
    split = replace(lab, problem=disclosed_split(live, selection))
    final = found or tuned(split, everything(split.problem))
    settings = final.settings
    if len(split.problem.valid):
        judged = Training(everything(split.problem), label="length of the training", settings=settings)
        [at_length] = split.train([judged])
        settings = stopped_after(settings, at_length.epochs)
    whole = replace(lab, problem=disclosed_whole(live, selection))
    [trained] = whole.train([Training(everything(whole.problem), label="final model", settings=settings)])
    return final, trained


def stopped_after(settings: Settings, epochs: int) -> Settings:
    """Return the settings of a training that ends after so many epochs, at least one."""
    training = settings.training.model_copy(update={"stop_after": max(1, epochs)})
    return settings.model_copy(update={"training": training})


def _operating_point(plan: RunPlan, decided: Decided, least: Least | None) -> dict[str, Any]:
    """What the run was asked to keep within, and how that was found."""
    return {
        "budget": decided.budget,
        "price": decided.choice.price,
        "keep_quality": plan.keep_quality,
        "confidence": plan.confidence if least else None,
        "tried": list(least.tried) if least else [],
    }


def report_data(
    settings: Mapping[str, Any],
    tuning: Mapping[str, Any],
    records: Sequence[dict[str, Any]],
    compared: Sequence[dict[str, Any]],
    selection: pl.DataFrame,
    certificate: Mapping[str, Any],
    quality: Mapping[str, Any],
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
        quality=quality,
    )


def report_of(run: Run) -> ReportData:
    """Return what a finished run's report is made of."""
    parts = run.records, run.frontier, run.selection, run.certificate, run.quality
    return report_data(run.settings, run.tuning, *parts)


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
        price=plan.reward_price,
        k=plan.k,
        store=lab.store,
        executor=lab.executor,
        progress=lab.progress,
    )
