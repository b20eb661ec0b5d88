"""How long work reports its progress, without knowing who watches.

Work of many steps is a *task*. A command announces its *phases*, each with a rough weight, so that a watcher
knows how far the whole is:

    with phases(progress, {"reading": 1, "tuning": 4, "final model": 2}) as phase:
        with phase("reading"):
            ...
        with phase("tuning"):
            ...

Phases may be announced within a phase. One that is left out counts as done when a later one begins.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Protocol, runtime_checkable

Advance = Callable[[], None]
"""Call it once per finished step of a task."""
Left = Callable[[], float | None]
"""Returns the seconds that a task still takes, or None if unknown."""
Phase = Callable[[str], AbstractContextManager[None]]
"""Opens the phase of a name, one of those that were announced."""
_ENOUGH = 0.02
"""Share of the whole below which nothing is said about the time left."""


class Progress(Protocol):
    """A watcher of tasks: a terminal, a notebook, or nobody."""

    def task(self, label: str, total: int) -> AbstractContextManager[Advance]:
        """Open a task of `total` steps; the context's value is called after each step."""


@runtime_checkable
class Timed(Progress, Protocol):
    """A watcher that can show the time left of a task whose steps take unequal time."""

    def timed_task(self, label: str, total: int, left: Left) -> AbstractContextManager[Advance]:
        """Open a task of `total` steps; `left()` tells the time left."""


@runtime_checkable
class Phased(Progress, Protocol):
    """A watcher that can show how far a whole command is."""

    def phases(self, weights: Mapping[str, float]) -> AbstractContextManager[Phase]:
        """Announce phases, in order; `weights` say roughly how long each takes, in any unit."""


def timed_task(
    progress: Progress, label: str, total: int, left: Left | None
) -> AbstractContextManager[Advance]:
    """Open a task; pass `left` on if it is given and the watcher is `Timed`."""
    if left is not None and isinstance(progress, Timed):
        return progress.timed_task(label, total, left)
    return progress.task(label, total)


def phases(progress: Progress, weights: Mapping[str, float]) -> AbstractContextManager[Phase]:
    """Announce the phases of what follows, in order, to a watcher that is `Phased`; the others see tasks.

    `weights` say roughly how long each phase takes, in any unit.
    """
    if isinstance(progress, Phased):
        return progress.phases(weights)
    return nullcontext(lambda _: nullcontext())


class Silent:
    """A watcher that shows nothing."""

    @contextmanager
    def task(self, label: str, total: int) -> Iterator[Advance]:
        """Open a task that is not shown."""
        yield lambda: None


SILENT: Progress = Silent()
"""The default watcher."""


@dataclass(frozen=True)
class Stage:
    """How far a command is at a moment; None is what nobody knows."""

    phase: str | None
    """The innermost open phase."""
    task: str | None
    """The outermost open task of the phase."""
    done: int | None
    """Steps of that task that are done."""
    total: int | None
    """Steps of that task."""
    seconds: float
    """Since the command began."""
    left: float | None
    """Seconds that the command still takes, as far as the weights of its phases are right."""
    share: float | None
    """The part of the command that is done, from 0 to 1, likewise."""


@dataclass
class _Task:
    label: str
    total: int
    left: Left | None
    began: float
    done: int = 0


@dataclass
class _Level:
    """Phases that were announced together: the share of them that is done, and that of the open one."""

    shares: dict[str, float]
    before: float = 0.0
    open: str | None = None
    inside: float = 0.0
    """The part of the open phase that is done."""
    has_parts: bool = False
    """Whether the open phase has phases of its own."""

    @property
    def size(self) -> float:
        return 0.0 if self.open is None else self.shares[self.open]

    def begin(self, name: str) -> None:
        names = list(self.shares)
        self.before = sum(self.shares[each] for each in names[: names.index(name)])
        self.open, self.inside, self.has_parts = name, 0.0, False

    def end(self) -> None:
        self.before += self.size
        self.open, self.inside = None, 0.0


