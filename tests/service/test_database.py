"""The database: its tables, what keeps the ledger append-only, upgrades, and what is refused."""

from contextlib import suppress
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import bindparam, inspect, literal, select, text
from sqlalchemy.exc import DBAPIError

from assent.service.database import Database, Query
from assent.service.interactions import NewInteraction, add, page
from assent.service.ledger import export_lines, note
from assent.service.ledger_check import check_ledger
from assent.service.settings import ServiceSettings, read_settings
from assent.service.tables import Meta, Table
from assent.service.wishes import Said, record
from assent.support.errors import AssentError


def test_migrations_make_the_tables(url: str) -> None:
    database = Database.open(url)
    with database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Table.metadata) == []
    database.close()


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE leaf SET event = 'x'",
        "UPDATE seal SET root = 'x' WHERE number = 0",
        "DELETE FROM leaf WHERE number = 1",
        "DELETE FROM seal",
        "TRUNCATE leaf",
        "INSERT OR REPLACE INTO leaf VALUES (0, 'x', 'x', 'x', '{}')",
        "INSERT INTO leaf VALUES (0, 'x', 'x', 'x', '{}') ON CONFLICT (number) DO UPDATE SET event = 'x'",
    ],
)
def test_the_ledger_is_append_only(database: Database, change: str) -> None:
    is_foreign = ("TRUNCATE" in change) == database.is_sqlite and (
        "TRUNCATE" in change or "REPLACE" in change
    )
    if is_foreign or ("REPLACE" in change and not database.is_sqlite):
        pytest.skip("the other database's words")
    with database.writing() as session:
        note(session, "first")
    with database.writing() as session:
        note(session, "second")
    with pytest.raises(DBAPIError, match="append-only"), database.writing() as session:
        session.execute(text(change))
    with database.snapshot() as session:
        assert check_ledger(export_lines(session), "ledger")[1] == []


def test_an_exception_leaves_nothing(database: Database) -> None:
    with suppress(KeyError), database.writing() as session:
        note(session, "first")
        raise KeyError
    with database.reading() as session:
        assert session.scalar(text("SELECT count(*) FROM leaf")) == 0


def test_the_first_release_is_upgraded(url: str, tmp_path: Path) -> None:
    old = Database(url)
    old.migrate("0001")
    with old.writing() as session:
        session.execute(text("INSERT INTO person VALUES (1, 'ann', 'some-uuid', 1.5, 3)"))
        session.execute(text("INSERT INTO item VALUES (1, 'dune', 'Dune')"))
        session.execute(text("INSERT INTO item_category VALUES (1, 0, 'Films')"))
        session.execute(text("INSERT INTO interaction VALUES (1, 1, 1, 7.0, 0.5, 8.0)"))
        columns = "id, person_id, scope, target, unwillingness, withdrawal, in_force, requested"
        said = "0, 1, 'category', 'Films', 0.75, false, true, 9.0"
        session.execute(text(f"INSERT INTO wish ({columns}) VALUES ({said})"))
    old.close()
    upgraded = Database.open(url)
    settings = ServiceSettings(database=url, data=tmp_path)
    with upgraded.reading() as session:
        [row] = page(session, settings, "ann").rows
    assert (row.item, row.categories, row.unwillingness, row.source) == ("dune", ("Films",), 0.75, "category")
    upgraded.close()


def test_a_newer_database_is_refused(url: str) -> None:
    database = Database.open(url)
    with database.writing() as session:
        session.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    database.close()
    with pytest.raises(AssentError, match="made by a newer assent"):
        Database.open(url)


def test_sqlite_is_durable_and_private(tmp_path: Path) -> None:
    file = tmp_path / "new" / "assent.db"
    database = Database.open(f"sqlite:///{file}")
    with database.writing() as session:
        asked = {name: session.scalar(text(f"PRAGMA {name}"))
                 for name in ("journal_mode", "synchronous", "foreign_keys")}  # fmt: skip
    assert asked == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}
    assert file.stat().st_mode & 0o077 == 0
    database.close()


