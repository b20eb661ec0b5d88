"""Logs in Parquet partitions that no machine needs to hold: read by part, sorted into shards on disk.

A *shard* is a range of people, or of items, with all their rows, as one file. Shards begin at whole blocks of
rows (`ridge.BLOCK`), so that products have the bytes of a table that is not cut. All parts are read and all
shards written in a folder that every machine sees.
"""

import shutil
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from safetensors.numpy import load as from_bytes
from safetensors.numpy import save as as_bytes

from assent.data.interactions import turned_away
from assent.lab.executor import Executor
from assent.support.arrays import Ints, Strings
from assent.support.errors import AssentError
from assent.support.files import read_own, write_bytes
from assent.support.progress import SILENT, Advance, Progress
from assent.support.ridge import BLOCK, Entries

_COLUMNS = {"user": pl.String, "item": pl.String, "time": pl.Float64, "unwillingness": pl.Float64}


class Part(NamedTuple):
    """One file of a log."""

    number: int
    file: Path
    closed: float | None

    @property
    def label(self) -> str:
        """The file."""
        return str(self.file)

    def read(self) -> pl.DataFrame:
        """Return the rows that the door lets in: user, item, time, in the order of the file."""
        try:
            known = pl.read_parquet_schema(self.file)
            lacking = [name for name in ("user", "item") if name not in known]
            if lacking:
                raise AssentError(f"{self.file}: no column {lacking[0]}; accepted: user and item")
            kept = [pl.col(name).cast(kind) for name, kind in _COLUMNS.items() if name in known]
            table = pl.read_parquet(self.file, columns=[name for name in _COLUMNS if name in known])
            table = table.select(kept)
        except (OSError, pl.exceptions.PolarsError) as error:
            raise AssentError(f"{self.file}: {str(error).splitlines()[0]}") from None
        if table.null_count().select("user", "item").row(0) != (0, 0):
            raise AssentError(f"{self.file}: a row without user or item; accepted: both in every row")
        if "unwillingness" in table.columns:
            table = table.filter(turned_away(table["unwillingness"], self.closed).is_null())
        if "time" not in table.columns:
            table = table.with_columns(time=pl.lit(0.0))
        return table.select("user", "item", "time")


class Side(NamedTuple):
    """People or items, and how they are cut."""

    kind: str
    length: int
    cuts: tuple[int, ...]
    """Where shards begin, and the length."""


class Shard(NamedTuple):
    """A range of people or items."""

    side: Side
    number: int

    @property
    def label(self) -> str:
        """What errors call it."""
        return f"{self.side.kind} {self.rows.start} to {self.rows.stop}"

    @property
    def rows(self) -> slice:
        """Its rows among all."""
        return slice(*self.side.cuts[self.number : self.number + 2])


