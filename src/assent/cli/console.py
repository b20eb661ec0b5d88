"""What the commands share: where they print, how they show progress, how they fail."""

import logging
import os
import re
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Never

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bars
from rich.table import Table
from rich.text import Text

from assent.cli.log import Event, json_line, without_ids
from assent.results.words import printable
from assent.support.errors import AssentError
from assent.support.progress import Advance, Left, Phase, Progress, Stage, Whole
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
UNFORESEEN = 1
_DAY = 24 * 3600.0


@dataclass
class _State:
    is_json: bool = False
    """Whether stderr gets lines of JSON."""
    writing: threading.Lock = field(default_factory=threading.Lock)


_state = _State()


def run_guarded(command: Callable[[], object], *, as_json: bool = False) -> None:
    """Run a command; what is wrong outside the program becomes one line and exit code 2.

    With `as_json`, stderr gets nothing but lines of JSON, errors of the program included.
    """
    warnings.showwarning = _show_warning
    sweep()
    with _logging_json() if as_json else nullcontext():
        try:
            command()
        except AssentError as error:
            _fail(_with_options(str(error)))
        except Exception as error:
            if lacks_memory(error):
                _fail(f"{NO_MEMORY}; accepted: a smaller log, fewer jobs, or more memory")
            if isinstance(error, OSError):
                _fail(f"{error.filename or 'file system'}: {error.strerror or error}")
            if not as_json:
                raise
            if hasattr(error, "format_message"):  # typer's errors of usage
                _fail(error.format_message())
            log("error", f"an error in assent itself: {_place(error)}")
            sys.exit(UNFORESEEN)


def _place(error: Exception) -> str:
    """The kind of an error and the places that led to it, without its text, which may hold ids."""
    frames = traceback.extract_tb(error.__traceback__)
    places = [f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames]
    return f"{type(error).__name__} at {', '.join(places)}"


@contextmanager
def _logging_json() -> Iterator[None]:
    """Write lines of JSON to stderr, also of what libraries log."""
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: log("notice", record.getMessage())  # type: ignore[method-assign]
    logging.getLogger().addHandler(handler)
    _state.is_json = True
    try:
        yield
    finally:
        _state.is_json = False
        logging.getLogger().removeHandler(handler)


_ARGUMENTS = (
    "budget", "closed", "columns", "duplicates", "folder", "formats", "include", "items", "keep_quality",
    "method", "min_rating", "negatives", "out", "prior", "query", "rest", "scale", "shards",
    "user_budget", "user_floor", "utility",
)  # fmt: skip
"""Arguments of the library that are options here."""


_SETTINGS = ("folds", "strategy")
"""Arguments of the library that are settings here."""


def with_dashes(message: str) -> str:
    """Return the library's message with options where it names arguments: rest='x' becomes --rest x."""
    message = re.sub(r"^user (?=.*: not in this run)", "--user ", message)
    message = re.sub(r"^(budget|floor) '(.*?)': not a rule", r"--user-\1 \2: not a rule", message)
    message = re.sub(r"^(values|price): (?=accepted: )", r"--\1: ", message)
    message = re.sub(r"^prior '(.*?)': not a rule", r"--prior \1: not a rule", message)
    for python, option in (
        ("replace=True", "--replace"),
        ("again=True", "--again"),
        ("allow_unmatched=True", "--allow-unmatched"),
        ("wishes_in_log=True", "--wishes-in-log"),
        ("most_withdrawn=True", "--most-withdrawn"),
        ("without keep_calibration", "without --keep-calibration"),
        ("wishes=FILE", "--wishes FILE"),
        ("unwillingness=SOURCE", "--unwillingness SOURCE"),
        ("gaps=True", "--rest"),
        ("model=package.module:Class", "--model package.module:Class"),
        ("folder=", "--data-dir="),
    ):
        message = message.replace(python, option)
    message = re.sub(r"wishes_columns=\{'(\w+)': '([^']*)'\}", r"--wishes-columns \1=\2", message)
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


def _with_options(message: str) -> str:
    """The library's message for stderr; ids leave it first, because options are written without quotes."""
    return with_dashes(without_ids(message) if _state.is_json else message)


def _fail(message: str) -> Never:
    log("error", message)
    sys.exit(WRONG_INPUT)


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    log("warning", _with_options(str(message)))


def notice(message: str) -> None:
    """Say something that is no result."""
    log("notice", message)


def log(event: Event, message: str, stage: Stage | None = None) -> None:
    """Say on stderr what happens, in words or as a line of JSON; in words, no phase begins."""
    if _state.is_json:
        _write_line(json_line(event, message, stage))
    elif event == "error":
        err.print(f"assent: {printable(' '.join(message.split()))}", style="red", soft_wrap=True)
    elif event == "notice" and not err.is_terminal:
        _write_line(printable(message))  # a service says a line for every request
    elif event != "begin":
        style = None if event in ("progress", "end") else "yellow"
        err.print(printable(message), style=style, soft_wrap=True)


def _write_line(line: str) -> None:
    with _state.writing:
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


