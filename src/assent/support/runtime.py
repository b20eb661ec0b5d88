"""The tiniest numbers, with which processors reckon a hundred times slower than with others.

Keeping freed memory for reuse: the difference between a fast and a slow training step.
"""

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch
from threadpoolctl import threadpool_limits


@contextmanager
def flushed() -> Iterator[None]:
    """Take numbers below 10⁻³⁸ (float32) for 0 meanwhile; also a decorator.

    What decays towards 0 (an embedding, the far end of a solution) ends among them, and slows every product
    down. It holds for the thread that asks, and afterwards that is left as it was.
    """
    before = are_flushed()
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


def are_flushed() -> bool:
    """Whether this thread takes them for 0; torch can be told, but not asked."""
    smallest = torch.tensor(torch.finfo(torch.float32).tiny)
    return float(smallest / 2) == 0.0


_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4
"""Names of glibc's mallopt parameters (malloc.h)."""


@cache
def reuse_freed_memory() -> None:
    """Ask glibc to keep the memory of freed tensors instead of returning it to the system.

    A training step allocates and frees tensors of some megabytes. By default each comes fresh from the system
    and is paid for page by page: on virtual machines that took up to 80 % of a step. Done once per process;
    other C libraries are left as they are.
    """
    if not sys.platform.startswith("linux"):
        return
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(_MMAP_MAX, 0)
        libc.mallopt(_TRIM_THRESHOLD, 2**31 - 1)
        libc.mallopt(_TOP_PAD, 2**26)


_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS")
"""Environment variables that libraries read when a process loads them."""


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one thread in this process and in those started meanwhile, so that sums round alike everywhere."""
    before, environment = torch.get_num_threads(), {name: os.environ.get(name) for name in _THREADS}
    torch.set_num_threads(1)
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(before)
        for name, value in environment.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def cores() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
