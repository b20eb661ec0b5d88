"""The folder of a run: whose it is, and what is left of a run that failed or was killed."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from assent.errors import AssentError
from assent.files import leftovers, locked, read_json, write_json

MARKER = "settings.json"
"""Says what the run depends on; written first."""
REPORT = "report.html"
"""Written last, so a folder that has it is whole."""
WORK = ".work"
"""Anchors and the state of trainings, until the run is done."""
LOCK = ".assent-lock"
"""Held by the process that is at work in the folder, which deletes it at the end."""
FILES = (
    MARKER,
    "selection.parquet",
    "held_out.parquet",
    "model.safetensors",
    "model.json",
    "certificate.json",
    "metrics.json",
    "frontier.json",
    REPORT,
)


@contextmanager
def claimed(out: Path, description: dict[str, Any], *, replace: bool = False) -> Iterator[None]:
    """Make `out` this run's folder, or find that it is already, unfinished; any other is refused.

    With `replace`, any other run there is deleted. The folder is this process's alone: while one is at work
    in it, others are refused. A run that ends before it has anything to go on from leaves nothing behind: its
    folder would refuse the corrected command. The last good state of a training is such a thing.
    """
    missing = [folder for folder in (out, *out.parents) if not folder.exists()]
    _check_whose(out, replace=replace)
    try:
        with _held(out):
            if replace:
                _empty(out)
            _check(out, description)
            for name in FILES:
                for file in leftovers(out / name):
                    file.unlink()
            try:
                write_json(out / MARKER, description)
                yield
            finally:
                if _is_bare(out):
                    _empty(out)
    finally:
        for folder in missing:
            with suppress(OSError):  # not empty: there is a run in it, perhaps another's
                folder.rmdir()


@contextmanager
def _held(out: Path) -> Iterator[None]:
    """Hold the folder for this process alone."""
    lock = out / LOCK
    with locked(lock, wait=False) as held:
        if not held:
            raise AssentError(
                f"{out}: another process is at work in this folder; wait for it or choose another --out"
            )
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)


def _entries(folder: Path) -> set[Path]:
    """What is in the folder but for its lock and files that a killed run had not finished."""
    unfinished = {file for name in FILES for file in leftovers(folder / name)}
    return set(folder.iterdir()) - unfinished - {folder / LOCK}


def _check_whose(out: Path, *, replace: bool) -> None:
    """Refuse what is no run's folder, nor empty, before anything is written there."""
    if not out.exists() or (out.is_dir() and not _entries(out)):
        return
    marker = out / MARKER
    about = read_json(marker) if marker.exists() else None
    if replace and not (isinstance(about, dict) and {"format", "assent", "method"} <= about.keys()):
        raise AssentError(f"{out}: --replace only replaces run folders, and this is none")
    if not marker.exists():
        raise AssentError(f"{out}: already exists and is no run folder; choose another --out")


def _check(out: Path, description: dict[str, Any]) -> None:
    """Refuse the folder of another run."""
    marker = out / MARKER
    if (out / REPORT).exists():
        raise AssentError(f"{out}: holds a finished run; choose another --out or pass --replace")
    if marker.exists() and read_json(marker) != description:
        raise AssentError(
            f"{out}: holds an unfinished run of other data or settings; "
            "choose another --out or pass --replace"
        )


def _is_bare(out: Path) -> bool:
    """Whether there is nothing but the marker."""
    work = out / WORK
    return _entries(out) <= {out / MARKER, work} and not (work.is_dir() and any(work.iterdir()))


def _empty(out: Path) -> None:
    """Delete all that is in the folder but its lock."""
    for path in _entries(out):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
