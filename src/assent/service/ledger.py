"""The ledger: an append-only log of events without personal data, and the receipts that only owners hold."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session

from assent.service.ledger_check import Finding


@dataclass(frozen=True)
class Head:
    """A seal."""

    number: int
    first: int
    count: int
    at: str
    root: str
    head: str


@dataclass(frozen=True)
class Entry:
    """An event that anybody may read."""

    number: int
    at: str
    event: str
    facts: dict[str, Any]


def note(session: Session, event: str, **facts: Any) -> int:
    """Append an event that concerns no single person; return its number. `facts` hold no personal data."""
    raise NotImplementedError


def receipts_of(
    session: Session, user: str, *, cursor: str | None = None, limit: int = 50
) -> tuple[list[dict[str, Any]], str | None]:
    """Return a page of a person's receipts as JSON, latest first, and the next cursor."""
    raise NotImplementedError


def receipt(session: Session, id: str, *, user: str | None = None) -> dict[str, Any]:
    """Return a receipt as JSON; `NotFoundError` if there is none, or it is not the person's, if one is given."""
    raise NotImplementedError


def verify_receipt(session: Session, receipt: Any) -> list[Finding]:
    """Return what is wrong with a receipt, by itself and against the ledger; empty if nothing is."""
    raise NotImplementedError


def heads(session: Session, *, cursor: int | None = None, limit: int = 50) -> tuple[list[Head], int | None]:
    """Return a page of seals, latest first, and the next cursor."""
    raise NotImplementedError


def entries(
    session: Session, *, events: tuple[str, ...] = (), cursor: int | None = None, limit: int = 50
) -> tuple[list[Entry], int | None]:
    """Return a page of events, latest first, and the next cursor: the audit log."""
    raise NotImplementedError


def export_lines(session: Session) -> Iterator[str]:
    """Yield the whole ledger as lines of JSON, which `assent verify` checks offline."""
    raise NotImplementedError
