"""What the commands share: where they print, how they show progress, how they fail."""

import os
import re
import sys
import threading
import time
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bars
from rich.table import Table
from rich.text import Text

from assent.results.words import printable
from assent.support.errors import AssentError
from assent.support.progress import SILENT, Advance, Left, Progress
from assent.support.runtime import NO_MEMORY, lacks_memory
from assent.support.temporary import sweep

_WIDTH_IN_FILES = 160
"""Columns of results that go to a file or a pipe: at the usual 80 wide tables break their names."""

_PLAIN: dict[str, Any] = {"markup": False, "emoji": False, "highlight": False}
"""Nothing that is printed is markup: an id or a title may look like it."""
out = Console(
    width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else _WIDTH_IN_FILES,
    **_PLAIN,
)
"""Results."""
err = Console(stderr=True, **_PLAIN)
"""Progress, notices and errors."""

WRONG_INPUT = 2
_DAY = 24 * 3600.0


def run_guarded(command: Callable[[], object]) -> None:
    """Run a command; what is wrong outside the program becomes one line and exit code 2."""
    warnings.showwarning = _show_warning
    sweep()
    try:
        command()
    except AssentError as error:
        _fail(with_dashes(str(error)))
    except Exception as error:
        if lacks_memory(error):
            _fail(f"{NO_MEMORY}; accepted: a smaller log, fewer jobs, or more memory")
        if not isinstance(error, OSError):
            raise
        _fail(f"{error.filename or 'file system'}: {error.strerror or error}")


_ARGUMENTS = (
    "closed", "columns", "duplicates", "folder", "formats", "include", "items", "negatives", "out", "prior",
    "rest", "scale", "user_budget", "user_floor", "utility",
)  # fmt: skip
"""Arguments of the library that are options here."""


_SETTINGS = ("folds", "strategy")
"""Arguments of the library that are settings here."""


def with_dashes(message: str) -> str:
    """Return the library's message with options where it names arguments: rest='x' becomes --rest x."""
    message = re.sub(r"^user (?=.*: not in this run)", "--user ", message)
    message = re.sub(r"^(budget|floor) '(.*?)': not a rule", r"--user-\1 \2: not a rule", message)
    message = re.sub(r"^prior '(.*?)': not a rule", r"--prior \1: not a rule", message)
    for python, option in (
        ("replace=True", "--replace"),
        ("allow_unmatched=True", "--allow-unmatched"),
        ("unwillingness=SOURCE", "--unwillingness SOURCE"),
        ("gaps=True", "--rest"),
        ("model=package.module:Class", "--model package.module:Class"),
        ("folder=", "--data-dir="),
    ):
        message = message.replace(python, option)
    message = re.sub(r"columns=\{'(\w+)': '([^']*)'\}", r"--columns \1=\2", message)
    for name in _ARGUMENTS:
        option = f"--{name.replace('_', '-')}"
        message = re.sub(
            rf"(?<![\w.-]){name} is ('?)([^\s';,]*)\1; accepted", rf"{option} \2: accepted", message
        )
        message = re.sub(rf"(?<![\w.-]){name}=('?)([^\s';,]*)\1", rf"{option} \2", message)
    for name in _SETTINGS:
        message = re.sub(rf"(?<![\w.-]){name}=(?=\w)", f"--set {name}=", message)
    return message


def _fail(message: str) -> None:
    err.print(f"assent: {printable(' '.join(message.split()))}", style="red", soft_wrap=True)
    sys.exit(WRONG_INPUT)


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    notice(with_dashes(str(message)))


def notice(message: str) -> None:
    """Say something that is no result."""
    err.print(printable(message), style="yellow", soft_wrap=True)


