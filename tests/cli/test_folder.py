"""A run folder is one process's at a time."""

import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from assent.experiments.folder import claimed
from tests.cli.conftest import QUICK
from tests.conftest import Assent

DESCRIPTION = {"format": 1, "assent": "1", "method": "all"}


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("options", [[], ["--replace"]], ids=["again", "replace"])
def test_a_folder_in_which_a_process_is_at_work_is_refused(
    options: list[str], log_file: Path, tmp_path: Path, assent: Assent
) -> None:
    out = tmp_path / "run"
    with claimed(out, DESCRIPTION):
        (out / "selection.parquet").write_text("half")
        before = contents(out)
        code, printed, err = assent("fit", log_file, "--out", out, *QUICK, *options)
        assert (code, printed, err.count("\n")) == (2, "", 1)
        assert f"{out}: another process is at work in this folder" in err
        assert contents(out) == before
    assert {path.name for path in out.iterdir()} == {"settings.json", "selection.parquet"}


def test_of_two_equal_fits_one_does_the_work(log_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    command = [sys.executable, "-m", "assent", "fit", str(log_file), "--out", str(out), *QUICK]
    both = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    errors = [each.communicate()[1] for each in both]
    assert sorted(each.returncode for each in both) == [0, 2]
    refused = next(err for each, err in zip(both, errors, strict=True) if each.returncode)
    assert "another process is at work" in refused or "holds a finished run" in refused
    assert not [path.name for path in out.iterdir() if path.name.startswith(".")]


def _work(out: Path, pipe: Any) -> None:
    with claimed(out, DESCRIPTION):
        pipe.send(None)
        pipe.recv()


def test_a_killed_process_lets_go_of_its_folder(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    other = context.Process(target=_work, args=(tmp_path / "run", theirs))
    other.start()
    ours.recv()
    assert other.pid is not None
    os.kill(other.pid, signal.SIGKILL)
    other.join()
    with claimed(tmp_path / "run", DESCRIPTION):
        pass
    assert list((tmp_path / "run").iterdir()) == []


def test_a_run_that_leaves_nothing_spares_what_others_put_beside_it(tmp_path: Path) -> None:
    out = tmp_path / "runs" / "run"
    with claimed(out, DESCRIPTION):
        (tmp_path / "runs" / "other").mkdir()
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["other"]
