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


def initdb() -> Path | None:
    """Where the server's programs are, if they can be run here."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    program = shutil.which("initdb") or (found[-1] if found else None)
    if program is None or (os.getuid() == 0 and (_user() is None or not shutil.which("setpriv"))):
        return None
    return Path(program)


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
    """A server that can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        program, user = initdb(), _user()
        assert program is not None
        assert user is not None
        self.folder, self._bin = folder, program.parent
        shutil.chown(folder, user)
        as_user = ["setpriv", f"--reuid={user}", f"--regid={pwd.getpwnam(user).pw_gid}", "--clear-groups"]
        self._as_user = as_user if os.getuid() == 0 else []
        self.port = free_port()
        self._run("initdb", "--no-sync", "-U", "ann", "-A", "trust")

    @property
    def url(self) -> str:
        """The URL, without the name of a database."""
        return f"postgresql://ann@127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        where = f"-p {self.port} -k {self.folder} -c listen_addresses=127.0.0.1"
        options = f"{where} -c fsync=on -c max_connections=60"
        self._run("pg_ctl", "-w", "-l", self.folder / "log", "-o", options, "start")

    def stop(self) -> None:
        """End it at once."""
        self._run("pg_ctl", "-m", "immediate", "stop")

    def kill(self) -> None:
        """Kill it (SIGKILL), and wait until its parts have gone too."""
        number = int((self.folder / "data" / "postmaster.pid").read_text().split()[0])
        parts = [
            int(each.name)
            for each in Path("/proc").glob("[0-9]*")
            if (each / "stat").exists() and _parent(each) == number
        ]
        os.kill(number, signal.SIGKILL)
        while any(_parent(Path(f"/proc/{each}")) is not None for each in parts):
            time.sleep(0.02)

    def _run(self, program: str, *words: object) -> None:
        command = [*self._as_user, self._bin / program, "-D", self.folder / "data", *words]
        subprocess.run(
            [str(each) for each in command],
            check=True,
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            timeout=60,
        )


def _parent(process: Path) -> int | None:
    """The parent of a process that is alive."""
    try:
        state, parent = (process / "stat").read_text().rpartition(")")[2].split()[:2]
    except OSError:
        return None
    return None if state == "Z" else int(parent)


@contextmanager
def running(*, in_memory: bool) -> Iterator[Postgres]:
    """Yield a new server; in memory, making and deleting databases is much faster."""
    memory = Path("/dev/shm")
    place = memory if in_memory and memory.is_dir() else None
    folder = Path(tempfile.mkdtemp(prefix="assent-", dir=place))
    try:
        server = Postgres(folder)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder)
