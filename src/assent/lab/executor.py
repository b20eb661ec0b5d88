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
from typing import Any, Protocol, TypeVar, cast

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
        """Return `work(shared, item, tell)` of every item, in order.

        `shared` is what all items need; workers get it once. `tell` reports a finished step. The first error
        ends the others after the step that they are at.
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
        """End the worker processes."""
        if self._pool is not None:
            self._stop.set()
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
                    for future in done:
                        if isinstance(refused := future.result(), _Refused):
                            raise AssentError(refused.words)
                    while not self._told.empty():
                        self._told.get()
                        tell()
            return [cast(R, future.result()) for future in futures]
        except BaseException as error:
            self.close()
            if isinstance(error, BrokenProcessPool):
                raise AssentError(_BROKEN) from None
            raise

    def _pool_for(self, shared: Any) -> ProcessPoolExecutor:
        if self._pool is None or self._shared is not shared:
            self.close()
            self.__enter__()
            self._told, self._stop = _CONTEXT.SimpleQueue(), _CONTEXT.Event()
            self._pool = ProcessPoolExecutor(self.workers, _CONTEXT, _begin, (shared, self._told, self._stop))
            self._shared = shared
        return self._pool


class _Refused:
    """An `AssentError` on its way back from a worker."""

    def __init__(self, words: str) -> None:
        self.words = words


class _StoppedError(Exception):
    """Another item has failed: there is no use in going on."""


_worker: tuple[Any, Advance]
"""What all items share, and how this worker reports a step; set by `_begin`."""


def _begin(shared: Any, told: Any, stop: Any) -> None:
    """Set up a worker: it reports its steps, and ends with the process that started it."""
    global _worker  # noqa: PLW0603

    def tell() -> None:
        told.put(None)
        if stop.is_set():
            raise _StoppedError

    _worker = shared, tell
    one_thread().__enter__()
    parent = multiprocessing.parent_process()
    assert parent is not None

    def leave_with_parent() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=leave_with_parent, daemon=True).start()


def _step(work: Work[Any, T, R], item: T) -> R | _Refused | None:
    """Work on one item in a worker process."""
    shared, tell = _worker
    try:
        return work(shared, item, tell)
    except AssentError as error:
        return _Refused(str(error))
    except _StoppedError:
        return None
