"""Executors: how independent pieces of work are run, one after the other or beside each other.

Every piece runs with one thread, whoever runs it. Results are therefore the same bytes whatever the executor
and the number of workers.
"""

import multiprocessing
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection, forkserver
from typing import Any, Protocol, TypeVar

from assent.support.errors import AssentError
from assent.support.progress import Advance
from assent.support.runtime import one_thread

_SECONDS = 0.2
"""Between two looks at what the workers have reported."""
_CONTEXT = multiprocessing.get_context("forkserver")
"""Workers are forked from a clean server process that has loaded the libraries once, with one thread."""
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
        self._pool: ProcessPoolExecutor | None = None
        self._shared: Any = None

    def __enter__(self) -> "Processes":
        """Let the server that forks the workers load its libraries while this process goes on."""
        _CONTEXT.set_forkserver_preload(["assent.lab.lab"])
        with one_thread():  # the environment that the workers' libraries read
            forkserver.ensure_running()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the worker processes at once, whatever they are at: what they store is whole or absent."""
        if self._pool is not None:
            self._end.send(None)
            self._pool.shutdown(cancel_futures=True)
            self._pool = self._shared = None

    def map(self, work: Work[S, T, R], items: Sequence[T], shared: S, tell: Advance) -> list[R]:
        """Return the results; a single item is worked on by this process."""
        if len(items) < 2:
            return SERIAL.map(work, items, shared, tell)
        pool = self._pool_for(shared)
        try:
            with one_thread():
                futures = [pool.submit(_step, work, item) for item in items]
                running = set(futures)
                while running:
                    done, running = wait(running, _SECONDS, FIRST_COMPLETED)
                    while not self._told.empty():
                        self._told.get()
                        tell()
                    for future in done:
                        future.result()
            return [future.result() for future in futures]
        except BaseException as error:
            self.close()
            if isinstance(error, BrokenProcessPool):
                raise AssentError(_BROKEN) from None
            if isinstance(error, AssentError):
                raise error from None  # without the worker's traceback
            raise

    def _pool_for(self, shared: Any) -> ProcessPoolExecutor:
        if self._pool is None or self._shared is not shared:
            self.close()
            self.__enter__()
            self._told = _CONTEXT.SimpleQueue()
            ended, self._end = _CONTEXT.Pipe(duplex=False)
            self._pool = ProcessPoolExecutor(self.workers, _CONTEXT, _begin, (shared, self._told, ended))
            self._shared = shared
        return self._pool


_worker: tuple[Any, Advance]
"""What all items share, and how this worker reports a step; set by `_begin`."""


def _begin(shared: Any, told: Any, ended: connection.Connection) -> None:
    """Set up a worker: it ends with the process that started it, or when that process says so."""
    global _worker  # noqa: PLW0603
    _worker = shared, lambda: told.put(None)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def leave() -> None:
        connection.wait([parent.sentinel, ended])
        os._exit(1)

    threading.Thread(target=leave, daemon=True).start()


def _step(work: Work[Any, T, R], item: T) -> R:
    shared, tell = _worker
    with one_thread():
        return work(shared, item, tell)
