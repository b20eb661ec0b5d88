"""The paper's data sets as they were published first: each file as a table of user, item and time.

Files are large: they are read in pieces, and nothing but these three columns is kept of them.

The paper's data sets by name, from a folder that the user has: RecBole's files or the original ones.

Whatever the file, the paper's cut is applied: each pair once, users with 5 to 20 interactions, items with at
most so many, until both hold. Files that were cut so before stay as they are.
"""

import ast
import gzip
import json
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any

import polars as pl

from assent.data.interactions import NO_ITEMS, Interactions
from assent.data.readers import read_interactions
from assent.support.errors import AssentError
from assent.support.files import write_with

_PIECE = 100_000
"""Lines that are held as Python's own objects at once."""
_FIELDS = {"user": pl.String, "item": pl.String, "time": pl.String}


def read_original(path: Path, read: Callable[[Path], pl.DataFrame], accepted: str) -> pl.DataFrame:
    """Each pair once, the first in time: user (String), item (String), time (Float64, may be null).

    Whatever is wrong with the file is an `AssentError` that names it and what is accepted.
    """
    try:
        table = read(path)
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, pl.exceptions.PolarsError) as error:
        said = str(error).strip().split("\n")[0][:200]
        raise AssentError(f"{path}: cannot be read ({said}); accepted: {accepted}") from None
    table = table.drop_nulls(["user", "item"]).sort("time", maintain_order=True)
    return table.unique(["user", "item"], keep="first", maintain_order=True)


def diginetica(path: Path) -> pl.DataFrame:
    """train-item-views.csv of the CIKM Cup 2016: sessions are the users, as in the paper's counts.

    Copies of it call its columns session_id and item_id.
    """
    table = pl.scan_csv(path, separator=";", infer_schema=False)
    copied = "session_id" in table.collect_schema()
    user, item = ("session_id", "item_id") if copied else ("sessionId", "itemId")
    return table.select(user=user, item=item, time=pl.col("timeframe").cast(pl.Float64)).collect(
        engine="streaming"
    )


def steam(path: Path) -> pl.DataFrame:
    """steam_reviews.json.gz: a Python dictionary per line; dates become seconds since 1970."""
    return _table(
        path,
        ast.literal_eval,
        ("username", "product_id", "date"),
        pl.col("time").str.to_date("%Y-%m-%d", strict=False).dt.epoch("s").cast(pl.Float64),
    )


def amazon(path: Path) -> pl.DataFrame:
    """ratings_Video_Games.csv (user, item, rating, time; no header) or reviews_Video_Games.json.gz."""
    if path.suffix != ".csv":
        fields = ("reviewerID", "asin", "unixReviewTime")
        return _table(path, json.loads, fields, pl.col("time").cast(pl.Float64))
    table = pl.scan_csv(path, has_header=False, infer_schema=False)
    columns = table.collect_schema().names()
    if len(columns) != 4:
        raise AssentError(
            f"{path}: has {len(columns)} columns; accepted: user,item,rating,time without a header"
        )
    return table.select(user=columns[0], item=columns[1], time=pl.col(columns[3]).cast(pl.Float64)).collect(
        engine="streaming"
    )


def _table(path: Path, parse: Callable[[str], Any], fields: tuple[str, ...], time: pl.Expr) -> pl.DataFrame:
    """The `fields` (user, item, time) of a file of records, a line each."""
    rows, pieces = _rows(path, parse, fields), []
    while piece := list(islice(rows, _PIECE)):
        pieces.append(pl.DataFrame(piece, schema=_FIELDS, orient="row").with_columns(time))
    return pl.concat(pieces) if pieces else pl.DataFrame(schema=_FIELDS | {"time": pl.Float64})


def _rows(path: Path, parse: Callable[[str], Any], fields: tuple[str, ...]) -> Iterator[list[str | None]]:
    """The `fields` of every record as text."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                record = parse(line)
                found = [record.get(field) for field in fields]
            except (ValueError, SyntaxError, AttributeError, MemoryError, RecursionError):
                raise AssentError(f"{path}: line {number} is no record; accepted: the public file") from None
            yield [None if value is None else str(value) for value in found]


FEWEST, MOST = 5, 20
"""Interactions of a user in the paper's cut."""
_FORMAT = 1
"""Raised whenever a file that was read before would be read differently."""
_ENDINGS = ("", "-not-merged", "-merged")
"""Of RecBole's names: it offers some data sets with repeats of a pair on rows of their own, or as one."""

_RECBOLE = "https://github.com/RUCAIBox/RecSysDatasets"
"""Where RecBole offers data sets in its own format."""


@dataclass(frozen=True)
class Named:
    """A data set that a name is enough for."""

    name: str
    most: int
    """Largest number of interactions of an item."""
    home: str
    """Where it can be had."""
    originals: tuple[str, ...]
    """Names of the original files, any of which is enough."""
    read: Callable[[Path], pl.DataFrame]
    """An original file as a table: user, item, time."""


