"""Who waits sees why, on a terminal; a pipe or a file gets notices alone."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from assent.cli import console, data_commands, fit_commands
from assent.cli.console import TerminalProgress, watcher
from assent.support.progress import SILENT, Advance
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


def test_a_pipe_gets_no_bars_and_no_blank_lines(log_file: Path, tmp_path: Path) -> None:
    command = [
        str(Path(sys.executable).with_name("assent")),
        "fit",
        str(log_file),
        "--out",
        str(tmp_path / "run"),
    ]
    done = subprocess.run([*command, *PRICED], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines() == [f"Report: {tmp_path / 'run' / 'report.html'}"]


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
    assert isinstance(watcher(), TerminalProgress) is is_terminal
    assert (watcher() is SILENT) is not is_terminal


def test_a_bar_has_the_time_left_of_unequal_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Console(file=StringIO(), force_terminal=True, width=120)
    monkeypatch.setattr(console, "err", shown)
    bars = TerminalProgress()
    with bars.timed_task("cells", 3, lambda: 5400.0), bars.task("training", 2) as advance:
        advance()
    assert "90 min left" in shown.file.getvalue()  # type: ignore[attr-defined]


def test_fit_tells_of_all_that_can_take_long(
    log_file: Path, tmp_path: Path, assent: Assent, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = Watcher()
    monkeypatch.setattr(fit_commands, "watcher", lambda: seen)
    options: list[Any] = [*QUICK, "--method", "ifrqe", "--protocol", "full"]
    assert assent("fit", log_file, "--out", tmp_path / "run", *options)[0] == 0
    expected = {"reading log.csv", "splitting", "ranking all items", "report"}
    assert expected | {"anchor 1", "influence at anchor 1", "final model", "validation losses"} <= set(
        seen.tasks
    )
    # Once for the method, All and Nothing each.
    assert seen.tasks["ranking all items"] == seen.steps["ranking all items"] == 3


def test_describe_tells_of_reading(log_file: Path, assent: Assent, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Watcher()
    monkeypatch.setattr(data_commands, "watcher", lambda: seen)
    assert assent("data", "describe", log_file)[0] == 0
    assert set(seen.tasks) == {"reading log.csv"}
