"""Logs in SQLite and PostgreSQL: read alone, the same as from a file; passwords are shown nowhere."""

import os
import pwd
import shutil
import socket
import sqlite3
import subprocess
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import Assent

from assent import AssentError, Interactions, read_interactions
from assent.data.databases import database

ROWS = [
    ("ann", "f1", 3.0, 0.2),
    ("ann", "f2", 4.0, 1.0),
    ("bob", "f1", 1.0, 0.0),
    ("bob", "f2", 2.0, 0.5),
]
SECRET = "hunter2!"


def sqlite(path: Path, rows: Sequence[Sequence[Any]] = ROWS, table: str = "interactions") -> str:
    """A database with a table of rows; returns its URL."""
    connection = sqlite3.connect(path)
    connection.execute(f'create table {table} ("user", item, time, unwillingness)')
    connection.executemany(f"insert into {table} values (?, ?, ?, ?)", rows)
    connection.commit()
    connection.close()
    return f"sqlite:///{path}"


def csv(path: Path, rows: Sequence[Sequence[Any]] = ROWS) -> Path:
    columns = ["user", "item", "time", "unwillingness"]
    pl.DataFrame(rows, schema=columns, orient="row").write_csv(path)
    return path


def same(one: Interactions, other: Interactions) -> bool:
    return (
        one.table.sort("user", "item").equals(other.table.sort("user", "item"))
        and one.sealed.drop("said").equals(other.sealed.drop("said"))
        and one.name == other.name
    )


def refusal(url: str, **how: Any) -> str:
    with pytest.raises(AssentError) as caught:
        read_interactions(url, **how)
    return str(caught.value)


def test_a_table_is_read_like_a_file(tmp_path: Path) -> None:
    url, path = sqlite(tmp_path / "shop.db"), csv(tmp_path / "shop.csv")
    read = read_interactions(url)
    assert read.name == "shop"
    assert same(read.with_unwillingness(read.table["unwillingness"]), _plain(read_interactions(path)))
    assert read.table.height == 3


def _plain(log: Interactions) -> Interactions:
    return log.with_unwillingness(log.table["unwillingness"])


