"""Writing files so that a reader, or a killed process, never sees half of one; holding one alone."""

import fcntl
import glob
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import IO, Any, Never

from assent.support.errors import AssentError


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary neighbour of `path`; on success it is flushed to disk and renamed to `path`.

    An error of the file system, such as a full disk, names `path` and leaves nothing behind.
    """
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


def leftovers(path: Path) -> list[Path]:
    """The temporary neighbours of `path` that killed processes left."""
    return list(path.parent.glob(f".{glob.escape(path.name)}.????????.tmp"))


@contextmanager
def locked(path: Path, *, wait: bool) -> Iterator[bool]:
    """Hold the file `path` for this process alone; False if another has it and nobody waits.

    The system lets go of it when the process ends, however that happens. Who holds the file may delete it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        with path.open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                yield False
                return
            # Who had it may have deleted it meanwhile: others would hold another file of that name.
            if os.fstat(file.fileno()).st_nlink:
                yield True
                return


def write_text(path: Path, text: str) -> None:
    """Write `text` atomically, as UTF-8."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Write `value` atomically as indented JSON."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    """Read a JSON file; a missing or damaged one is an `AssentError` that names it."""
    try:
        return json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse_constant)
    except FileNotFoundError:
        raise AssentError(f"{path}: no such file") from None
    except (ValueError, RecursionError) as error:
        raise AssentError(f"{path}: not valid JSON ({error})") from None


def _refuse_constant(name: str) -> Never:
    """NaN and the infinities, which Python reads and JSON does not have."""
    raise ValueError(f"{name} is no number")


def refuse_to_overwrite(path: Path, *, replace: bool) -> None:
    """Raise if `path` exists and the user did not ask to replace it."""
    if path.exists() and not replace:
        raise AssentError(f"{path}: already exists; choose another name or pass --replace")


def write_with(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Let `write` produce a file's content, then write that atomically.

    Libraries write into memory, not to the disk, so that a failing disk is one kind of error and not one per
    library.
    """
    content = BytesIO()
    write(content)
    with atomic_path(path) as temporary:
        temporary.write_bytes(content.getbuffer())
