"""Reading a log of interactions, and what is known of its items, from a file or a folder."""

import re
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import polars as pl

from assent.data import tables as cells
from assent.data.interactions import NO_ITEMS, PARTS, Interactions
from assent.data.tables import Table, listed, no_values, quoted, read_table
from assent.support.errors import AssentError

LOG_FILES = (".inter", ".parquet", ".csv", ".tsv")
"""Kinds of file that hold interactions."""
ITEM_FILES = (".item", ".parquet", ".csv", ".tsv")
"""Kinds of file that hold items."""

Role = Literal["user", "item", "time", "unwillingness", "category", "title", "split"]
Duplicates = Literal["error", "first", "last"]

GUESSES: dict[Role, tuple[str, ...]] = {
    "user": ("userid", "user", "uid", "customerid", "visitorid", "reviewerid", "sessionid"),
    "item": ("itemid", "item", "iid", "productid", "movieid", "asin", "articleid", "trackid", "businessid"),
    "time": ("timestamp", "time", "datetime", "date", "ts", "eventtime", "createdat", "unixreviewtime"),
    "unwillingness": ("unwillingness", "beta"),
    "category": ("category", "categories", "genre", "genres", "class"),
    "title": ("title", "itemtitle", "itemname", "movietitle", "productname", "appname"),
    "split": ("split",),
}
"""What columns are usually called, most telling first; letters and digits only, in lower case.

A split that is not named is only taken where each of its values is one of `PARTS`.
"""


@dataclass(frozen=True)
class Columns:
    """Names of columns as they stand in the file; None means: guess from `GUESSES`.

    `category` and `title` are columns of the items file, or of the log itself where there is no such file.
    """

    user: str | None = None
    item: str | None = None
    time: str | None = None
    unwillingness: str | None = None
    category: str | None = None
    title: str | None = None
    split: str | None = None


GUESS_ALL = Columns()
"""No column is named."""


def read_interactions(
    path: Path,
    *,
    columns: Columns = GUESS_ALL,
    items: Path | None = None,
    duplicates: Duplicates = "error",
    gaps: bool = False,
) -> Interactions:
    """Read the log at `path`: a csv, tsv, parquet or `.inter` file, or a folder that holds one.

    A folder is read as RecBole lays it out: `<folder>.inter`, or else its only data file, with its `.item`
    file if there is one. Rows keep the order of the file. Ids become text, times seconds since 1970 (UTC
    where they name no zone; plain numbers are taken as they are). Categories are a list as it is, or text
    split at `|`; an item on several rows has the first title and all the categories of those rows. A split
    that the file gives is kept as a column, for `parts_of`.

    A (user, item) pair on several rows is an error, or its row first or last in time is kept, with the
    largest unwillingness of all of them: dropping a repeat never makes anybody more willing. With `gaps`, an
    empty unwillingness is null, for the `rest` of `unwillingness.assign`; else it is an error.
    """
    is_folder = path.is_dir()
    log_path = _log_in(path) if is_folder else path
    items_path = _items_in(path, log_path) if is_folder and items is None else items
    table = read_table(log_path, LOG_FILES)
    log = _log(table, columns, gaps=gaps)
    if items_path is None:
        known = _items_of_log(table, log["item"], columns)
    else:
        known = _items_of_file(read_table(items_path, ITEM_FILES), columns)
    name = path.resolve().name if is_folder else path.stem
    return Interactions(name, _each_pair_once(log, log_path, duplicates), known)


def _log_in(folder: Path) -> Path:
    files = _files(folder, LOG_FILES)
    atomic = [file for file in files if file.suffix.lower() == ".inter"]
    named = [file for file in atomic if file.stem == folder.resolve().name]
    found = named or atomic or files
    if len(found) != 1:
        there = listed([file.name for file in found]) if found else "no data file"
        raise AssentError(
            f"{folder}: the folder holds {there}; accepted: {folder.resolve().name}.inter, "
            f"or exactly one file of {', '.join(LOG_FILES)}, or the path of one"
        )
    return found[0]


def _items_in(folder: Path, log: Path) -> Path | None:
    files = _files(folder, (".item",))
    found = [file for file in files if file.stem == log.stem] or files
    if len(found) > 1:
        raise AssentError(
            f"{folder}: the folder holds {listed([file.name for file in found])}; "
            f"accepted: {log.stem}.item, or exactly one file of .item, or the path of one with --items"
        )
    return found[0] if found else None


def _files(folder: Path, suffixes: tuple[str, ...]) -> list[Path]:
    """Files of these kinds in the folder, in order of name; hidden ones are leavings of other programs."""
    return sorted(
        file
        for file in folder.iterdir()
        if file.suffix.lower() in suffixes and not file.name.startswith(".") and file.is_file()
    )


