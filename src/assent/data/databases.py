"""Logs in databases: an SQLite file, or a PostgreSQL server, named by a URL.

Access is for reading alone. What a URL holds beside the host and the name of the database (a user, a
password, options) is shown nowhere: not in messages, not in the names of data sets.
"""

import re
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, quote, unquote, urlsplit
from uuid import UUID

import polars as pl

from assent.data.columns import Table, quoted, refuse_repeated
from assent.support.errors import AssentError

USUAL_TABLE: Final = "interactions"
ACCEPTED: Final = "a file, a folder with one, sqlite:///FILE or postgresql://USER@HOST/DATABASE"
"""What may be named as a log."""
_URL: Final = re.compile("[A-Za-z][A-Za-z0-9+.-]+:/")
"""How a URL begins, also one that went through a `Path`; C:/ is no URL."""
_TABLE: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)?")
_ORDERED: Final = re.compile(r"\border\s+by\b", re.IGNORECASE)
_AT_ONCE: Final = 50_000
"""Rows that are fetched at once."""

Row = Sequence[Any]


@dataclass(frozen=True)
class Answered:
    """What a query brought."""

    names: list[str]
    rows: list[Row]


@dataclass(frozen=True)
class Database:
    """A database that can be asked."""

    origin: str
    """What messages call it."""
    name: str
    """What its log is called."""
    ask: Callable[[str], Answered]

    def table(self, query: str | None) -> Table:
        """Return what a query, or a table of that name, holds; by default the table `USUAL_TABLE`.

        A database has no order of rows. Without "order by", they are sorted by what they hold, so that the
        same rows are always the same log; such a log needs times.
        """
        asked = (query or USUAL_TABLE).strip()
        is_ordered = _ORDERED.search(asked) is not None
        answered = self.ask(f"select * from {asked}" if _TABLE.fullmatch(asked) else asked)
        rows = answered.rows if is_ordered else sorted(answered.rows, key=lambda row: [*map(str, row)])
        return _table(self.origin, answered.names, rows, is_ordered=is_ordered)


def is_url(place: str | Path) -> bool:
    """Whether a place is named by a URL, not by a path."""
    return _URL.match(str(place)) is not None


def database(url: str) -> Database:
    """Return the database of a URL; an `AssentError` for a URL of another kind."""
    scheme = url.partition(":")[0].lower()
    if scheme == "sqlite":
        return _sqlite(url)
    if scheme in ("postgresql", "postgres"):
        return _postgresql(url)
    raise not_read(url)


def not_read(url: str | Path) -> AssentError:
    """Return the error about a URL of which nothing is read; it tells the scheme alone."""
    scheme = str(url).partition(":")[0]
    return AssentError(f"{scheme}://…: no such address is read here; accepted: {ACCEPTED}")


def _sqlite(url: str) -> Database:
    parts = urlsplit(url)
    if parts.netloc or parts.query or parts.fragment or len(parts.path) < 2:
        accepted = "sqlite:///FILE, with three slashes"
        raise AssentError(f"sqlite://…: not the address of a file; accepted: {accepted}")
    path = Path(unquote(parts.path[1:]))
    if not path.is_file():
        raise AssentError(f"{path}: no such file")

    def ask(query: str) -> Answered:
        try:
            with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as connection:
                # What is not text is found out when it is read, if it may be read.
                connection.text_factory = lambda text: text.decode("utf-8", "surrogateescape")
                return _answer(str(path), connection.execute(query))
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise _failed(str(path), str(error)) from None

    return Database(str(path), path.stem, ask)


