"""`assent serve`, `work`, `keys`, `ledger`, `backup` and `restore`: the live service."""

import gc
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread
from time import time
from typing import Annotated, Any

import typer

from assent.cli.command import LogJson, OutputOptions, spread
from assent.cli.console import notice, say, show_table
from assent.cli.how import WorkOptions
from assent.lab.executor import SERIAL, Executor
from assent.results.words import plural
from assent.support.errors import AssentError
from assent.support.files import refuse_to_overwrite, write_with

try:
    import uvicorn

    from assent.service.backup import backup, restore
    from assent.service.database import Database
    from assent.service.ledger import export_lines
    from assent.service.security import create_key, list_keys, revoke_key, rotate_key
    from assent.service.settings import ServiceSettings, read_settings
except ModuleNotFoundError as missing:
    raise AssentError(
        f"the service needs {missing.name}, which is not installed; accepted: pip install 'assent[service]'"
    ) from None

_PANEL = "Service"
_DATABASE = "ASSENT_DATABASE"
_SETTINGS = "ASSENT_SERVICE_SETTINGS"
"""Hands the settings to further web processes."""
_DEMO = {
    "demo": True,
    "secure_cookies": False,
    "controller": {"name": "Demo cinema"},
    "budget": 0.4,
    "seeds": 1,
    "update_after": 1.0,
    "train_after": 4.0,
}
"""Settings of the demo: whatever is said is honoured while one looks on."""
_PATIENCE = 20.0
"""Seconds that a worker has to put its job back."""
_PATIENCE_WEB = 60
"""Seconds after which one of several web processes that gives no sign of life is replaced.

Long enough to load libraries and the model on a busy machine: otherwise they would be replaced for ever."""


@dataclass(frozen=True)
class PlaceOptions:
    """Where the service keeps its data, and its settings."""

    data: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="The folder of the service.",
            show_default="assent-service; of the demo: assent-demo",
            rich_help_panel=_PANEL,
        ),
    ] = None
    database: Annotated[
        str | None,
        typer.Option(
            envvar=_DATABASE,
            metavar="URL",
            help="postgresql://USER@HOST/DATABASE, or sqlite:///FILE. Default: a file in the folder. "
            "A password is better given by the variable.",
            show_default=False,
            rich_help_panel=_PANEL,
        ),
    ] = None
    settings: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The settings of the service, as YAML; web processes and workers need the same.",
            show_default=False,
            rich_help_panel=_PANEL,
        ),
    ] = None

    def read(self, *, folder: str = "assent-service", **given: Any) -> ServiceSettings:
        """Return the settings; `folder` is where it is if no folder is named."""
        data = (self.data or Path(folder)).resolve()
        return read_settings(self.settings, database=self.database or f"sqlite:///{data / 'assent.db'}",
                             data=data, **given)  # fmt: skip


def _tell() -> None:
    """Print what the service logs as notices: no ids, no addresses, no requests."""
    logger = logging.getLogger("assent")
    if not logger.handlers:
        handler = logging.Handler(logging.INFO)
        handler.emit = lambda record: notice(record.getMessage())  # type: ignore[method-assign]
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logger.propagate = False


@spread
def serve_command(
    *,
    demo: Annotated[
        bool, typer.Option("--demo", help="Serve simulated data, with a worker, to look around.")
    ] = False,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 is any free one.")] = 8000,
    processes: Annotated[int, typer.Option(min=1, help="Web processes.")] = 1,
    worker: Annotated[bool, typer.Option("--worker", help="Run a worker beside the web processes.")] = False,
    place: PlaceOptions,
    log_json: LogJson = False,
) -> None:
    """Serve the API and the pages of people and operators.

    The database is made, or brought up to date, at the start. The demo takes no database but its own.
    Put a server that speaks https in front of it, unless only this machine is to reach it.

    Examples:

    ```
    assent serve --demo
    assent serve --settings service.yaml --host 0.0.0.0 --processes 4
    ```
    """
    port = port or _free_port(host)
    here = _address(host, port)
    settings = place.read(folder="assent-demo", **_DEMO) if demo else place.read()
    if demo or "public_url" not in settings.model_fields_set:
        settings = settings.model_copy(update={"public_url": here})
    if settings.demo and host not in ("127.0.0.1", "localhost", "::1"):
        raise AssentError(f"--host {host}: the demo lets anybody in; accepted: 127.0.0.1")
    _tell()
    if settings.secure_cookies and settings.public_url.startswith("http:"):
        notice(
            "Browsers send the cookie of a visit by https alone: nobody stays in at an address of http. "
            "Set public_url with https, or secure_cookies: false to try things out."
        )
    with closing(Database.open(settings.database)) as database:
        if settings.demo:
            _fill_with_demo(database, settings)
        os.environ[_SETTINGS] = settings.model_dump_json()
        with _worker_beside(wanted=worker or settings.demo):
            for_people = "" if settings.public_url == here else f", for {settings.public_url}"
            say(f"Serving at {here}{for_people} (Ctrl-C ends it)")
            uvicorn.run(
                "assent.cli.service_commands:app_of_settings",
                factory=True,
                host=host,
                port=port,
                workers=processes,
                timeout_worker_healthcheck=_PATIENCE_WEB,
                access_log=False,  # addresses hold ids
                log_config=None,
                server_header=False,
            )


