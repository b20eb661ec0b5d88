"""Little memory: a command ends with one clear line or an answer, and never hangs."""

import subprocess
import sys
from pathlib import Path

import pytest

from assent.cli import fit_commands
from tests.cli.conftest import QUICK
from tests.conftest import Assent

resource = pytest.importorskip("resource", reason="this system has no limits of a process's memory")
LONGEST = 60
"""Seconds until a command counts as hanging."""
LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]), int(sys.argv[1])))
sys.argv = ["assent", *sys.argv[2:]]
from assent.cli import main
main()
"""


def limited(gigabytes: float, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a command that may take so much address space."""
    given = [str(int(gigabytes * 10**9)), *map(str, arguments)]
    return subprocess.run(
        [sys.executable, "-c", LIMITED, *given], capture_output=True, text=True, check=False, timeout=LONGEST
    )


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux keeps to RLIMIT_AS")
@pytest.mark.parametrize("gigabytes", [0.4, 1.5, 1.8])
def test_too_little_address_space_is_one_line(gigabytes: float, log_file: Path, tmp_path: Path) -> None:
    done = limited(gigabytes, "fit", log_file, "--out", tmp_path / "run", *QUICK, "--jobs", "2")
    assert done.returncode == 2
    assert done.stdout == ""
    [line] = done.stderr.splitlines()
    assert line.startswith(f"assent: not enough memory: the address space is limited to {gigabytes:.2f} GB")
    assert "accepted: at least 3." in line
    assert "ulimit -v" in line
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError(), "not enough memory; accepted: a smaller log, fewer jobs, or more memory"),
        (OSError(12, "Cannot allocate memory"), "not enough memory; accepted: a smaller log"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), "not enough memory; accepted"),
        (OSError(28, "No space left on device", "run"), "run: No space left on device"),
    ],
)
def test_an_error_for_lack_of_memory_is_one_line(
    error: Exception,
    said: str,
    log_file: Path,
    tmp_path: Path,
    assent: Assent,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(fit_commands, "fit", fail)
    code, out, err = assent("fit", log_file, "--out", tmp_path / "run", *QUICK)
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1
