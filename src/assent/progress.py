"""How long work says where it stands, without knowing who watches."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

Advance = Callable[[], None]
"""Called once per finished step of a task."""


class Progress(Protocol):
    """Somebody who is told about tasks: a terminal, a notebook, nobody."""

    def task(self, label: str, total: int) -> AbstractContextManager[Advance]:
        """Open a task of `total` steps; the context's value is called after each."""


class Silent:
    """Nobody watches."""

    @contextmanager
    def task(self, label: str, total: int) -> Iterator[Advance]:
        """A task that is not shown."""
        yield lambda: None


SILENT: Progress = Silent()
"""The default watcher."""
