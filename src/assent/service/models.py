"""Models: what was trained, what is in service, publishing and rolling back."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session


@dataclass(frozen=True)
class ModelView:
    """A model as operators see it."""

    id: int
    kind: str
    """`train` or `update`."""
    parent: int | None
    created: float
    published: float | None
    """When it last went into service."""
    in_service: bool
    folder: str
    model_hash: str
    manifest_hash: str
    decisions_hash: str
    upto: int
    facts: dict[str, Any]
    """people, items, interactions, disclosed, never, violation_share, budget, price, keep_quality, closed, method,
    model, seconds; quality: `Run.quality`; frontier: flat records, empty where it was not measured."""


def page(
    session: Session, *, cursor: int | None = None, limit: int = 50
) -> tuple[list[ModelView], int | None]:
    """Return a page of models, latest first, and the next cursor."""
    raise NotImplementedError


def get(session: Session, id: int) -> ModelView:
    """Return a model; `NotFoundError` if there is none."""
    raise NotImplementedError


def in_service(session: Session) -> ModelView | None:
    """Return the model in service; None before the first was published."""
    raise NotImplementedError


def publish(session: Session, id: int, *, by: str) -> ModelView:
    """Put a model into service, note it, and let wishes that it honours be `served`.

    `ConflictError` for a model that used what its owners have since said never to, withdrawn or deleted.
    """
    raise NotImplementedError


def roll_back(session: Session, *, by: str) -> ModelView:
    """Put the model into service that was there before, under the same condition."""
    raise NotImplementedError