def _find(table: Table, role: Role, columns: Columns, also: tuple[str, ...] = ()) -> str | None:
    """The column that plays `role`: the one that `columns` names, else the best guess, else None."""
    present = table.frame.columns
    named: str | None = getattr(columns, role)
    if named is None:
        plain = {re.sub("[^a-z0-9]", "", name.lower()): name for name in reversed(present)}
        return next((plain[guess] for guess in (*GUESSES[role], *also) if guess in plain), None)
    if named not in present:
        raise AssentError(
            f"{table.path}: no column {named!r} (--columns {role}=); columns: {listed(present)}"
        )
    return named


def _find_needed(table: Table, role: Role, columns: Columns, also: tuple[str, ...] = ()) -> str:
    found = _find(table, role, columns, also)
    if found is None:
        raise AssentError(
            f"{table.path}: which column is the {role}? columns: {listed(table.frame.columns)}; "
            f"accepted: {', '.join((*GUESSES[role], *also))} in any spelling such as {role.title()}_ID, "
            f"or name it with --columns {role}=NAME"
        )
    return found


def _log(table: Table, columns: Columns, *, gaps: bool) -> pl.DataFrame:
    """The `Interactions.table` of a file, with its repeated pairs."""
    user, item = _find_needed(table, "user", columns), _find_needed(table, "item", columns)
    if user == item:
        raise AssentError(f"{table.path}: column {user!r} is both user and item; accepted: two columns")
    time, unwillingness = _find(table, "time", columns), _find(table, "unwillingness", columns)
    log = pl.DataFrame(
        {
            "user": cells.ids(table, user),
            "item": cells.ids(table, item),
            "time": cells.times(table, time) if time else no_values(table.frame.height, pl.Float64()),
        }
    )
    split = _split(table, columns)
    if split is not None:
        log = log.with_columns(split.alias("split"))
    if unwillingness is None:
        return log
    return log.with_columns(cells.unwillingness(table, unwillingness, gaps=gaps).alias("unwillingness"))


def _split(table: Table, columns: Columns) -> pl.Series | None:
    """Which part each row belongs to, where a column is named for that or has its name and its values.

    A column that only has the name may mean anything: it is left alone, with a warning.
    """
    name = _find(table, "split", columns)
    if name is None or columns.split is not None:
        return cells.parts(table, name) if name else None
    values = table.frame[name]
    is_text = values.dtype in (pl.String, pl.Categorical, pl.Enum)
    texts = values.cast(pl.String) if is_text else no_values(len(values), pl.String())
    other = (~texts.is_in(PARTS).fill_null(False)).arg_true()
    if not len(other):
        return texts
    row = other[0]
    warnings.warn(
        f"{table.path}: column {name!r} is ignored, since row {row + 1} says {quoted(values[row])}; "
        f"accepted: {', '.join(PARTS)} in every row, or insist on it with --columns split={name}",
        stacklevel=4,
    )
    return None


def _each_pair_once(log: pl.DataFrame, path: Path, duplicates: Duplicates) -> pl.DataFrame:
    pair = ["user", "item"]
    repeated = log.select(pair).is_duplicated()
    if not repeated.any():
        return log
    if duplicates == "error":
        rows = log.select(pair).with_row_index("row", offset=1).filter(repeated)
        _, user, item = rows.row(0)
        earlier, later = rows.filter(user=user, item=item)["row"].head(2)
        raise AssentError(
            f"{path}: rows {earlier} and {later} both have user {quoted(user)} and item {quoted(item)} "
            f"({rows.height - rows.n_unique(pair)} such repetitions in all); "
            "accepted: each pair once, or keep one with --duplicates first|last"
        )
    if "unwillingness" in log.columns:
        log = log.with_columns(pl.col("unwillingness").max().over(pair))
    in_time = log.with_row_index("row").sort("time", maintain_order=True)
    return in_time.unique(pair, keep=duplicates, maintain_order=True).sort("row").drop("row")


def _items_of_file(table: Table, columns: Columns) -> pl.DataFrame:
    # The name of the log's item column need not hold for this file.
    ours = columns if columns.item in table.frame.columns else replace(columns, item=None)
    ids = cells.ids(table, _find_needed(table, "item", ours, also=("id",)))
    # "name" is tried here only: in a log it may well be the person's.
    title = _find(table, "title", columns, also=("name",))
    return _items(table, ids, title, _find(table, "category", columns))


def _items_of_log(table: Table, ids: pl.Series, columns: Columns) -> pl.DataFrame:
    title, category = _find(table, "title", columns), _find(table, "category", columns)
    return _items(table, ids, title, category) if title or category else NO_ITEMS


def _items(table: Table, ids: pl.Series, title: str | None, category: str | None) -> pl.DataFrame:
    """An `Interactions.items` in which the rows of an item are merged into one."""
    titles = cells.titles(table, title) if title else no_values(len(ids), pl.String())
    lists = cells.categories(table, category) if category else no_values(len(ids), pl.List(pl.String))
    categories = pl.col("category").explode().str.strip_chars().replace("", None).drop_nulls()
    return (
        pl.DataFrame({"item": ids, "title": titles, "category": lists})
        .group_by("item", maintain_order=True)
        .agg(pl.col("title").drop_nulls().first(), categories.unique(maintain_order=True))
    )
