"""How this process computes: its code, its threads, its memory, tiny numbers.

**Low memory.** Python and numpy raise a MemoryError, torch a RuntimeError, the system an OSError:
`lacks_memory` knows them all. Libraries in C and Rust end the process, or hang, where they cannot get a few
bytes. So an address space (`ulimit -v`) too small for the libraries is refused before they are loaded.

torch and threadpoolctl are imported where they are needed: asking for the number of cores loads neither.
"""

import ctypes
import errno
import os
import platform
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from hashlib import blake2b
from importlib import resources
from importlib.metadata import version
from pathlib import Path

from assent.support.errors import AssentError


@cache
def code_state() -> str:
    """Return a short name for the state of assent's own source files."""
    package = Path(str(resources.files("assent")))
    found = blake2b(digest_size=8)
    for file in sorted(package.rglob("*.py")):
        found.update(f"{file.relative_to(package)}\0".encode() + file.read_bytes())
    return found.hexdigest()


_LIBRARIES = ("numpy", "torch", "polars", "numba", "scipy", "safetensors", "pydantic", "matplotlib")
"""The libraries that results depend on."""


@cache
def made_with() -> dict[str, str]:
    """Return what bytes may depend on here: versions of Python and libraries, system and processor."""
    import torch

    return {
        "python": platform.python_version(),
        **{name: version(name) for name in _LIBRARIES},
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
    }


def _processor() -> str:
    """Return the name of the processor, as far as the system tells it."""
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return found[1].strip() if found else platform.processor()


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


_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
"""glibc's mallopt parameters (malloc.h)."""
_LARGE = 2**25
"""Bytes from which memory is returned: the most that glibc accepts."""


@cache
def reuse_freed_memory() -> None:
    """Make glibc keep freed blocks of up to 32 MB for later ones; nothing for other C libraries.

    A training step allocates and frees tensors of some megabytes. By default the system provides each
    one anew, page by page: on virtual machines that took up to 80 % of a step. Larger blocks are returned:
    they would leave holes that later ones do not fit into, and a process would grow to twice what it needs.
    """
    if not sys.platform.startswith("linux"):
        return
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(_MMAP_THRESHOLD, _LARGE)
        libc.mallopt(_TRIM_THRESHOLD, 2**31 - 1)
        libc.mallopt(_TOP_PAD, 2**26)


LIBRARIES, WORK = 2 * 10**9, 10**9
"""Bytes of address space that the libraries take, and that the smallest fit takes beside them."""
NO_MEMORY = "not enough memory"
_SIGNS = (
    "can't allocate memory",
    "can't start new thread",
    "failed to map segment",
    "Cannot allocate memory",
)
"""How libraries say that memory is short, in errors of other kinds."""


def lacks_memory(error: BaseException) -> bool:
    """Whether an error says that there is not enough memory."""
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    is_told = isinstance(error, (RuntimeError, ImportError)) and any(sign in str(error) for sign in _SIGNS)
    return isinstance(error, MemoryError) or is_told


def check_address_space(needed: int) -> None:
    """Refuse a limit of this process's address space that leaves less than `needed` bytes."""
    if sys.platform == "win32":  # which has no such limits
        return
    import resource

    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    least = _address_space() + needed
    if limit != resource.RLIM_INFINITY and limit < least:
        raise AssentError(
            f"{NO_MEMORY}: the address space is limited to {limit / 10**9:.2f} GB; accepted: at least "
            f"{least / 10**9:.2f} GB (ulimit -v {-(-least // 1024)}), or no limit"
        )


def _address_space() -> int:
    """Bytes of address space that this process takes; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
