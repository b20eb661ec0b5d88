"""How this process computes: its code, its threads, its memory, tiny numbers.

torch and threadpoolctl are imported where they are needed: asking for the number of cores loads neither.
"""

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from hashlib import blake2b
from importlib import resources
from pathlib import Path


@cache
def code_state() -> str:
    """Return a short name for the state of assent's own source files."""
    package = Path(str(resources.files("assent")))
    found = blake2b(digest_size=8)
    for file in sorted(package.rglob("*.py")):
        found.update(f"{file.relative_to(package)}\0".encode() + file.read_bytes())
    return found.hexdigest()


THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS")
"""Environment variables from which libraries take their number of threads when a process starts."""


def cores() -> int:
    """Number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_rows_at_once = 1
"""The threads of work whose results do not depend on their number."""


def row_threads() -> int:
    """Return how many threads may share work on rows whose results do not depend on each other."""
    return _rows_at_once


@contextmanager
def threads_for_rows(count: int) -> Iterator[None]:
    """Let `count` threads share such work, in this process."""
    global _rows_at_once  # noqa: PLW0603
    before, _rows_at_once = _rows_at_once, count
    try:
        yield
    finally:
        _rows_at_once = before


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread, here and in processes that are started meanwhile; also a decorator.

    Sums then do not depend on the number of cores. It limits torch, and the OpenMP and BLAS libraries that
    are loaded; polars reads `THREAD_VARIABLES` when it is loaded, so that only new processes are limited.
    Afterwards everything is as before.
    """
    import torch
    from threadpoolctl import threadpool_limits

    threads = torch.get_num_threads()
    before = {name: os.environ[name] for name in THREAD_VARIABLES if name in os.environ}
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, "1"))
    try:
        with threadpool_limits(1):
            torch.set_num_threads(1)
            yield
    finally:
        torch.set_num_threads(threads)
        for name in THREAD_VARIABLES:
            os.environ.pop(name, None)
        os.environ.update(before)


@contextmanager
def flushed() -> Iterator[None]:
    """Round denormal numbers (below 10⁻³⁸ in float32) to 0 in this thread; also a decorator.

    Values that decay towards 0, such as embeddings, become denormal, and processors are up to a hundred times
    slower with those. Afterwards the thread is as before.
    """
    import torch

    before = are_flushed()
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


def are_flushed() -> bool:
    """Whether this thread rounds denormal numbers to 0, found by trying: torch has no getter."""
    import torch

    return float(torch.tensor(torch.finfo(torch.float32).tiny) / 2) == 0.0


_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4
"""glibc's mallopt parameters (malloc.h)."""


@cache
def reuse_freed_memory() -> None:
    """Make glibc keep freed memory instead of returning it to the system; nothing for other C libraries.

    A training step allocates and frees tensors of some megabytes. By default the system provides each
    one anew, page by page: on virtual machines that took up to 80 % of a step.
    """
    if not sys.platform.startswith("linux"):
        return
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(_MMAP_MAX, 0)
        libc.mallopt(_TRIM_THRESHOLD, 2**31 - 1)
        libc.mallopt(_TOP_PAD, 2**26)
