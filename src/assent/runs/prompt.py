"""The prompt update of a run: a new run folder at once, from what the last exact run measured.

The decisions are those of `Served`, by the values of the last exact run. Then there are two ways to a model:

kept     items' vectors stay those of the last exact run, and people's are folded in from what they disclose
         now: seconds, but rows that went since have had a part in the items
trained  the model is trained from nothing on what is disclosed now, with the settings and the length of the
         training that the last exact run found: given these few numbers and the decisions, nothing else is
         in it

The folder is written whole, as that of a fit is. Its settings, quality and report name the grade `prompt`,
the exact run that values, and items or settings, come from, and how much has changed since.
"""

import time
import warnings
from collections.abc import Mapping
from dataclasses import asdict, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import polars as pl

from assent.data.interactions import Interactions
from assent.data.live import disclosed_whole, live_problem
from assent.lab.executor import SERIAL, Executor
from assent.lab.lab import Lab, Training, everything
from assent.report.page import build_report
from assent.results.words import percent, plural
from assent.runs.calibration import measured_by
from assent.runs.changes import PAIR, Changes
from assent.runs.claim import claimed, forget_replaced
from assent.runs.drift import PATHS, drift, paths_then
from assent.runs.folder import QUALITY, REPORT, TUNING, WORDS, Run, open_run
from assent.runs.history import Grade, Step, now_in_utc
from assent.runs.manifest import RunFiles, hash_of_decisions
from assent.runs.plan import settings_of
from assent.runs.run import report_data, stopped_after
from assent.runs.served import Served
from assent.runs.standing import Ask
from assent.runs.tables import described, selection_of
from assent.runs.words import check_nothing_lost, words_of
from assent.support.arrays import Bools
from assent.support.errors import AssentError
from assent.support.progress import SILENT, Progress
from assent.training import Trained, Tune
from assent.training.stored import as_files

_ABOUT_VALUES: Final = ("value_own", "value_social", "value_trials", "value_paths", "objective")
"""What a certificate says of values, which are kept."""


class Vectors(StrEnum):
    """Where the items' vectors of a prompt update come from."""

    KEPT = "kept"
    """From the last exact run, as they are; people are folded in."""
    TRAINED = "trained"
    """From a training on what is disclosed now, as are people's vectors."""


def prompt_update(
    run: Run,
    log: Interactions,
    out: str | Path,
    *,
    vectors: Vectors = Vectors.KEPT,
    wishes: Ask | None = None,
    wishes_in_log: bool = False,
    most_withdrawn: bool = False,
    check: bool = True,
    replace: bool = False,
    executor: Executor = SERIAL,
    progress: Progress = SILENT,
) -> Run:
    """Write the prompt update of a live run to the folder `out`, and return it.

    `log` is the present one, read as for the fit. `wishes` reads people's own limits, for a run that had
    some. What a file of later wishes told the run has to be said again; `wishes_in_log` says that the log
    itself says it by now. A log that has next to nobody of the run is refused without `most_withdrawn`. With
    `check`, a sample of the rows is valued again, and a warning says if values
    are too old to decide by; an exact update values all anew. `replace` may replace another run in `out`.
    `executor` and `progress` are for the training, where `vectors` asks for one.
    """
    started, vectors = time.time(), Vectors(vectors)
    check_nothing_lost(run, log, wishes_in_log=wishes_in_log, most_withdrawn=most_withdrawn, is_kept=True)
    if log.table.is_empty():
        raise AssentError(f"{log.name}: nothing that may be read is left; accepted: at least one row")
    served, step = Served.of(run, wishes), Step.between(run, log, Grade.PROMPT, Path(out))
    applied = served.apply(step.changes)
    if not served.sealed.select(PAIR).equals(log.sealed.select(PAIR).sort(PAIR)):
        limit = run.settings["closed"]
        raise AssentError(f"{log.name}: turns away other rows than the run would; accepted: closed={limit}")
    then = paths_then(run)
    aged = drift(run, log, then=then) if check else None
    if aged is not None and aged.is_too_old:
        warnings.warn(f"{aged.summary()} Accepted: grade exact, which values all anew", stacklevel=2)
    base = _base(run, step.changes, served)
    settings = {**run.settings, "grade": Grade.PROMPT.value, "vectors": vectors.value, "base": base}
    quality = {
        **run.quality,
        "operating_point": {**run.quality["operating_point"], "price": served.price},
        **measured_by(run),
        "grade": Grade.PROMPT.value,
        "vectors": vectors.value,
        "age": age(base, vectors),
        "drift": None if aged is None else asdict(aged),
        "price_found_anew": applied.found_anew,
    }
    certificate = {name: run.certificate[name] for name in _ABOUT_VALUES if name in run.certificate}
    if served.price is not None:
        certificate["price"] = served.price
    table = described(served.table().drop("title", "category"), log)
    if then is not None:  # a later update compares with the exact run, whose log is not kept
        paths = pl.when("expected").then(None).otherwise(PATHS).alias(PATHS)
        table = table.join(then, on=PAIR, how="left", maintain_order="left").with_columns(paths)
    held_out = _still_there(run.held_out, table)
    records, tuning = [dict(each) for each in run.records], run.tuning
    with claimed(Path(out), settings, replace=replace) as files:
        if vectors is Vectors.TRAINED:
            live = live_problem(log, seed=settings["split_seed"], negatives=settings["negatives_asked"])
            lab = Lab(live, settings_of(run), settings["seed"], executor=executor, progress=progress)
            trained = trained_anew(lab, selection_of(live, table), tuning["disclosed"])
        else:
            trained = served.trained
        _write(files, trained, log, table, held_out)
        files.write_json(TUNING, tuning)
        files.write_json("certificate.json", certificate)
        files.write_json("metrics.json", records)
        files.write_json(QUALITY, quality)
        page = build_report(report_data(settings, tuning, records, [], table, certificate, quality))
        files.write(REPORT, page.encode())
        if (told := words_of(log)) is None:  # what another update left that was killed here
            (files.folder / WORDS).unlink(missing_ok=True)
        else:
            files.write_json(WORDS, told)
        step.write(
            files,
            table,
            log.sealed,
            seconds=time.time() - started,
            fresh=step.fresh_seconds,
            vectors=vectors.value,
        )
        forget_replaced(files.folder)
        spent = time.time() - started
        marks = {"problem": settings["fingerprint"], "decisions": hash_of_decisions(table)}
        files.finish(**marks, seconds=spent, at=now_in_utc())
    return open_run(out)