class TerminalProgress(Whole):
    """Bars on the terminal: one for the whole command if its phases are known, and one per open task."""

    def __init__(self) -> None:
        super().__init__()
        self._bars = Bars(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            _Count(),
            TimeElapsedColumn(),
            _TimeLeft(),
            console=err,
            transient=True,
        )
        self._open = 0
        self._whole: TaskID | None = None

    @contextmanager
    def phases(self, weights: Mapping[str, float]) -> Iterator[Phase]:
        """A bar for the whole, until it ends."""
        with super().phases(weights) as phase:
            if self._whole is not None:
                yield phase
                return
            self._whole = self._bars.add_task("all", total=1.0, left=lambda: self.stage.left)
            try:
                yield phase
            finally:
                self._bars.remove_task(self._whole)
                self._whole = None

    @contextmanager
    def timed_task(self, label: str, total: int, left: Left | None = None) -> Iterator[Advance]:
        """A bar until the task ends; with `left` the time left is that, not what equal steps would take."""
        with super().timed_task(label, total, left) as advance:
            number = self._bars.add_task(printable(label), total=total, left=left)

            def both() -> None:
                self._bars.advance(number)
                advance()

            try:
                yield both
            finally:
                self._bars.remove_task(number)

    def opened(self) -> None:
        """Show the bars while anything is open."""
        if not self._open:
            self._bars.start()
        self._open += 1

    def closed(self) -> None:
        """Take the bars away when nothing is."""
        self._open -= 1
        if not self._open:
            self._bars.stop()

    def moved(self) -> None:
        """Move the bar of the whole."""
        if self._whole is not None:
            stage = self.stage
            label = f"all: {printable(stage.phase)}" if stage.phase else "all"
            self._bars.update(self._whole, completed=stage.share, description=label)

    def began(self, name: str) -> None:
        """Show the phase at once."""
        self._bars.refresh()


class _Count(MofNCompleteColumn):
    """The steps that are done and all steps; of the whole, the percentage."""

    def render(self, task: Task) -> Text:
        if isinstance(task.total, float):  # a share
            return Text(f"about {task.percentage:.0f} %", style="progress.download")
        return super().render(task)


class _TimeLeft(TimeRemainingColumn):
    """The time left as the task has it, or else as its steps so far lead to expect."""

    def render(self, task: Task) -> Text:
        left = task.fields["left"]
        if left is None:
            return super().render(task)
        return Text(_left(left()), style="progress.remaining")


class LineProgress(Whole):
    """Lines for a log: one after each phase, and now and then one within a long phase.

    Where no phases are known, the outermost task is told of, now and then. The clock decides when, not the
    steps, which may take hours each. The longer a command runs, the rarer are the lines.
    """

    def __init__(self, every: float = 10.0, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(clock)
        self._every, self._open, self._over = every, 0, threading.Event()
        self._ticking: threading.Thread | None = None
        self._waiting: tuple[str, Stage] | None = None

    def tick(self) -> None:
        """Say how far the command is."""
        self._tell_waiting()
        stage = self.stage
        names = dict.fromkeys(each for each in (stage.phase, stage.task) if each)
        steps = [] if stage.done is None else [f"{stage.done} of {stage.total}"]
        so_far = [*steps, duration(stage.seconds), *_how_far(stage)]
        log("progress", f"{', '.join(names) or 'starting'}: {', '.join(so_far)}", stage)

    def opened(self) -> None:
        """Tell of the phase before; begin to tell by the clock."""
        if self._tasks:
            self._tell_waiting()
        self._open += 1
        if self._open == 1:
            self._over.clear()
            self._ticking = threading.Thread(target=self._tick_by_the_clock, daemon=True)
            self._ticking.start()

    def closed(self) -> None:
        """Tell of the last phase, and no more by the clock."""
        self._open -= 1
        if not self._open and self._ticking:
            self._over.set()
            self._ticking.join()
            self._tell_waiting()

    def failed(self) -> None:
        """An error is enough of a line."""
        self._waiting = None

    def began(self, name: str) -> None:
        """Log that a phase begins; in words, its end is told."""
        log("begin", name, self.stage)

    def ended(self, name: str, seconds: float, *, has_parts: bool) -> None:
        """Tell that a phase has come to its end as soon as the next work begins: an error may come first.

        In words, the parts of a phase say enough.
        """
        if has_parts and not _state.is_json:
            return
        self._tell_waiting()
        stage = replace(self.stage, phase=name)
        about = ", ".join([f"done after {duration(seconds)}", *_how_far(stage)])
        self._waiting = f"{name}: {about}", stage
        if _state.is_json:
            self._tell_waiting()

    def _tell_waiting(self) -> None:
        told, self._waiting = self._waiting, None
        if told:
            log("end", *told)

    def _tick_by_the_clock(self) -> None:
        while not self._over.wait(max(self._every, self.stage.seconds / 10)):
            self.tick()


def _how_far(stage: Stage) -> list[str]:
    """How far the whole is, and the time left, as far as they are known."""
    if stage.share is None:
        return [_left(stage.left)] if stage.left is not None else []
    if stage.share > 1 - 1e-9 and stage.done == stage.total:
        return [f"all done after {duration(stage.seconds)}"]
    share = f"about {100 * stage.share:.0f} % of all"
    return [share] if stage.left is None else [share, _left(stage.left)]


def _left(seconds: float | None) -> str:
    return "" if seconds is None else f"about {duration(seconds)} left"


def duration(seconds: float) -> str:
    """Seconds in words: 8 s, 12 min, 3.5 h, 2.0 days."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 100 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 2 * _DAY else f"{seconds / _DAY:.1f} days"


def watcher() -> Progress:
    """Whoever watches this command: bars on a terminal, else lines for a log."""
    return TerminalProgress() if err.is_terminal and not _state.is_json else LineProgress()


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