def _address(host: str, port: int) -> str:
    """Return where this machine reaches a web process that listens on a host and a port."""
    reached = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{reached}]:{port}" if ":" in reached else f"http://{reached}:{port}"


def _free_port(host: str) -> int:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as found:
        found.bind((host, 0))
        port: int = found.getsockname()[1]
        return port


def _fill_with_demo(database: Database, settings: ServiceSettings) -> None:
    from assent.service.demo import make_demo

    if make_demo(database, settings):
        notice("The demo's first model is being trained (some minutes). Its first page says how far it is.")


def app_of_settings() -> Any:
    """Return the application of a web process, by the settings that `assent serve` left it."""
    from assent.service.app import make_app

    settings = ServiceSettings.model_validate_json(os.environ[_SETTINGS])
    _tell()
    app = make_app(Database(settings.database), settings)
    gc.freeze()  # what is loaded by now stays; searching it for garbage would delay requests
    return app


@contextmanager
def _worker_beside(*, wanted: bool) -> Iterator[None]:
    """Run a worker as a process of its own while the block is at work.

    It ends when its standard input does, however this process ends.
    """
    if not wanted:
        yield
        return
    work = [sys.executable, "-c", "from assent.cli.service_commands import work_by_settings as w; w()"]
    process = subprocess.Popen(work, stdin=subprocess.PIPE, start_new_session=True)
    try:
        yield
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()  # another worker takes its job over
            process.wait()


def work_by_settings() -> None:
    """Work by the settings that `assent serve` left in the environment, until it ends."""
    _tell()
    stop = Event()

    def wait_for_end() -> None:
        sys.stdin.read()
        stop.set()

    Thread(target=wait_for_end, daemon=True).start()
    settings = ServiceSettings.model_validate_json(os.environ[_SETTINGS])
    if settings.demo:
        _finish_demo(settings, stop)
    _work(settings, stop)


def _finish_demo(settings: ServiceSettings, stop: Event) -> None:
    """Do what waits until the demo has its first model, and bring what comes after it."""
    from assent.service.demo import finish_demo
    from assent.service.worker import ask_for_work, work_once

    with closing(Database.existing(settings.database)) as database:
        while not finish_demo(database) and not stop.is_set():
            ask_for_work(database, settings)  # again, should the first training have failed
            if not work_once(database, settings, worker="demo", stop=stop):
                stop.wait(1.0)


@spread
def work_command(
    *,
    once: Annotated[bool, typer.Option("--once", help="Do the jobs that wait, and leave.")] = False,
    work: WorkOptions,
    place: PlaceOptions,
    log_json: LogJson = False,
) -> None:
    """Train, decide and publish what the service asks for, until it is ended.

    Several workers may share a database and a folder. A job of a worker that is lost is taken over.

    Examples:

    ```
    assent work --settings service.yaml
    assent work --once
    assent work --executor ray://10.0.0.1:6379
    ```
    """
    settings, stop = place.read(), Event()
    _tell()
    if not once:
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, lambda *_: stop.set())
    usual = "serial" if work.jobs is None else "processes"
    with work.executor(usual) as executor:
        _work(settings, stop, once=once, executor=executor)


def _work(settings: ServiceSettings, stop: Event, *, once: bool = False, executor: Executor = SERIAL) -> None:
    with closing(Database.existing(settings.database)) as database:
        from assent.service.worker import work, work_once

        name = f"{socket.gethostname()}:{os.getpid()}"
        if once:
            while work_once(database, settings, worker=name, stop=stop, executor=executor):
                pass
            return
        work(database, settings, worker=name, stop=stop, executor=executor)


keys_command = typer.Typer(help="Create, list, rotate and revoke a platform's keys.", no_args_is_help=True)


