"""The paper's data sets by name, from a folder with RecBole's files or the original ones.

The paper's cut is applied to whatever is read: each (user, item) pair once, then users with 5 to 20
interactions and items with at most a given number, until both hold. A file that was cut before stays as it
is. A new data set is one function that reads its original file and one entry of `NAMED`.
"""

import ast
import gzip
import json
import re
import warnings
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

FEWEST, MOST = 5, 20
"""Interactions of a user in the paper's cut."""
_FORMAT = 1
"""Raise it when files would be read differently from before, so that kept ones are not used."""
_ENDINGS = ("", "-not-merged", "-merged")
"""Endings of RecBole's names: some data sets come with repeated pairs on rows of their own, or merged."""
_RECBOLE = "https://github.com/RUCAIBox/RecSysDatasets"
_PIECE = 10_000
"""Lines that are held as Python objects at once, to bound memory."""
_FIELDS = {"user": pl.String, "item": pl.String, "time": pl.String}


@dataclass(frozen=True)
class Named:
    """A data set that can be read by name."""

    name: str
    most: int
    """Largest number of interactions of an item."""
    home: str
    """Where to get it."""
    originals: tuple[str, ...]
    """Names of the original files; one of them is enough."""
    read: Callable[[Path], pl.DataFrame]
    """Reads an original file: user, item, time."""


def diginetica(path: Path) -> pl.DataFrame:
    """Read train-item-views.csv of the CIKM Cup 2016; sessions are the users, as in the paper's counts."""
    table = pl.scan_csv(path, separator=";", infer_schema=False)
    is_copy = "session_id" in table.collect_schema()  # copies of the file have other headers
    user, item = ("session_id", "item_id") if is_copy else ("sessionId", "itemId")
    wanted = table.select(user=user, item=item, time=pl.col("timeframe").cast(pl.Float64))
    return wanted.collect(engine="streaming")


def steam(path: Path) -> pl.DataFrame:
    """Read steam_reviews.json.gz, a Python dictionary per line; dates become seconds since 1970."""
    seconds = pl.col("time").str.to_date("%Y-%m-%d", strict=False).dt.epoch("s").cast(pl.Float64)
    return _table(path, ast.literal_eval, ("username", "product_id", "date"), seconds)


def amazon(path: Path) -> pl.DataFrame:
    """Read ratings_Video_Games.csv (user, item, rating, time; no header) or reviews_Video_Games.json.gz."""
    if path.suffix != ".csv":
        fields = ("reviewerID", "asin", "unixReviewTime")
        return _table(path, json.loads, fields, pl.col("time").cast(pl.Float64))
    table = pl.scan_csv(path, has_header=False, infer_schema=False)
    columns = table.collect_schema().names()
    if len(columns) != 4:
        accepted = "user,item,rating,time without a header"
        raise AssentError(f"{path}: has {len(columns)} columns; accepted: {accepted}")
    wanted = table.select(user=columns[0], item=columns[1], time=pl.col(columns[3]).cast(pl.Float64))
    return wanted.collect(engine="streaming")


def _table(path: Path, parse: Callable[[str], Any], fields: tuple[str, ...], time: pl.Expr) -> pl.DataFrame:
    """Read the `fields` (user, item, time) of a compressed file with a record per line."""
    rows, pieces = _rows(path, parse, fields), []
    while piece := list(islice(rows, _PIECE)):
        pieces.append(pl.DataFrame(piece, schema=_FIELDS, orient="row").with_columns(time))
    return pl.concat(pieces) if pieces else pl.DataFrame(schema=_FIELDS | {"time": pl.Float64})


def _rows(path: Path, parse: Callable[[str], Any], fields: tuple[str, ...]) -> Iterator[list[str | None]]:
    """Yield the `fields` of each record as text."""
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


def read_named(name: str, folder: str | Path | None, kept: str | Path | None = None) -> Interactions:
    """Read the paper's cut of a data set of `NAMED`, from `folder`/NAME or `folder` itself.

    A missing data set is an `AssentError` that says where to get it and where to put it. Original files take
    minutes to read: with `kept`, the cut of one is written into that folder and used the next time.
    """
    if name not in NAMED:
        raise AssentError(f"{name}: unknown data set; accepted: {', '.join(NAMED)}")
    wanted = NAMED[name]
    if folder is None:
        raise AssentError(f"{name}: no folder is named. {layout(wanted)}")
    folder = Path(folder)
    inside = sorted(each for each in folder.iterdir() if each.is_dir()) if folder.is_dir() else []
    for place in (*_called(wanted, inside), folder):
        atomic = next(_called(wanted, sorted(place.glob("*.inter"))), None)
        if atomic is not None:
            return cut(_read_atomic(wanted, atomic), wanted.most)
        for original in wanted.originals:
            if (place / original).is_file():
                return _read_original(wanted, place / original, None if kept is None else Path(kept))
    raise AssentError(f"{name}: not in {folder}. {layout(wanted)}")


