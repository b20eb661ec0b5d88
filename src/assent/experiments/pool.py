"""Units of work beside each other, in processes of one thread each."""

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from multiprocessing import connection
from typing import Any, Protocol, TypeVar

import torch

from assent.errors import AssentError
from assent.progress import SILENT, Advance, Progress

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS")
"""Read by the libraries of a process when it starts."""
_SECONDS = 0.2
"""Between two looks at what the processes have to tell."""

U = TypeVar("U")
U_contra = TypeVar("U_contra", contravariant=True)


class Work(Protocol[U_contra]):
    """What is done with a unit; a function of a module, so that other processes find it by name."""

    def __call__(self, unit: U_contra, *, wait: bool, tell: Advance, progress: Progress) -> bool:
        """Do a unit and `tell` of each step; False, at once, if another process is at it and nobody waits."""


def cores() -> int:
    """How many processes can run at once here."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_all(
    work: Work[U], units: Sequence[U], *, jobs: int, steps: int, label: str, progress: Progress = SILENT
) -> None:
    """Do all units, `jobs` at once, in this process if that is 1; units that others are at come last.

    What goes wrong in one ends the others after the step that they are at.
    """
    with one_thread(), progress.task(label, steps) as advance:
        if jobs == 1 or len(units) <= 1:
            busy = [unit for unit in units if not work(unit, wait=False, tell=advance, progress=progress)]
            for unit in busy:
                work(unit, wait=True, tell=advance, progress=progress)
        else:
            _run_in_processes(work, units, min(jobs, len(units)), advance)


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


def _run_in_processes(work: Work[U], units: Sequence[U], jobs: int, advance: Advance) -> None:
    context = multiprocessing.get_context("spawn")
    told, stop = context.SimpleQueue(), context.Event()
    with ProcessPoolExecutor(jobs, context, _begin, (told, stop)) as pool:
        running: dict[Future[bool | str], U] = {pool.submit(_step, work, unit, False): unit for unit in units}
        busy: list[U] = []
        try:
            while running:
                done, _ = wait(running, _SECONDS, FIRST_COMPLETED)
                for future in done:
                    unit, result = running.pop(future), future.result()
                    if isinstance(result, str):
                        raise AssentError(result)
                    if not result:
                        busy.append(unit)
                while not told.empty():
                    told.get()
                    advance()
                if not running:
                    running = {pool.submit(_step, work, unit, True): unit for unit in busy}
                    busy = []
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


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


def _step(work: Work[U], unit: U, wait: bool) -> bool | str:
    """One unit in a process of the pool: whether it was done, or what is wrong, in words that can travel."""
    try:
        return work(unit, wait=wait, tell=_tell, progress=SILENT)
    except AssentError as error:
        return str(error)
    except _StoppedError:
        return True
