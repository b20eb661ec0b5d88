"""The database of the service: an SQLite file, or PostgreSQL through psycopg 3.

What is acknowledged is on disk: SQLite writes a journal (WAL) with synchronous=FULL, PostgreSQL commits with
its own settings, which the service does not weaken. Several processes may use either.
"""

import json
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, wraps
from pathlib import Path
from time import monotonic
from typing import Any, Final, ParamSpec, TypeVar, cast
from uuid import uuid4

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import (
    ClauseElement,
    Connection,
    Engine,
    create_engine,
    event,
    insert,
    select,
    text,
)
from sqlalchemy import Table as SqlTable
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, Dialect, make_url
from sqlalchemy.engine.interfaces import DBAPICursor, IsolationLevel
from sqlalchemy.exc import ArgumentError, DBAPIError, DisconnectionError, SQLAlchemyError
from sqlalchemy.orm import Session
from sqlalchemy.sql.compiler import SQLCompiler

from assent.service.tables import Meta, Table
from assent.support.errors import AssentError

ACCEPTED: Final = "sqlite:///FILE or postgresql://USER@HOST/DATABASE"
PATIENCE: Final = 30.0
"""Seconds to wait for another writer of an SQLite file, or for a connection."""
IDLE: Final = 1.0
"""Seconds after which a connection is asked whether it is still there."""
_MIGRATING: Final = 7_263_001
"""The number of PostgreSQL's lock that one process holds while it makes tables."""


class NotFoundError(AssentError):
    """There is no such person, item, job, model or receipt."""


class ConflictError(AssentError):
    """What is asked for does not fit what is there."""


class Database:
    """A database whose tables are those of this version of assent."""

    def __init__(self, url: str, *, pool: int = 10) -> None:
        self.engine = _engine(_url(url), pool)
        self._writer = self.engine.execution_options(writing=True)
        # A session that only reads needs no transaction on PostgreSQL, which would be two more round trips.
        self._reader = self.engine if self.is_sqlite else _engine(_url(url), pool, "AUTOCOMMIT")

    @staticmethod
    def open(url: str, *, pool: int = 10) -> "Database":
        """Open the database of a URL, make its tables or bring them up to date, and return it."""
        opened = Database(url, pool=pool)
        try:
            opened.migrate()
        except SQLAlchemyError as error:
            opened.close()
            raise AssentError(f"database {shown(opened.engine.url)}: {_first_line(error)}") from None
        return opened

    @staticmethod
    def existing(url: str, *, pool: int = 10) -> "Database":
        """Open a database that holds a service, as `open` does; refuse another, and make none."""
        place = _url(url)
        found = Database(url, pool=pool) if _is_there(place) else None
        try:
            revision = None if found is None else found.revision()
        except SQLAlchemyError as error:
            raise AssentError(f"database {shown(place)}: {_first_line(error)}") from None
        finally:
            if found is not None:
                found.close()
        if revision is None:
            raise AssentError(
                f"database {shown(place)}: there is no service; accepted: one that assent serve, "
                "assent keys create or assent restore made"
            )
        return Database.open(url, pool=pool)

    @property
    def is_sqlite(self) -> bool:
        """Whether it is an SQLite file."""
        return self.engine.dialect.name == "sqlite"

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """Yield a session to read with; each query sees what is committed by then."""
        with Session(self._reader) as session:
            yield session

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """Yield a session whose transaction is committed at the end, or rolled back by an exception."""
        with Session(self._writer) as session, session.begin():
            yield session

    @contextmanager
    def snapshot(self) -> Iterator[Session]:
        """Yield a session that sees one moment of the database, however long it reads."""
        level = {} if self.is_sqlite else {"isolation_level": "REPEATABLE READ"}
        with Session(self.engine.execution_options(**level)) as session:
            yield session

    def migrate(self, revision: str = "head", *, session: Session | None = None) -> None:
        """Make the tables, or bring them up to a revision; a database of a newer assent is refused.

        Where a session is given it is a part of its transaction.
        """
        if session is None:
            with self.writing() as own:
                self.migrate(revision, session=own)
            return
        connection = session.connection()
        if not self.is_sqlite:
            self._check_encoding(connection)
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _MIGRATING})
        config = _config(connection)
        known = {each.revision for each in ScriptDirectory.from_config(config).walk_revisions()}
        found = MigrationContext.configure(connection).get_current_revision()
        if found is not None and found not in known:
            place = shown(self.engine.url)
            raise AssentError(f"database {place}: made by a newer assent (revision {found}); upgrade assent")
        command.upgrade(config, revision)
        if connection.scalar(select(Meta.value).where(Meta.name == "ledger")) is None:
            connection.execute(insert(Meta).values(name="ledger", value=str(uuid4())))

    def _check_encoding(self, connection: Connection) -> None:
        found = connection.scalar(text("SHOW server_encoding"))
        if found != "UTF8":
            place = shown(self.engine.url)
            raise AssentError(f"database {place}: encoding {found}; accepted: UTF8")

    def revision(self) -> str | None:
        """Return the revision of the tables; None if there are none."""
        with self.engine.connect() as connection:
            return MigrationContext.configure(connection).get_current_revision()

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()
        self._reader.dispose()


