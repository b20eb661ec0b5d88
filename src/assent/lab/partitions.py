"""Logs in Parquet partitions that no machine needs to hold: read by part, sorted into shards on disk.

A *shard* is a range of people, or of items, with all their rows, as one file. Shards begin at whole blocks of
rows (`ridge.BLOCK`), so that products have the bytes of a table that is not cut. All parts are read and all
shards written in a folder that every machine sees.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import polars as pl
from safetensors.numpy import load as from_bytes
from safetensors.numpy import save as as_bytes

from assent.data.interactions import turned_away
from assent.data.unwillingness import check_limit
from assent.lab.executor import Executor
from assent.support.arrays import Bools, Ints, Strings, positions
from assent.support.errors import AssentError
from assent.support.files import read_json, read_own, write_bytes
from assent.support.progress import SILENT, Advance, Progress
from assent.support.ridge import BLOCK, Entries

Places = npt.NDArray[np.int32]
_COLUMNS = {"user": pl.String, "item": pl.String, "time": pl.Float64, "unwillingness": pl.Float64}
_NEEDED = ("user", "item", "unwillingness")
_KEPT = "kept.json"


class Part(NamedTuple):
    """One file of a log."""

    number: int
    file: Path
    closed: float | None
    """The limit of unwillingness above which rows are not read to decide either."""
    values: str | None
    """The column that says what disclosing a row is worth, if there is one."""

    @property
    def label(self) -> str:
        """The file."""
        return str(self.file)

    def rows(self) -> pl.DataFrame:
        """Return all rows, in the order of the file, with the reason of those that the door turns away.

        The columns are user, item, time, unwillingness, value (if it was asked for) and reason. Nobody's
        consent is invented: a row without unwillingness is an error.
        """
        columns = dict(_COLUMNS)
        needed: tuple[str, ...] = _NEEDED
        if self.values is not None:
            columns[self.values], needed = pl.Float64, (*_NEEDED, self.values)
        try:
            known = pl.read_parquet_schema(self.file)
            lacking = [name for name in needed if name not in known]
            if lacking:
                raise AssentError(f"{self.file}: no column {lacking[0]}; accepted: {', '.join(needed)}")
            table = pl.read_parquet(self.file, columns=[name for name in columns if name in known])
            table = table.select(pl.col(name).cast(columns[name]) for name in table.columns)
        except (OSError, pl.exceptions.PolarsError) as error:
            raise AssentError(f"{self.file}: {str(error).splitlines()[0]}") from None
        for name in needed:
            if table[name].null_count():
                row = 1 + int(table[name].is_null().arg_max() or 0)
                raise AssentError(f"{self.file}, row {row}: no {name}; accepted: a value in every row")
        minded = table["unwillingness"]
        if not minded.is_between(0, 1).all():
            row = 1 + int((~minded.is_between(0, 1)).arg_max() or 0)
            raise AssentError(f"{self.file}, row {row}: unwillingness {minded[row - 1]:g}; accepted: 0 to 1")
        time = table["time"].fill_null(0.0) if "time" in table.columns else pl.lit(0.0)
        table = table.with_columns(time.alias("time"), turned_away(minded, self.closed).alias("reason"))
        if self.values is not None:
            table = table.rename({self.values: "value"})
            if not table["value"].is_finite().all():
                raise AssentError(f"{self.file}: {self.values} is not finite; accepted: finite numbers")
        return table

    def read(self) -> pl.DataFrame:
        """Return the rows that the door lets in, with their place in the file as the column row."""
        return self.rows().with_row_index("row").filter(pl.col("reason").is_null())


def parts_of(source: Path, *, closed: float | None = None, values: str | None = None) -> list[Part]:
    """Return the Parquet files of a folder, in the order of their names.

    Whatever else is there is refused, because it may hold rows; names that begin with "." or "_", which
    programs write beside partitions, are passed over.
    """
    check_limit(closed)
    files = sorted(source.glob("*.parquet"))
    if not files:
        raise AssentError(f"{source}: no .parquet file in it; accepted: a folder of Parquet partitions")
    for file in sorted(source.iterdir()):
        if file not in files and file.name[0] not in "._":
            raise AssentError(f"{source}: {file.name} would not be read; accepted: .parquet files alone")
    return [Part(number, file, closed, values) for number, file in enumerate(files)]


class Rule(Protocol):
    """Decides on the rows of a part."""

    def disclosed(self, part: Part, table: pl.DataFrame) -> Bools:
        """Return which of the rows that `part.read` gave are disclosed: [rows]."""


class Everything:
    """Discloses all that the door lets in."""

    def disclosed(self, part: Part, table: pl.DataFrame) -> Bools:
        """Return True for each row."""
        return np.ones(table.height, dtype=np.bool_)


def ids_of(column: pl.Series) -> Strings:
    """Return a column of ids as an array."""
    return column.to_numpy().astype(np.str_)


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

    def size_of(self, shard: Shard) -> int:
        """Return the bytes of a shard's file."""
        return _file(self.folder, shard).stat().st_size

    def keep(self) -> None:
        """Say in the folder that all shards are there, and what they are."""
        about = {
            "user_ids": self.user_ids.tolist(),
            "item_ids": self.item_ids.tolist(),
            "users": self.users,
            "items": self.items,
            "rows": self.rows,
        }
        write_bytes(self.folder / _KEPT, json.dumps(about).encode(), private=True)

    @classmethod
    def kept(cls, folder: Path) -> "Shards | None":
        """Return the shards that a folder keeps, if all are there."""
        if not (folder / _KEPT).exists():
            return None
        about = read_json(folder / _KEPT)
        users, items = (np.array(about[name], dtype=np.str_) for name in ("user_ids", "item_ids"))
        of_users, of_items = (
            Side(kind, length, tuple(cuts)) for kind, length, cuts in (about["users"], about["items"])
        )
        return cls(folder, users, items, of_users, of_items, about["rows"])


