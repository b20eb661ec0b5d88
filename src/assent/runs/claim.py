"""Claiming the folder of a run: it is one process's at a time, and holds one run.

What is there and not a run's is left alone. A run that is replaced is kept until its successor is done.
"""

import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from assent.lab.store import Store
from assent.runs.folder import FILES, MARKER, REPLACED, SHARDS, WORK
from assent.runs.manifest import MANIFEST, RunFiles
from assent.support.errors import AssentError
from assent.support.files import leftovers, locked, parse_json, read_own

LOCK = ".assent-lock"
"""Held by the process that is at work in the folder, which deletes it at the end."""
_STORES = (WORK, SHARDS)
"""Folders of a run, each a store."""
MOVING = ".moving"
"""A run on its way to `REPLACED` or back, file by file; if a killed process leaves it, it is moved back."""


@contextmanager
def claimed(out: Path, description: dict[str, Any], *, replace: bool = False) -> Iterator[RunFiles]:
    """Make `out` this run's folder, or find that it is already, unfinished; any other is refused.

    Yields what writes its files. With `replace`, another run there is set aside. The folder is this process's
    alone: while one is at work in it, others are refused. A run that ends before it has anything to go on
    from leaves the folder as it was: one that is refused must not cost the run that it would replace, nor
    stand in the way of the corrected command. The last good state of a training is such a thing.
    """
    missing = [folder for folder in (out, *out.parents) if not folder.exists()]
    _check_whose(out, replace=replace)
    try:
        with _held(out):
            _check_own(out)
            for name in FILES:
                for file in leftovers(out / name):
                    file.unlink()
            _settle(out)
            if replace and _entries(out):
                _set_aside(out)
            _check(out, description)
            try:
                files = RunFiles(out)
                files.write_json(MARKER, description)
                yield files
            finally:
                if _is_bare(out):
                    _empty(out)
                    _settle(out)
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
                f"{out}: another process is at work in this folder; wait for it or choose another folder"
            )
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)


def _entries(folder: Path) -> set[Path]:
    """What a run has written to the folder; files of others are none of it."""
    return {path for name in (*FILES, *_STORES) if (path := folder / name).exists()}


def _check_whose(out: Path, *, replace: bool) -> None:
    """Refuse what is no run's folder, nor empty, before anything is written there."""
    if not out.exists():
        return
    if out.is_dir():
        _check_own(out)
        unfinished = {file for name in FILES for file in leftovers(out / name)}
        if not set(out.iterdir()) - unfinished - {out / name for name in (LOCK, REPLACED, MOVING)}:
            return
    places = (out / MARKER, out / MOVING / MARKER, out / REPLACED / MARKER)
    marker = next((file for file in places if file.exists()), None)
    about = parse_json(marker, read_own(marker)) if marker else None
    if replace and not (isinstance(about, dict) and {"format", "assent", "method"} <= about.keys()):
        raise AssentError(f"{out}: replace=True only replaces run folders, and this is none")
    if not marker:
        raise AssentError(f"{out}: already exists and is no run folder; choose another folder")


def _check_own(out: Path) -> None:
    """Refuse a folder in which something has a run's name and is not what a run makes."""
    _check_kinds(out, (*FILES, LOCK), stat.S_ISREG, "a file")
    _check_kinds(out, (*_STORES, REPLACED, MOVING), stat.S_ISDIR, "a folder")
    for place in (REPLACED, MOVING):
        _check_kinds(out / place, FILES, stat.S_ISREG, "a file")
        _check_kinds(out / place, _STORES, stat.S_ISDIR, "a folder")
        own = {path for path in _inside(out / place) if path.name in (*FILES, *_STORES)}
        _refuse_foreign(out / place, own)
    for store in (folder / name for folder in (out, out / REPLACED, out / MOVING) for name in _STORES):
        _refuse_foreign(store, {path for path in _inside(store) if Store.owns(path.name)})


def _check_kinds(folder: Path, names: Sequence[str], is_right: Callable[[int], bool], accepted: str) -> None:
    for name in names:
        with suppress(FileNotFoundError, NotADirectoryError):
            mode = (folder / name).lstat().st_mode
            if stat.S_ISLNK(mode):
                raise AssentError(f"{folder / name}: a symbolic link; accepted: {accepted} that a fit made")
            if not is_right(mode):
                raise AssentError(f"{folder / name}: accepted: {accepted} that a fit made")


def _inside(folder: Path) -> set[Path]:
    return set(folder.iterdir()) if folder.is_dir() else set()


def _refuse_foreign(folder: Path, own: set[Path]) -> None:
    """Refuse files of others where a run deletes its own."""
    if foreign := sorted(_inside(folder) - own):
        raise AssentError(f"{foreign[0]}: no file of a run; move it out of {folder.name}, which fits delete")


def check_out(out: Path, *, replace: bool) -> None:
    """Refuse a folder that no new run can have, whatever it is asked to do."""
    _check_whose(out, replace=replace)
    if not replace:
        _refuse_finished(out)


def _refuse_finished(out: Path) -> None:
    if (out / MANIFEST).exists():
        raise AssentError(f"{out}: holds a finished run; choose another folder, or replace=True")


def _check(out: Path, description: dict[str, Any]) -> None:
    """Refuse the folder of another run."""
    marker = out / MARKER
    _refuse_finished(out)
    if marker.exists() and parse_json(marker, read_own(marker)) != description:
        raise AssentError(
            f"{out}: holds an unfinished run of other data or settings; "
            "choose another folder, or replace=True"
        )


def _is_bare(out: Path) -> bool:
    """Whether the run has written nothing but the marker."""
    stores = {out / name for name in _STORES}
    return _entries(out) <= {out / MARKER, *stores} and not any(map(_inside, stores))


def _empty(out: Path) -> None:
    """Delete a bare run."""
    for name in _STORES:
        if (out / name).exists():
            (out / name).rmdir()
    (out / MARKER).unlink(missing_ok=True)


def _set_aside(out: Path) -> None:
    """Take the run out of the way, to be brought back by `_settle` or forgotten by `forget_replaced`."""
    forget_replaced(out)
    (out / MOVING).mkdir(0o700)
    for path in _entries(out):
        path.rename(out / MOVING / path.name)
    (out / MOVING).rename(out / REPLACED)


def _settle(out: Path) -> None:
    """Bring back the run that was set aside, unless the one that replaces it has something to go on from."""
    if (out / REPLACED).exists() and _is_bare(out):
        _empty(out)
        (out / REPLACED).rename(out / MOVING)
    if (out / MOVING).exists():
        for path in (out / MOVING).iterdir():
            path.rename(out / path.name)
        (out / MOVING).rmdir()


def forget_replaced(out: Path) -> None:
    """Delete the run that was set aside, if there is one."""
    if (out / REPLACED).exists():
        _delete(out / REPLACED)
        (out / REPLACED).rmdir()


def delete_run(folder: Path) -> None:
    """Delete the run in a folder, and the folder if nothing else is in it."""
    with _held(folder):
        _check_own(folder)
        forget_replaced(folder)
        _delete(folder)
    with suppress(OSError):  # others' files are left alone
        folder.rmdir()


def _delete(run: Path) -> None:
    """Delete the files of a run, the manifest first: what is left is no finished run."""
    for name in (MANIFEST, *FILES):
        (run / name).unlink(missing_ok=True)
    for name in _STORES:
        Store(run / name).clear()
