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
from assent.support.runtime import NO_MEMORY, lacks_memory, one_thread

_CONTEXT = multiprocessing.get_context("forkserver")
"""Workers are forked from a clean server process that has loaded the libraries once, with one thread."""
_PRELOADED = ["assent.api", "torch._dynamo"]
"""Loaded once for all workers; the latter is what the first optimizer of a process loads, in two seconds."""
GO_ON = "finished work is kept: repeat the command to go on, with fewer jobs if memory is short"
_PATIENCE = 5.0
"""Seconds to wait for how a worker ended, once its pipe has."""
_SAFE_PATH = "PYTHONSAFEPATH"

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

        `shared` is what all items need; workers get it once. `tell` reports a finished step. Errors call an
        item by its `label`, if it has one.
        """


class Serial:
    """Runs everything in this process."""

    workers = 1

    def map(self, work: Work[S, T, R], items: Sequence[T], shared: S, tell: Advance) -> list[R]:
        """Return the results, one after the other."""
        with one_thread():
            return [done(work, item, shared, tell) for item in items]


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
        with one_thread(), _safe_path(), _uninterrupted():  # the environment that the workers' libraries read
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
        except BaseException:
            self.close()
            raise

    def _map(self, work: Work[S, T, R], items: Sequence[T], shared: S, tell: Advance) -> list[R]:
        waiting, free = iter(enumerate(items)), self._free(shared, len(items))
        at: dict[Connection, int] = {}
        found: dict[int, R] = {}
        while len(found) < len(items):
            for pipe, (number, item) in zip(free, waiting, strict=False):
                with self._noticing(pipe, item):
                    pipe.send((work, item))
                at[pipe] = number
            free = []
            for ready in cast(list[Connection], connection.wait(list(at))):
                with self._noticing(ready, items[at[ready]]):
                    told = ready.recv()
                match told:
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
            process = _CONTEXT.Process(target=_serve, args=(theirs,), daemon=True)
            try:
                process.start()
                theirs.close()  # so that the pipe ends with the worker
                ours.send(shared)
            except (EOFError, ConnectionError):
                raise AssentError(f"a worker process could not be started; {GO_ON}") from None
            self._running[ours] = process
        return list(self._running)[:wanted]

    @contextmanager
    def _noticing(self, pipe: Connection, item: object) -> Iterator[None]:
        """Say what was worked on if the worker at the other end is no more."""
        try:
            yield
        except (EOFError, ConnectionError):
            self._running[pipe].join(_PATIENCE)
            code = self._running[pipe].exitcode or 0
            how = f"was ended from outside by {signal.Signals(-code).name}" if code < 0 else "ended"
            why = f"its worker process {how}, perhaps for lack of memory"
            raise AssentError(f"{name_of(item)}: {why}; {GO_ON}") from None


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Let processes that are started meanwhile ignore Ctrl-C: this one ends them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


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


def _serve(pipe: Connection) -> None:
    """Work on what the pipe brings, until the process that started this one ends or kills it.

    Where memory does not even suffice to say so, the process ends without a word: its pipe ends with it.
    """
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        threading.Thread(target=_leave_with_parent, daemon=True).start()
        shared = pipe.recv()
        with one_thread():
            while True:
                work, item = pipe.recv()
                pipe.send(_answer(pipe, work, item, shared))
    except Exception:
        os._exit(1)


def _answer(pipe: Connection, work: Work[S, T, R], item: T, shared: S) -> tuple[str, R | Exception]:
    """Return the result, or the error instead."""
    try:
        return "result", done(work, item, shared, lambda: pipe.send(("step", None)))
    except Exception as error:
        if not isinstance(error, AssentError):
            error.add_note(f"in a worker process: {traceback.format_exc()}")
        return "error", error


def done(work: Work[S, T, R], item: T, shared: S, tell: Advance) -> R:
    """Return the result of an item; where memory is short, the error names the item."""
    try:
        return work(shared, item, tell)
    except Exception as error:
        if lacks_memory(error):
            raise AssentError(f"{name_of(item)}: {NO_MEMORY}; {GO_ON}") from None
        raise


def name_of(item: object) -> str:
    """Return what errors call an item: its label, if it has one."""
    return str(getattr(item, "label", item))


def _leave_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