class Whole:
    """A watcher that knows how far the whole command is; kinds of watchers say what they make of it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._start = clock, clock()
        self._levels: list[_Level] = []
        self._tasks: list[_Task] = []

    @property
    def stage(self) -> Stage:
        """How far the command is now."""
        names = [level.open for level in self._levels if level.open is not None]
        task = self._tasks[0] if self._tasks else None
        return Stage(
            phase=names[-1] if names else None,
            task=None if task is None else task.label,
            done=None if task is None else task.done,
            total=None if task is None else task.total,
            seconds=self._clock() - self._start,
            left=self._left(task),
            share=self._share(),
        )

    @contextmanager
    def phases(self, weights: Mapping[str, float]) -> Iterator[Phase]:
        """Announce phases, in order; within a phase, the parts of it."""
        total = sum(weights.values())
        level = _Level({name: weight / total for name, weight in weights.items()})
        if self._levels:
            self._levels[-1].has_parts = True
        self._levels.append(level)
        self.opened()
        try:
            yield partial(self._phase, level)
        except BaseException:
            self.failed()
            raise
        finally:
            self._levels.pop()
            if self._levels:
                self._levels[-1].inside = 1.0
            self.closed()

    @contextmanager
    def task(self, label: str, total: int) -> Iterator[Advance]:
        """Open a task; tasks within it do not count for the whole."""
        with self.timed_task(label, total) as advance:
            yield advance

    @contextmanager
    def timed_task(self, label: str, total: int, left: Left | None = None) -> Iterator[Advance]:
        """Open a task; with `left`, that is its time left, not what equal steps would take."""
        task = _Task(label, total, left, self._clock())
        self._tasks.append(task)
        self.opened()
        try:
            yield partial(self._advance, task)
        finally:
            self._tasks.remove(task)
            self.closed()

    def opened(self) -> None:
        """Called when phases were announced or a task was opened."""

    def closed(self) -> None:
        """Called when phases or a task came to an end."""

    def failed(self) -> None:
        """Called when an error ends phases."""

    def moved(self) -> None:
        """Called when the whole may be further than before."""

    def began(self, name: str) -> None:
        """Called when a phase has begun."""

    def ended(self, name: str, seconds: float, *, has_parts: bool) -> None:
        """Called when a phase, which may have phases of its own, has ended without an error."""

    @contextmanager
    def _phase(self, level: _Level, name: str) -> Iterator[None]:
        start = self._clock()
        level.begin(name)
        self.moved()
        self.began(name)
        try:
            yield
        finally:
            level.end()
        self.moved()
        self.ended(name, self._clock() - start, has_parts=level.has_parts)

    def _advance(self, task: _Task) -> None:
        task.done += 1
        if self._levels and task is self._tasks[0] and task.total:
            level = self._levels[-1]
            # Where several tasks follow each other, nobody knows how many are to come.
            level.inside = max(level.inside, min(1.0, task.done / task.total))
        self.moved()

    def _share(self) -> float | None:
        """The share of the whole that is done."""
        share = None
        for level in reversed(self._levels):
            inside = level.inside if share is None else max(level.inside, share)
            share = min(1.0, level.before + level.size * inside)
        return share

    def _left(self, task: _Task | None) -> float | None:
        """The time that the whole still takes; without phases, that the task takes."""
        share, known = self._share(), task.left() if task and task.left else None
        if share is None:
            if task is None or known is not None or not task.done:
                return known
            return (self._clock() - task.began) / task.done * (task.total - task.done)
        if known is not None:
            outer = self._levels[0]
            before, share = share, outer.before + outer.size
            return known + self._at_this_rate(before, 1 - share)
        return self._at_this_rate(share, 1 - share) if share >= _ENOUGH else None

    def _at_this_rate(self, done: float, rest: float) -> float:
        """The seconds that a share `rest` takes if `done` took all the time so far."""
        return (self._clock() - self._start) * rest / done if done else 0.0
