"""A PostgreSQL server for tests: in a folder of its own, on a free port of the loopback, with fsync."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
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


@contextmanager
def server() -> Iterator[str]:
    """Yield the URL of a new server, without the name of a database."""
    program, user = initdb(), _user()
    assert program is not None
    assert user is not None
    in_memory = Path("/dev/shm")  # making and deleting databases is much faster there
    folder = Path(tempfile.mkdtemp(prefix="assent-", dir=in_memory if in_memory.is_dir() else None))
    shutil.chown(folder, user)
    as_user = ["setpriv", f"--reuid={user}", f"--regid={pwd.getpwnam(user).pw_gid}", "--clear-groups"]
    as_user = as_user if os.getuid() == 0 else []
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def run(*command: object) -> None:
        words = [*as_user, *map(str, command)]
        subprocess.run(words, check=True, cwd=folder, stdout=subprocess.DEVNULL, timeout=60)

    options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=on -c max_connections=60"
    try:
        run(program, "-D", folder / "data", "--no-sync", "-U", "ann", "-A", "trust")
        pg_ctl = program.with_name("pg_ctl")
        run(pg_ctl, "-D", folder / "data", "-w", "-l", folder / "log", "-o", options, "start")
        try:
            yield f"postgresql://ann@127.0.0.1:{port}"
        finally:
            run(pg_ctl, "-D", folder / "data", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder)
