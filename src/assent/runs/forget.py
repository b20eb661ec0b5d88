"""Forgetting: after an update, delete what still holds withdrawn interactions, and search what is left.

The runs before an exact update, and the entries of their stores that it did not use, hold what was withdrawn
since. `forget` deletes both. Then it searches every file of the run, and of the store, for the ids of what is
gone: pairs of user and item in tables, people and items that are in the log no more wherever ids stand.
Entries of the store are named by all that they were computed from: those that are left are the ones which
the run itself asked for, and the run never saw what was withdrawn. What is gone is noted in the run's folder
until the search has found nothing, so that a killed `forget` can be repeated.

Where another run is in the place of one before, it is not touched, and named. Copies that assent does not
know of (other updates of the same run, exports, lists, backups) are its user's to delete.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import unescape
from io import BytesIO
from pathlib import Path
from re import compile as pattern
from typing import Any, Final

import polars as pl

from assent.lab.store import Store
from assent.runs.changes import PAIR
from assent.runs.claim import delete_run
from assent.runs.folder import SHARDS, Run
from assent.runs.history import Grade, update_of
from assent.runs.manifest import MANIFEST, read_manifest
from assent.runs.prompt import Vectors
from assent.support.errors import AssentError
from assent.support.files import read_own, write_bytes

NOTED: Final = ".forgotten"
"""What is gone, while the rest is searched for it."""
_TAGS: Final = pattern(rb"<[^>]*>")
_TABLES: Final = ("selection.parquet", "held_out.parquet", "sealed.parquet")
_LISTS: Final = {"user_ids": "user", "item_ids": "item"}


@dataclass(frozen=True)
class Forgotten:
    """What was deleted, and what a search of the rest found."""

    runs: tuple[str, ...]
    """Folders whose run was deleted."""
    entries: int
    """Entries of stores that were deleted."""
    pairs: int
    """Interactions that are gone from the log since the runs that were deleted."""
    people: int
    """People of whom nothing is left."""
    searched: int
    """Files that were searched."""
    found: tuple[str, ...]
    """Files in which something of that was found: there should be none."""
    untouched: tuple[str, ...]
    """Folders of runs and stores that are not there any more, or hold something else now."""
    calibration: str | None
    """The run whose settings and weights are kept, which knew what is gone; None: there is none."""


@dataclass(frozen=True)
class _Gone:
    """What may be nowhere any more: pairs, and people and items of whom no pair is left."""

    pairs: pl.DataFrame
    ids: dict[str, frozenset[str]]

    @classmethod
    def since(cls, now: pl.DataFrame, before: Sequence[pl.DataFrame]) -> "_Gone":
        known = pl.concat([now.clear(), *before]).unique()
        ids = {name: frozenset(known[name]) - frozenset(now[name]) for name in PAIR}
        return cls(known.join(now, on=PAIR, how="anti"), ids)

    @property
    def telling(self) -> frozenset[str]:
        """Ids that are no plain numbers, which also stand where no id is meant."""
        return frozenset(each for ids in self.ids.values() for each in ids if not each.isdecimal())


def forget(run: Run, store: Store | None = None) -> Forgotten:
    """Delete the runs that `run` follows and what their stores hold for them alone; search what is left.

    `store` names one of these stores, where it was moved since.
    """
    about = update_of(run)
    if about is None:
        raise AssentError(f"{run.folder}: follows no run; accepted: a run that an update made")
    if about["grade"] != Grade.EXACT.value and run.settings.get("vectors") != Vectors.TRAINED:
        rests = "its items' vectors still rest on what was withdrawn"
        raise AssentError(
            f"{run.folder}: of grade {about['grade']}: {rests}; accepted: an exact update of it, or one with "
            "vectors trained"
        )
    there = [each for each in about["runs_before"] if _is_there(each)]
    now, noted = _rows(run.folder), run.folder / NOTED
    before = [_rows(Path(each["folder"])) for each in there]
    before += [pl.read_parquet(BytesIO(read_own(noted)))] if noted.exists() else []
    gone = _Gone.since(now, before)
    content = BytesIO()
    gone.pairs.write_parquet(content)
    write_bytes(noted, content.getvalue(), private=True)
    for each in there:
        delete_run(Path(each["folder"]))
    places = {each["store"] for each in (*about["runs_before"], {"store": run.manifest.store})} - {None}
    stores = {Path(place): Store(place) for place in sorted(places)}
    if store is not None:
        stores[store.folder.resolve()] = store
    own = None if run.manifest.store is None else Path(run.manifest.store)
    entries = sum(
        each.keep_only(about["entries"] if place == own or store is each else ())
        for place, each in stores.items()
    )
    files = [run.folder / name for name in sorted(run.manifest.files)]
    kept = (run.folder / SHARDS, *(each.folder for each in stores.values()))
    files += [file for folder in kept for file in sorted(folder.glob("*.json"))]
    found = tuple(str(file) for file in files if _holds(file, gone))
    if not found:
        noted.unlink()
    lost = [each["folder"] for each in about["runs_before"] if each not in there]
    lost += [str(place) for place in stores if not place.is_dir()]
    return Forgotten(
        runs=tuple(each["folder"] for each in there),
        entries=entries,
        pairs=gone.pairs.height,
        people=len(gone.ids["user"]),
        searched=len(files),
        found=found,
        untouched=tuple(lost),
        calibration=about["calibration"],
    )


def _is_there(before: dict[str, Any]) -> bool:
    """Whether a folder still holds the run that the update followed, and no other."""
    folder = Path(before["folder"])
    return (folder / MANIFEST).exists() and read_manifest(folder).mark == before["mark"]


def _rows(folder: Path) -> pl.DataFrame:
    """Every pair that the run in a folder knows."""
    manifest = read_manifest(folder)
    tables = (pl.read_parquet(BytesIO(manifest.read(name)), columns=PAIR) for name in _TABLES)
    return pl.concat(tables).unique()


def _holds(file: Path, gone: _Gone) -> bool:
    """Whether a file has a pair that is gone, in a table, or the id of a person or an item that is."""
    content = read_own(file)
    match file.suffix:
        case ".parquet":
            return _table_holds(pl.read_parquet(BytesIO(content)), gone)
        case ".json":
            return _value_holds(json.loads(content), gone)
        case ".html":
            words = unescape(_TAGS.sub(b"\n", content).decode()).splitlines()
            return any(word.strip() in gone.telling for word in words)
    return any(f'"{each}"'.encode() in content for each in gone.telling)  # names in a header, as JSON


def _table_holds(table: pl.DataFrame, gone: _Gone) -> bool:
    for name in {*PAIR} & {*table.columns}:
        if table[name].is_in(pl.Series(sorted(gone.ids[name]), dtype=pl.String).implode()).any():
            return True
    return {*PAIR} <= {*table.columns} and bool(table.join(gone.pairs, on=PAIR, how="semi").height)


def _value_holds(value: Any, gone: _Gone) -> bool:
    """Whether a JSON value lists a person or an item that is gone, or has a telling id anywhere."""
    for key, each in _parts(value):
        if key in _LISTS and isinstance(each, list) and not gone.ids[_LISTS[key]].isdisjoint(map(str, each)):
            return True
        if isinstance(each, str) and each in gone.telling:
            return True
    return False


def _parts(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """A JSON value and all that is in it, each with the key under which it stands."""
    yield key, value
    if isinstance(value, dict):
        for name, each in value.items():
            yield "", name
            yield from _parts(each, name)
    elif isinstance(value, list):
        for each in value:
            yield from _parts(each)
