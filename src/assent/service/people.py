"""All that is known of a person, for themselves; counts of everybody, for operators."""

from typing import Any

from sqlalchemy.orm import Session

from assent.service.settings import ServiceSettings


def export(session: Session, settings: ServiceSettings, user: str) -> dict[str, Any]:
    """Return all that is known of a person as JSON: interactions, wishes, decisions, receipts."""
    raise NotImplementedError


def totals(session: Session) -> dict[str, int]:
    """Return counts: people, interactions, items, wishes, wishes_open, never, leaves, seals, receipts, models."""
    raise NotImplementedError
