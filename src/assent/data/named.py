"""The paper's data sets by name, from a folder that the user has: RecBole's files or the original ones.

Whatever the file, the paper's cut is applied: each pair once, users with 5 to 20 interactions, items with at
most so many, until both hold. Files that were cut so before stay as they are.
"""

import ast
import gzip
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from assent.data.interactions import NO_ITEMS, Interactions
from assent.data.readers import read_interactions
from assent.errors import AssentError

FEWEST, MOST = 5, 20
"""Interactions of a user in the paper's cut."""


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


def read_named(name: str, folder: Path | None) -> Interactions:
    """The paper's cut of a data set of `NAMED`, from `folder`/NAME (or `folder` itself for original files).

    A missing one is an `AssentError` that says where to get it and how to lay it out.
    """
    wanted = NAMED[name]
    if folder is None:
        raise AssentError(f"{name}: no folder is named. {layout(wanted)}")
    for place in _places(wanted, folder):
        if _has_atomic(place, wanted):
            log = read_interactions(place, duplicates="first")
            return cut(replace(log, name=name), wanted.most)
        for original in wanted.originals:
            if (place / original).is_file():
                table = wanted.read(place / original).drop_nulls(["user", "item"])
                table = table.sort("time", maintain_order=True).unique(["user", "item"], maintain_order=True)
                return cut(Interactions(name, table, NO_ITEMS), wanted.most)
    raise AssentError(f"{name}: not in {folder}. {layout(wanted)}")


def layout(wanted: Named) -> str:
    """Where a data set can be had and where its file has to lie, in a sentence."""
    folder = wanted.name.replace("-", "_")
    files = " or ".join((f"{folder}.inter (RecBole)", *wanted.originals))
    return (
        f"Get it from {wanted.home} and put {files} into FOLDER/{folder}, "
        "with FOLDER named by --data-dir or ASSENT_DATA"
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
    plain = _plain(wanted.name)
    if folder.is_dir():
        yield from sorted(each for each in folder.iterdir() if each.is_dir() and _plain(each.name) == plain)
        yield folder


def _has_atomic(place: Path, wanted: Named) -> bool:
    """Whether a folder holds RecBole's log of the data set."""
    return any(_plain(file.stem) == _plain(wanted.name) for file in place.glob("*.inter"))


def _plain(name: str) -> str:
    return re.sub("[^a-z0-9]", "", name.lower())


def _diginetica(path: Path) -> pl.DataFrame:
    """train-item-views.csv of the CIKM Cup 2016: sessions are the users, as in the paper's counts."""
    table = pl.read_csv(path, separator=";", infer_schema=False)
    return table.select(
        user="sessionId",
        item="itemId",
        time=pl.col("timeframe").cast(pl.Float64),
    )


def _steam(path: Path) -> pl.DataFrame:
    """steam_reviews.json.gz: a Python dictionary per line."""
    return _table(
        (row.get("username"), row.get("product_id"), _seconds(row.get("date")))
        for row in _lines(path, ast.literal_eval)
    )


def _amazon(path: Path) -> pl.DataFrame:
    """ratings_Video_Games.csv (user, item, rating, time; no header) or reviews_Video_Games.json.gz."""
    if path.suffix == ".csv":
        names = ["user", "item", "rating", "time"]
        table = pl.read_csv(path, has_header=False, new_columns=names, infer_schema=False)
        return table.select("user", "item", pl.col("time").cast(pl.Float64))
    return _table(
        (row.get("reviewerID"), row.get("asin"), float(row.get("unixReviewTime", 0)))
        for row in _lines(path, json.loads)
    )


def _lines(path: Path, parse: Callable[[str], Any]) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                yield parse(line)
            except (ValueError, SyntaxError):
                raise AssentError(f"{path}: line {number} is no record; accepted: the public file") from None


def _seconds(date: str | None) -> float | None:
    days = pl.Series([date], dtype=pl.String).str.to_date("%Y-%m-%d", strict=False).dt.epoch("s")[0]
    return None if days is None else float(days)


def _table(rows: Iterator[tuple[str | None, str | None, float | None]]) -> pl.DataFrame:
    return pl.DataFrame(
        list(rows), schema={"user": pl.String, "item": pl.String, "time": pl.Float64}, orient="row"
    )


NAMED: dict[str, Named] = {
    each.name: each
    for each in (
        Named(
            "diginetica",
            10,
            "https://darel13712.github.io/rs_datasets/Datasets/diginetica/",
            ("train-item-views.csv",),
            _diginetica,
        ),
        Named(
            "steam",
            5000,
            "https://cseweb.ucsd.edu/~jmcauley/datasets.html#steam_data",
            ("steam_reviews.json.gz",),
            _steam,
        ),
        Named(
            "amazon-video-games",
            30,
            "https://jmcauley.ucsd.edu/data/amazon/",
            ("ratings_Video_Games.csv", "reviews_Video_Games.json.gz", "reviews_Video_Games_5.json.gz"),
            _amazon,
        ),
    )
}
"""Every data set by name; a new one is an entry here."""
