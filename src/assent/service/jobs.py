"""Jobs for several workers: leases, heartbeats, bounded retries; each is done at most once."""

from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy.orm import Session

Kind = Literal["train", "update", "publish"]
JobState = Literal["queued", "running", "done", "failed"]


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


def enqueue(session: Session, kind: Kind, payload: dict[str, Any] | None = None, *, by: str) -> int:
    """Add a job and return its id; where an equal one waits already, that one's. `by` goes to the audit log."""
    raise NotImplementedError


def page(
    session: Session, *, state: JobState | None = None, cursor: int | None = None, limit: int = 50
) -> tuple[list[JobView], int | None]:
    """Return a page of jobs, latest first, and the next cursor."""
    raise NotImplementedError


def get(session: Session, id: int) -> JobView:
    """Return a job; `NotFoundError` if there is none."""
    raise NotImplementedError


def counts(session: Session) -> dict[str, int]:
    """Return the number of jobs in each state."""
    raise NotImplementedError
