"""The worker: takes jobs, makes the log, trains, writes decisions, publishes; wishes reach their states.

What a job makes becomes visible in steps, each of which is whole: the run folder, then the model's row with
its decisions, then the states of wishes in batches, then the publication. A worker that takes a job over goes
on after the last step that is there.
"""

import logging
import re
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from threading import Event as Flag
from threading import Thread
from time import monotonic, time
from typing import Any, Final

import polars as pl
from sqlalchemy import and_, delete, exists, func, or_, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from assent.data.interactions import NEVER, Interactions, turned_away
from assent.data.live import live_problem
from assent.data.problem import Protocol, make_problem
from assent.lab.executor import SERIAL, Executor
from assent.methods import make_method
from assent.runs.folder import Run, open_run
from assent.runs.manifest import MANIFEST
from assent.runs.plan import RunPlan
from assent.runs.prompt import Vectors, prompt_update
from assent.runs.run import fit
from assent.service import jobs, models
from assent.service.database import ConflictError, Database, insert_many
from assent.service.effective import Effective
from assent.service.interactions import CONSENT, DELETED, ERASED
from assent.service.jobs import LEASE, Kind, LostJobError, Taken
from assent.service.ledger import last_number, moment_of, moment_text
from assent.service.security import tidy
from assent.service.settings import ServiceSettings
from assent.service.states import honour, settle
from assent.service.tables import (
    Decision,
    Interaction,
    Item,
    ItemCategory,
    Job,
    Leaf,
    Model,
    Person,
    Wish,
)
from assent.support.errors import AssentError
from assent.support.files import read_own
from assent.support.progress import Whole

_ROWS: Final = 20_000
"""Decisions in one statement."""
_TRIES: Final = 5
"""How often a model is written if people are erased while it is."""
_PAUSE: Final = 0.5
"""Seconds between two looks for work."""
_TIDY: Final = 3600.0
"""Seconds between two times that links, visits, old models and the like are deleted that are over."""
_AFTER_FAILURE: Final = 600.0
"""Seconds in which a job that failed for good is not asked for again, but by hand."""
_FOLDER: Final = re.compile(r"job-(\d+)-\d+")
_QUOTED: Final = re.compile(r"'[^']*'|\"[^\"]*\"")
_NUMBERS: Final = ("value", "cost", "price", "worth_owner", "worth_everybody")

log = logging.getLogger("assent.service")


def work(
    database: Database, settings: ServiceSettings, *, worker: str, stop: Flag, executor: Executor = SERIAL
) -> None:
    """Do jobs until `stop` is set, and ask for more whenever wishes have waited long enough."""
    tidied = -_TIDY
    while not stop.is_set():
        try:
            if monotonic() - tidied > _TIDY:
                with database.writing() as session:
                    tidy(session)
                prune(database, settings)
                tidied = monotonic()
            ask_for_work(database, settings)
            settle(database, settings)
            if work_once(database, settings, worker=worker, stop=stop, executor=executor):
                continue
        except AssentError:
            raise
        except Exception as error:  # such as a database that is being restarted
            log.warning("worker: %s; going on", type(error).__name__)
        stop.wait(_PAUSE)


def work_once(
    database: Database,
    settings: ServiceSettings,
    *,
    worker: str,
    stop: Flag | None = None,
    executor: Executor = SERIAL,
) -> bool:
    """Take and do one job; return False if there is none. Once `stop` is set, the job is put back.

    `executor` runs the trainings.
    """
    with database.writing() as session:
        taken = jobs.take(session, worker)
    if taken is None:
        return False
    log.info("job %d (%s): taken", taken.id, taken.kind)
    began = monotonic()
    try:
        with _kept(database, taken, stop or Flag()) as watch:
            result = _do(database, settings, taken, watch, executor)
    except LostJobError:
        log.warning("job %d: another worker has it", taken.id)
        return True
    except _StoppedError:
        with database.writing() as session, suppress(LostJobError):
            jobs.release(session, taken)
        log.info("job %d: put back", taken.id)
        return True
    except Exception as error:
        # Operators see counts and no rows: what an error quotes may be an id.
        said = _QUOTED.sub("'…'", str(error)) if isinstance(error, AssentError) else type(error).__name__
        log.error("job %d (%s): failed (%s)", taken.id, taken.kind, type(error).__name__)
        with database.writing() as session, suppress(LostJobError):
            jobs.fail(session, taken, said)
        return True
    log.info("job %d (%s): done in %.1f s: %s", taken.id, taken.kind, monotonic() - began, result)
    return True