def make_shards(
    parts: Sequence[Part],
    folder: Path,
    *,
    count: int,
    executor: Executor,
    rule: Rule | None = None,
    progress: Progress = SILENT,
) -> Shards:
    """Sort what `rule` discloses of the parts into about `count` shards of people and as many of items.

    Other rows are read and left out: no shard, no vocabulary and no figure knows them.
    """
    folder.mkdir(0o700, parents=True)
    chosen = Everything() if rule is None else rule
    with progress.task("reading ids", len(parts)) as advance:
        seen = executor.map(_ids, parts, chosen, advance)
    user_ids = np.unique(np.concatenate([each[0] for each in seen]))
    item_ids = np.unique(np.concatenate([each[1] for each in seen]))
    rows = sum(each[2] for each in seen)
    if not rows:
        raise AssentError(f"{parts[0].file.parent}: no row that may be used; accepted: at least one")
    users, items = _cut("people", len(user_ids), count), _cut("items", len(item_ids), count)
    made = Shards(folder, user_ids, item_ids, users, items, rows)
    with progress.task("sorting into pieces", len(parts)) as advance:
        executor.map(_scatter, parts, (made, chosen), advance)
    everyone = [*made.user_shards, *made.item_shards]
    with progress.task("making shards", len(everyone)) as advance:
        executor.map(_gather, everyone, (folder, len(parts)), advance)
    return made


def _disclosed(part: Part, rule: Rule) -> pl.DataFrame:
    table = part.read()
    return table.filter(pl.Series(rule.disclosed(part, table)))


def _ids(rule: Rule, part: Part, tell: Advance) -> tuple[Strings, Strings, int]:
    """Return the distinct people and items of a part, sorted, and its rows."""
    table = _disclosed(part, rule)
    users, items = (ids_of(table[name].unique().sort()) for name in ("user", "item"))
    tell()
    return users, items, table.height