def read_named(name: str, folder: Path | None, kept: Path | None = None) -> Interactions:
    """The paper's cut of a data set of `NAMED`, from `folder`/NAME (or `folder` itself).

    A missing one is an `AssentError` that says where to get it and how to lay it out. Original files take
    minutes to read: with `kept`, what is left of one after the cut is written into that folder, and found
    there by whoever reads the same file again.
    """
    wanted = NAMED[name]
    if folder is None:
        raise AssentError(f"{name}: no folder is named. {layout(wanted)}")
    for place in _places(wanted, folder):
        if file := _atomic(place, wanted):
            return cut(_read_atomic(wanted, file), wanted.most)
        for original in wanted.originals:
            if (place / original).is_file():
                return _read_original(wanted, place / original, kept)
    raise AssentError(f"{name}: not in {folder}. {layout(wanted)}")


def _read_atomic(wanted: Named, file: Path) -> Interactions:
    """RecBole's file, with what its file of items says where there is one."""
    items = file.with_suffix(".item")
    try:
        log = read_interactions(file, items=items if items.is_file() else None, duplicates="first")
    except AssentError as error:
        raise AssentError(f"{error}. {layout(wanted)}") from None
    return replace(log, name=wanted.name)


def _read_original(wanted: Named, file: Path, kept: Path | None) -> Interactions:
    """The cut of an original file, read or found again."""
    here = kept and kept / f"{wanted.name}-{_mark(wanted, file)}.parquet"
    if here and here.is_file():
        with suppress(pl.exceptions.PolarsError):
            return Interactions(wanted.name, pl.read_parquet(here), NO_ITEMS)
    accepted = f"the public file; {layout(wanted)}"
    table = read_original(file, wanted.read, accepted)
    log = cut(Interactions(wanted.name, table, NO_ITEMS), wanted.most)
    if here:
        write_with(here, log.table.write_parquet)
    return log


def _mark(wanted: Named, file: Path) -> str:
    """A short name for a file as it is now, and for how it is cut."""
    now = file.stat()
    about = [_FORMAT, str(file.resolve()), now.st_size, now.st_mtime_ns, FEWEST, MOST, wanted.most]
    return blake2b(json.dumps(about).encode(), digest_size=8).hexdigest()


def layout(wanted: Named) -> str:
    """Where a data set can be had and where its file has to lie, in a sentence."""
    folder = wanted.name.replace("-", "_")
    files = " or ".join((f"{folder}.inter (RecBole's)", *wanted.originals))
    return (
        f"Get it from {wanted.home} (RecBole's file from {_RECBOLE}) and put {files} into "
        f"FOLDER/{folder}, with FOLDER named by --data-dir or ASSENT_DATA"
    )


def cut(log: Interactions, most: int) -> Interactions:
    """Users with `FEWEST` to `MOST` interactions and items with at most `most`, until both hold."""
    table, before = log.table, -1
    while table.height != before:
        before = table.height
        table = table.filter(pl.len().over("item") <= most)
        table = table.filter(pl.len().over("user").is_between(FEWEST, MOST))
    if table.is_empty():
        raise AssentError(
            f"{log.name}: nobody has {FEWEST} to {MOST} interactions with items of at most {most}; "
            "accepted: the whole public data set, or the paper's cut of it"
        )
    return replace(log, table=table)


def _places(wanted: Named, folder: Path) -> Iterator[Path]:
    """Folders of the data set's name, in any spelling, then the folder itself."""
    if folder.is_dir():
        there = [each for each in sorted(folder.iterdir()) if each.is_dir()]
        yield from _called(wanted, there)
        yield folder


def _atomic(place: Path, wanted: Named) -> Path | None:
    """RecBole's log of the data set in a folder, if it holds one."""
    return next(_called(wanted, sorted(place.glob("*.inter"))), None)


def _called(wanted: Named, paths: Sequence[Path]) -> Iterator[Path]:
    """Those of the paths that have the data set's name, with one of RecBole's endings or none."""
    for ending in _ENDINGS:
        yield from (path for path in paths if _plain(path.stem) == _plain(wanted.name + ending))


def _plain(name: str) -> str:
    return re.sub("[^a-z0-9]", "", name.lower())


NAMED: dict[str, Named] = {
    each.name: each
    for each in (
        Named(
            "diginetica",
            10,
            "https://darel13712.github.io/rs_datasets/Datasets/diginetica/",
            ("train-item-views.csv",),
            diginetica,
        ),
        Named(
            "steam",
            5000,
            "https://cseweb.ucsd.edu/~jmcauley/datasets.html#steam_data",
            ("steam_reviews.json.gz",),
            steam,
        ),
        Named(
            "amazon-video-games",
            30,
            "https://jmcauley.ucsd.edu/data/amazon/",
            ("ratings_Video_Games.csv", "reviews_Video_Games.json.gz", "reviews_Video_Games_5.json.gz"),
            amazon,
        ),
    )
}
"""Every data set by name; a new one is an entry here."""
