"""A run folder is one process's at a time, and a run in it is replaced by one that got somewhere alone."""

import multiprocessing
import os
import shutil
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from assent.runs.claim import claimed, forget_replaced
from assent.runs.folder import MARKER, WORK
from assent.runs.manifest import MANIFEST, RunFiles
from assent.support.errors import AssentError
from tests.cli.conftest import QUICK
from tests.cli.processes import start
from tests.cli.test_resuming import DIVERGING
from tests.conftest import Assent

DESCRIPTION = {"format": 1, "assent": "1", "method": "all"}
OTHER = {"format": 1, "assent": "1", "method": "nothing"}
CHANGES = ("mkdir", "rename", "replace", "unlink", "rmdir")
"""What `os` does to folders."""
DIVERGING_AT_ONCE = [*DIVERGING, "--set", "training.batch_size=8"]


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
    out, told = tmp_path / "run", [tmp_path / "first.txt", tmp_path / "second.txt"]
    both = [start(["fit", log_file, "--out", out, *QUICK], file) for file in told]
    for each in both:
        each.join()
    assert sorted(each.exitcode or 0 for each in both) == [0, 2]
    refused = next(file.read_text() for each, file in zip(both, told, strict=True) if each.exitcode)
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


@pytest.mark.parametrize(
    "options",
    [["--budget", 0.001, "--user-floor", 5], DIVERGING_AT_ONCE, [*DIVERGING_AT_ONCE, "--method", "random"]],
    ids=["refused", "failed", "failed in the final model"],
)
@pytest.mark.parametrize("finished", [True, False], ids=["finished", "unfinished"])
def test_a_run_outlives_a_replacement_that_gets_nowhere(
    options: list[object], finished: bool, *, log_file: Path, run_folder: Path, tmp_path: Path, assent: Assent
) -> None:
    out = tmp_path / "run"
    shutil.copytree(run_folder, out)
    if not finished:
        (out / MANIFEST).unlink()
        (out / WORK).mkdir()
        (out / WORK / f"{'0' * 32}.progress").write_text("half")
    before = contents(out)
    assert assent("fit", log_file, "--out", out, *QUICK, *options, "--replace")[0] == 2
    assert contents(out) == before
    assert (out / WORK).exists() is not finished


def test_a_run_that_is_replaced_leaves_nothing(
    log_file: Path, run_folder: Path, tmp_path: Path, assent: Assent
) -> None:
    out = tmp_path / "run"
    shutil.copytree(run_folder, out)
    (out / "frontier.json").write_text("[]")
    assert assent("fit", log_file, "--out", out, *QUICK, "--method", "random", "--replace")[0] == 0
    assert {path.name for path in out.iterdir()} == {path.name for path in run_folder.iterdir()}
    assert (out / MARKER).read_bytes() != (run_folder / MARKER).read_bytes()


def _replace(out: Path, kill_at: int, *, works: bool) -> None:
    """Replace the run in `out`, killed before a change of the file system, the `kill_at`-th."""
    changes = 0

    def counted(real: Any) -> Any:
        def change(*args: Any, **kwargs: Any) -> Any:
            nonlocal changes
            changes += 1
            if changes == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **kwargs)

        return change

    for name in CHANGES:
        setattr(os, name, counted(getattr(os, name)))
    with suppress(AssentError), claimed(out, OTHER, replace=True) as files:
        if not works:
            raise AssentError("refused")
        _finish(files)


def _finish(files: RunFiles) -> None:
    files.write("model.json", b"new")
    forget_replaced(files.folder)
    files.finish(problem="", decisions="new", seconds=0.0)


@pytest.mark.parametrize("works", [True, False], ids=["works", "gets nowhere"])
def test_whenever_a_replacement_is_killed_one_run_is_whole_afterwards(works: bool, tmp_path: Path) -> None:
    out, context = tmp_path / "run", multiprocessing.get_context("fork")
    with claimed(tmp_path / "new", OTHER) as files:
        _finish(files)
    new, ends = contents(tmp_path / "new"), []
    for kill_at in range(1, 100):
        shutil.rmtree(out, ignore_errors=True)
        with claimed(out, DESCRIPTION) as files:
            for name in ("model.json", "selection.parquet"):
                files.write(name, b"old")
            files.finish(problem="", decisions="old", seconds=0.0)
        (out / "notes.txt").write_text("of somebody")
        old = contents(out)
        killed = context.Process(target=_replace, args=(out, kill_at), kwargs={"works": works})
        killed.start()
        killed.join()
        with suppress(AssentError), claimed(out, OTHER) as files:
            _finish(files)
        with pytest.raises(AssentError, match="holds a finished run"), claimed(out, OTHER):
            pass
        assert (out / "notes.txt").read_text() == "of somebody"
        assert contents(out) in (old, new | {"notes.txt": b"of somebody"})
        ends.append(contents(out) != old)
        if killed.exitcode == 0:
            break
    assert killed.exitcode == 0
    assert ends == sorted(ends)
    assert ends[-1] is works