class TerminalProgress:
    """Bars on the terminal, one per open task."""

    def __init__(self) -> None:
        self._bars = Bars(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            _TimeLeft(),
            console=err,
            transient=True,
        )
        self._open = 0

    @contextmanager
    def task(self, label: str, total: int) -> Iterator[Advance]:
        """A bar until the task ends."""
        with self.timed_task(label, total) as advance:
            yield advance

    @contextmanager
    def timed_task(self, label: str, total: int, left: Left | None = None) -> Iterator[Advance]:
        """The same; with `left` the time left is that, not what equal steps would take."""
        if not self._open:
            self._bars.start()
        self._open += 1
        number = self._bars.add_task(printable(label), total=total, left=left)
        try:
            yield lambda: self._bars.advance(number)
        finally:
            self._bars.remove_task(number)
            self._open -= 1
            if not self._open:
                self._bars.stop()


class _TimeLeft(TimeRemainingColumn):
    """The time left as the task has it, or else as its steps so far lead to expect."""

    def render(self, task: Task) -> Text:
        left = task.fields["left"]
        if left is None:
            return super().render(task)
        return Text(_left(left()).removeprefix(", "), style="progress.remaining")


class LineProgress:
    """A line now and then about the outermost task, with the time that is left: for logs of long commands.

    The clock decides when, not the steps, which may take hours each.
    """

    def __init__(self, every: float = 60.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._every, self._clock, self._open = every, clock, 0

    @contextmanager
    def task(self, label: str, total: int) -> Iterator[Advance]:
        """A task; those within it are not told of."""
        with self.timed_task(label, total) as advance:
            yield advance

    @contextmanager
    def timed_task(self, label: str, total: int, left: Left | None = None) -> Iterator[Advance]:
        """The same; with `left` the time left is that, not what equal steps would take."""
        self._open += 1
        try:
            if self._open > 1:
                yield lambda: None
            else:
                yield from self._outermost(label, total, left)
        finally:
            self._open -= 1

    def _outermost(self, label: str, total: int, left: Left | None) -> Iterator[Advance]:
        start, done, ended = self._clock(), 0, threading.Event()

        def advance() -> None:
            nonlocal done
            done += 1

        def tell() -> None:
            while not ended.wait(self._every):
                took = self._clock() - start
                equal = took / done * (total - done) if done else None
                notice(f"{label}: {done} of {total}, {took / 60:.0f} min{_left(left() if left else equal)}")

        thread = threading.Thread(target=tell, daemon=True)
        thread.start()
        try:
            yield advance
        finally:
            ended.set()
            thread.join()


def _left(seconds: float | None) -> str:
    """The time left, if it is known, as the end of a sentence."""
    if seconds is None:
        return ""
    return f", {seconds / 60:.0f} min left" if seconds < _DAY else f", {seconds / _DAY:.1f} days left"


def steady_watcher() -> Progress:
    """As `watcher`, but a line a minute where the notices go to a file or a pipe."""
    return TerminalProgress() if err.is_terminal else LineProgress()


def watcher() -> Progress:
    """Whoever watches this command: bars on a terminal, nobody where the notices go to a file or a pipe."""
    return TerminalProgress() if err.is_terminal else SILENT


def show_table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[str | tuple[str, ...] | Text]],
    texts: Collection[str] = (),
    *,
    ruled: bool = False,
) -> None:
    """Print a table: the first column and those of `texts` are text, the others figures, never broken.

    A tuple is a cell of several lines. With `ruled`, there is a line between any two rows.
    `results.writers.terminal` gives tables of results.
    """
    table = Table(title=Text(printable(title)), title_justify="left", header_style="bold", show_lines=ruled)
    for place, column in enumerate(columns):
        if place == 0 or column in texts:
            table.add_column(column, overflow="fold")
        else:
            table.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*map(_cell, row))
    out.print(table)


def _cell(content: str | tuple[str, ...] | Text) -> Text:
    if isinstance(content, Text):
        return content
    return Text("\n".join(map(printable, [content] if isinstance(content, str) else content)))


def say(sentence: str) -> None:
    """Print a sentence that is a result."""
    out.print(printable(sentence), soft_wrap=True)