Rows = Sequence[Mapping[str, Any]]
P = ParamSpec("P")
T = TypeVar("T")


def at_once(ask: Callable[P, Callable[[], T]]) -> Callable[P, T]:
    """Return the function that asks as `ask` does, and reads the answer."""

    @wraps(ask)
    def answer(*given: P.args, **named: P.kwargs) -> T:
        return ask(*given, **named)()

    return answer


class Query:
    """A statement that is made once, and asked on the connection itself.

    For what is asked most: SQLAlchemy takes longer over a statement and its results than the driver does.
    """

    def __init__(self, asked: ClauseElement | str) -> None:
        self._asked = text(asked) if isinstance(asked, str) else asked
        self._made: dict[str, tuple[str, dict[str, float]]] = {}

    def rows(self, session: Session, **values: object) -> list[tuple[Any, ...]]:
        """Return all rows."""
        return self.ask(session, **values)()

    def run(self, session: Session, **values: object) -> None:
        """Run a statement that returns nothing."""
        self._send(session, values)

    def ask(self, session: Session, **values: object) -> Callable[[], list[tuple[Any, ...]]]:
        """Send a statement, and return what reads its rows: several that are asked `together` go at once."""
        cursor = self._send(session, values)

        def read() -> list[tuple[Any, ...]]:
            with _driving(session):
                found = cast("list[tuple[Any, ...]]", cursor.fetchall())
                cursor.close()
            return found

        if not _is_sqlite(session):
            return read
        there = read()  # SQLite looks for rows only as they are read: later ones would be among them
        return lambda: there

    def _send(self, session: Session, values: Mapping[str, object]) -> DBAPICursor:
        with _driving(session) as connection:
            dialect = connection.dialect
            sql, fixed = self._made.get(dialect.name) or self._make(dialect)
            cursor = connection.connection.cursor()
            if dialect.name == "sqlite":
                cursor.execute(sql, {**fixed, **values})
            else:  # prepared for each connection at once, not after some times
                cursor.execute(sql, {**fixed, **values}, prepare=True)  # type: ignore[call-arg]  # psycopg's own
        return cursor

    def _make(self, dialect: Dialect) -> tuple[str, dict[str, float]]:
        by_name = sqlite.dialect(paramstyle="named") if dialect.name == "sqlite" else dialect
        made = cast("SQLCompiler", self._asked.compile(dialect=by_name))
        # As a text, a fraction would be another number, or of another type. The rest that is always the same
        # need not be sent each time.
        fixed = {name: bound.value for name, bound in made.binds.items() if isinstance(bound.value, float)}
        literals = {
            name: made.render_literal_value(bound.value, bound.type)
            for name, bound in made.binds.items()
            if not bound.required and name not in fixed
        }
        place = r":(\w+)" if dialect.name == "sqlite" else r"%\((\w+)\)s"
        sql = re.sub(place, lambda found: literals.get(found[1], found[0]), str(made))
        self._made[dialect.name] = sql, fixed
        return sql, fixed


