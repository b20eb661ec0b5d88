"""Backup and restore: a folder that either kind of database can be restored from.

    backup.json           what is in it: revision of the tables, rows and hashes of the files; written last
    tables/NAME.jsonl.gz  the rows of one table, as lines of JSON
    runs/NAME/            the run folder of each model that is kept

All tables are of one moment. Links, visits, answers that are kept for repeated requests and counts of
attempts are left out: a restored database lets nobody in who has no key. A backup holds all that is known of
people: guard it like the database, and delete it when they are erased.
"""

import gzip
import json
import shutil
from collections.abc import Iterator
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from sqlalchemy import MetaData, delete, func, insert, inspect, select, text
from sqlalchemy import Table as SqlTable
from sqlalchemy.orm import Session

from assent.runs.manifest import MANIFEST
from assent.service.database import ConflictError, Database, shown
from assent.service.ledger import note
from assent.service.settings import ServiceSettings
from assent.service.tables import Attempt, Link, Meta, Model, Reply, Table, Visit
from assent.support.errors import AssentError
from assent.support.files import parse_json, read_own, write_json, write_with

FORMAT: Final = 1
LISTED: Final = "backup.json"
RESTORED: Final = "restored"
"""The event of the ledger."""
_PASSING: Final = {each.__tablename__ for each in (Attempt, Link, Reply, Visit)}
_SOME: Final = 5000


def backup(database: Database, settings: ServiceSettings, to: Path) -> dict[str, int]:
    """Write a backup into a new folder; return the number of rows by table."""
    if to.exists() and any(to.iterdir()):
        raise AssentError(f"{to}: not empty; accepted: a new folder")
    to.mkdir(0o700, parents=True, exist_ok=True)
    files: dict[str, str] = {}
    rows: dict[str, int] = {}
    with database.snapshot() as session:
        revision = session.scalar(text("SELECT version_num FROM alembic_version"))
        for table in _tables():
            file = _table(to, table.name)
            rows[table.name] = _write(session, table, file)
            files[table.name] = sha256(read_own(file)).hexdigest()
        folders = session.scalars(select(Model.folder).where(Model.pruned.is_(None)).order_by(Model.id)).all()
    for folder in folders:
        if not (settings.runs / folder).is_dir():
            raise AssentError(f"{settings.runs / folder}: no such run folder; begin the backup again")
        shutil.copytree(settings.runs / folder, to / "runs" / folder)
    _check_runs(to)
    about = {
        "format": FORMAT,
        "assent": version("assent"),
        "revision": revision,
        "rows": rows,
        "files": files,
        "runs": list(folders),
    }
    write_json(to / LISTED, about, private=True)
    return rows


def restore(database: Database, settings: ServiceSettings, source: Path) -> dict[str, int]:
    """Fill an empty database, and the folder of runs, from a backup; return the number of rows by table.

    Everything in the backup is checked first. If it fails all the same, nothing of it stays. The ledger notes
    it: what was there after the backup is not there any more.
    """
    about = parse_json(source / LISTED, read_own(source / LISTED))
    match about:
        case {"format": 1, "revision": str(revision), "rows": dict(rows), "files": dict(files),
              "runs": list(folders)}:  # fmt: skip
            pass
        case _:
            raise AssentError(f"{source / LISTED}: no backup that this assent can read")
    if inspect(database.engine).get_table_names():
        raise ConflictError(f"database {shown(database.engine.url)}: not empty; accepted: a new one")
    for folder in folders:
        if (settings.runs / folder).exists():
            raise ConflictError(f"{settings.runs / folder}: already exists; accepted: a new folder of data")
    for name, expected in files.items():
        if sha256(read_own(_table(source, name))).hexdigest() != expected:
            raise AssentError(f"{_table(source, name)}: not what the backup wrote")
    _check_runs(source)
    try:
        for folder in folders:
            shutil.copytree(source / "runs" / folder, settings.runs / folder)
        with database.writing() as session:
            database.migrate(revision, session=session)
            session.execute(delete(Meta))
            there = MetaData()
            there.reflect(session.connection())  # the tables of that revision, not of this one
            for table in there.sorted_tables:
                if table.name in files:
                    _read(session, table, _table(source, table.name))
            database.migrate(session=session)
            note(session, RESTORED, backup=sha256(read_own(source / LISTED)).hexdigest())
    except BaseException:
        for folder in folders:
            shutil.rmtree(settings.runs / folder, ignore_errors=True)
        raise
    return rows


def _check_runs(backup: Path) -> None:
    """Refuse a backup with a run that is not what its model's row says: the hash of a list of hashes."""
    for model in (each for rows in _batches(_table(backup, Model.__tablename__)) for each in rows):
        if model["pruned"] is not None:
            continue
        folder = backup / "runs" / model["folder"]
        content = read_own(folder / MANIFEST)
        if sha256(content).hexdigest() != model["manifest_hash"]:
            raise AssentError(f"{folder / MANIFEST}: not what the run wrote; accepted: a whole copy")
        for name, expected in parse_json(folder / MANIFEST, content)["files"].items():
            if sha256(read_own(folder / name)).hexdigest() != expected:
                raise AssentError(f"{folder / name}: not what the run wrote; accepted: a whole copy")


def _table(backup: Path, name: str) -> Path:
    """Return the file of a table."""
    return backup / "tables" / f"{name}.jsonl.gz"


def _tables() -> list[SqlTable]:
    return [table for table in Table.metadata.sorted_tables if table.name not in _PASSING]


def _write(session: Session, table: SqlTable, file: Path) -> int:
    number = 0

    def lines(out: Any) -> None:
        nonlocal number
        with gzip.GzipFile(fileobj=out, mode="wb", mtime=0) as packed:
            asked = select(table).order_by(*table.primary_key.columns).execution_options(yield_per=_SOME)
            for row in session.execute(asked):
                packed.write(json.dumps(dict(row._mapping), ensure_ascii=False).encode() + b"\n")
                number += 1

    write_with(file, lines, private=True)
    return number


def _read(session: Session, table: SqlTable, file: Path) -> None:
    for rows in _batches(file):
        session.execute(insert(table), rows)
    if session.get_bind().dialect.name != "postgresql" or "id" not in table.c:
        return
    counter = session.scalar(text("SELECT pg_get_serial_sequence(:table, 'id')"), {"table": table.name})
    last = session.scalar(select(func.max(table.c.id)))
    if counter is not None and last is not None:
        session.execute(text("SELECT setval(:counter, :last)"), {"counter": counter, "last": last})


def _batches(file: Path) -> Iterator[list[dict[str, Any]]]:
    rows: list[dict[str, Any]] = []
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        for line in lines:
            rows.append(json.loads(line))
            if len(rows) == _SOME:
                yield rows
                rows = []
    if rows:
        yield rows
