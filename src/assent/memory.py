"""Keeping freed memory for reuse: the difference between a fast and a slow training step."""

import ctypes
import sys
from functools import cache

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
