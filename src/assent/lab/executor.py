"""Executors: how independent pieces of work are run, one after the other or beside each other.

Every piece runs with one thread, whoever runs it. Results are therefore the same bytes whatever the executor
and the number of workers.
"""

import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import connection, forkserver
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, Protocol, TypeVar, cast

from assent.support.errors import AssentError
from assent.support.progress import Advance
from assent.support.runtime import one_thread

_CONTEXT = multiprocessing.get_context("forkserver")
"""Workers are forked from a clean server process that has loaded the libraries once, with one thread."""
_PRELOADED = ["assent.api", "torch._dynamo"]
"""Loaded once for all workers; the latter is what the first optimizer of a process loads, in two seconds."""
_SAFE_PATH = "PYTHONSAFEPATH"
_BROKEN = (
    "a worker process was ended from outside, perhaps for lack of memory; finished work is kept: repeat the "
    "command to go on, with fewer jobs if memory is short"
)

S = TypeVar("S")
T = TypeVar("T")
R = TypeVar("R")
Work = Callable[[S, T, Advance], R]
"""A function of a module, so that workers find it by name: (shared, item, tell) → result."""


class Executor(Protocol):
    """Runs a function on every item of a list."""

    @property
    def workers(self) -> int:
        """How many items are worked on at once."""

    def map(self, work: Work[S, T, R], items: Sequence[T], shared: S, tell: Advance) -> list[R]:
        """Return `work(shared, item, tell)` of every item, in order; the first error ends everything.

        `shared` is what all items need; workers get it once. `tell` reports a finished step.
        """


class Serial:
    """Runs everything in this process."""

    workers = 1

    def map(self, work: Work[S, T, R], items: Sequence[T], shared: S, tell: Advance) -> list[R]:
        """Return the results, one after the other."""
        with one_thread():
            return [work(shared, item, tell) for item in items]


SERIAL: Executor = Serial()


class Processes:
    """Runs items in worker processes, which stay for the next call with the same `shared`.

    Use it as a context manager, or `close` it. A script that uses it needs the usual guard,
    `if __name__ == "__main__":`.
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._running: dict[Connection, BaseProcess] = {}
        self._shared: Any = None

    def __enter__(self) -> "Processes":
        """Let the server that forks the workers load its libraries while this process goes on."""
        _CONTEXT.set_forkserver_preload(_PRELOADED)
        with one_thread(), _safe_path():  # the environment that the workers' libraries read
            forkserver.ensure_running()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the worker processes at once, whatever they are at: what they store is whole or absent."""
        for pipe, process in self._running.items():
            process.kill()
            process.join()
            pipe.close()
        self._running, self._shared = {}, None

    def map(self, work: Work[S, T, R], items: Sequence[T], shared: S, tell: Advance) -> list[R]:
        """Return the results; a single item is worked on by this process."""
        if len(items) < 2:
            return SERIAL.map(work, items, shared, tell)
        try:
            return self._map(work, items, shared, tell)
        except (EOFError, ConnectionError):
            self.close()
            raise AssentError(_BROKEN) from None
        except BaseException:
            self.close()
            raise

    def _map(self, work: Work[S, T, R], items: Sequence[T], shared: S, tell: Advance) -> list[R]:
        waiting, free = iter(enumerate(items)), self._free(shared, len(items))
        at: dict[Connection, int] = {}
        found: dict[int, R] = {}
        while len(found) < len(items):
            for pipe, (number, item) in zip(free, waiting, strict=False):
                pipe.send((work, item))
                at[pipe] = number
            free = []
            for ready in cast(list[Connection], connection.wait(list(at))):
                match ready.recv():
                    case "step", _:
                        tell()
                    case "error", error:
                        raise error
                    case _, result:
                        found[at.pop(ready)] = result
                        free.append(ready)
        return [found[number] for number in range(len(items))]

    def _free(self, shared: Any, wanted: int) -> list[Connection]:
        """Return pipes to at most `wanted` workers that hold `shared`; start those that are missing."""
        if self._shared is not shared:
            self.close()
            self.__enter__()
            self._shared = shared
        while len(self._running) < min(self.workers, wanted):
            ours, theirs = _CONTEXT.Pipe()
            process = _CONTEXT.Process(target=_serve, args=(theirs, shared), daemon=True)
            process.start()
            theirs.close()  # so that the pipe ends with the worker
            self._running[ours] = process
        return list(self._running)[:wanted]


@contextmanager
def _safe_path() -> Iterator[None]:
    """Let processes that are started meanwhile import nothing from the current directory.

    Workers later take over the path of the process that started them.
    """
    before = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_SAFE_PATH]
        else:
            os.environ[_SAFE_PATH] = before


def _serve(pipe: Connection, shared: Any) -> None:
    """Work on what the pipe brings, until the process that started this one ends or kills it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    with one_thread():
        while True:
            work, item = pipe.recv()
            try:
                pipe.send(("result", work(shared, item, lambda: pipe.send(("step", None)))))
            except Exception as error:
                if not isinstance(error, AssentError):
                    error.add_note(f"in a worker process: {traceback.format_exc()}")
                pipe.send(("error", error))


def _leave_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