def trained_anew(lab: Lab, selection: Bools, found: Mapping[str, Any]) -> Trained:
    """Return the model that is trained on all disclosed rows of the lab's live problem, `selection[Z]`.

    `found` has the settings and the number of epochs of an earlier run's final model (`tuning.json`).
    """
    asked = lab.settings
    model = type(asked.model_settings).model_validate(found["found"])
    known = asked.model_copy(update={"model_settings": model, "tune": Tune.NONE})
    whole = replace(lab, problem=disclosed_whole(lab.problem, selection))
    final = Training(
        everything(whole.problem), label="final model", settings=stopped_after(known, found["epochs"])
    )
    [trained] = whole.train([final])
    return trained


def _write(
    files: RunFiles, trained: Trained, log: Interactions, table: pl.DataFrame, held_out: pl.DataFrame
) -> None:
    for name, content in as_files(trained, "model").items():
        files.write(name, content)
    files.write_table("selection.parquet", table)
    files.write_table("held_out.parquet", held_out)
    files.write_table("sealed.parquet", log.sealed)


def _base(run: Run, changes: Changes, served: Served) -> dict[str, Any]:
    """The exact run that values, items' vectors and settings come from, and what changed since: no ids."""
    before = run.settings.get("base") or {
        "run": run.folder.name,
        "decisions": run.manifest.decisions,
        "price": served.point.price,
        "rows": run.selection.height,
        "updates": 0,
        "since": dict.fromkeys(("rows_withdrawn", *changes.counts()), 0),
    }
    theirs = pl.col("user").is_in(changes.withdrawn)
    rows = sum(table.filter(theirs).height for table in (run.selection, run.sealed))
    counts = {"rows_withdrawn": rows, **changes.counts()}
    since = {name: before["since"][name] + count for name, count in counts.items()}
    return {**before, "updates": before["updates"] + 1, "since": since}


def age(base: Mapping[str, Any], vectors: Vectors) -> str:
    """Say how old that is which comes from the exact run `base`."""
    rows = sum(count for name, count in base["since"].items() if name != "people_withdrawn")
    changed = percent(rows / max(1, base["rows"]), 1)
    since = plural(base["updates"], "prompt update")
    moved = f"{since} changed {changed} of its rows since"
    if vectors is Vectors.KEPT:
        return f"Values and items are those of the run {base['run']}; {moved}."
    return (
        f"Values, settings and the length of the training are those of the run {base['run']}; {moved}. The "
        "model is trained anew on what is disclosed now."
    )


def _still_there(held_out: pl.DataFrame, table: pl.DataFrame) -> pl.DataFrame:
    """The rows that measured quality and may still be read, with what is said of them now."""
    said = ["unwillingness", "given", "source", "said", "title", "category"]
    here = held_out.drop(said).join(table.select(*PAIR, *said), on=PAIR, maintain_order="left")
    return here.select(held_out.columns)
