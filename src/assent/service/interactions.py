"""What people did: adding, deleting, and the pages that people see of it."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from assent.service.settings import ServiceSettings


@dataclass(frozen=True)
class NewInteraction:
    """An interaction as the platform brings it."""

    user: str
    item: str
    at: float
    """Seconds since 1970, UTC."""
    title: str | None = None
    categories: Sequence[str] | None = None
    """None leaves those of a known item as they are; so does a title of None."""
    unwillingness: float | None = None
    """What the platform knows of its owner's consent."""


@dataclass(frozen=True)
class Added:
    """What became of interactions that the platform brought."""

    added: int
    known: int
    """Pairs of a person and an item that were there already; they stay as they are."""


@dataclass(frozen=True)
class Row:
    """An interaction as its owner sees it."""

    item: str
    title: str | None
    categories: tuple[str, ...]
    at: float
    unwillingness: float
    """In force now."""
    source: str
    """Who said so: a wish on the `item`, the `category` or `everything`; the `platform`; nobody: `unsaid`."""
    source_target: str | None
    """The category, where the source is one."""
    said: float | None
    """When the wish was made."""
    state: str
    """In the model in service: `used`, `withheld`, `never`, `closed`, or `undecided` (newer than the model)."""
    decided_unwillingness: float | None
    """What was in force when that was decided; where it differs from `unwillingness`, a new decision is due."""
    reason: str | None
    """One of `assent.game.reasons.Reason`, for used and withheld ones."""
    value: float | None
    cost: float | None
    price: float | None
    worth_owner: float | None
    worth_everybody: float | None
    together: int | None


@dataclass(frozen=True)
class Rows:
    """A page of interactions, latest first."""

    rows: list[Row]
    next: str | None
    """The cursor of the next page."""


@dataclass(frozen=True)
class CategoryCount:
    """A category of a person's interactions."""

    category: str
    count: int
    unwillingness: float | None
    """What they said of the category; None if nothing."""
    said: float | None


def add(session: Session, interactions: Sequence[NewInteraction]) -> Added:
    """Add interactions, with people and items that are new; return how many were new."""
    raise NotImplementedError


def delete(session: Session, user: str, item: str) -> None:
    """Delete an interaction; `NotFoundError` if there is none."""
    raise NotImplementedError


def exists(session: Session, user: str) -> bool:
    """Return whether anything is known of a person."""
    raise NotImplementedError


def erase(session: Session, user: str) -> None:
    """Delete all that is known of a person: interactions, wishes, decisions, receipts, links, visits."""
    raise NotImplementedError


def page(
    session: Session,
    settings: ServiceSettings,
    user: str,
    *,
    category: str | None = None,
    search: str | None = None,
    state: str | None = None,
    cursor: str | None = None,
    limit: int = 50,
) -> Rows:
    """Return a page of a person's interactions; empty for somebody unknown."""
    raise NotImplementedError


def one(session: Session, settings: ServiceSettings, user: str, item: str) -> Row:
    """Return one interaction of a person; `NotFoundError` if there is none."""
    raise NotImplementedError


def counts(session: Session, settings: ServiceSettings, user: str) -> dict[str, int]:
    """Return how many interactions a person has in each state, by the names of `Row.state`."""
    raise NotImplementedError


def categories(session: Session, user: str) -> list[CategoryCount]:
    """Return the categories of a person's interactions, most frequent first, and those they wished about."""
    raise NotImplementedError
