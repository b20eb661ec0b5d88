"""What all tests share: a way to run the command. Property-based ones draw the same examples every time."""

import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

from assent.cli import console
from assent.cli.app import main

MEMORY, ENOUGH = Path("/dev/shm"), 2 * 10**9
"""A folder in memory, and the bytes that a run of all tests may take there."""
if "TMPDIR" not in os.environ and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ENOUGH:
    # assent flushes every file to disk, and a fit writes a hundred: in memory that costs nothing.
    os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)

settings.register_profile("steady", deadline=None, derandomize=True)
settings.load_profile("steady")

Assent = Callable[..., tuple[int, str, str]]


@pytest.fixture
def assent(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Assent:
    """Run `assent ARGUMENTS` in this process: exit code, stdout, stderr."""

    def run(*arguments: object, columns: int = 200) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["assent", *map(str, arguments)])
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setattr(console.out, "width", columns)
        with pytest.raises(SystemExit) as left:
            main()
        out, err = capfd.readouterr()
        return int(left.value.code or 0), out, err

    return run
