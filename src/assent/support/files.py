"""Atomic writing of files, locks between processes, JSON."""

import fcntl
import glob
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from typing import IO, Any, Never

from assent.support.errors import AssentError


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Yield a temporary file beside `path`; on success it is flushed to disk and renamed to `path`.

    Readers and killed processes never see half a file. An `OSError`, such as a full disk, names `path`, and
    the temporary file is removed.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        temporary.unlink(missing_ok=True)


def leftovers(path: str | Path) -> list[Path]:
    """List the temporary files beside `path` that killed processes left."""
    path = Path(path)
    return list(path.parent.glob(f".{glob.escape(path.name)}.????????.tmp"))


@contextmanager
def locked(path: str | Path, *, wait: bool) -> Iterator[bool]:
    """Lock the file `path` for this process; yield False if another process holds it and `wait` is False.

    The operating system releases the lock when the process ends, however it ends. The holder may delete the
    file.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        with path.open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                yield False
                return
            # If the last holder deleted the file, others would lock a new one of the same name: try again.
            if os.fstat(file.fileno()).st_nlink:
                yield True
                return


def write_with(path: str | Path, write: Callable[[IO[bytes]], object]) -> None:
    """Write atomically what `write` puts into a file object.

    `write` works in memory, so that a failing disk raises the same `OSError` whatever library `write` calls.
    """
    content = BytesIO()
    write(content)
    with atomic_path(path) as temporary:
        temporary.write_bytes(content.getbuffer())


def write_text(path: str | Path, text: str) -> None:
    """Write `text` atomically, as UTF-8."""
    write_with(path, lambda file: file.write(text.encode()))


def write_json(path: str | Path, value: Any) -> None:
    """Write `value` atomically as indented JSON; NaN and infinities raise a `ValueError`."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: str | Path) -> Any:
    """Read a JSON file; a missing or damaged file is an `AssentError` that names it."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"), parse_constant=_refuse_constant)
    except FileNotFoundError:
        raise AssentError(f"{path}: no such file") from None
    except (ValueError, RecursionError) as error:
        raise AssentError(f"{path}: not valid JSON ({error})") from None


def _refuse_constant(name: str) -> Never:
    raise ValueError(f"{name} is no number")  # Python's parser accepts NaN and infinities


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
