"""Jobs for several workers.

A worker takes a job for a while (a lease) and keeps it by heartbeats. If it is lost, its lease ends and
another worker takes over. Each taking raises the job's token, and whatever a holder writes is checked against
it in the same transaction (`hold`): a worker that was only slow changes nothing any more. So a job is done at
most once as seen from outside. What fails is tried again a few times, and its last error is kept.
"""

from dataclasses import dataclass
from time import time
from typing import Any, Final, Literal

from sqlalchemy import CursorResult, and_, func, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from assent.service.database import NotFoundError
from assent.service.ledger import note
from assent.service.ledger_check import canonical
from assent.service.tables import Job
from assent.support.errors import AssentError

Kind = Literal["train", "update"]
JobState = Literal["queued", "running", "done", "failed"]
STATES: Final = ("queued", "running", "done", "failed")
LEASE: Final = 60.0
"""Seconds after which a worker that gives no sign of life is lost."""
MOST_ATTEMPTS: Final = 3
WAIT: Final = 10.0
"""Seconds before a job that failed is tried again; twice as many each time."""
_LONGEST: Final = 500
"""Characters of an error that are kept."""


class LostJobError(Exception):
    """Another worker has the job now: what this one did does not count."""


@dataclass(frozen=True)
class JobView:
    """A job as operators see it."""

    id: int
    kind: str
    state: str
    payload: dict[str, Any]
    created: float
    started: float | None
    finished: float | None
    attempts: int
    most_attempts: int
    progress: str | None
    error: str | None
    result: dict[str, Any] | None


@dataclass(frozen=True)
class Taken:
    """A job that a worker holds."""

    id: int
    kind: str
    payload: dict[str, Any]
    token: int


def enqueue(session: Session, kind: Kind, payload: dict[str, Any] | None = None, *, by: str) -> int:
    """Add a job and return its id, or that of an equal one that waits; `by` goes to the audit log."""
    if kind not in ("train", "update"):
        raise AssentError(f"kind {kind!r}: accepted: train, update")
    given = payload or {}
    merge = canonical([kind, given])
    waiting = select(Job.id).where(Job.state == "queued", Job.merge == merge)
    found = session.scalar(waiting)
    if found is not None:
        return found
    now = time()
    job = Job(
        kind=kind,
        payload=given,
        merge=merge,
        state="queued",
        created=now,
        run_after=now,
        attempts=0,
        most_attempts=MOST_ATTEMPTS,
        token=0,
    )
    try:
        with session.begin_nested():
            session.add(job)
            session.flush()
    except IntegrityError:  # another process was faster
        return session.scalars(waiting).one()
    note(session, "job queued", job=job.id, kind=kind, by=by)
    return job.id


def take(session: Session, worker: str, *, lease: float = LEASE, now: float | None = None) -> Taken | None:
    """Take the oldest job that waits, or that a lost worker held; None if there is none."""
    now = time() if now is None else now
    while True:
        lost = and_(Job.state == "running", Job.lease_until < now)
        waits = and_(Job.state == "queued", Job.run_after <= now)
        job = session.scalar(
            select(Job).where(or_(waits, lost)).order_by(Job.id).limit(1).with_for_update(skip_locked=True)
        )
        if job is None:
            return None
        if job.attempts < job.most_attempts:
            break
        job.state, job.finished, job.lease_until = "failed", now, None
        job.error = job.error or "the worker was lost"
        session.flush()
    job.state, job.worker, job.lease_until, job.started = "running", worker, now + lease, now
    job.token += 1
    job.attempts += 1
    session.flush()
    return Taken(job.id, job.kind, dict(job.payload), job.token)


def _held(taken: Taken) -> Any:
    return and_(Job.id == taken.id, Job.token == taken.token, Job.state == "running")


def heartbeat(
    session: Session,
    taken: Taken,
    *,
    progress: str | None = None,
    lease: float = LEASE,
    now: float | None = None,
) -> None:
    """Keep a job for another while; `LostJobError` if somebody else has it."""
    now = time() if now is None else now
    values: dict[str, Any] = {"lease_until": now + lease}
    if progress is not None:
        values["progress"] = progress
    _one(session.execute(update(Job).values(values).where(_held(taken))))


def hold(session: Session, taken: Taken) -> None:
    """Make sure that this transaction counts only if the job is still held; `LostJobError` if it is not."""
    if session.scalar(select(Job.id).where(_held(taken)).with_for_update()) is None:
        raise LostJobError


def finish(session: Session, taken: Taken, result: dict[str, Any], *, now: float | None = None) -> None:
    """Mark a job as done, in the transaction that makes what it did visible."""
    ended = {"state": "done", "finished": time() if now is None else now, "result": result, "error": None}
    _one(session.execute(update(Job).values(lease_until=None, progress=None, **ended).where(_held(taken))))


def fail(session: Session, taken: Taken, error: str, *, now: float | None = None) -> None:
    """Keep the error of a job, which is tried again later or has failed for good."""
    now = time() if now is None else now
    hold(session, taken)
    job = session.get_one(Job, taken.id)
    job.error, job.lease_until, job.progress = error[:_LONGEST], None, None
    if job.attempts >= job.most_attempts:
        job.state, job.finished = "failed", now
    else:
        # An equal job that waits already does the same; this one goes with it.
        twin = select(Job.id).where(Job.state == "queued", Job.merge == job.merge)
        if session.scalar(twin) is None:
            job.state, job.run_after = "queued", now + WAIT * 2 ** (job.attempts - 1)
        else:
            job.state, job.finished = "failed", now
    session.flush()


def release(session: Session, taken: Taken) -> None:
    """Put a job back as if it had not been taken: its worker is being ended."""
    hold(session, taken)
    job = session.get_one(Job, taken.id)
    twin = session.scalar(select(Job.id).where(Job.state == "queued", Job.merge == job.merge))
    if twin is not None:  # it does the same
        job.state, job.finished, job.error = "failed", time(), f"job {twin} is the same"
    else:
        job.state, job.attempts = "queued", job.attempts - 1
    job.lease_until, job.progress = None, None
    session.flush()


def _one(done: Any) -> None:
    assert isinstance(done, CursorResult)
    if done.rowcount != 1:
        raise LostJobError


def page(
    session: Session, *, state: JobState | None = None, cursor: int | None = None, limit: int = 50
) -> tuple[list[JobView], int | None]:
    """Return a page of jobs, latest first, and the next cursor."""
    asked = select(Job).order_by(Job.id.desc())
    if state is not None:
        asked = asked.where(Job.state == state)
    if cursor is not None:
        asked = asked.where(Job.id < cursor)
    found = session.scalars(asked.limit(limit + 1)).all()
    return [_view(each) for each in found[:limit]], found[limit - 1].id if len(found) > limit else None


def get(session: Session, id: int) -> JobView:
    """Return a job; `NotFoundError` if there is none."""
    found = session.get(Job, id)
    if found is None:
        raise NotFoundError(f"job {id}: there is none")
    return _view(found)


def counts(session: Session) -> dict[str, int]:
    """Return the number of jobs in each state."""
    found = session.execute(select(Job.state, func.count()).group_by(Job.state)).all()
    return dict.fromkeys(STATES, 0) | dict(found)


def _view(job: Job) -> JobView:
    return JobView(**{name: getattr(job, name) for name in JobView.__dataclass_fields__})
