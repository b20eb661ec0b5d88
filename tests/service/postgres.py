"""A PostgreSQL server for tests and benchmarks: in a folder of its own, on a free port of the loopback."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg


def initdb() -> Path | None:
    """Where the server's programs are, if they can be run here."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    program = shutil.which("initdb") or (found[-1] if found else None)
    if program is None or (os.getuid() == 0 and (_user() is None or not shutil.which("setpriv"))):
        return None
    return Path(program).resolve()


def _user() -> str | None:
    """Whom the server runs as: it refuses to run as root."""
    if os.getuid():
        return pwd.getpwuid(os.getuid()).pw_name
    return next((each.pw_name for each in pwd.getpwall() if each.pw_name in ("postgres", "nobody")), None)


def free_port() -> int:
    """A port of the loopback that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


class Postgres:
    """A server that can be killed and started again.

    Its databases are empty, or those of `copied`: the folder `data` of another server that has ended.
    """

    def __init__(self, folder: Path, copied: Path | None = None) -> None:
        program, user = initdb(), _user()
        assert program is not None
        assert user is not None
        self.folder, self._bin = folder, program.parent
        shutil.chown(folder, user)
        as_user = ["setpriv", f"--reuid={user}", f"--regid={pwd.getpwnam(user).pw_gid}", "--clear-groups"]
        self._as_user = as_user if os.getuid() == 0 else []
        self.port = free_port()
        if copied is not None:
            shutil.copytree(copied, folder / "data")
            for each in (folder / "data", *(folder / "data").rglob("*")):
                shutil.chown(each, user)
            return
        make = self._words("initdb", "-D", folder / "data", "--no-sync", "-U", "ann", "-A", "trust")
        subprocess.run(make, check=True, cwd=folder, stdout=subprocess.DEVNULL, timeout=60)

    @property
    def url(self) -> str:
        """The URL, without the name of a database."""
        return f"postgresql://ann@127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        options = {"listen_addresses": "127.0.0.1", "fsync": "on", "max_connections": "60"}
        settings = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        where = ["-D", self.folder / "data", "-p", self.port, "-k", self.folder]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._words("postgres", *where, *settings), cwd=self.folder, stdout=log, stderr=log
            )
        for _ in range(300):
            try:
                psycopg.connect(f"{self.url}/postgres").close()
                return
            except psycopg.OperationalError:
                assert self._process.poll() is None, (self.folder / "log").read_text()[-2000:]
                time.sleep(0.1)
        raise TimeoutError

    def stop(self) -> None:
        """End it at once."""
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait(60)

    def kill(self) -> None:
        """Kill it (SIGKILL), and wait until its parts have gone too."""
        parts = self.processes()[1:]
        self._process.kill()
        self._process.wait()
        while any(_parent(Path("/proc", str(each))) is not None for each in parts):
            time.sleep(0.02)

    def processes(self) -> list[int]:
        """Return the ids of its processes, the first one first."""
        parts = [each for each in Path("/proc").glob("[0-9]*") if _parent(each) == self._process.pid]
        return [self._process.pid, *(int(each.name) for each in parts)]

    def _words(self, program: str, *words: object) -> list[str]:
        return [str(each) for each in (*self._as_user, self._bin / program, *words)]


def _parent(process: Path) -> int | None:
    """The parent of a process that is alive."""
    try:
        state, parent = (process / "stat").read_text().rpartition(")")[2].split()[:2]
    except OSError:
        return None
    return None if state == "Z" else int(parent)


@contextmanager
def running(*, in_memory: bool, copied: Path | None = None) -> Iterator[Postgres]:
    """Yield a new server, as `Postgres` has it; in memory, making and deleting databases is much faster."""
    memory = Path("/dev/shm")
    place = memory if in_memory and memory.is_dir() else None
    folder = Path(tempfile.mkdtemp(prefix="assent-", dir=place))
    try:
        server = Postgres(folder, copied)
        try:
            server.start()
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder)
