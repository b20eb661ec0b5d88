"""A Ray cluster of this machine's own, for tests and benchmarks: nodes are processes, ended by their ids.

Nodes have one processor each and talk over the loopback address. Whoever has no token cannot use them.
"""

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

HERE = "127.0.0.1"
_FAST = {"health_check_period_ms": 500, "health_check_failure_threshold": 3, "health_check_timeout_ms": 1000}
"""A lost node is noticed within seconds."""
_PATIENCE = 240
"""Seconds that a node may take to start, on a busy machine."""


class Nodes:
    """A head, which this machine is attached to, and other nodes."""

    def __init__(self, folder: Path, *, store: int = 10**8) -> None:
        with socket.socket() as free:
            free.bind((HERE, 0))
            port = free.getsockname()[1]
        self.address, self._folder, self._store = f"{HERE}:{port}", folder, store
        token = folder / "token"
        token.write_text(secrets.token_hex(32))
        self.environment = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token)}
        """What whoever joins the cluster needs."""
        config = ["--system-config", json.dumps(_FAST), "--temp-dir", str(folder)]
        self.running = [self._start("--head", "--port", str(port), "--include-dashboard", "false", *config)]

    def add(self) -> subprocess.Popen[bytes]:
        """Start another node, and wait until it has joined."""
        made = self._start("--address", self.address)
        self.running.append(made)
        return made

    def kill(self, node: subprocess.Popen[bytes]) -> None:
        """End all processes of a node at once, as a loss of power would."""
        for pid in [node.pid, *descendants(node.pid)]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        node.wait()
        self.running.remove(node)

    def end(self) -> None:
        """End all nodes, the head last."""
        for node in reversed(self.running.copy()):
            self.kill(node)

    def _start(self, *how: str) -> subprocess.Popen[bytes]:
        start = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--num-cpus", "1"]
        about = ["--node-ip-address", HERE, "--object-store-memory", str(self._store)]
        log = self._folder / f"node-{len(list(self._folder.glob('node-*')))}"
        with log.open("wb") as file:
            made = subprocess.Popen(
                [*start, *about, "--disable-usage-stats", *how],
                stdout=file,
                stderr=file,
                start_new_session=True,
                env=os.environ | self.environment,
            )
        deadline = time.monotonic() + _PATIENCE
        while b"Ray runtime started" not in log.read_bytes():
            if made.poll() is not None or time.monotonic() > deadline:
                made.kill()
                raise RuntimeError(f"a node has not started: {log.read_text()}")
            time.sleep(0.1)
        return made


@contextmanager
def two_nodes(*, store: int = 10**8) -> Iterator[Nodes]:
    """Yield two nodes, which end afterwards; meanwhile this process has their token."""
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:  # short: sockets
        nodes = Nodes(Path(folder), store=store)
        before = {name: os.environ.get(name) for name in nodes.environment}
        os.environ.update(nodes.environment)
        try:
            nodes.add()
            yield nodes
        finally:
            nodes.end()
            for name, value in before.items():
                os.environ.pop(name, None)
                if value is not None:
                    os.environ[name] = value


def descendants(pid: int) -> list[int]:
    """Return the processes that a process has started, and those that they have."""
    try:
        listed = [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []
    return [each for child in listed for each in (child, *descendants(child))]