class _StoppedError(Exception):
    """This worker is being ended."""


class _Watch(Whole):
    """Tells how far a training is, and ends it when another worker has the job, or this one is ended."""

    def __init__(self, stop: Flag) -> None:
        super().__init__()
        self.lost, self.stop = Flag(), stop

    def moved(self) -> None:
        """End the training if it does not count any more."""
        if self.lost.is_set():
            raise LostJobError
        if self.stop.is_set():
            raise _StoppedError

    @property
    def text(self) -> str | None:
        """How far it is, in words."""
        stage = self.stage
        share = "" if stage.share is None else f"{stage.share:.0%}"
        return ", ".join(each for each in (stage.phase, share) if each) or None


@contextmanager
def _kept(database: Database, taken: Taken, stop: Flag) -> Iterator[_Watch]:
    """Keep a job by heartbeats while the block is at work."""
    watch, done = _Watch(stop), Flag()

    def beat() -> None:
        while not done.wait(LEASE / 6):
            try:
                with database.writing() as session:
                    jobs.heartbeat(session, taken, progress=watch.text)
            except LostJobError:
                watch.lost.set()
                return
            except Exception as error:  # the lease lasts for a few more tries
                log.warning("heartbeat: %s", type(error).__name__)

    thread = Thread(target=beat, name="assent-heartbeat", daemon=True)
    thread.start()
    try:
        yield watch
    finally:
        done.set()
        thread.join()


def _do(
    database: Database, settings: ServiceSettings, taken: Taken, watch: _Watch, executor: Executor
) -> dict[str, Any]:
    """Do a job, and return its result."""
    with database.reading() as session:
        made = session.scalar(select(Model.id).where(Model.job_id == taken.id))
    if made is None:
        if taken.kind == "train":
            made = _trained(database, settings, taken, watch, executor)
        else:
            made = _updated(database, settings, taken, watch, executor)
    honour(database, settings, made)
    with database.writing() as session:
        jobs.hold(session, taken)
        model, now = session.get_one(Model, made), models.in_service_id(session)
        is_newer = now is None or session.get_one(Model, now).upto <= model.upto
        if settings.publish == "at once" and is_newer and now != made:
            models.publish(session, settings, made, by=f"job {taken.id}")
        jobs.finish(session, taken, {"model": made})
    settle(database, settings)
    prune(database, settings)
    return {"model": made}


def read_log(session: Session, settings: ServiceSettings) -> tuple[Interactions, int]:
    """Return the log with what is in force for each interaction, and the last event that it knows.

    The session has to see one moment. Items are those of rows that may be read.
    """
    upto, effective = last_number(session), Effective(settings)
    asked = select(
        Person.user,
        Item.item,
        Interaction.at,
        effective.unwillingness,
        effective.source,
        effective.said,
    )
    asked = (
        asked.select_from(Interaction)
        .join(Person, Person.id == Interaction.person_id)
        .join(Item, Item.id == Interaction.item_id)
    )
    rows = [tuple(row) for row in session.execute(effective.joined(asked))]
    kinds = {"user": pl.String, "item": pl.String, "time": pl.Float64,
             "unwillingness": pl.Float64, "source": pl.String, "said": pl.Float64}  # fmt: skip
    table = pl.DataFrame(rows, kinds, orient="row").sort("user", "time", "item")
    sources = {"platform": "column", "unsaid": f"rest:{settings.unsaid:g}"}
    verdicts = table.select(
        "unwillingness",
        pl.col("source").replace_strict(sources, default="wish", return_dtype=pl.String),
        pl.col("said").map_elements(lambda at: moment_text(at)[:19] + "Z", return_dtype=pl.String),
    ).with_columns(reason=turned_away(table["unwillingness"], settings.closed))
    known = Interactions("service", table.select("user", "item", "time"), _catalogue(session))
    read = known.judged(verdicts)
    return replace(
        read, items=read.items.join(read.table.select("item").unique(), on="item", how="semi")
    ), upto


