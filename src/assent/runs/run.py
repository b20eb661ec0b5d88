"""Fitting a run into one folder (`folder` says what it holds).

A *live* run decides on every interaction and publishes a model trained on all that is disclosed. Its quality
is measured on a split of the log, with the same method at the same operating point:

    split     tune → decide → train → test, with several seeds where one is noisy: the `Calibration`
    all rows  decide → tune and find the length of the training on disclosed rows → train on all of them

So that workers have something to do, the length is found while the split's model is trained and tested.

A run may keep the calibration of another, and may follow another, whose decisions its history starts from
(`runs.update`). In a *sharded* run people are dealt into parts, each of which is decided on by itself
(`runs.shards`). An *experiment* ends with the split: nobody's latest interactions are decided on, and its
model is the one that was tested.
"""

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from assent.lab.lab import Elsewhere, Lab, Training, everything
from assent.lab.store import Store
from assent.lab.tuning import Tuned, tuned
from assent.methods import Choice, Method
from assent.report.data import ReportData
from assent.report.page import build_report
from assent.runs.calibration import CHECKED, MEASURED_IN, Calibration
from assent.runs.claim import claimed, forget_replaced
from assent.runs.compare import frontier
from assent.runs.folder import (
    FRONTIER,
    HISTORY,
    QUALITY,
    REPORT,
    SHARDS,
    SHARDS_FILE,
    TUNING,
    UPDATE,
    WORDS,
    WORK,
    Run,
    open_run,
)
from assent.runs.history import Step, now_in_utc
from assent.runs.manifest import RunFiles, hash_of_decisions
from assent.runs.measure import certificate_of
from assent.runs.plan import RunPlan, describe
from assent.runs.quality import Least, least_budget, least_for_floors, measure_quality
from assent.runs.tables import described, held_out_table, selection_table
from assent.runs.words import words_of
from assent.support.arrays import Bools
from assent.support.errors import AssentError
from assent.support.progress import SILENT, Phase, Progress, phases
from assent.training import Settings, Trained
from assent.training.stored import as_files

_FEW = 0.02
"""Share of the decisions below which a price is said to decide hardly anything."""


def fit(
    log: Interactions,
    problem: Problem,
    out: str | Path,
    plan: RunPlan | None = None,
    settings: Settings | None = None,
    *,
    live: Problem | None = None,
    calibration: Calibration | None = None,
    after: Step | None = None,
    store: Store | None = None,
    replace: bool = False,
    executor: Executor = SERIAL,
    progress: Progress = SILENT,
) -> Run:
    """Choose, train, measure and report into the folder `out`.

    `problem` is a split of the log, to measure on. With `live`, the log's `live_problem`, the run is live;
    without, it is an experiment on the split. With a `calibration` of another live run, nothing is measured.
    `after` is the step from the run that this one follows; a sharded run takes over its untouched shards.

    An unfinished run of the same plan in `out` is continued; any other folder there is refused, or with
    `replace` any that is no run's. What is computed on the way is deleted at the end, or kept in `store` for
    later runs: it knows withheld interactions, so guard it like the log.
    """
    folder, plan, settings = Path(out), plan or RunPlan(), settings or Settings()
    if calibration is not None and live is None:
        raise AssentError("calibration: an experiment makes its own; accepted: with live, the live problem")
    if plan.shards is not None and (live is None or calibration is not None):
        raise AssentError(f"shards={plan.shards}: accepted: a live run that makes its own calibration")
    for each in (problem, live):
        if each is not None:
            plan.check(each, settings.model)
    kept = None if calibration is None else calibration.mark
    description = describe(problem, plan, settings, live, kept)
    if calibration is not None:
        calibration.check(description)
    with claimed(folder, description, replace=replace) as files:
        # What this run uses is counted here alone: the caller's store may have served other runs.
        own = Store(folder / WORK if store is None else store.folder)
        lab = Lab(problem, settings, plan.seed, own, executor, progress)
        weights = _weights(plan, live=live is not None, calibrated=calibration is not None)
        with phases(progress, weights) as phase:
            return _fit(log, lab, live, files, plan, description, calibration, after, phase)


