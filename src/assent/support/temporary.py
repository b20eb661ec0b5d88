"""Temporary folders that do not outlive their process for long.

A folder is deleted when its owner is no longer used, when the process ends, and when SIGTERM or SIGHUP ends
it. What a killed process leaves is deleted when assent is next started: the lock in such a folder is free.
"""

import fcntl
import os
import shutil
import signal
import stat
import tempfile
import threading
import time
import weakref
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Never

_PREFIX = "assent-store-"
_LOCK = "in-use"
"""Held by the process that uses the folder; says which process that is and when it made the folder."""


class TemporaryFolder:
    """A new folder for this user alone, at `path`; it is deleted with this object, or with the process."""

    def __init__(self) -> None:
        sweep()
        _leave_at_signals()
        self.path, lock = _made()
        weakref.finalize(self, _delete, self.path, lock, os.getpid())


def sweep() -> None:
    """Delete this user's temporary folders whose processes were killed."""
    base = Path(tempfile.gettempdir())
    with suppress(OSError):
        for name in os.listdir(base):
            if name.startswith(_PREFIX):
                with suppress(OSError):  # in use, or another process deletes it too
                    _delete_abandoned(base / name)


def _made() -> tuple[Path, int]:
    """Make a folder and lock it: its path, and the handle of the lock."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        # A process that sweeps may have been quicker; then the folder is gone.
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(lock).st_nlink:
                os.write(lock, f"process {os.getpid()}, {time.strftime('%Y-%m-%d %H:%M:%S')}\n".encode())
                return folder, lock
        os.close(lock)


def _delete(folder: Path, lock: int, owner: int) -> None:
    if os.getpid() == owner:  # not in a forked child
        with suppress(OSError):
            _remove(folder)
        os.close(lock)


def _remove(folder: Path) -> None:
    """Delete a folder, the lock last: what a process that is killed meanwhile leaves can still be swept."""
    for path in folder.iterdir():
        if path.name != _LOCK:
            path.unlink() if not path.is_dir() or path.is_symlink() else shutil.rmtree(path)
    shutil.rmtree(folder)


def _delete_abandoned(folder: Path) -> None:
    about = folder.lstat()
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid():
        return
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _remove(folder)
    finally:
        os.close(lock)


def _leave_at_signals() -> None:
    """Let SIGTERM and SIGHUP end this process like an exception, unless somebody handles them already."""
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, _leave)


def _leave(number: int, frame: FrameType | None) -> Never:
    signal.signal(number, signal.SIG_IGN)  # a second one must not disturb the cleaning up
    raise SystemExit(128 + number)