def _postgresql(url: str) -> Database:
    try:
        parts = urlsplit(url)
        host, port, name = parts.hostname or "localhost", parts.port, unquote(parts.path[1:])
    except ValueError:
        raise _malformed() from None
    rest = f"{parts.path}{parts.query}{parts.fragment}"
    # Part of a password with special characters would be taken for the host or the name.
    if parts.netloc.count("@") > 1 or "@" in rest or "/" in name or not name or parts.fragment:
        raise _malformed()
    origin = f"postgresql://{host}{f':{port}' if port else ''}/{name}"
    secrets = [parts.username, parts.password, *(value for _, value in parse_qsl(parts.query))]

    def ask(query: str) -> Answered:
        try:
            import psycopg
        except ImportError:
            accepted = "assent with the extra 'database' (pip install 'assent[database]')"
            raise AssentError(f"{origin}: needs psycopg; accepted: {accepted}") from None
        try:
            connection = psycopg.connect(url)
        except (psycopg.Error, UnicodeError) as error:
            said = _without(secrets, str(error))
            accepted = "the address of a server that answers; PGPASSWORD or ~/.pgpass may hold a password"
            raise AssentError(f"{origin}: cannot be reached ({said}); accepted: {accepted}") from None
        try:
            with closing(connection):
                connection.read_only = True
                return _answer(origin, connection.execute(query))
        except psycopg.Error as error:
            raise _failed(origin, _without(secrets, str(error))) from None

    return Database(origin, name, ask)


def _malformed() -> AssentError:
    accepted = "postgresql://USER@HOST/DATABASE, with special characters as %40 for @ and the like"
    return AssentError(f"postgresql://…: not the address of a database; accepted: {accepted}")


def _without(secrets: Iterable[str | None], message: str) -> str:
    """The first line of a driver's message, without what a URL had to say."""
    line = message.strip().partition("\n")[0]
    for secret in filter(None, secrets):
        line = line.replace(secret, "***").replace(unquote(secret), "***")
    return line


def _failed(origin: str, said: str) -> AssentError:
    accepted = f"query=SQL that selects, or the name of a table; by default {USUAL_TABLE}"
    return AssentError(f"{origin}: cannot be asked ({' '.join(said.split())}); accepted: {accepted}")


def _answer(origin: str, cursor: Any) -> Answered:
    if cursor.description is None:
        raise _failed(origin, "it gives no rows")
    rows: list[Row] = []
    while some := cursor.fetchmany(_AT_ONCE):
        rows += some
    return Answered([column[0] for column in cursor.description], rows)


def _table(origin: str, names: list[str], rows: list[Row], *, is_ordered: bool) -> Table:
    """The columns of rows; they are made when they are asked for, so that cells of others do not matter."""
    refuse_repeated(origin, names)
    place = {name: number for number, name in enumerate(names)}

    def column(name: str) -> pl.Series:
        return _series([row[place[name]] for row in rows], f"{origin}: column {quoted(name)}")

    def cells(name: str, kept: pl.Series) -> pl.Series:
        some = [row[place[name]] for row, is_kept in zip(rows, kept, strict=True) if is_kept]
        return _series(some, f"{origin}: column {quoted(name)}")

    return Table(origin, names, len(rows), cache(column), cells, is_ordered=is_ordered)


def _series(cells: list[Any], place: str) -> pl.Series:
    """A column of a database. Text beside numbers is text, cell by cell: SQLite has columns of both."""
    kinds = {type(cell) for cell in cells if cell is not None}
    if kinds == {UUID} or (len(kinds) > 1 and kinds <= {str, int, float} and str in kinds):
        cells = [cell if cell is None else str(cell) for cell in cells]
    elif kinds == {int, float}:
        cells = [cell if cell is None else float(cell) for cell in cells]
    elif kinds == {datetime}:
        cells = [_in_utc(cell) for cell in cells]
    accepted = "in all rows text or numbers, truth values, dates, or lists of text"
    try:
        found = pl.Series(cells)
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
        raise AssentError(f"{place} mixes types of values, or is not text; accepted: {accepted}") from None
    if found.dtype in (pl.Object, pl.Binary):
        raise AssentError(f"{place} holds {min(kind.__name__ for kind in kinds)}; accepted: {accepted}")
    return found


def _in_utc(time: datetime | None) -> datetime | None:
    """A time without a zone: that of UTC, or as it stands if it names none."""
    return time if time is None or time.tzinfo is None else time.astimezone(UTC).replace(tzinfo=None)