def _weights(plan: RunPlan, *, live: bool, calibrated: bool) -> dict[str, float]:
    """The phases of a fit, and roughly how long each takes."""
    if plan.shards is not None:
        of = plan.shards
        shards = {f"shard {number} of {of}": 20 / of for number in range(1, of + 1)}
        return shards | {"quality": 2.0 * (plan.seeds or 1), "final model": 2.0, "report": 1.0}
    cells = len(plan.points) * plan.frontier_seeds
    weights = {
        "tuning": 2.0 * (not calibrated),
        "budget": 12.0 * (plan.keep_quality is not None and not calibrated),
        "decision": 10.0 * (not calibrated),
        "decision on all": 6.0 * live,
        "quality": 8.0 * (plan.seeds or (2 if live else 1)) * (not calibrated),
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
    calibration: Calibration | None,
    after: Step | None,
    phase: Phase,
) -> Run:
    problem, started, spared = lab.problem, time.time(), 0.0
    table = None
    if live is not None and plan.shards is not None:
        from assent.runs.shards import fit_shards  # which trains the final model as here

        before, kept = None if after is None else after.before, Store(files.folder / SHARDS)
        sharded = fit_shards(lab, live, plan, kept, before, phase)
        decided, calibration, spared = sharded.decided, sharded.calibration, sharded.spared
        table = described(sharded.table, log)
        files.write_json(SHARDS_FILE, sharded.facts)
    else:
        decided, calibration = _decided(lab, live, plan, calibration, phase)
    files.write_json(TUNING, decided.tuning)
    for name, content in as_files(decided.trained, "model").items():
        files.write(name, content)
    if table is None:
        table = selection_table(log, live or problem, decided.choice, calibration.budget)
    files.write_table("selection.parquet", table)
    held_out = held_out_table(log, problem)
    files.write_table("held_out.parquet", held_out if calibration.is_own else held_out.clear())
    files.write_table("sealed.parquet", log.sealed)
    files.write_json("certificate.json", decided.certificate)
    records = [dict(each) for each in calibration.records]
    files.write_json("metrics.json", records)
    quality = calibration.at(decided.choice.price)
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
    told = words_of(log)
    # What another fit or update left that was killed here.
    for name in (*((UPDATE, HISTORY) if after is None else ()), *((WORDS,) if told is None else ())):
        (files.folder / name).unlink(missing_ok=True)
    if told is not None:
        files.write_json(WORDS, told)
    if after is not None:
        own = calibration.is_own
        _write_history(files, after, table, log, lab.store, started, spared, kept=not own)
    # The manifest marks the run as finished, so nothing that knows withheld interactions may outlive it. The
    # store is deleted only once all else is written: a run that is killed before goes on from it.
    seconds = time.time() - started + lab.store.saved(started) + spared
    Store(files.folder / WORK).clear()
    forget_replaced(files.folder)
    place = str(lab.store.folder.resolve()) if _is_kept(lab.store, files) else None
    marks = {"problem": description["fingerprint"], "decisions": hash_of_decisions(table)}
    files.finish(**marks, seconds=seconds, store=place, at=now_in_utc())
    return open_run(files.folder, lab.settings.model)


def _write_history(
    files: RunFiles,
    after: Step,
    table: pl.DataFrame,
    log: Interactions,
    store: Store,
    started: float,
    spared: float,
    *,
    kept: bool,
) -> None:
    """Write what changed since the run before, and what the update took."""
    seconds = time.time() - started
    fresh = seconds + store.saved(started) + spared
    how: dict[str, Any] = {"calibration": None, "calibration_of": None}
    if kept:
        fresh, how = max(fresh, after.fresh_seconds), {"alike": fresh}
    entries = sorted(store.used) if _is_kept(store, files) else []
    after.write(files, table, log.sealed, seconds=seconds, fresh=fresh, entries=entries, **how)


def _is_kept(store: Store, files: RunFiles) -> bool:
    """Whether what was computed outlives the run."""
    return store.folder != files.folder / WORK


@dataclass(frozen=True)
class Decided:
    """Decisions, and the model of what they disclose."""

    choice: Choice
    trained: Trained
    tuning: dict[str, Any]
    certificate: dict[str, Any]


def _decided(
    lab: Lab, live: Problem | None, plan: RunPlan, calibration: Calibration | None, phase: Phase
) -> tuple[Decided, Calibration]:
    """Decide and train as a calibration says; by default, as is found out on the split."""
    if calibration is None:
        tried = _on_split(lab, plan, phase, live)
    else:
        tried = Tried(calibration.settings, calibration.method, calibration.budget)
    chosen = None if live is None else _chosen_on_all(lab, live, plan, tried, phase)
    on_split = None
    if calibration is None:
        with phase("quality"):
            on_split, calibration = _measured(lab, plan, tried, chosen)
    if live is not None and chosen is not None:
        return _on_all(lab, live, calibration, chosen, phase), calibration
    assert on_split is not None  # an experiment makes its own calibration
    return on_split, calibration


@dataclass(frozen=True)
class Tried:
    """What was found on the split to decide by."""

    settings: Settings
    method: Method
    """With what it found out for the decision."""
    budget: float | None
    choice: Choice | None = None
    """The decision on the split; None where a calibration is kept."""
    tuning: Mapping[str, Any] = field(default_factory=dict)
    """How the settings were found, as JSON."""
    least: Least | None = None
    """How the budget was found, where a share of the quality is to be kept."""


