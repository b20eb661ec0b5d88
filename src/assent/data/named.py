"""The paper's data sets by name, from a folder that the user has: RecBole's files or the original ones.

Whatever the file, the paper's cut is applied: each pair once, users with 5 to 20 interactions, items with at
most so many, until both hold. Files that were cut so before stay as they are.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path

import polars as pl

from assent.data import originals
from assent.data.interactions import NO_ITEMS, Interactions
from assent.data.readers import read_interactions
from assent.errors import AssentError
from assent.files import write_with

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
    table = originals.read_original(file, wanted.read, accepted)
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
            originals.diginetica,
        ),
        Named(
            "steam",
            5000,
            "https://cseweb.ucsd.edu/~jmcauley/datasets.html#steam_data",
            ("steam_reviews.json.gz",),
            originals.steam,
        ),
        Named(
            "amazon-video-games",
            30,
            "https://jmcauley.ucsd.edu/data/amazon/",
            ("ratings_Video_Games.csv", "reviews_Video_Games.json.gz", "reviews_Video_Games_5.json.gz"),
            originals.amazon,
        ),
    )
}
"""Every data set by name; a new one is an entry here."""