@given(order=st.permutations(ROWS))
def test_the_order_in_a_table_means_nothing(order: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        read = read_interactions(sqlite(Path(folder) / "shop.db", order))
    assert read.table.rows() == [
        ("ann", "f1", 3.0, 0.2, "column", None),
        ("bob", "f1", 1.0, 0.0, "column", None),
        ("bob", "f2", 2.0, 0.5, "column", None),
    ]


def test_a_query_selects_names_and_orders(tmp_path: Path) -> None:
    url = sqlite(tmp_path / "shop.db", table="events")
    assert refusal(url).startswith(f"{tmp_path / 'shop.db'}: cannot be asked (no such table: interactions)")
    assert len(read_interactions(url, query="events")) == 3
    selected = "select \"user\" as member, item as film from events where item = 'f1'"
    columns = {"user": "member", "item": "film"}
    message = refusal(url, query=selected, columns=columns)
    assert message == (
        f"{tmp_path / 'shop.db'}: rows of a database have no order; accepted: a column of times, "
        "columns={'time': 'NAME'}, or a query with order by"
    )
    ordered = read_interactions(url, query=f"{selected} ORDER BY member desc", columns=columns)
    assert ordered.table["user"].to_list() == ["bob", "ann"]


def test_cells_of_never_rows_stop_nobody(tmp_path: Path) -> None:
    rows = [*ROWS, ("eve", "f1", "yesterday", 1), ("eve", "f2", b"\xff\x00", 1)]
    read = read_interactions(sqlite(tmp_path / "shop.db", rows))
    assert read.table["user"].to_list() == ["ann", "bob", "bob"]
    assert read.sealed["user"].to_list() == ["ann", "eve", "eve"]
    other = [*ROWS, ("eve", "f1", 5, 0.5)]
    message = refusal(sqlite(tmp_path / "other.db", [*other, ("eve", "f2", b"\xff", 0.5)]))
    assert "column 'time' mixes types of values" in message


def test_ids_are_text_cell_by_cell(tmp_path: Path) -> None:
    rows = [(1, 7.0, 1, 0.1), ("01", "x", 2, 0.2), ("b", 10**18, 3, 0.3)]
    read = read_interactions(sqlite(tmp_path / "shop.db", rows))
    assert sorted(read.table.select("user", "item").rows()) == [
        ("01", "x"), ("1", "7"), ("b", "1000000000000000000"),
    ]  # fmt: skip


@pytest.mark.parametrize("query", ["drop table interactions", "delete from interactions", "vacuum"])
def test_a_database_is_only_read(query: str, tmp_path: Path) -> None:
    url = sqlite(tmp_path / "shop.db")
    before = (tmp_path / "shop.db").read_bytes()
    assert "cannot be asked" in refusal(url, query=query)
    assert (tmp_path / "shop.db").read_bytes() == before


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("sqlite:///missing.db", "missing.db: no such file"),
        ("sqlite://shop.db", "sqlite://…: not the address of a file; accepted: sqlite:///FILE"),
        ("https://ann:hunter2!@x.org/log.csv?key=hunter2!", "https://…: no such address is read here"),
        ("s3://bucket/log.csv?hunter2!", "s3://…: no such address is read here; accepted: a file, a folder"),
        ("mysql://ann:hunter2!@host/shop", "mysql://…: no such address"),
        ("postgresql://ann:hunter2!@host", "postgresql://…: not the address of a database"),
        ("postgresql://ann:hunter2!@x@host/shop", "with special characters as %40"),
        ("postgresql://ann:hun/hunter2!@host/shop", "postgresql://…: not the address of a database"),
        ("postgresql://ann:hun#hunter2!@host/shop", "postgresql://…: not the address of a database"),
        ("postgresql://ann:hun?hunter2!@host/shop", "postgresql://…: not the address of a database"),
        ("postgresql://ann@host:hunter2!/shop", "postgresql://…: not the address of a database"),
    ],
)
def test_other_addresses_are_refused_without_their_secrets(url: str, message: str) -> None:
    refused = refusal(url)
    assert message in refused
    assert SECRET not in refused


def test_addresses_where_files_belong_are_refused(tmp_path: Path) -> None:
    url, path = f"postgresql://ann:{SECRET}@host/shop", csv(tmp_path / "log.csv")
    for how in ({"items": url}, {"unwillingness": f"file:{url}"}, {"unwillingness": f"user:{url}.csv"}):
        refused = refusal(str(path), **how)
        assert "postgresql://…: no such address is read here" in refused
        assert SECRET not in refused
    refused = refusal(str(path), query="select 1")
    assert refused.startswith("query='select 1': the log is no database; accepted: a file")


def test_a_database_file_is_named_by_its_address(tmp_path: Path) -> None:
    sqlite(tmp_path / "shop.db")
    assert refusal(str(tmp_path / "shop.db")).endswith(f", or sqlite:///{tmp_path / 'shop.db'}")


def test_commands_read_databases(tmp_path: Path, assent: Assent) -> None:
    url = sqlite(tmp_path / "shop.db", table="events")
    code, out, _ = assent("data", "describe", url, "--query", "events")
    assert (code, out.splitlines()[0].strip()) == (0, "shop")
    code, out, err = assent("data", "describe", url, "--query", "select 1 from")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "accepted: --query SQL that selects" in err


