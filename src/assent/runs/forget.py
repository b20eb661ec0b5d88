"""Forgetting: after an update, delete what still holds withdrawn interactions, and search what is left.

The runs before an exact update, and the entries of the store that only they used, hold what was withdrawn
since. `forget` deletes both. Then it searches every file of the run, and of the store, for the ids of what is
gone: pairs of user and item in tables, people and items that are in the log no more wherever text stands.
Entries of the store are named by all that they were computed from: those that are left are the ones which the
run itself asked for, and the run never saw what was withdrawn.

Copies that assent does not know of (exports, lists of recommendations, backups) are its user's to delete.
"""

import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from html import unescape
from io import BytesIO
from pathlib import Path
from typing import Any

import polars as pl

from assent.lab.store import Store
from assent.runs.changes import PAIR
from assent.runs.claim import delete_run
from assent.runs.folder import SHARDS, Run, open_run
from assent.runs.history import Grade, runs_before, update_of
from assent.support.errors import AssentError
from assent.support.files import read_own

_TAGS = re.compile(rb"<[^>]*>")


@dataclass(frozen=True)
class Forgotten:
    """What was deleted, and what a search of the rest found."""

    runs: tuple[Path, ...]
    """Folders whose run was deleted."""
    entries: int
    """Entries of the store that were deleted."""
    pairs: int
    """Interactions that are gone from the log since the runs that were deleted."""
    people: int
    """People of whom nothing is left."""
    searched: int
    """Files that were searched."""
    found: tuple[str, ...]
    """Files in which something of that was found: there should be none."""


@dataclass(frozen=True)
class _Gone:
    """What may be nowhere any more."""

    pairs: pl.DataFrame
    people: frozenset[str]
    items: frozenset[str]

    @property
    def ids(self) -> frozenset[str]:
        return self.people | self.items


def forget(run: Run, store: Store | None = None) -> Forgotten:
    """Delete the runs that `run` follows and what a store holds for them alone; search what is left.

    Without a `store` it is the one that the update was made with, if there was one.
    """
    about = update_of(run)
    if about is None:
        raise AssentError(f"{run.folder}: follows no run; accepted: a run that an update made")
    if about["grade"] != Grade.EXACT.value:
        rests = "its items' vectors still rest on what was withdrawn"
        raise AssentError(
            f"{run.folder}: of grade {about['grade']}: {rests}; accepted: an exact update of it"
        )
    folders = [Path(folder) for folder in runs_before(run)[1:]]
    gone = _gone(run, [open_run(folder, run.model) for folder in folders])
    for folder in folders:
        delete_run(folder)
    kept = about["store"] or {"folder": None, "entries": []}
    if store is None and kept["folder"] is not None:
        store = Store(kept["folder"])
    entries = 0
    if store is not None:
        is_own = str(store.folder.resolve()) == kept["folder"]
        entries = store.keep_only(kept["entries"] if is_own else ())
    files = [run.folder / name for name in sorted(run.manifest.files)]
    files += sorted((run.folder / SHARDS).glob("*.json"))
    files += sorted(store.folder.glob("*.json")) if store is not None else []
    found = [str(file) for file in files if _holds(file, gone)]
    return Forgotten(tuple(folders), entries, gone.pairs.height, len(gone.people), len(files), tuple(found))


def _gone(run: Run, earlier: Collection[Run]) -> _Gone:
    """What runs before knew and the present run does not."""
    now = _rows(run)
    before = pl.concat([now.clear(), *(_rows(each) for each in earlier)]).unique()
    people, items = (frozenset(before[name].to_list()) - frozenset(now[name].to_list()) for name in PAIR)
    return _Gone(before.join(now, on=PAIR, how="anti"), people, items)


def _rows(run: Run) -> pl.DataFrame:
    return pl.concat(each.select(PAIR) for each in (run.selection, run.held_out, run.sealed)).unique()


def _holds(file: Path, gone: _Gone) -> bool:
    """Whether a file has a pair that is gone, in a table, or the id of a person or an item that is."""
    content = read_own(file)
    match file.suffix:
        case ".parquet":
            return _table_holds(pl.read_parquet(BytesIO(content)), gone)
        case ".json":
            return any(text in gone.ids for text in _texts(json.loads(content)))
        case ".html":
            words = unescape(_TAGS.sub(b"\n", content).decode()).splitlines()
            return any(word.strip() in gone.ids for word in words)
    return any(f'"{each}"'.encode() in content for each in gone.ids)  # names in a header, as JSON


def _table_holds(table: pl.DataFrame, gone: _Gone) -> bool:
    ids = pl.Series(sorted(gone.ids), dtype=pl.String)
    if any(
        table[name].is_in(ids.implode()).any() for name in table.columns if table.schema[name] == pl.String
    ):
        return True
    return {*PAIR} <= {*table.columns} and bool(table.join(gone.pairs, on=PAIR, how="semi").height)


def _texts(value: Any) -> Iterator[str]:
    """Every text in a JSON value, keys too."""
    match value:
        case str():
            yield value
        case list():
            for each in value:
                yield from _texts(each)
        case dict():
            for key, each in value.items():
                yield key
                yield from _texts(each)
