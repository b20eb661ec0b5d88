"""The database of the service: an SQLite file, or PostgreSQL through psycopg 3."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from assent.support.errors import AssentError


class NotFoundError(AssentError):
    """There is no such person, item, job, model or receipt."""


class ConflictError(AssentError):
    """What is asked for does not fit what is there."""


class Database:
    """A database that is ready: its tables are those of this version of assent."""

    engine: Engine

    @staticmethod
    def open(url: str, *, pool: int = 10) -> "Database":
        """Open the database of a URL, make its tables or bring them up to date, and return it."""
        raise NotImplementedError

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """Yield a session to read with; nothing is committed."""
        raise NotImplementedError

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """Yield a session whose transaction is committed at the end, or rolled back by an exception."""
        raise NotImplementedError

    @contextmanager
    def snapshot(self) -> Iterator[Session]:
        """Yield a session that sees one moment of the database, however long it reads."""
        raise NotImplementedError

    def close(self) -> None:
        """Close all connections."""
        raise NotImplementedError
