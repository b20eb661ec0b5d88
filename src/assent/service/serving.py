"""Recommendations from what is disclosed now, by the model in service."""

from dataclasses import dataclass

from sqlalchemy.orm import Session

from assent.service.settings import ServiceSettings
from assent.service.wishes import Said


@dataclass(frozen=True)
class Because:
    """An item that its owner discloses and that speaks for a recommendation."""

    item: str
    title: str | None
    share: float
    """Of the score, from 0 to 1."""


@dataclass(frozen=True)
class Recommendation:
    """One item of a list."""

    rank: int
    item: str
    title: str | None
    score: float
    because: tuple[Because, ...]


@dataclass(frozen=True)
class Recommendations:
    """A person's list."""

    basis: str
    """`own`: what they disclose; `general`: what most people do; `none`: no model is in service."""
    model: int | None
    items: tuple[Recommendation, ...]


@dataclass(frozen=True)
class Preview:
    """A person's list now, and as it would be."""

    now: Recommendations
    then: Recommendations
    gone: tuple[Recommendation, ...]
    new: tuple[Recommendation, ...]


class Server:
    """What a web process serves from: models in memory, lists of people while nothing of theirs changes."""

    def __init__(self, settings: ServiceSettings) -> None:
        raise NotImplementedError

    def recommend(self, session: Session, user: str, k: int = 10) -> Recommendations:
        """Return the k best items for a person, with why. What they have had is not shown.

        Every call asks the database for the version of the person and the model in service.
        """
        raise NotImplementedError

    def preview(self, session: Session, user: str, said: Said, k: int = 10) -> Preview:
        """Return what the person's list would become if they said this; nothing is stored."""
        raise NotImplementedError
