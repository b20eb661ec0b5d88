"""Who waits sees why: bars on a terminal; a pipe or a file gets a line per phase."""

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from rich.console import Console

from assent.cli import console, data_commands, fit_commands
from assent.cli.console import LineProgress, TerminalProgress, watcher
from assent.support.errors import AssentError
from assent.support.progress import Advance, phases
from tests.cli.conftest import PRICED, QUICK
from tests.conftest import Assent


class Watcher:
    """Counts tasks and their steps by label."""

    def __init__(self) -> None:
        self.tasks: Counter[str] = Counter()
        self.steps: Counter[str] = Counter()

    @contextmanager
    def task(self, label: str, total: int) -> Iterator[Advance]:
        self.tasks[label] += total

        def advance() -> None:
            self.steps[label] += 1

        yield advance


class Piped(NamedTuple):
    """What the command writes into a pipe, and the modules that it has loaded."""

    report: Path
    told: list[str]
    loaded: set[str]


@pytest.fixture(scope="module")
def piped(log_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Piped:
    """Give `assent fit` in a process of its own, as it is installed."""
    out = tmp_path_factory.mktemp("piped") / "run"
    command = Path(sys.executable).with_name("assent")
    words = ["-X", "importtime", str(command), "fit", str(log_file), "--out", str(out), *PRICED]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=True)
    lines = done.stderr.split("\n")
    imports = [line for line in lines if line.startswith("import time:")]
    told = [line for line in lines if not line.startswith("import time:")]
    return Piped(out / "report.html", told, {line.rpartition("|")[2].strip() for line in imports})


def test_a_pipe_gets_a_line_per_phase(piped: Piped) -> None:
    *told, last, end = piped.told
    assert (last, end) == (f"Report: {piped.report}", "")
    ended = [line for line in told if ": done after " in line]  # a slow machine has lines within phases too
    assert ended[0].startswith("reading: ")
    assert ended[-1].startswith("report: ")
    assert ended[-1].partition(", ")[2].startswith("all done after ")
    names = [line.partition(":")[0] for line in ended]
    assert len(set(names)) == len(names) > 5
    assert all(line.isprintable() for line in told)


def test_a_fit_loads_no_compiler_and_no_statistics_that_it_does_not_need(piped: Piped) -> None:
    """They take longer to load than the log takes to fit."""
    assert {"torch", "assent.training.trainer"} <= piped.loaded
    assert not piped.loaded & {"torch._dynamo", "sympy", "scipy.stats"}


@pytest.mark.parametrize(("asked", "whole"), [({}, True), ({"COLUMNS": "60"}, False)])
def test_a_pipe_gets_tables_wide_enough_for_names(asked: dict[str, str], whole: bool) -> None:
    script = "from assent.cli.console import show_table\nshow_table('t', ['a', 'b'], [['n' * 100, '1']])"
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"} | asked
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment
    )
    assert ("n" * 100 in done.stdout) is whole
    assert whole or max(map(len, done.stdout.splitlines())) <= 60


@pytest.mark.parametrize("is_terminal", [True, False])
def test_bars_are_for_terminals(is_terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "err", Console(file=StringIO(), force_terminal=is_terminal))
    assert isinstance(watcher(), TerminalProgress if is_terminal else LineProgress)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> StringIO:
    """What a terminal is shown."""
    shown = StringIO()
    monkeypatch.setattr(console, "err", Console(file=shown, force_terminal=True, width=120))
    return shown


def test_a_bar_has_the_time_left_of_unequal_steps(terminal: StringIO) -> None:
    bars = TerminalProgress()
    with bars.timed_task("cells", 3, lambda: 5400.0), bars.task("training", 2) as advance:
        advance()
    assert "about 90 min left" in terminal.getvalue()


def test_a_bar_is_for_the_whole(terminal: StringIO) -> None:
    bars = TerminalProgress()
    with phases(bars, {"reading": 1, "fitting": 3}) as phase:
        with phase("reading"):
            pass
        with phase("fitting"), phases(bars, {"tuning": 1, "report": 1}) as part:
            with part("tuning"), bars.task("rounds", 2) as advance:
                advance()
            with part("report"):
                pass
    shown = terminal.getvalue()
    for seen in ("all: reading", "about 0 %", "all: tuning", "about 25 %", "all: report", "about 62 %"):
        assert seen in shown


