"""The tiniest numbers, with which processors reckon a hundred times slower than with others."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


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