def user_for_servers() -> str | None:
    """Whom the server runs as: it refuses to run as root."""
    if os.getuid():
        return pwd.getpwuid(os.getuid()).pw_name
    return next((each.pw_name for each in pwd.getpwall() if each.pw_name in ("postgres", "nobody")), None)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The URL of a PostgreSQL server of this test's own, with a password, without a database."""
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    initdb = shutil.which("initdb") or (str(found[-1]) if found else None)
    user = user_for_servers()
    if initdb is None or user is None or not shutil.which("setpriv"):
        pytest.skip("no PostgreSQL here, or nobody but root to run it")
    folder, bin = Path(tempfile.mkdtemp(prefix="assent-")), Path(initdb).parent
    (folder / "password").write_text(SECRET)
    as_user = ["setpriv", f"--reuid={user}", f"--regid={pwd.getpwnam(user).pw_gid}", "--clear-groups"]
    as_user = as_user if os.getuid() == 0 else []
    for path in (folder, folder / "password"):
        shutil.chown(path, user)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def run(*command: object) -> None:
        words = [*as_user, *map(str, command)]
        subprocess.run(words, check=True, cwd=folder, stdout=subprocess.DEVNULL, timeout=60)

    options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off"
    try:
        secret = ["-U", "ann", "-A", "scram-sha-256", "--pwfile", folder / "password"]
        run(bin / "initdb", "-D", folder / "data", "--no-sync", *secret)
        run(bin / "pg_ctl", "-D", folder / "data", "-w", "-l", folder / "log", "-o", options, "start")
        try:
            yield f"postgresql://ann:{SECRET}@127.0.0.1:{port}"
        finally:
            run(bin / "pg_ctl", "-D", folder / "data", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def shop(server: str) -> str:
    """The URL of a database on it, with a table of interactions."""
    import psycopg

    with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
        connection.execute("create database shop")
    with psycopg.connect(f"{server}/shop") as connection:
        connection.execute(
            'create table interactions ("user" uuid, item int, time timestamptz, unwillingness numeric, '
            "category text[])"
        )
        connection.execute(
            "insert into interactions values "
            "(gen_random_uuid(), 1, '2026-03-01 12:00+02', 0.25, array['a', 'b']),"
            "(gen_random_uuid(), 2, '1970-01-01 00:00:07+00', 1, null),"
            "(gen_random_uuid(), 3, '1970-01-01 00:00:09+00', 0, array['c'])"
        )
    return f"{server}/shop"


def test_postgresql_is_read_by_its_types(shop: str) -> None:
    log = read_interactions(shop)
    assert log.name == "shop"
    rows = log.table.sort("item").select("item", "time", "unwillingness").rows()
    assert rows == [("1", 1772359200.0, 0.25), ("3", 9.0, 0.0)]
    assert log.table["user"].str.len_chars().to_list() == [36, 36]
    assert log.items.sort("item")["category"].to_list() == [["a", "b"], ["c"]]
    assert log.sealed["item"].to_list() == ["2"]
    ordered = read_interactions(shop, query="select * from interactions order by item desc")
    assert ordered.table["item"].to_list() == ["3", "1"]


def test_postgresql_is_only_read(shop: str) -> None:
    for query in ("delete from interactions", "create table x (y int)"):
        assert "read-only transaction" in refusal(shop, query=query)
    assert len(read_interactions(shop)) == 2


def test_passwords_are_shown_nowhere(shop: str, tmp_path: Path, assent: Assent) -> None:
    wrong, spaced = shop.replace(SECRET, "letmein42"), shop.replace(SECRET, "%zz")
    for url in (wrong, spaced, f"{wrong}?sslpassword=letmein42", f"{shop}?bad=letmein42", f"{shop}x"):
        for more in ([], ["--log-json"]):
            code, out, err = assent("fit", url, "--out", tmp_path / "run", *more)
            assert (code, out, err.count("\n")) == (2, "", 1 + len(more))  # that reading begins, and an error
            assert SECRET not in err
            assert "letmein42" not in err
            assert "postgresql://127.0.0.1:" in err
    assert database(shop).origin == shop.replace(f"ann:{SECRET}@", "")


def test_a_run_keeps_no_password(shop: str, tmp_path: Path, assent: Assent) -> None:
    drawn = "select 'u' || g % 30 as \"user\", (g * 7 + g / 30) % 40 as item, g as time, 0.3 as unwillingness"
    query = f"{drawn} from generate_series(0, 400) g"
    options = ["--negatives", "5", "--jobs", "1", "--set", "training.epochs=1", "--duplicates", "first"]
    with warnings.catch_warnings():
        code, out, err = assent(
            "fit", shop, "--query", query, "--out", tmp_path / "run", "--log-json", *options
        )
    assert code == 0, err
    kept = b"".join(file.read_bytes() for file in (tmp_path / "run").rglob("*") if file.is_file())
    assert SECRET.encode() not in kept + out.encode() + err.encode()
    assert b'"dataset": "shop"' in kept