class Lines:
    """A watcher with a clock that is moved by hand, and what it has told."""

    def __init__(self, capfd: pytest.CaptureFixture[str]) -> None:
        self.now, self._capfd = 0.0, capfd
        self.progress = LineProgress(every=3600.0, clock=lambda: self.now)

    def told(self) -> list[str]:
        return self._capfd.readouterr().err.splitlines()

    def tick(self) -> list[str]:
        self.progress.tick()
        return self.told()


@pytest.fixture
def log(capfd: pytest.CaptureFixture[str]) -> Lines:
    return Lines(capfd)


def test_lines_tell_how_far_the_outermost_task_is(log: Lines) -> None:
    progress = log.progress
    with progress.task("cells", 8) as advance, progress.task("training", 5) as inner:
        log.now = 120.0
        assert log.tick() == ["cells: 0 of 8, 2 min"]
        for _ in range(4):
            inner()
            advance()
        log.now = 240.0
        assert log.tick() == ["cells: 4 of 8, 4 min, about 4 min left"]
    with progress.timed_task("cells", 3, lambda: 3600.0):
        assert log.tick() == ["cells: 0 of 3, 4 min, about 60 min left"]
    with progress.timed_task("cells", 3, lambda: 36 * 3600.0):
        assert log.tick() == ["cells: 0 of 3, 4 min, about 36.0 h left"]
    assert log.told() == []


def test_lines_tell_when_phases_end(log: Lines) -> None:
    with phases(log.progress, {"reading": 1, "fitting": 4}) as phase:
        with phase("reading"), log.progress.task("reading log.csv", 1) as advance:
            log.now = 3.0
            advance()
        assert log.told() == []  # there may be an error before the next work begins
        with phase("fitting"), phases(log.progress, {"tuning": 1, "values": 3}) as part:
            with part("tuning"):
                log.now = 30.0
            assert log.told() == ["reading: done after 3 s, about 20 % of all, about 12 s left"]
            with part("values"), log.progress.task("folds", 2) as advance:
                assert log.told() == ["tuning: done after 27 s, about 40 % of all, about 45 s left"]
                log.now = 60.0
                advance()
                assert log.tick() == ["values, folds: 1 of 2, 60 s, about 70 % of all, about 26 s left"]
                log.now = 300.0
    assert log.told() == ["values: done after 4 min, all done after 5 min"]


def test_a_task_that_goes_on_is_not_all_done(log: Lines) -> None:
    with phases(log.progress, {"computing": 1}) as phase, phase("computing"):
        with log.progress.task("first", 1) as advance:
            advance()
        with log.progress.task("second", 2) as advance:
            advance()
            log.now = 60.0
            [told] = log.tick()
    assert told.startswith("computing, second: 1 of 2, 60 s, about 100 % of all")


def test_an_error_is_told_alone(log: Lines) -> None:
    def work() -> None:
        with phases(log.progress, {"reading": 1, "fitting": 4}) as phase:
            with phase("reading"):
                pass
            with phase("fitting"):
                raise AssentError("no")

    with pytest.raises(AssentError):
        work()
    assert log.told() == []


def test_the_clock_tells_too(capfd: pytest.CaptureFixture[str]) -> None:
    with LineProgress(every=0.001).task("cells", 2):
        told = ""
        for _ in range(6000):
            told += capfd.readouterr().err
            if "cells: 0 of 2, 0 s\n" in told:
                return
            time.sleep(0.01)
    pytest.fail("nothing was told in a minute")


def test_fit_tells_of_all_that_can_take_long(
    log_file: Path, tmp_path: Path, assent: Assent, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = Watcher()
    monkeypatch.setattr(fit_commands, "watcher", lambda: seen)
    options: list[Any] = [*QUICK, "--method", "ifrqe", "--protocol", "full", "--seeds", 1]
    assert assent("fit", log_file, "--out", tmp_path / "run", *options)[0] == 0
    expected = {"reading log.csv", "splitting", "ranking all items", "report"}
    assert expected | {"anchor 1", "influence at anchor 1", "final model", "validation losses"} <= set(
        seen.tasks
    )
    # Once for the method and Nothing each.
    assert seen.tasks["ranking all items"] == seen.steps["ranking all items"] == 2


def test_describe_tells_of_reading(log_file: Path, assent: Assent, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Watcher()
    monkeypatch.setattr(data_commands, "watcher", lambda: seen)
    assert assent("data", "describe", log_file)[0] == 0
    assert set(seen.tasks) == {"reading log.csv"}
