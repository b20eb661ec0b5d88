"""Databases for the tests of the service: SQLite, and PostgreSQL where it is installed."""

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from assent.service.backup import restore
from assent.service.database import Database
from assent.service.settings import ServiceSettings
from tests.service import postgres
from tests.service.site import backed_up, settings_for
from tests.service.trained import Service, restored

KINDS = ("sqlite", "postgresql")
_numbers = count(1)


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The URL of a PostgreSQL server, without a database."""
    if postgres.initdb() is None:
        pytest.skip("no PostgreSQL here, or nobody but root to run it")
    with postgres.running(in_memory=True) as running:
        yield running.url


@pytest.fixture(scope="session")
def migrated(server: str) -> str:
    """The name of a database on the server with all tables, to make others from."""
    import psycopg

    with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
        connection.execute("create database assent_template")
    Database.open(f"{server}/assent_template").close()
    return "assent_template"


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a new, empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'assent.db'}"
    return new_database(request)()


def new_database(request: pytest.FixtureRequest, template: str | None = None) -> Callable[[], str]:
    import psycopg

    def make() -> str:
        server: str = request.getfixturevalue("server")
        name = f"assent_{next(_numbers)}"
        with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
            connection.execute(f"create database {name}" + (f" template {template}" if template else ""))
        return f"{server}/{name}"

    return make


@pytest.fixture(scope="session")
def filled(server: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The name of a database on the server with what `site.trained` has, to make others from."""
    import psycopg

    name = "assent_site"
    url, folder = f"{server}/{name}", tmp_path_factory.mktemp("filled")
    with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
        connection.execute(f"create database {name}")
    database = Database(url)
    restore(database, settings_for(url, folder), backed_up())
    database.close()
    return name


@pytest.fixture(scope="module", params=KINDS)
def place(request: pytest.FixtureRequest) -> Callable[[], str | None]:
    """Makes a place for `open_site`: a new PostgreSQL database, or an SQLite file of its own (None)."""
    if request.param == "sqlite":
        return lambda: None
    return new_database(request, request.getfixturevalue("filled"))


@pytest.fixture(params=KINDS)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """A new database with all tables."""
    if request.param == "sqlite":
        opened = Database.open(f"sqlite:///{tmp_path / 'assent.db'}")
    else:
        template: str = request.getfixturevalue("migrated")
        opened = Database(new_database(request, template)())
        opened.migrate()
    yield opened
    opened.close()


@pytest.fixture
def service(url: str, tmp_path: Path) -> Iterator[Service]:
    """A service whose first model is in service."""
    database, settings = restored(url, tmp_path / "data")
    yield database, settings
    database.close()


@pytest.fixture
def settings(database: Database, tmp_path: Path) -> ServiceSettings:
    """The settings of a service on that database."""
    url = database.engine.url.render_as_string(hide_password=False)
    return ServiceSettings(database=url, data=tmp_path / "data")