@pytest.mark.parametrize(
    "url", ["mysql://ann:letmein@host/x", "sqlite://", "nothing", "postgresql://ann:letmein@127.0.0.1:1/x"]
)
def test_what_cannot_be_opened_is_one_line_without_passwords(url: str) -> None:
    with pytest.raises(AssentError) as refused:
        Database.open(url)
    assert "letmein" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_two_processes_may_make_the_tables_at_once(url: str) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(4) as pool:
        opened = list(pool.map(lambda _: Database.open(url), range(4)))
    assert "wish" in inspect(opened[0].engine).get_table_names()
    for each in opened:
        each.close()


def test_bad_interactions_are_named(database: Database) -> None:
    bad = [
        NewInteraction("", "i", 0.0),
        NewInteraction("u", "i" * 2000, 0.0),
        NewInteraction("u", "i", float("nan")),
        NewInteraction("u", "i", 0.0, unwillingness=1.5),
        NewInteraction("u", "i", 0.0, categories=["a\0b"]),
    ]
    for each in bad:
        with database.writing() as session, pytest.raises(AssentError, match=r"interaction 2: .*accepted"):
            add(session, [NewInteraction("u", "i", 0.0), each])


def test_settings_are_read_from_yaml(tmp_path: Path) -> None:
    file = tmp_path / "service.yaml"
    file.write_text("budget: 0.4\ncontroller:\n  name: Corner cinema\n")
    found = read_settings(file, database="sqlite:///x", data=tmp_path)
    assert (found.budget, found.controller.name) == (0.4, "Corner cinema")
    for wrong, message in (
        ("budget: 2", "budget: .*less than"),
        ("budgt: 1", "budgt"),
        ("[", "no YAML"),
        ("3", "no settings"),
    ):
        file.write_text(wrong)
        with pytest.raises(AssentError, match=message):
            read_settings(file, database="sqlite:///x", data=tmp_path)


def test_the_service_needs_no_right_to_alter_the_ledger(server: str, migrated: str) -> None:
    """`deploy/rights.sql`: another role than the tables' owner can do all but alter the ledger."""
    import psycopg

    rights = (Path(__file__).parents[2] / "deploy" / "rights.sql").read_text()
    with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
        connection.execute(f"create database rights template {migrated}")
        connection.execute("create role assent_service login")
    with psycopg.connect(f"{server}/rights") as connection:
        connection.execute(rights)
    url = f"{server}/rights".replace("ann@", "assent_service@")
    database = Database.open(url)
    settings = ServiceSettings(database=url, data=Path("nowhere"))
    with database.writing() as session:
        add(session, [NewInteraction("ann", "dune", 0.0)])
        [done] = record(session, settings, [("ann", [Said("item", "dune", 1.0)])])
        assert isinstance(done, list)
    for change in ("UPDATE leaf SET event = 'x'", "DELETE FROM seal", "TRUNCATE leaf",
                   "ALTER TABLE leaf DISABLE TRIGGER USER", "DROP TABLE seal"):  # fmt: skip
        with (
            pytest.raises(DBAPIError, match=r"permission denied|must be owner"),
            database.writing() as session,
        ):
            session.execute(text(change))
    with database.snapshot() as session:
        assert check_ledger(export_lines(session), "ledger")[1] == []
    database.close()


def test_a_query_is_made_once_and_its_errors_are_those_of_the_database(database: Database) -> None:
    named = Query(select(Meta.name, literal("%")).where(Meta.name == bindparam("name")))
    for _ in range(2):
        with database.reading() as session:
            assert named.rows(session, name="ledger") == [("ledger", "%")]
    with database.reading() as session, pytest.raises(DBAPIError):
        Query("SELECT nothing FROM nowhere").rows(session)
