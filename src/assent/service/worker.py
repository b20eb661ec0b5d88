"""The worker: asks for jobs, takes them, and lets wishes reach their states.

What a job makes becomes visible in steps, each of which is whole: the run folder, then the model's row with
its decisions, then the states of wishes in batches, then the publication. A worker that takes a job over goes
on after the last step that is there.
"""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event as Flag
from threading import Thread
from time import monotonic, time
from typing import Any, Final

from sqlalchemy import and_, exists, func, or_, select
from sqlalchemy.orm import Session

from assent.lab.executor import SERIAL, Executor
from assent.service import jobs, models, trainings
from assent.service.database import Database
from assent.service.interactions import CONSENT, DELETED, ERASED
from assent.service.jobs import LEASE, Kind, LostJobError, Taken
from assent.service.ledger import moment_of
from assent.service.pruning import prune
from assent.service.security import tidy
from assent.service.settings import ServiceSettings
from assent.service.states import honour, settle
from assent.service.tables import Job, Leaf, Model, Wish
from assent.support.errors import AssentError
from assent.support.progress import Whole

_PAUSE: Final = 0.5
"""Seconds between two looks for work."""
_TIDY: Final = 3600.0
"""Seconds between two times that links, visits, old models and the like are deleted that are over."""
_AFTER_FAILURE: Final = 600.0
"""Seconds in which a job that failed for good is not asked for again, but by hand."""
_QUOTED: Final = re.compile(r"'[^']*'|\"[^\"]*\"")

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
            made = trainings.train(database, settings, taken, watch, executor)
        else:
            made = trainings.update(database, settings, taken, watch, executor)
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