@dataclass(frozen=True)
class Shards:
    """A log in shards of people and of items under `folder`; `user_ids` and `item_ids` are sorted."""

    folder: Path
    user_ids: Strings
    item_ids: Strings
    users: Side
    items: Side
    rows: int

    @cached_property
    def user_shards(self) -> list[Shard]:
        """The shards of people."""
        return [Shard(self.users, number) for number in range(len(self.users.cuts) - 1)]

    @cached_property
    def item_shards(self) -> list[Shard]:
        """The shards of items."""
        return [Shard(self.items, number) for number in range(len(self.items.cuts) - 1)]

    def remove(self) -> None:
        """Delete the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)


def make_shards(
    source: Path,
    folder: Path,
    *,
    count: int,
    executor: Executor,
    closed: float | None = None,
    progress: Progress = SILENT,
) -> Shards:
    """Sort a folder of Parquet files into about `count` shards of people and as many of items.

    The door is applied to every file as it is read: no row that it turns away is written.
    """
    files = sorted(source.glob("*.parquet"))
    if not files:
        raise AssentError(f"{source}: no .parquet file in it; accepted: a folder of Parquet partitions")
    folder.mkdir(0o700, parents=True)
    parts = [Part(number, file, closed) for number, file in enumerate(files)]
    with progress.task("reading ids", len(parts)) as advance:
        seen = executor.map(_ids, parts, None, advance)
    user_ids = np.unique(np.concatenate([each[0] for each in seen]))
    item_ids = np.unique(np.concatenate([each[1] for each in seen]))
    rows = sum(each[2] for each in seen)
    if not rows:
        raise AssentError(f"{source}: no row that may be used; accepted: at least one")
    users, items = _cut("people", len(user_ids), count), _cut("items", len(item_ids), count)
    made = Shards(folder, user_ids, item_ids, users, items, rows)
    with progress.task("sorting into pieces", len(parts)) as advance:
        executor.map(_scatter, parts, made, advance)
    everyone = [*made.user_shards, *made.item_shards]
    with progress.task("making shards", len(everyone)) as advance:
        executor.map(_gather, everyone, (folder, len(parts)), advance)
    return made


def _ids(shared: None, part: Part, tell: Advance) -> tuple[Strings, Strings, int]:
    """Return the distinct people and items of a part, sorted, and its rows."""
    table = part.read()
    users, items = (table[name].unique().sort().to_numpy().astype(np.str_) for name in ("user", "item"))
    tell()
    return users, items, table.height


def _cut(kind: str, length: int, count: int) -> Side:
    blocks = -(-length // BLOCK)
    cuts = [min(length, BLOCK * int(cut)) for cut in np.linspace(0, blocks, min(count, blocks) + 1)]
    return Side(kind, length, tuple(dict.fromkeys(cuts)))


def _piece(folder: Path, shard: Shard, part: int) -> Path:
    return folder / f"{shard.side.kind}-{shard.number}-{part}.piece"


def _scatter(shards: Shards, part: Part, tell: Advance) -> None:
    """Write the rows of a part into a piece for each shard."""
    table = part.read()
    users = np.searchsorted(shards.user_ids, table["user"].to_numpy().astype(np.str_)).astype(np.int32)
    items = np.searchsorted(shards.item_ids, table["item"].to_numpy().astype(np.str_)).astype(np.int32)
    times = table["time"].fill_null(0.0).to_numpy()
    for own, other, some in ((users, items, shards.user_shards), (items, users, shards.item_shards)):
        for shard in some:
            here = np.flatnonzero((own >= shard.rows.start) & (own < shard.rows.stop))
            arrays = {
                "own": own[here] - np.int32(shard.rows.start),
                "other": other[here],
                "time": times[here],
            }
            write_bytes(_piece(shards.folder, shard, part.number), as_bytes(arrays), private=True)
    tell()


def _gather(shared: tuple[Path, int], shard: Shard, tell: Advance) -> None:
    """Write a shard from its pieces: rows by person (or item), and then by item (or person).

    For people, also the order of their rows by time, which says what is drawn first from equal lots.
    """
    folder, parts = shared
    pieces = [_piece(folder, shard, number) for number in range(parts)]
    read = [from_bytes(read_own(piece)) for piece in pieces]
    own, other, time = (np.concatenate([each[name] for each in read]) for name in ("own", "other", "time"))
    by_time = np.lexsort((np.arange(len(own)), time, own))
    own, other = own[by_time].astype(np.int64), other[by_time].astype(np.int64)
    length = shard.rows.stop - shard.rows.start
    entries = Entries.of(own, other, np.ones(len(own), np.float32), length)
    owner = np.repeat(np.arange(length), np.diff(entries.starts))
    if ((np.diff(owner) == 0) & (np.diff(entries.columns) == 0)).any():
        raise AssentError(f"{shard.label}: a person has an item twice; accepted: a row for each pair, once")
    arrays: dict[str, Any] = {"starts": entries.starts, "columns": entries.columns, "order": entries.order}
    write_bytes(folder / f"{shard.side.kind}-{shard.number}", as_bytes(arrays), private=True)
    for piece in pieces:
        piece.unlink()
    tell()


def entries_of(folder: Path, shard: Shard) -> Entries:
    """Read a shard; every row weighs 1."""
    found = from_bytes(read_own(folder / f"{shard.side.kind}-{shard.number}"))
    ones = np.ones(len(found["columns"]), np.float32)
    return Entries(found["starts"], found["columns"], ones, found["order"])


def rows_in_order(entries: Entries) -> tuple[Ints, Ints]:
    """Return the person (of a shard) and the item of each row, by person and time: [rows] each."""
    owner = np.repeat(np.arange(len(entries.starts) - 1), np.diff(entries.starts))
    users, items = np.empty(len(owner), np.int64), np.empty(len(owner), np.int64)
    users[entries.order], items[entries.order] = owner, entries.columns
    return users, items