def _read_atomic(wanted: Named, file: Path) -> Interactions:
    """Read RecBole's file, with its file of items if there is one."""
    items = file.with_suffix(".item")
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*ratings are not looked at")  # nor does the paper
            log = read_interactions(file, items=items if items.is_file() else None, duplicates="first")
    except AssentError as error:
        raise AssentError(f"{error}. {layout(wanted)}") from None
    return replace(log, name=wanted.name)


def _read_original(wanted: Named, file: Path, kept: Path | None) -> Interactions:
    """Read the cut of an original file, each pair the first in time, or take the cut that was kept.

    A kept one is named by a hash of the file's state (path, size, time of change) and of how it is cut.
    """
    now = file.stat()
    about = [_FORMAT, str(file.resolve()), now.st_size, now.st_mtime_ns, FEWEST, MOST, wanted.most]
    mark = blake2b(json.dumps(about).encode(), digest_size=8).hexdigest()
    here = kept and kept / f"{wanted.name}-{mark}.parquet"
    if here and here.is_file():
        with suppress(pl.exceptions.PolarsError):
            return Interactions(wanted.name, pl.read_parquet(here), NO_ITEMS)
    try:
        table = wanted.read(file)
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, pl.exceptions.PolarsError) as error:
        said, accepted = str(error).strip().split("\n")[0][:200], f"the public file; {layout(wanted)}"
        raise AssentError(f"{file}: cannot be read ({said}); accepted: {accepted}") from None
    table = table.drop_nulls(["user", "item"]).sort("time", maintain_order=True)
    table = table.unique(["user", "item"], keep="first", maintain_order=True)
    log = cut(Interactions(wanted.name, table, NO_ITEMS), wanted.most)
    if here:
        write_with(here, log.table.write_parquet, private=True)
    return log


def layout(wanted: Named) -> str:
    """Where to get a data set and where to put its file, in a sentence."""
    folder = wanted.name.replace("-", "_")
    files = " or ".join((f"{folder}.inter (RecBole's)", *wanted.originals))
    homes = f"{wanted.home} (RecBole's file from {_RECBOLE})"
    return f"Get it from {homes} and put {files} into FOLDER/{folder}, with folder=FOLDER"


def cut(log: Interactions, most: int) -> Interactions:
    """Keep users with `FEWEST` to `MOST` interactions and items with at most `most`, until both hold."""
    table, before = log.table, -1
    while table.height != before:
        before = table.height
        table = table.filter(pl.len().over("item") <= most)
        table = table.filter(pl.len().over("user").is_between(FEWEST, MOST))
    if table.is_empty():
        nobody = f"nobody has {FEWEST} to {MOST} interactions with items of at most {most}"
        accepted = "the whole public data set, or the paper's cut of it"
        raise AssentError(f"{log.name}: {nobody}; accepted: {accepted}")
    return replace(log, table=table)


def _called(wanted: Named, paths: Sequence[Path]) -> Iterator[Path]:
    """Paths that are named like the data set in any spelling, with one of RecBole's endings or none."""
    plain = [re.sub("[^a-z0-9]", "", path.stem.lower()) for path in paths]
    for ending in _ENDINGS:
        name = (wanted.name + ending).replace("-", "")
        yield from (path for path, called in zip(paths, plain, strict=True) if called == name)


_DIGINETICA = "https://darel13712.github.io/rs_datasets/Datasets/diginetica/"
_STEAM = "https://cseweb.ucsd.edu/~jmcauley/datasets.html#steam_data"
_AMAZON = "https://jmcauley.ucsd.edu/data/amazon/"
_REVIEWS = ("ratings_Video_Games.csv", "reviews_Video_Games.json.gz", "reviews_Video_Games_5.json.gz")
NAMED: dict[str, Named] = {
    each.name: each
    for each in (
        Named("diginetica", 10, _DIGINETICA, ("train-item-views.csv",), diginetica),
        Named("steam", 5000, _STEAM, ("steam_reviews.json.gz",), steam),
        Named("amazon-video-games", 30, _AMAZON, _REVIEWS, amazon),
    )
}
"""All data sets by name."""