@contextmanager
def together(session: Session) -> Iterator[None]:
    """Let the queries of the block go to PostgreSQL in one round trip, but for rows that are read within.

    An error of one of them is raised by the end of the block at the latest.
    """
    if _is_sqlite(session):
        yield
        return
    with _driving(session) as connection, connection.connection.pipeline():
        yield


@contextmanager
def _driving(session: Session) -> Iterator[Connection]:
    """Yield the connection to use its driver; errors are raised as those of SQLAlchemy."""
    connection = session.connection()
    dialect = connection.dialect
    try:
        yield connection
    except dialect.loaded_dbapi.Error as error:
        if dialect.is_disconnect(error, connection.connection.dbapi_connection, None):
            connection.invalidate()
        raise _wrapped(error, dialect) from error


def _wrapped(error: Exception, dialect: Dialect) -> BaseException:
    """Return an error of the driver as SQLAlchemy raises it: callers tell one kind from another."""
    return DBAPIError.instance(None, None, error, dialect.loaded_dbapi.Error, dialect=dialect)


query: Final = cache(Query)
"""The query of a text in SQL, made once."""


def find_by_index(session: Session) -> None:
    """Make PostgreSQL find rows by their indices until the transaction ends.

    PostgreSQL keeps the plan of a statement. A plan that was made while a table was empty reads all of it.
    """
    if not _is_sqlite(session):
        _BY_INDEX.run(session)


_BY_INDEX: Final = Query("SELECT set_config('enable_seqscan', 'off', true)")


def insert_many(session: Session, rows: Mapping[type[Table], Rows]) -> None:
    """Insert rows into several tables; those of a table all have the same keys."""
    given = {cast("SqlTable", table.__table__): some for table, some in rows.items() if some}
    if _is_sqlite(session):
        for into, some in given.items():
            session.execute(insert(into), some)
    elif given:
        # PostgreSQL takes rows as JSON: one statement, always the same, whatever their number.
        asked = _from_json(tuple((into, tuple(some[0])) for into, some in given.items()))
        values = {into.name: json.dumps(some, ensure_ascii=False) for into, some in given.items()}
        query(asked).run(session, **values)


@cache
def _from_json(tables: tuple[tuple[SqlTable, tuple[str, ...]], ...]) -> str:
    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
    inserts = []
    for into, columns in tables:
        quoted = {name: dialect.identifier_preparer.quote(name) for name in columns}
        names = ", ".join(quoted.values())
        kinds = ", ".join(f"{quoted[name]} {into.c[name].type.compile(dialect)}" for name in columns)
        given = f"json_to_recordset(CAST(:{into.name} AS json)) AS given({kinds})"
        inserts.append(f"INSERT INTO {into.name} ({names}) SELECT {names} FROM {given}")
    *first, last = inserts
    earlier = ", ".join(f"insert_{place} AS ({each})" for place, each in enumerate(first))
    return f"WITH {earlier} {last}" if first else last


def given_rows(session: Session, columns: Mapping[str, str]) -> str:
    """Return a table in SQL, called `given`: the rows that the parameter `rows` has as a list in JSON.

    `columns` has the type of each. One statement takes any number of rows, so that they are added together.
    """
    if _is_sqlite(session):
        taken = ", ".join(f"json_extract(value, '$.{name}') AS \"{name}\"" for name in columns)
        return f"(SELECT {taken} FROM json_each(:rows)) AS given"
    kinds = ", ".join(f'"{name}" {kind}' for name, kind in columns.items())
    return f"json_to_recordset(CAST(:rows AS json)) AS given({kinds})"


