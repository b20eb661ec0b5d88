"""The database: its tables, what keeps the ledger append-only, upgrades, and what is refused."""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import MetaData, Text, bindparam, inspect, literal, select, text
from sqlalchemy import Table as SqlTable
from sqlalchemy.exc import DBAPIError

from assent.service.database import Database, Query, find_by_index, together
from assent.service.entries import page
from assent.service.interactions import NewInteraction, add, erase
from assent.service.ledger import export_lines, note, receipt
from assent.service.ledger_check import check_ledger
from assent.service.settings import ServiceSettings, read_settings
from assent.service.tables import Meta, Table
from assent.service.wishes import Said, history, record
from assent.support.errors import AssentError

FIRST: dict[str, list[dict[str, Any]]] = json.loads(
    (Path(__file__).parent / "first_release.json").read_text()
)
"""What a service of the first release stored: all rows of all tables."""


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


def rows_of(database: Database, tables: Mapping[str, SqlTable]) -> dict[str, list[dict[str, Any]]]:
    """All rows of some tables, with the columns that these have there."""
    with database.reading() as session:
        return {
            name: [
                dict(row._mapping)
                for row in session.execute(select(table).order_by(*table.primary_key.columns))
            ]
            for name, table in tables.items()
        }


@pytest.fixture
def upgraded(url: str) -> Iterator[tuple[Database, Mapping[str, SqlTable]]]:
    """A database of the first release with rows in all tables, brought up to date; and its tables of then."""
    old = Database(url)
    old.migrate("0001")
    there = MetaData()
    with old.writing() as session:
        there.reflect(session.connection())
        session.execute(there.tables["meta"].delete())
        for table in there.sorted_tables:
            if FIRST.get(table.name):
                session.execute(table.insert(), FIRST[table.name])
    tables = {name: there.tables[name] for name in FIRST}
    assert {name for name, rows in FIRST.items() if rows} == {*there.tables} - {"alembic_version"}
    old.close()
    database = Database.open(url)
    yield database, tables
    database.close()


def test_a_database_of_the_first_release_is_upgraded_and_keeps_what_it_holds(
    upgraded: tuple[Database, Mapping[str, SqlTable]], tmp_path: Path
) -> None:
    database, tables = upgraded
    found, kept = rows_of(database, tables), dict(FIRST)
    # What was said to somebody who is erased by now should not have been kept, and is not.
    kept["reply"] = [each for each in FIRST["reply"] if each["idempotency_key"] != "bob-says"]
    assert len(kept["reply"]) == len(FIRST["reply"]) - 1
    assert found == kept
    settings = ServiceSettings(database="", data=tmp_path)
    with database.snapshot() as session:
        [one, other] = page(session, settings, "ann").rows
        assert {one.source, other.source} == {"item"}
        past = history(session, "ann").wishes
        receipts = {id: receipt(session, id) for each in past for id in each.receipts.values()}
        assert len(receipts) == 12
        assert check_ledger(export_lines(session), "ledger", receipts)[1] == []
    with database.writing() as session:  # and life goes on
        erase(session, "ann")
    left = {row["idempotency_key"] for row in rows_of(database, tables)["reply"]}
    assert left == {each["idempotency_key"] for each in kept["reply"]} - {"ann-says", "ann-says-more"}


def test_a_database_that_cannot_hold_all_texts_is_refused(server: str) -> None:
    import psycopg

    with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
        options = "template template0 encoding 'SQL_ASCII' lc_collate 'C' lc_ctype 'C'"
        connection.execute(f"create database ascii {options}")
    for opening in (Database.open, Database.existing):
        with pytest.raises(AssentError, match=r"/ascii: (encoding SQL_ASCII; accepted: UTF8|there is no)"):
            opening(f"{server}/ascii")
    with pytest.raises(AssentError, match="encoding SQL_ASCII; accepted: UTF8"):
        Database(f"{server}/ascii").migrate()


def test_only_what_is_there_is_opened(url: str, tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(AssentError, match="there is no service; accepted: one that assent serve"):
            Database.existing(url)
        assert list(tmp_path.iterdir()) == []
    Database.open(url).close()
    Database.existing(url).close()


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
        ("public_url: nonsense", "public_url: accepted: an address such as https://"),
        ("public_url: ftp://choices.example.org", "public_url: accepted"),
        ("public_url: https://choices.example.org/?a=1", "public_url: accepted"),
        ("update_after: -1", "update_after: .*greater than or equal to 0"),
        ("train_after: .inf", "train_after: .*finite"),
        ("train_every: 0", "train_every: .*greater than 0"),
        ("seeds: 0", "seeds: .*greater than or equal to 1"),
        ("k: 0", "k: .*greater than or equal to 1"),
        ("price: -1", "price: .*greater than or equal to 0"),
        ("budget: 0.5\nkeep_quality: 0.9", "settings: budget and keep_quality: accepted: one of them"),
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


NASTY = "it's 100 % :name %(name)s \\ \\1"


def test_what_a_query_always_says_is_said_as_it_is(database: Database) -> None:
    asked = Query(select(literal(NASTY), bindparam("name", type_=Text), literal(0.1), literal(-1)))
    with database.reading() as session:
        assert asked.rows(session, name=NASTY) == [(NASTY, NASTY, 0.1, -1)]


def test_queries_that_go_together_answer_each_for_itself(database: Database) -> None:
    add_one = Query("INSERT INTO meta (name, value) VALUES (:name, :value)")
    values = Query("SELECT value FROM meta WHERE name LIKE 'test%' ORDER BY name")
    with database.writing() as session:
        with together(session):
            add_one.run(session, name="test 1", value="one")
            before = values.ask(session)
            add_one.run(session, name="test 2", value="two")
            after = values.ask(session)
        assert before() == [("one",)]
        assert after() == [("one",), ("two",)]
    with database.reading() as session:
        assert values.rows(session) == [("one",), ("two",)]


def test_an_error_of_queries_that_go_together_is_told_by_their_end(database: Database) -> None:
    add_one = Query("INSERT INTO meta (name, value) VALUES (:name, :value)")

    def add_twice() -> None:
        with database.writing() as session, together(session):
            for value in ("one", "two"):
                add_one.run(session, name="test", value=value)
            add_one.run(session, name="test 3", value="three")

    with pytest.raises(DBAPIError):
        add_twice()
    with database.writing() as session:  # nothing of it is stored, and the connection is of use
        assert session.scalars(select(Meta.value).where(Meta.name.like("test%"))).all() == []
        with together(session):
            add_one.run(session, name="test", value="one")
    with database.reading() as session:
        assert session.scalars(select(Meta.value).where(Meta.name == "test")).one() == "one"


def test_plans_by_index_are_asked_for_until_the_transaction_ends(database: Database) -> None:
    if database.is_sqlite:
        pytest.skip("SQLite plans each statement anew")
    looks_through = text("SHOW enable_seqscan")
    with database.writing() as session:
        find_by_index(session)
        assert session.scalar(looks_through) == "off"
    with database.writing() as session:
        assert session.scalar(looks_through) == "on"