def _catalogue(session: Session) -> pl.DataFrame:
    """Return what is known of items: item, title, category."""
    kinds = {"item": pl.String, "title": pl.String}
    items = pl.DataFrame(
        [tuple(row) for row in session.execute(select(Item.item, Item.title))], kinds, orient="row"
    )
    asked = (
        select(Item.item, ItemCategory.category)
        .join(Item, Item.id == ItemCategory.item_id)
        .order_by(ItemCategory.item_id, ItemCategory.place)
    )
    pairs = pl.DataFrame(
        [tuple(row) for row in session.execute(asked)],
        {"item": pl.String, "category": pl.String},
        orient="row",
    )
    lists = pairs.group_by("item", maintain_order=True).agg("category")
    found = items.join(lists, on="item", how="left").with_columns(pl.col("category").fill_null([]))
    return found.sort("item")


def plan_of(settings: ServiceSettings) -> RunPlan:
    """Return what a training is asked to do."""
    return RunPlan(
        method=make_method(settings.method),
        price=settings.price,
        budget=settings.budget,
        keep_quality=settings.keep_quality,
        seed=settings.seed,
        seeds=settings.seeds,
        k=(settings.k,),
        unwillingness="service",
        closed=settings.closed,
        points=settings.frontier,
        frontier_seeds=1,
    )


