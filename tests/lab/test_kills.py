"""An error of one worker process ends the others at once, and the next call gets new ones."""

import os
import signal
import time
from pathlib import Path

import pytest

from assent.lab.executor import Processes
from assent.support.errors import AssentError
from assent.support.progress import Advance


def _work(shared: Path, item: str, tell: Advance) -> str:
    match item:
        case "wrong":
            raise AssentError("a wrong item")
        case "deadly":
            os.kill(os.getpid(), signal.SIGKILL)
        case "long":
            (shared / "pid").write_text(str(os.getpid()))
            time.sleep(600)
    tell()
    return item


@pytest.mark.parametrize(("item", "said"), [("wrong", "a wrong item"), ("deadly", "finished work is kept")])
def test_an_error_ends_the_other_workers_at_once(item: str, said: str, tmp_path: Path) -> None:
    start = time.monotonic()
    with Processes(2) as processes:
        with pytest.raises(AssentError, match=said):
            processes.map(_work, ["long", item], tmp_path, lambda: None)
        assert processes.map(_work, ["a", "b"], tmp_path, lambda: None) == ["a", "b"]
    assert time.monotonic() - start < 60
    if (tmp_path / "pid").exists():
        with pytest.raises(ProcessLookupError):
            os.kill(int((tmp_path / "pid").read_text()), 0)
