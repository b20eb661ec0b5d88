"""How long work reports its progress, without knowing who watches."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol, runtime_checkable

Advance = Callable[[], None]
"""Call it once per finished step of a task."""
Left = Callable[[], float | None]
"""Returns the seconds that a task still takes, or None if unknown."""


class Progress(Protocol):
    """A watcher of tasks: a terminal, a notebook, or nobody."""

    def task(self, label: str, total: int) -> AbstractContextManager[Advance]:
        """Open a task of `total` steps; the context's value is called after each step."""


@runtime_checkable
class Timed(Progress, Protocol):
    """A watcher that can show the time left of a task whose steps take unequal time."""

    def timed_task(self, label: str, total: int, left: Left) -> AbstractContextManager[Advance]:
        """Open a task of `total` steps; `left()` tells the time left."""


def timed_task(
    progress: Progress, label: str, total: int, left: Left | None
) -> AbstractContextManager[Advance]:
    """Open a task; pass `left` on if it is given and the watcher is `Timed`."""
    if left is not None and isinstance(progress, Timed):
        return progress.timed_task(label, total, left)
    return progress.task(label, total)


class Silent:
    """A watcher that shows nothing."""

    @contextmanager
    def task(self, label: str, total: int) -> Iterator[Advance]:
        """Open a task that is not shown."""
        yield lambda: None


SILENT: Progress = Silent()
"""The default watcher."""
