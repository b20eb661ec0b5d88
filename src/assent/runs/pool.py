"""Units of work beside each other, in processes of one thread each."""

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import connection
from typing import Any, Protocol, TypeVar

import torch

from assent.support.errors import AssentError
from assent.support.progress import SILENT, Advance, Left, Progress, timed_task

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS")
"""Read by the libraries of a process when it starts."""
_SECONDS = 0.2
"""Between two looks at what the processes have to tell."""

_START = "spawn"
"""How processes start: afresh, so that their libraries read how many threads they may have."""
_BROKEN = (
    "a process was ended from outside, perhaps for lack of memory; what is finished is kept: give the same "
    "command again to go on, with fewer --jobs if memory is short"
)

_Result = Sequence[str] | str | None
"""Of a unit in another process: what went wrong on the way, the error that ended it, or that it is busy."""
U = TypeVar("U")
U_contra = TypeVar("U_contra", contravariant=True)


class Work(Protocol[U_contra]):
    """What is done with a unit; a function of a module, so that other processes find it by name."""

    def __call__(
        self, unit: U_contra, *, wait: bool, tell: Advance, progress: Progress
    ) -> Sequence[str] | None:
        """Do a unit and `tell` of each step: what went wrong without ending it, in sentences.

        None, at once, if another process is at it and nobody waits.
        """


def cores() -> int:
    """How many processes can run at once here."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_all(
    work: Work[U],
    units: Sequence[U],
    *,
    jobs: int,
    steps: int,
    label: str,
    left: Left | None = None,
    progress: Progress = SILENT,
) -> list[str]:
    """Do all units, `jobs` at once; units that others are at come last. What went wrong on the way.

    Each job is a process of its own with one thread, also where there is but one of them: sums come out the
    same however many there are. With 0 jobs this process does the work: for tests and debuggers, since
    libraries that are loaded already keep their threads. An error in one unit ends the others after the step
    that they are at.
    """
    if not units:
        return []
    with one_thread(), timed_task(progress, label, steps, left) as advance:
        if jobs:
            return _run_in_processes(work, units, min(jobs, len(units)), advance)
        wrong: list[str] = []
        waiting = list(units)
        for wait_for in (False, True):
            done = [work(unit, wait=wait_for, tell=advance, progress=progress) for unit in waiting]
            wrong += [sentence for found in done for sentence in found or ()]
            waiting = [unit for unit, found in zip(waiting, done, strict=True) if found is None]
        return wrong


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread for this process and those that it starts, so that sums come out the same everywhere."""
    before, environment = torch.get_num_threads(), {name: os.environ.get(name) for name in _THREADS}
    torch.set_num_threads(1)
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        yield
    finally:
        torch.set_num_threads(before)
        for name, value in environment.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _run_in_processes(work: Work[U], units: Sequence[U], jobs: int, advance: Advance) -> list[str]:
    context = multiprocessing.get_context(_START)
    told, stop = context.SimpleQueue(), context.Event()
    with ProcessPoolExecutor(jobs, context, _begin, (told, stop)) as pool:
        busy: list[U] = []
        wrong: list[str] = []
        try:
            running: dict[Future[_Result], U] = {
                pool.submit(_step, work, unit, False): unit for unit in units
            }
            while running:
                done, _ = wait(running, _SECONDS, FIRST_COMPLETED)
                for future in done:
                    unit, result = running.pop(future), future.result()
                    if isinstance(result, str):
                        raise AssentError(result)
                    if result is None:
                        busy.append(unit)
                    else:
                        wrong += result
                while not told.empty():
                    told.get()
                    advance()
                if not running:
                    running = {pool.submit(_step, work, unit, True): unit for unit in busy}
                    busy = []
        except BaseException as error:
            stop.set()
            pool.shutdown(cancel_futures=True)
            if isinstance(error, BrokenProcessPool):
                raise AssentError(_BROKEN) from None
            raise
    return wrong


class _StoppedError(Exception):
    """The others have failed: no use to go on."""


_tell: Callable[[], None]
"""How this process tells of a step; set by `_begin`."""


def _begin(told: Any, stop: Any) -> None:
    """Set up a process: it tells of its steps, and ends with the one that started it."""
    global _tell  # noqa: PLW0603
    torch.set_num_threads(1)

    def tell() -> None:
        told.put(None)
        if stop.is_set():
            raise _StoppedError

    _tell = tell
    parent = multiprocessing.parent_process()
    assert parent is not None

    def leave_with_parent() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=leave_with_parent, daemon=True).start()


def _step(work: Work[U], unit: U, wait: bool) -> _Result:
    """One unit in a process of the pool; errors become words, which can travel."""
    try:
        return work(unit, wait=wait, tell=_tell, progress=SILENT)
    except AssentError as error:
        return str(error)
    except _StoppedError:
        return ()