@keys_command.command("create")
@spread
def create_key_command(
    *,
    name: Annotated[str, typer.Option(help="What the key is for, as the audit log shows it.")],
    scopes: Annotated[str, typer.Option(help="What it may do, by commas; an unknown one lists them.")],
    days: Annotated[float | None, typer.Option(help="Days until it ends.", show_default="never")] = None,
    place: PlaceOptions,
) -> None:
    """Create a key and print it: this is the only time that it can be read.

    Examples:

    ```
    assent keys create --name shop --scopes interactions,wishes,links
    assent keys create --name me --scopes admin --days 30
    ```
    """
    if days is not None and days <= 0:
        raise AssentError(f"--days {days:g}: accepted: more than 0")
    with closing(Database.open(place.read().database)) as database:
        expires = None if days is None else time() + days * 86_400
        listed = [each.strip() for each in scopes.split(",") if each.strip()]
        with database.writing() as session:
            made = create_key(session, name, listed, expires=expires)
    say(made)


@keys_command.command("list")
@spread
def list_keys_command(*, place: PlaceOptions) -> None:
    """List all keys, without their secrets.

    Examples:

    ```
    assent keys list
    ```
    """
    with closing(Database.existing(place.read().database)) as database, database.reading() as session:
        rows = [
            [
                key.id,
                key.name,
                key.scopes,
                *map(_day, (key.created, key.expires, key.revoked, key.last_used)),
            ]
            for key in list_keys(session)
        ]
    columns = ["id", "name", "scopes", "created", "expires", "revoked", "last used"]
    show_table("keys", columns, rows, texts=("name", "scopes"))


def _day(moment: float | None) -> str:
    return "–" if moment is None else datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M")


KeyId = Annotated[str, typer.Argument(help="The key's id, as the list shows it.", show_default=False)]


@keys_command.command("rotate")
@spread
def rotate_key_command(id: KeyId, *, place: PlaceOptions) -> None:
    """Print a new key in the place of one, which goes on for an hour.

    Examples:

    ```
    assent keys rotate 0123456789ab
    ```
    """
    with closing(Database.existing(place.read().database)) as database, database.writing() as session:
        made = rotate_key(session, id)
    say(made)


@keys_command.command("revoke")
@spread
def revoke_key_command(id: KeyId, *, place: PlaceOptions) -> None:
    """End a key at once, the links that it asked for, and all visits that it or they opened.

    Examples:

    ```
    assent keys revoke 0123456789ab
    ```
    """
    with closing(Database.existing(place.read().database)) as database, database.writing() as session:
        revoke_key(session, id)
    say(f"{id}: revoked")


@spread
def ledger_command(
    *,
    to: Annotated[Path, typer.Option(metavar="FILE", help="Where to, as lines of JSON.", show_default=False)],
    place: PlaceOptions,
    output: OutputOptions,
) -> None:
    """Write the service's ledger to a file, which `assent verify` checks without the database.

    It holds no personal data.

    Examples:

    ```
    assent ledger --to ledger.jsonl
    assent verify ledger.jsonl --receipt receipt.json
    ```
    """
    output.check()
    refuse_to_overwrite(to, replace=output.replace)
    with closing(Database.existing(place.read().database)) as database, database.snapshot() as session:
        write_with(to, lambda out: out.writelines(f"{line}\n".encode() for line in export_lines(session)))
    notice(f"Written: {to}")


@spread
def backup_command(
    *,
    to: Annotated[Path, typer.Option(metavar="FOLDER", help="Where to; a new folder.", show_default=False)],
    place: PlaceOptions,
    output: OutputOptions,
) -> None:
    """Copy the service's database and its runs to a folder, while it goes on.

    It holds all that is known of people: guard it like the database.

    Examples:

    ```
    assent backup --to backups/monday
    ```
    """
    output.check()
    settings = place.read()
    with closing(Database.existing(settings.database)) as database:
        rows = backup(database, settings, to)
    say(f"{plural(sum(rows.values()), 'row')} of {plural(len(rows), 'table')}")
    output.write([rows])
    notice(f"Written: {to}")


@spread
def restore_command(
    source: Annotated[
        Path, typer.Argument(metavar="BACKUP", help="A folder that assent backup wrote.", show_default=False)
    ],
    *,
    place: PlaceOptions,
    output: OutputOptions,
) -> None:
    """Fill a new database, of either kind, and a new folder from a backup.

    Examples:

    ```
    assent restore backups/monday --data restored
    ```
    """
    output.check()
    settings = place.read()
    database = Database(settings.database)
    try:
        rows = restore(database, settings, source)
    finally:
        database.close()
    say(f"{plural(sum(rows.values()), 'row')} of {plural(len(rows), 'table')}")
    output.write([rows])