def is_given(session: Session, column: str) -> str:
    """Return a condition in SQL: a column is among the numbers `id` of the rows that `rows` has, as above."""
    ids = f"SELECT given.id FROM {given_rows(session, {'id': 'bigint'})}"
    # PostgreSQL takes a list that it cannot count for a long one, and reads the whole table; not of an array.
    return f"{column} IN ({ids})" if _is_sqlite(session) else f"{column} = ANY (ARRAY({ids}))"


def _is_sqlite(session: Session) -> bool:
    return session.get_bind().dialect.name == "sqlite"


def shown(url: URL) -> str:
    """Return a URL without the user, the password and options."""
    if url.get_backend_name() == "sqlite":
        return f"sqlite:///{url.database}"
    return f"postgresql://{url.host or ''}/{url.database or ''}"


def _url(url: str) -> URL:
    try:
        made = make_url(url)
    except ArgumentError:
        raise AssentError(f"database: no URL; accepted: {ACCEPTED}") from None
    name = made.drivername
    if name == "sqlite" and made.database:
        return made
    if name in ("postgresql", "postgres", "postgresql+psycopg") and made.database:
        return made.set(drivername="postgresql+psycopg")
    raise AssentError(f"database: a URL of {name}; accepted: {ACCEPTED}")


def _engine(url: URL, pool: int, level: IsolationLevel = "READ COMMITTED") -> Engine:
    if url.get_backend_name() != "sqlite":
        engine = create_engine(
            url,
            pool_size=pool,
            max_overflow=pool,
            pool_timeout=PATIENCE,
            isolation_level=level,
            connect_args={"client_encoding": "utf8"},  # also of a database that is refused for its own
        )
        _ask_idle_connections(engine)
        return engine
    Path(str(url.database)).parent.mkdir(0o700, parents=True, exist_ok=True)
    _private(Path(str(url.database)))
    engine = create_engine(
        url, pool_size=pool, max_overflow=pool, connect_args={"timeout": PATIENCE, "check_same_thread": False}
    )

    @event.listens_for(engine, "connect")
    def _(connection: sqlite3.Connection, _record: Any) -> None:
        connection.isolation_level = None  # transactions begin where SQLAlchemy says so, below
        for pragma in (
            "journal_mode=WAL",
            "synchronous=FULL",
            "foreign_keys=ON",
            "recursive_triggers=ON",
            f"busy_timeout={int(PATIENCE * 1000)}",
            "secure_delete=ON",
        ):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def _(connection: Connection) -> None:
        # A transaction that reads first and writes later would fail if another wrote in between.
        is_writing = connection.get_execution_options().get("writing")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if is_writing else "BEGIN")

    return engine


def _ask_idle_connections(engine: Engine) -> None:
    """Replace connections that were idle for a while and are broken, such as after a restart of the server.

    To ask all of them, always, would be one more round trip for every request.
    """

    @event.listens_for(engine, "checkin")
    def _(_connection: Any, record: Any) -> None:
        record.info["idle since"] = monotonic()

    @event.listens_for(engine, "checkout")
    def _(connection: Any, record: Any, _proxy: Any) -> None:
        if monotonic() - record.info.get("idle since", monotonic()) < IDLE:
            return
        try:
            engine.dialect.do_ping(connection)
        except engine.dialect.loaded_dbapi.Error:
            raise DisconnectionError from None  # the pool tries another one


def _is_there(url: URL) -> bool:
    """Whether there is something to connect to: SQLite would make a file."""
    return url.get_backend_name() != "sqlite" or Path(str(url.database)).is_file()


def _private(file: Path) -> None:
    """Make a new file for this user alone."""
    if not file.exists():
        file.touch(0o600)


def _config(connection: Connection) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.attributes["connection"] = connection
    return config


def _first_line(error: SQLAlchemyError) -> str:
    said = str(getattr(error, "orig", None) or error).strip()
    return said.splitlines()[0] if said else type(error).__name__