def _cut(kind: str, length: int, count: int) -> Side:
    blocks = -(-length // BLOCK)
    cuts = [min(length, BLOCK * int(cut)) for cut in np.linspace(0, blocks, min(count, blocks) + 1)]
    return Side(kind, length, tuple(dict.fromkeys(cuts)))


def _file(folder: Path, shard: Shard) -> Path:
    return folder / f"{shard.side.kind}-{shard.number}"


def _piece(folder: Path, shard: Shard, part: int) -> Path:
    return folder / f"{shard.side.kind}-{shard.number}-{part}.piece"


def _scatter(shared: tuple[Shards, Rule], part: Part, tell: Advance) -> None:
    """Write the rows of a part into a piece for each shard.

    A piece of people also has the pairs that are not disclosed, to find those that are disclosed elsewhere.
    """
    shards, rule = shared
    whole = part.rows().with_row_index("row")
    read = whole.filter(pl.col("reason").is_null())
    chosen = read.filter(pl.Series(rule.disclosed(part, read)))
    users, items = _places(shards, chosen)
    other_users, other_items = _places(shards, whole.join(chosen, on="row", how="anti"))
    known = (other_users < len(shards.user_ids)) & (other_items < len(shards.item_ids))
    other_users, other_items = other_users[known], other_items[known]
    times = chosen["time"].to_numpy()
    for own, other, some in ((users, items, shards.user_shards), (items, users, shards.item_shards)):
        for shard in some:
            here = np.flatnonzero((own >= shard.rows.start) & (own < shard.rows.stop))
            first = np.int32(shard.rows.start)
            arrays = {"own": own[here] - first, "other": other[here], "time": times[here]}
            if shard.side is shards.users:
                here = np.flatnonzero((other_users >= shard.rows.start) & (other_users < shard.rows.stop))
                arrays |= {"rest_own": other_users[here] - first, "rest_other": other_items[here]}
            write_bytes(_piece(shards.folder, shard, part.number), as_bytes(arrays), private=True)
    tell()


def _places(shards: Shards, table: pl.DataFrame) -> tuple[Places, Places]:
    """Return the numbers of the people and items of rows, [rows] each; unknown ones come last."""
    users = positions(shards.user_ids, ids_of(table["user"])).astype(np.int32)
    return users, positions(shards.item_ids, ids_of(table["item"])).astype(np.int32)


def _gather(shared: tuple[Path, int], shard: Shard, tell: Advance) -> None:
    """Write a shard from its pieces: rows by person (or item), and then by item (or person).

    For people, also the order of their rows by time, which says what is drawn first from equal lots.
    """
    folder, parts = shared
    if _file(folder, shard).exists():  # by a worker that was lost afterwards
        tell()
        return
    pieces = [_piece(folder, shard, number) for number in range(parts)]
    read = [from_bytes(read_own(piece)) for piece in pieces]
    own, other, time = (np.concatenate([each[name] for each in read]) for name in ("own", "other", "time"))
    by_time = np.lexsort((np.arange(len(own)), time, own))
    own, other = own[by_time].astype(np.int64), other[by_time].astype(np.int64)
    length = shard.rows.stop - shard.rows.start
    entries = Entries.of(own, other, np.ones(len(own), np.float32), length)
    owner = np.repeat(np.arange(length), np.diff(entries.starts))
    pairs = owner << 32 | entries.columns
    rest = [
        each["rest_own"].astype(np.int64) << 32 | each["rest_other"] for each in read if "rest_own" in each
    ]
    if (np.diff(pairs) == 0).any() or (rest and np.isin(np.concatenate(rest), pairs).any()):
        raise AssentError(f"{shard.label}: a person has an item twice; accepted: a row for each pair, once")
    arrays: dict[str, Any] = {"starts": entries.starts, "columns": entries.columns, "order": entries.order}
    write_bytes(_file(folder, shard), as_bytes(arrays), private=True)
    for piece in pieces:
        piece.unlink(missing_ok=True)  # a worker that was lost may have begun
    tell()


def entries_of(folder: Path, shard: Shard) -> Entries:
    """Read a shard; every row weighs 1."""
    found = from_bytes(read_own(_file(folder, shard)))
    ones = np.ones(len(found["columns"]), np.float32)
    return Entries(found["starts"], found["columns"], ones, found["order"])


def rows_in_order(entries: Entries) -> tuple[Ints, Ints]:
    """Return the person (of a shard) and the item of each row, by person and time: [rows] each."""
    owner = np.repeat(np.arange(len(entries.starts) - 1), np.diff(entries.starts))
    users, items = np.empty(len(owner), np.int64), np.empty(len(owner), np.int64)
    users[entries.order], items[entries.order] = owner, entries.columns
    return users, items
