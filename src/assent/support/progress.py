"""How long work says where it stands, without knowing who watches."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol, runtime_checkable

Advance = Callable[[], None]
"""Called once per finished step of a task."""
Left = Callable[[], float | None]
"""Seconds that a task still takes; None where nobody can tell."""


class Progress(Protocol):
    """Somebody who is told about tasks: a terminal, a notebook, nobody."""

    def task(self, label: str, total: int) -> AbstractContextManager[Advance]:
        """Open a task of `total` steps; the context's value is called after each."""


@runtime_checkable
class Timed(Progress, Protocol):
    """Somebody who can be told how long a task of unequal steps still takes."""

    def timed_task(self, label: str, total: int, left: Left) -> AbstractContextManager[Advance]:
        """As `task`, with the time left as `left` has it."""


def timed_task(
    progress: Progress, label: str, total: int, left: Left | None
) -> AbstractContextManager[Advance]:
    """Open a task; who watches is told `left`, where it is known and there is use for it."""
    if left is not None and isinstance(progress, Timed):
        return progress.timed_task(label, total, left)
    return progress.task(label, total)


class Silent:
    """Nobody watches."""

    @contextmanager
    def task(self, label: str, total: int) -> Iterator[Advance]:
        """A task that is not shown."""
        yield lambda: None


SILENT: Progress = Silent()
"""The default watcher."""
