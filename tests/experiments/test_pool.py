"""Work in processes of one thread each, whatever their number."""

import os
import signal
from pathlib import Path

import pytest
from assent.runs.pool import run_all

from assent.support.errors import AssentError
from assent.support.progress import Advance, Progress


def write_or_die(unit: Path, *, wait: bool, tell: Advance, progress: Progress) -> list[str] | None:
    if unit.name == "deadly":
        os.kill(os.getpid(), signal.SIGKILL)
    unit.write_text(f"{os.getpid()} {os.environ['OPENBLAS_NUM_THREADS']}")
    tell()
    return []


def test_one_job_is_a_process_too_and_a_killed_one_says_how_to_go_on(tmp_path: Path) -> None:
    units = [tmp_path / "first", tmp_path / "deadly"]
    with pytest.raises(AssentError, match=r"what is finished is kept: give the same command again"):
        run_all(write_or_die, units, jobs=1, steps=2, label="units")
    pid, threads = units[0].read_text().split()
    assert int(pid) != os.getpid()
    assert threads == "1"


def in_turn(unit: list[str], *, wait: bool, tell: Advance, progress: Progress) -> list[str] | None:
    unit.append(f"{wait}")
    return None if not wait and "busy" in unit else [f"{unit[0]} went wrong"]


def test_units_that_others_are_at_come_last_and_what_went_wrong_is_told() -> None:
    units = [["first", "busy"], ["second"]]
    assert run_all(in_turn, units, jobs=0, steps=2, label="units") == [
        "second went wrong",
        "first went wrong",
    ]
    assert units == [["first", "busy", "False", "True"], ["second", "False"]]
    assert run_all(in_turn, [], jobs=2, steps=0, label="units") == []
