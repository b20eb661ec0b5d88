"""The folder of a run:

    settings.json      what the run depends on, written first
    selection.parquet  one row per training interaction: disclosed or withheld, value, break-even price
    held_out.parquet   one row per interaction that was held out for validation or test
    sealed.parquet     one row per interaction that was not read, for its owner alone: never, or closed
    model.safetensors, model.json   the final model; it knows the disclosed interactions alone
    tuning.json        settings of the base model that were tried, and those found
    certificate.json   how far the decision can be trusted: gains by deviating, predicted and true reward
    metrics.json       flat records: the method, All and Nothing
    frontier.json      flat records of all methods within budgets, where that was asked for
    report.html        for people; written last, so a folder that has it is whole

Until the run is done, the store `.work` holds anchors, trials and the state of trainings. They know withheld
interactions and are deleted at the end. So is `.replaced`, a run that was in the folder before.
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from assent.support.errors import AssentError
from assent.support.files import check_format, leftovers, locked, read_json, write_json

if TYPE_CHECKING:  # torch, which the model needs, is loaded with it
    from assent.training import Trained

FORMAT = 4
"""Raised whenever a run written before could not be read any more."""
MARKER = "settings.json"
"""Says what the run depends on; written first."""
REPORT = "report.html"
"""Written last, so a folder that has it is whole."""
WORK = ".work"
"""Anchors and the state of trainings, until the run is done."""
TUNING = "tuning.json"
"""Settings of the base model that were tried, on everything and on what is disclosed."""
LOCK = ".assent-lock"
"""Held by the process that is at work in the folder, which deletes it at the end."""
REPLACED = ".replaced"
"""The run that was here before, until the one that replaces it is done."""
MOVING = ".moving"
"""The same on its way there or back, file by file; a killed process may leave it, and it is moved back."""
FILES = (
    MARKER,
    "selection.parquet",
    "held_out.parquet",
    "sealed.parquet",
    "model.safetensors",
    "model.json",
    "certificate.json",
    "metrics.json",
    "frontier.json",
    TUNING,
    REPORT,
)


@dataclass(frozen=True)
class Run:
    """A finished run, read from its folder."""

    folder: Path
    settings: Mapping[str, Any]
    """All that the run depends on."""
    selection: pl.DataFrame
    """One row per training interaction."""
    held_out: pl.DataFrame
    """One row per interaction that was held out."""
    sealed: pl.DataFrame
    """One row per interaction that was turned away at the door; nobody but its owner is shown it."""
    records: Sequence[dict[str, Any]]
    """Figures of the method, of All and of Nothing."""
    certificate: Mapping[str, Any]
    """How far the decision can be trusted."""

    @cached_property
    def trained(self) -> "Trained":
        """The model; read when it is first asked for."""
        from assent.training.stored import load

        return load(self.folder / "model")

    def rows_of(self, user: str, *, needed: bool = True) -> pl.DataFrame:
        """Return the user's training interactions; raise if there are none and some are `needed`."""
        rows = self.selection.filter(pl.col("user") == user)
        if needed and rows.is_empty():
            raise AssentError(f"user {user}: not in this run; accepted: the id of somebody who is")
        return rows

    def recommend(self, user: str, k: int = 10) -> list[dict[str, Any]]:
        """Return the k best items that the user has not disclosed: user, item, title and score of each.

        A user who disclosed nothing gets what an unknown user gets.
        """
        best = self.trained.recommend(user, k, exclude=self.rows_of(user).filter("disclosed"))
        titles = self.selection.select("item", "title").unique("item")
        titled = best.join(titles, on="item", how="left", maintain_order="left")
        return titled.select("user", "item", "title", "score").to_dicts()


def open_run(folder: str | Path) -> Run:
    """Read a finished run; an unfinished one, another version's or another program's folder is refused."""
    folder = Path(folder)
    if not folder.is_dir():
        raise AssentError(f"{folder}: no such run folder; a fit with out={folder} makes one")
    description = read_json(folder / MARKER)
    check_format(folder / MARKER, description, FORMAT)
    if not (folder / REPORT).exists():
        raise AssentError(f"{folder}: the run is not finished; repeat the fit that began it")
    names = ("selection", "held_out", "sealed")
    selection, held_out, sealed = (_read_table(folder / f"{name}.parquet") for name in names)
    records, certificate = (read_json(folder / f"{name}.json") for name in ("metrics", "certificate"))
    return Run(folder, description, selection, held_out, sealed, records, certificate)


def _read_table(file: Path) -> pl.DataFrame:
    try:
        return pl.read_parquet(file)
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException):
        raise AssentError(f"{file}: missing or damaged; run the fit again") from None


@contextmanager
def claimed(out: Path, description: dict[str, Any], *, replace: bool = False) -> Iterator[None]:
    """Make `out` this run's folder, or find that it is already, unfinished; any other is refused.

    With `replace`, another run there is set aside. The folder is this process's alone: while one is at work
    in it, others are refused. A run that ends before it has anything to go on from leaves the folder as it
    was: one that is refused must not cost the run that it would replace, nor stand in the way of the
    corrected command. The last good state of a training is such a thing.
    """
    missing = [folder for folder in (out, *out.parents) if not folder.exists()]
    _check_whose(out, replace=replace)
    try:
        with _held(out):
            for name in FILES:
                for file in leftovers(out / name):
                    file.unlink()
            _settle(out)
            if replace and _entries(out):
                _set_aside(out)
            _check(out, description)
            try:
                write_json(out / MARKER, description)
                yield
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
    """What is in the folder of its run, but for files that a killed one had not finished."""
    unfinished = {file for name in FILES for file in leftovers(folder / name)}
    return set(folder.iterdir()) - unfinished - {folder / name for name in (LOCK, REPLACED, MOVING)}


def _check_whose(out: Path, *, replace: bool) -> None:
    """Refuse what is no run's folder, nor empty, before anything is written there."""
    if not out.exists() or (out.is_dir() and not _entries(out)):
        return
    marker = next((file for file in (out / MARKER, out / MOVING / MARKER) if file.exists()), None)
    about = read_json(marker) if marker else None
    if replace and not (isinstance(about, dict) and {"format", "assent", "method"} <= about.keys()):
        raise AssentError(f"{out}: replace=True only replaces run folders, and this is none")
    if not marker:
        raise AssentError(f"{out}: already exists and is no run folder; choose another folder")


def _check(out: Path, description: dict[str, Any]) -> None:
    """Refuse the folder of another run."""
    marker = out / MARKER
    if (out / REPORT).exists():
        raise AssentError(f"{out}: holds a finished run; choose another folder, or replace=True")
    if marker.exists() and read_json(marker) != description:
        raise AssentError(
            f"{out}: holds an unfinished run of other data or settings; "
            "choose another folder, or replace=True"
        )


def _is_bare(out: Path) -> bool:
    """Whether there is nothing but the marker."""
    work = out / WORK
    return _entries(out) <= {out / MARKER, work} and not (work.is_dir() and any(work.iterdir()))


def _empty(out: Path) -> None:
    """Delete a bare run."""
    if (out / WORK).exists():
        (out / WORK).rmdir()
    (out / MARKER).unlink(missing_ok=True)


def _set_aside(out: Path) -> None:
    """Take the run out of the way, to be brought back by `_settle` or forgotten by `forget_replaced`."""
    forget_replaced(out)
    (out / MOVING).mkdir()
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
        shutil.rmtree(out / REPLACED)