def _on_split(lab: Lab, plan: RunPlan, phase: Phase, live: Problem | None) -> Tried:
    """Find settings and a budget on the split, and decide there."""
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
    return Tried(at_all.settings, plan.method.as_found(choice), budget, choice, at_all.facts(), least)


def _measured(lab: Lab, plan: RunPlan, tried: Tried, chosen: "OnAll | None") -> tuple[Decided, Calibration]:
    """Train and measure on the split; what was found there is the run's own calibration.

    The first trainings for all rows, as far as they are `chosen`, are done beside those for the split.
    """
    assert tried.choice is not None
    choice = tried.choice
    quality = measure_quality(
        lab, plan, tried.budget, live=chosen is not None, beside=[] if chosen is None else chosen.first()
    )
    final = tuned(lab, choice.selection)
    [trained] = lab.train([Training(choice.selection, label="tested model", settings=final.settings)])
    found = lab.with_settings(tried.settings)
    certificate = certificate_of(found, plan.method, choice, trained, plan.reward_price)
    point = asked_point(plan, tried.budget, tried.least)
    calibration = Calibration(
        settings=tried.settings,
        method=tried.method,
        budget=tried.budget,
        tuning=tried.tuning,
        records=quality.records,
        quality=quality.facts() | {MEASURED_IN: None, "operating_point": point},
        certificate={name: certificate[name] for name in CHECKED if name in certificate},
    )
    tuning = {"all": tried.tuning, "disclosed": final.facts()}
    return Decided(choice, trained, tuning, certificate), calibration


@dataclass(frozen=True)
class OnAll:
    """The decision on all rows, and the trainings for it."""

    choice: Choice
    split: Lab
    """The disclosed rows, split."""
    final: Tuned
    """The settings found there."""

    def first(self) -> list[Elsewhere]:
        """Return the training that finds the length of the final one, to be done beside others."""
        return [Elsewhere.of(self.split, each) for each in judged(self.split, self.final)]


def _chosen_on_all(lab: Lab, live: Problem, plan: RunPlan, found: Tried, phase: Phase) -> OnAll:
    """Decide on every row, as was found on the split, and find settings for what is disclosed."""
    with phase("decision on all"):
        choice = plan.decide(replace(lab, problem=live, settings=found.settings), found.budget, found.method)
        split = replace(lab, problem=disclosed_split(live, choice.selection))
        return OnAll(choice, split, tuned(split, everything(split.problem)))


def _on_all(lab: Lab, live: Problem, calibration: Calibration, chosen: OnAll, phase: Phase) -> Decided:
    """Train on all that is disclosed."""
    choice = chosen.choice
    with phase("final model"):
        final, trained = published(lab, live, choice.selection, chosen.final, chosen.split)
    broken = wishes_broken(players_of(live), choice.selection)
    return Decided(
        choice,
        trained,
        {"all": calibration.tuning, "disclosed": final.facts() | {"epochs": trained.epochs}},
        {**choice.certificate, **calibration.certificate, **broken},
    )


def published(
    lab: Lab, live: Problem, selection: Bools, found: Tuned | None = None, split: Lab | None = None
) -> tuple[Tuned, Trained]:
    """Return the settings found on disclosed rows, `selection[Z]`, and the model trained on all of them.

    The lab's settings are those asked for; with `found`, they are not searched for. `split` is the lab of the
    disclosed rows' split, if it is there already. Nothing here looks at a withheld row.
    """
    split = split or replace(lab, problem=disclosed_split(live, selection))
    final = found or tuned(split, everything(split.problem))
    settings = final.settings
    for at_length in split.train(judged(split, final)):
        settings = stopped_after(settings, at_length.epochs)
    whole = replace(lab, problem=disclosed_whole(live, selection))
    [trained] = whole.train([Training(everything(whole.problem), label="final model", settings=settings)])
    return final, trained


def judged(split: Lab, found: Tuned) -> list[Training]:
    """Return the training whose length that of the final model is; none where no row judges it."""
    rows, label = everything(split.problem), "length of the training"
    return [Training(rows, label=label, settings=found.settings)] if len(split.problem.valid) else []


def stopped_after(settings: Settings, epochs: int) -> Settings:
    """Return the settings of a training that ends after so many epochs, at least one."""
    training = settings.training.model_copy(update={"stop_after": max(1, epochs)})
    return settings.model_copy(update={"training": training})


def asked_point(plan: RunPlan, budget: float | None, least: Least | None) -> dict[str, Any]:
    """What the run was asked to keep within, and how that was found."""
    return {
        "budget": budget,
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