def _trained(
    database: Database, settings: ServiceSettings, taken: Taken, watch: _Watch, executor: Executor
) -> int:
    """Train on the present log, and write the model with its decisions; return its id."""
    log_now, upto = _present(database, settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        problem = make_problem(log_now, Protocol.PAPER_TABLES, seed=settings.seed)
        live = live_problem(log_now, seed=settings.seed)
        out = _new_folder(settings, taken)
        run = fit(log_now, problem, out, plan_of(settings), live=live, executor=executor, progress=watch)
    return write_model(database, run, taken, upto=upto)


def _updated(
    database: Database, settings: ServiceSettings, taken: Taken, watch: _Watch, executor: Executor
) -> int:
    """Decide anew on the present log by what the last training measured, and train the model by it.

    Return the model's id. Where settings ask for kept vectors, nothing is trained.
    """
    with database.reading() as session:
        base = models.last_trained(session)
        if base is None:
            raise ConflictError("update: there is no training to go on from; accepted: a training")
        parent, folder, trained_upto = base.id, base.folder, base.trained_upto
    log_now, upto = _present(database, settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = open_run(settings.runs / folder)
        run = prompt_update(
            before,
            log_now,
            _new_folder(settings, taken),
            vectors=Vectors(settings.update_vectors),
            check=False,
            executor=executor,
            progress=watch,
        )
    if settings.update_vectors == "trained":
        trained_upto = upto
    return write_model(database, run, taken, upto=upto, parent=parent, trained_upto=trained_upto)


def _present(database: Database, settings: ServiceSettings) -> tuple[Interactions, int]:
    with database.snapshot() as session:
        return read_log(session, settings)


def _new_folder(settings: ServiceSettings, taken: Taken) -> Path:
    """Return where a job's run goes; what lost workers left of it is deleted."""
    for left in settings.runs.glob(f"job-{taken.id}-*"):
        shutil.rmtree(left, ignore_errors=True)
    return settings.runs / f"job-{taken.id}-{taken.token}"  # as in _FOLDER


def write_model(
    database: Database,
    run: Run,
    taken: Taken,
    *,
    upto: int,
    parent: int | None = None,
    trained_upto: int | None = None,
) -> int:
    """Write the row of a finished run and its decisions, in one transaction; return the model's id.

    If somebody is erased meanwhile it is written again, without them: the training is not repeated for that.
    """
    known = upto if trained_upto is None else trained_upto
    for _ in range(_TRIES - 1):
        with suppress(IntegrityError):
            return _written(database, run, taken, upto, parent, known)
    return _written(database, run, taken, upto, parent, known)


def _written(
    database: Database, run: Run, taken: Taken, upto: int, parent: int | None, trained_upto: int
) -> int:
    with database.writing() as session:
        jobs.hold(session, taken)
        model = Model(
            job_id=taken.id,
            created=time(),
            kind=taken.kind,
            parent_id=parent,
            folder=run.folder.name,
            manifest_hash=sha256(read_own(run.folder / MANIFEST)).hexdigest(),
            model_hash=run.manifest.files["model.safetensors"],
            decisions_hash=run.manifest.decisions,
            upto=upto,
            trained_upto=trained_upto,
            facts=facts_of(run),
        )
        session.add(model)
        session.flush()
        people = dict(session.execute(select(Person.user, Person.id)).all())
        items = dict(session.execute(select(Item.item, Item.id)).all())
        rows: list[dict[str, Any]] = []
        for row in _decisions(run):
            user, item = row.pop("user"), row.pop("item")
            if user in people and item in items:  # erased since
                rows.append({"model_id": model.id, "person_id": people[user], "item_id": items[item], **row})
            if len(rows) == _ROWS:
                insert_many(session, {Decision: rows})
                rows = []
        insert_many(session, {Decision: rows})
        return model.id


def _decisions(run: Run) -> Iterator[dict[str, Any]]:
    finite = [pl.when(pl.col(name).is_finite()).then(name).alias(name) for name in _NUMBERS]
    decided = run.selection.select(
        "user",
        "item",
        "unwillingness",
        "reason",
        "together",
        *finite,
        state=pl.when("disclosed").then(pl.lit("used")).otherwise(pl.lit("withheld")),
    )
    yield from decided.iter_rows(named=True)
    nothing = dict.fromkeys(("reason", "together", *_NUMBERS))
    for row in run.sealed.select("user", "item", "unwillingness", state="reason").iter_rows(named=True):
        yield {**row, **nothing}


def facts_of(run: Run) -> dict[str, Any]:
    """Return figures of a run for operators, as JSON."""
    mine, point = run.records[0], run.quality["operating_point"]
    disclosed = run.selection.filter("disclosed")
    total = float(run.selection["unwillingness"].sum())
    return {
        "people": run.selection["user"].n_unique(),
        "items": run.selection["item"].n_unique(),
        "interactions": run.selection.height,
        "disclosed": disclosed.height,
        "never": int((run.sealed["reason"] == NEVER).sum()),
        "closed": int((run.sealed["reason"] != NEVER).sum()),
        "violation_share": float(disclosed["unwillingness"].sum()) / total if total else 0.0,
        "budget": point["budget"],
        "price": point["price"],
        "keep_quality": point["keep_quality"],
        "closed_limit": run.settings["closed"],
        "method": run.settings["method"],
        "k": run.settings["k"][0],
        "vectors": run.settings.get("vectors", Vectors.TRAINED.value),
        "seconds": mine.get("seconds"),
        "quality": dict(run.quality),
        "frontier": run.frontier,
    }


def ask_for_work(database: Database, settings: ServiceSettings) -> None:
    """Ask for an update, or a training, once something has waited long enough for it."""
    with database.reading() as session:
        due = _due(session, settings)
    if due is not None:
        with database.writing() as session:
            jobs.enqueue(session, due, by="worker")


def _due(session: Session, settings: ServiceSettings) -> Kind | None:
    """Return the kind of job that is due, and neither waits nor runs nor failed a moment ago."""
    now, last = time(), models.last_trained(session)
    undecided, untrained = (
        session.scalar(select(func.min(Wish.requested)).where(each.is_(None)))
        for each in (Wish.decided, Wish.trained)
    )
    if last is None:
        is_due: dict[Kind, bool] = {"train": _is_past(undecided, settings.update_after, now)}
    else:
        trained = select(func.max(Model.trained_upto)).scalar_subquery()
        gone = session.scalar(
            select(func.min(Leaf.at)).where(Leaf.number > trained, Leaf.event.in_((CONSENT, DELETED, ERASED)))
        )
        deleted = None if gone is None else moment_of(gone)
        waiting = _first(deleted, _taken_back(session, settings))
        helped = waiting if settings.update_vectors == "trained" else None
        is_due = {
            "train": _is_past(_first(untrained, waiting), settings.train_after, now)
            or now - last.created >= settings.train_every,
            "update": _is_past(_first(undecided, helped), settings.update_after, now),
        }
    busy = or_(
        Job.state.in_(("queued", "running")), and_(Job.state == "failed", Job.finished > now - _AFTER_FAILURE)
    )
    taken = set(session.scalars(select(Job.kind).where(busy).distinct()))
    return next((kind for kind, due in is_due.items() if due and kind not in taken), None)


def _taken_back(session: Session, settings: ServiceSettings) -> float | None:
    """Return when a roll-back took wishes back that a model was trained for; None if none did.

    Where operators publish by hand it is for them to publish a model that knows these wishes.
    """
    now = models.in_service(session)
    if now is None or settings.publish != "at once":
        return None
    waits = exists().where(Wish.id > now.trained_upto, Wish.trained.is_not(None), Wish.served.is_(None))
    return now.published if session.scalar(select(waits)) else None


def _first(*moments: float | None) -> float | None:
    return min((each for each in moments if each is not None), default=None)


def _is_past(since: float | None, seconds: float, now: float) -> bool:
    return since is not None and now - since >= seconds


def prune(database: Database, settings: ServiceSettings) -> None:
    """Delete decisions and run folders of old models, beyond those that are kept, and what failed jobs left.

    Models that may not go back into service, because they know somebody who was erased since, are not kept.
    """
    with database.writing() as session:
        old = select(Model).where(Model.id.in_(_old(session, settings)), Model.pruned.is_(None))
        # Who publishes locks a model too: what is passed over here may be in service a moment later.
        locked = session.scalars(old.with_for_update(skip_locked=True, key_share=True)).all()
        needed = models.needed(session)
        for each in locked:
            each.pruned = None if each.id in needed else time()
    with database.reading() as session:
        left = exists().where(Decision.model_id == Model.id)
        emptied = session.scalars(select(Model.id).where(Model.pruned.is_not(None), left)).all()
    for id in emptied:
        with database.writing() as session:
            session.execute(delete(Decision).where(Decision.model_id == id))
    for folder in _left_over(database, settings):
        shutil.rmtree(folder, ignore_errors=True)


def _old(session: Session, settings: ServiceSettings) -> set[int]:
    """Return the models that are neither needed nor kept to roll back to."""
    there = session.scalars(select(Model).where(Model.pruned.is_(None)).order_by(Model.id.desc())).all()
    needed, now = models.needed(session), models.in_service_id(session)
    others = [each for each in there if each.id not in needed]
    kept = others
    if others and now is not None:
        current = session.get_one(Model, now)
        erased = models.erased_after(session, min(each.trained_upto for each in others))
        kept = [
            each
            for each in others
            if erased is None or each.trained_upto > erased or not models.is_step_back(each, current)
        ]
    kept = kept[: settings.keep_models]
    return {each.id for each in others} - {each.id for each in kept} - models.rested_on(kept)


def _left_over(database: Database, settings: ServiceSettings) -> list[Path]:
    """Return run folders of pruned models, and of jobs that ended without a model."""
    there = {each.name: each for each in settings.runs.glob("*")}
    jobs_of = {name: int(found[1]) for name in there if (found := _FOLDER.fullmatch(name))}
    with database.snapshot() as session:
        known = dict(session.execute(select(Model.folder, Model.pruned).where(Model.folder.in_(there))).all())
        over = select(Job.id).where(Job.id.in_(jobs_of.values()), Job.state.in_(("done", "failed")))
        ended = set(session.scalars(over))
    return [
        each
        for name, each in there.items()
        if (known[name] is not None if name in known else jobs_of.get(name) in ended)
    ]
