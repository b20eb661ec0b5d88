"""What people say: of an item, of a category, of everything; and what follows for each interaction.

The most specific wish counts: one of the item before one of a category before one of everything; of an item's
categories the one that was said last. Without a wish, what the platform brought counts; without that, the
setting `unsaid`. A withdrawal is a wish of everything, never, and ends all wishes before it.
"""

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy.orm import Session

from assent.service.database import Database
from assent.service.settings import ServiceSettings

Scope = Literal["item", "category", "everything"]
State = Literal["requested", "decided", "trained", "served"]


@dataclass(frozen=True)
class Said:
    """One thing that a person says."""

    scope: Scope
    target: str = ""
    """The item's id or the category's name; empty for everything."""
    unwillingness: float | None = None
    """From 0 to 1; None takes back what was said of the target."""
    withdrawal: bool = False
    """Withdraw everything: scope everything, unwillingness 1."""


WITHDRAW_EVERYTHING = Said("everything", "", 1.0, withdrawal=True)


@dataclass(frozen=True)
class Recorded:
    """A wish that is durably stored, and its receipt."""

    wish: int
    """Its id."""
    receipt: dict[str, Any]
    """The receipt of `requested`, as JSON."""


@dataclass(frozen=True)
class Standing:
    """A wish in force."""

    wish: int
    scope: Scope
    target: str
    title: str | None
    """Of the item."""
    unwillingness: float
    said: float
    withdrawal: bool


@dataclass(frozen=True)
class Past:
    """A wish of the history."""

    wish: int
    scope: Scope
    target: str
    title: str | None
    unwillingness: float | None
    before: float | None
    withdrawal: bool
    in_force: bool
    requested: float
    decided: float | None
    trained: float | None
    served: float | None
    receipts: dict[str, str]
    """Ids of receipts by state."""


@dataclass(frozen=True)
class History:
    """A page of the history, latest first."""

    wishes: list[Past]
    next: str | None


@dataclass(frozen=True)
class Honoured:
    """How long it took from request to a state, in seconds."""

    state: State
    count: int
    median: float | None
    worst: float | None
    waiting: int
    """Wishes that have not got there."""


def record(
    session: Session, settings: ServiceSettings, asked: Sequence[tuple[str, Sequence[Said]]]
) -> list[list[Recorded] | Exception]:
    """Store what several people say, `asked` as (user, what they say), in one batch of the ledger.

    What is refused (an unknown person, item or category; a number out of range) is returned as an exception
    in its place, and nothing of that request is stored.
    """
    raise NotImplementedError


class Recorder:
    """Writes the wishes of a web process: one thread, one transaction for all that waits (group commit)."""

    def __init__(self, database: Database, settings: ServiceSettings) -> None:
        raise NotImplementedError

    def submit(self, user: str, said: Sequence[Said]) -> "Future[list[Recorded]]":
        """Return a future that is done once the wishes are durably stored, or refused by an exception."""
        raise NotImplementedError

    def close(self) -> None:
        """Write what waits, and end the thread."""
        raise NotImplementedError


def standing(session: Session, user: str) -> list[Standing]:
    """Return what a person's wishes in force are: everything first, then categories, then items."""
    raise NotImplementedError


def history(session: Session, user: str, *, cursor: str | None = None, limit: int = 50) -> History:
    """Return a page of all that a person said, latest first."""
    raise NotImplementedError


def times_to_honour(session: Session, *, days: float | None = None) -> list[Honoured]:
    """Return the time from request to decided, trained and served, of wishes of the last `days`."""
    raise NotImplementedError
