"""The folder of a run: whose it is, and what is left of a run that failed or was killed."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from assent.errors import AssentError
from assent.files import leftovers, read_json, write_json

MARKER = "settings.json"
"""Says what the run depends on; written first."""
REPORT = "report.html"
"""Written last, so a folder that has it is whole."""
WORK = ".work"
"""Anchors and the state of trainings, until the run is done."""
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
def claimed(out: Path, description: dict[str, Any]) -> Iterator[None]:
    """Make `out` this run's folder, or find that it is already, unfinished; any other is refused.

    A run that fails before it has anything to go on from leaves nothing behind: its folder would refuse the
    corrected command. The last good state of a training is such a thing.
    """
    missing = [folder for folder in (out, *out.parents) if not folder.exists()]
    is_new = bool(missing) or (out.is_dir() and not _entries(out))
    if not is_new:
        _check(out, description)
    for name in FILES:
        for file in leftovers(out / name):
            file.unlink()
    write_json(out / MARKER, description)
    try:
        yield
    except AssentError:
        if is_new and _is_bare(out):
            _remove(out, missing)
        raise


def _entries(folder: Path) -> set[Path]:
    """What is in the folder but for files that a killed run had not finished."""
    return set(folder.iterdir()) - {file for name in FILES for file in leftovers(folder / name)}


def _check(out: Path, description: dict[str, Any]) -> None:
    marker = out / MARKER
    if not marker.exists():
        raise AssentError(f"{out}: already exists and is no run folder; choose another --out")
    if (out / REPORT).exists():
        raise AssentError(f"{out}: holds a finished run; choose another --out or pass --replace")
    if read_json(marker) != description:
        raise AssentError(
            f"{out}: holds an unfinished run of other data or settings; "
            "choose another --out or pass --replace"
        )


def _is_bare(out: Path) -> bool:
    """Whether there is nothing but the marker."""
    work = out / WORK
    return _entries(out) <= {out / MARKER, work} and not (work.is_dir() and any(work.iterdir()))


def _remove(out: Path, missing: list[Path]) -> None:
    """Delete a bare run's files, and those of its folder and their parents that were `missing` before."""
    if (out / WORK).is_dir():
        (out / WORK).rmdir()
    (out / MARKER).unlink()
    for folder in missing:
        folder.rmdir()
