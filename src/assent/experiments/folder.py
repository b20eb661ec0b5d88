"""The folder of a run: whose it is, and what is left of a run that failed or was killed."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from assent.errors import AssentError
from assent.files import leftovers, read_json, write_json
from assent.training import TrainingError

MARKER = "settings.json"
"""Says what the run depends on; written first."""
REPORT = "report.html"
"""Written last, so a folder that has it is whole."""
WORK = ".work"
"""Anchors and the state of trainings, until the run is done."""
CHECKPOINT = ".progress"
"""Suffix of the state of a training."""
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
    corrected command.
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
    except AssentError as error:
        if not is_new or not _is_bare(out):
            raise
        _remove(out, missing)
        # What it says it has kept is gone too, and of no use to another command.
        raise (AssentError(error.reason) if isinstance(error, TrainingError) else error) from None


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
    """Whether there is nothing but the marker and states of trainings."""
    work = out / WORK
    states = work.iterdir() if work.is_dir() else ()
    return _entries(out) <= {out / MARKER, work} and all(file.name.endswith(CHECKPOINT) for file in states)


def _remove(out: Path, missing: list[Path]) -> None:
    """Delete a bare run's files, and those of its folder and their parents that were `missing` before."""
    if (out / WORK).is_dir():
        for file in (out / WORK).iterdir():
            file.unlink()
        (out / WORK).rmdir()
    (out / MARKER).unlink()
    for folder in missing:
        folder.rmdir()
