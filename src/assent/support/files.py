"""Atomic writing of files, reading of own files, locks between processes, JSON."""

import errno
import fcntl
import glob
import json
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from io import BytesIO
from math import isinf
from pathlib import Path
from typing import IO, Any, Never

from assent.support.errors import AssentError

_SHARED, _PRIVATE = 0o666, 0o600
"""Modes of files; the user's umask takes away from both."""


@contextmanager
def atomic_path(path: str | Path, *, private: bool = False) -> Iterator[Path]:
    """Yield a temporary file beside `path`; on success it is flushed to disk and renamed to `path`.

    Readers and killed processes never see half a file, and the new name outlives a loss of power. What holds
    people's data is `private`: the file, and its folder if that is new, are for this user alone. An
    `OSError`, such as a full disk, names `path`, and the temporary file is removed.
    """
    path = Path(path)
    path.parent.mkdir(0o700 if private else 0o777, parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    new = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        os.close(os.open(temporary, new, _PRIVATE if private else _SHARED))
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.replace(path)
        _flush_folder(path.parent)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        temporary.unlink(missing_ok=True)


def _flush_folder(folder: Path) -> None:
    """Write a folder's names to disk, where its file system can."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    finally:
        os.close(handle)


def leftovers(path: str | Path) -> list[Path]:
    """List the temporary files beside `path` that killed processes left."""
    path = Path(path)
    return list(path.parent.glob(f".{glob.escape(path.name)}.????????.tmp"))


def _open_own(path: Path, flags: int) -> int:
    """Open a regular file, never through a symbolic link; nobody else may read one that is new."""
    try:
        handle = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, _PRIVATE)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise AssentError(f"{path}: a symbolic link; accepted: a file that assent wrote") from None
        raise
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise AssentError(f"{path}: no regular file; accepted: a file that assent wrote")
    return handle


def read_own(path: str | Path) -> bytes:
    """Return the content of a file that assent wrote; symbolic links and devices are refused."""
    path = Path(path)
    try:
        with os.fdopen(_open_own(path, os.O_RDONLY), "rb") as file:
            return file.read()
    except FileNotFoundError:
        raise AssentError(f"{path}: no such file") from None
    except OSError as error:
        raise AssentError(f"{path}: {error.strerror}") from None


@contextmanager
def locked(path: str | Path, *, wait: bool) -> Iterator[bool]:
    """Lock the file `path` for this process; yield False if another process holds it and `wait` is False.

    The operating system releases the lock when the process ends, however it ends. The holder may delete the
    file. A symbolic link is refused.
    """
    path = Path(path)
    path.parent.mkdir(0o700, parents=True, exist_ok=True)
    while True:
        with os.fdopen(_open_own(path, os.O_RDWR | os.O_CREAT), "rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                yield False
                return
            # If the last holder deleted the file, others would lock a new one of the same name: try again.
            if os.fstat(file.fileno()).st_nlink:
                yield True
                return


def write_with(path: str | Path, write: Callable[[IO[bytes]], object], *, private: bool = False) -> None:
    """Write atomically what `write` puts into a file object.

    `write` works in memory, so that a failing disk raises the same `OSError` whatever library `write` calls.
    """
    content = BytesIO()
    write(content)
    write_bytes(path, content.getbuffer(), private=private)


def write_bytes(path: str | Path, content: bytes | memoryview, *, private: bool = False) -> None:
    """Write `content` atomically."""
    with atomic_path(path, private=private) as temporary:
        temporary.write_bytes(content)


def write_text(path: str | Path, text: str, *, private: bool = False) -> None:
    """Write `text` atomically, as UTF-8."""
    write_bytes(path, text.encode(), private=private)


def write_json(path: str | Path, value: Any, *, private: bool = False) -> None:
    """Write `value` atomically as indented JSON; NaN and infinities raise a `ValueError`."""
    write_bytes(path, as_json(value), private=private)


def as_json(value: Any) -> bytes:
    """Return `value` as indented JSON; NaN and infinities raise a `ValueError`."""
    return (json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def read_json(path: str | Path) -> Any:
    """Read a JSON file; a missing or damaged file is an `AssentError` that names it."""
    try:
        return parse_json(path, Path(path).read_bytes())
    except FileNotFoundError:
        raise AssentError(f"{path}: no such file") from None


def parse_json(path: str | Path, content: bytes) -> Any:
    """Return the value of JSON that was read from `path`; anything else is an `AssentError` that names it.

    Numbers that are not finite and characters that no text can hold are refused too.
    """
    try:
        found = json.loads(content.decode(), parse_constant=_refuse_constant, parse_float=_finite)
        if b"\\ud" in content.lower():  # perhaps half of a pair of surrogates
            json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise AssentError(f"{path}: not valid JSON ({error})") from None
    return found


def _refuse_constant(name: str) -> Never:
    raise ValueError(f"{name} is no number")  # Python's parser accepts NaN and infinities


def _finite(text: str) -> float:
    number = float(text)
    if isinf(number):
        raise ValueError(f"{text} is too large")
    return number


def refuse_to_overwrite(path: str | Path, *, replace: bool) -> None:
    """Raise an `AssentError` if `path` exists, unless `replace`."""
    if not replace and Path(path).exists():
        raise AssentError(f"{path}: already exists; accepted: another name, or replace=True")


def check_format(path: Path, description: Any, expected: int) -> None:
    """Refuse a JSON file of another format; the error names the version of assent that wrote it."""
    about = description if isinstance(description, dict) else {"assent": "another program"}
    if about.get("format") != expected:
        found = (
            f"format {about.get('format')} (written by assent {about.get('assent', 'an unknown version')})"
        )
        here = f"this is assent {version('assent')}, which reads format {expected}: run the fit again"
        raise AssentError(f"{path}: {found}; {here}")
