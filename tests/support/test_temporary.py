"""Temporary folders leave with their process, or at the next start."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from assent.support.temporary import TemporaryFolder, sweep

USUAL = """
import signal
for number in (signal.SIGTERM, signal.SIGHUP):  # whoever runs the tests may ignore them
    signal.signal(number, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)
"""
HOLDER = """
import sys
from assent.support.temporary import TemporaryFolder
held = TemporaryFolder()
(held.path / "model").write_text("of withheld rows")
(held.path / "inner").mkdir()
(held.path / "inner" / "more").write_text("of withheld rows")
print(held.path, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for temporary ones, of this process and of those that it starts."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield tmp_path
    tempfile.tempdir = None


def holder(script: str = USUAL + HOLDER) -> tuple[subprocess.Popen[str], Path]:
    """A process that holds a folder until its input ends, and the folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stdout
    return process, Path(process.stdout.readline().strip())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_removes_it(number: signal.Signals, base: Path) -> None:
    process, folder = holder()
    assert (folder / "model").exists()
    process.send_signal(number)
    assert process.wait(timeout=60) != 0
    assert not list(base.iterdir())


def test_the_end_of_the_process_removes_it(base: Path) -> None:
    process, folder = holder()
    assert folder.parent == base
    process.communicate("")
    assert process.returncode == 0
    assert not list(base.iterdir())


def test_what_a_killed_process_leaves_is_swept_at_the_next_start(base: Path) -> None:
    process, folder = holder()
    living, theirs = holder()
    process.kill()
    process.wait()
    assert (folder / "model").exists()
    held = TemporaryFolder()
    assert not folder.exists()
    assert (theirs / "inner" / "more").exists()
    living.communicate("")
    del held
    assert not list(base.iterdir())


def test_only_own_folders_are_swept(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process, folder = holder()
    process.kill()
    process.wait()
    kept = [base / "assent-store-projects", base / "assent-notes", base / "assent-store-linked"]
    for each in kept[:2]:
        each.mkdir()
        (each / "mine").write_text("kept")
    (base / "assent-notes" / "in-use").touch()
    kept[2].symlink_to(base / "assent-notes")
    sweep()
    assert not folder.exists()
    assert all((each / "mine").read_text() == "kept" for each in kept)
    process, folder = holder()
    process.kill()
    process.wait()
    with monkeypatch.context() as another:
        another.setattr(os, "geteuid", lambda: os.getuid() + 1)
        sweep()
    assert (folder / "model").exists()


def test_a_hangup_that_is_ignored_stays_so(base: Path) -> None:
    process, folder = holder(f"import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN){HOLDER}")
    process.send_signal(signal.SIGHUP)
    assert (folder / "model").exists()
    process.communicate("")
    assert process.returncode == 0


def test_a_forked_child_leaves_it_alone(base: Path) -> None:
    process, folder = holder(
        HOLDER.replace("sys.stdin.read()", "import os\nif os.fork():\n    os.wait()\n    sys.stdin.read()")
    )
    assert process.poll() is None
    assert (folder / "model").exists()
    process.communicate("")
    assert not list(base.iterdir())
