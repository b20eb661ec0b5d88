"""The paper's data sets as they were published first: each file as a table of user, item and time.

Files are large: they are read in pieces, and nothing but these three columns is kept of them.
"""

import ast
import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import polars as pl

from assent.errors import AssentError

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
