"""Reading a log of interactions, and what is known of its items, from a file, a folder or a data frame."""

import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import polars as pl

from assent.data.columns import Table, listed, no_values, quoted, table_of
from assent.data.formats import ITEM_FILES, LOG_FILES, kind_of, read_table, stem_of
from assent.data.interactions import NO_ITEMS, PARTS, Interactions
from assent.support.errors import AssentError

Duplicates = Literal["error", "first", "last"]

GUESSES: dict[str, tuple[str, ...]] = {
    "user": ("userid", "user", "uid", "customerid", "visitorid", "reviewerid", "sessionid"),
    "item": ("itemid", "item", "iid", "productid", "movieid", "asin", "articleid", "trackid", "businessid"),
    "time": ("timestamp", "time", "datetime", "date", "ts", "eventtime", "createdat", "unixreviewtime"),
    "unwillingness": ("unwillingness", "beta"),
    "category": ("category", "categories", "genre", "genres", "class"),
    "title": ("title", "itemtitle", "itemname", "movietitle", "productname", "appname"),
    "split": ("split",),
}
"""Roles of columns, and the usual names of each, best first: letters and digits only, in lower case.

A column that is only called split is taken for the split if each of its values is one of `PARTS`.
"""


def read_interactions(
    path: str | Path,
    *,
    columns: Mapping[str, str] | None = None,
    items: str | Path | None = None,
    duplicates: Duplicates = "error",
    gaps: bool = False,
) -> Interactions:
    """Read the log at `path`: a csv, tsv, jsonl, parquet or `.inter` file, or a folder that holds one.

    `columns` names columns by role, such as {"user": "member", "item": "film"}; other roles are guessed from
    `GUESSES`. Categories and titles are columns of the file `items`, or of the log if there is none.

    A folder is read as RecBole lays it out: `<folder>.inter`, or else its only data file, with its `.item`
    file if there is one. Rows keep their order. Ids become text. Dates become seconds since 1970 (UTC unless
    they name a zone); plain numbers stay as they are. Categories are a list, or text split at `|`; an item on
    several rows has the first title and all categories of those rows. A split is kept as a column.

    A (user, item) pair on several rows is an error, or `duplicates` keeps the row first or last in time. The
    kept row gets the largest unwillingness of all of them, so that nobody becomes more willing. With `gaps`,
    an empty unwillingness is null, to be filled by `assign(rest=...)`; else it is an error.
    """
    path = Path(path)
    roles = _Roles(dict(columns or {}), "columns={{{role!r}: {name!r}}}")
    is_folder = path.is_dir()
    log_path = _log_in(path) if is_folder else path
    items_path = _items_in(path, log_path) if is_folder and items is None else items
    table = read_table(log_path, LOG_FILES)
    known = None if items_path is None else read_table(Path(items_path), ITEM_FILES)
    name = path.resolve().name if is_folder else stem_of(path)
    return _interactions(name, table, known, roles, duplicates, gaps=gaps)


def read_pairs(path: str | Path) -> pl.DataFrame:
    """Read a file of wishes, with columns that are found like those of a log: user, item, unwillingness.

    Pairs may be on several rows.
    """
    table, roles = read_table(Path(path), LOG_FILES), _Roles({}, "columns={{{role!r}: {name!r}}}")
    unwillingness = roles.find(table, "unwillingness")
    if unwillingness is None:
        accepted = "the columns user, item and unwillingness"
        raise AssentError(f"{path}: no column 'unwillingness'; accepted: {accepted}")
    pairs = {role: table.ids(roles.find_needed(table, role)) for role in ("user", "item")}
    return pl.DataFrame(pairs | {"unwillingness": table.unwillingness(unwillingness)})


def from_frame(
    frame: Any,
    *,
    user: str | None = None,
    item: str | None = None,
    time: str | None = None,
    unwillingness: str | None = None,
    category: str | None = None,
    title: str | None = None,
    split: str | None = None,
    items: Any = None,
    name: str = "frame",
    duplicates: Duplicates = "error",
    gaps: bool = False,
) -> Interactions:
    """Take a log from a polars or pandas DataFrame, with the checks and rules of `read_interactions`.

    `user` to `split` name columns; those that are None are guessed from `GUESSES`. `items` is a data frame of
    titles and categories. Messages call the log `name` and count rows from 1.
    """
    named = zip(GUESSES, (user, item, time, unwillingness, category, title, split), strict=True)
    roles = _Roles({role: each for role, each in named if each is not None}, "{role}={name!r}")
    known = None if items is None else table_of(items, f"{name} items")
    return _interactions(name, table_of(frame, name), known, roles, duplicates, gaps=gaps)


@dataclass(frozen=True)
class _Roles:
    """Columns that the caller named, by role, and how the caller names one: a format of `role` and `name`."""

    named: Mapping[str, str]
    example: str

    def __post_init__(self) -> None:
        for role, name in self.named.items():
            if role not in GUESSES:
                how = self.example.format(role=role, name=name)
                raise AssentError(f"{how}: unknown role {role!r}; accepted: {', '.join(GUESSES)}")

    def find(self, table: Table, role: str, also: tuple[str, ...] = ()) -> str | None:
        """The column of `table` that plays a role: the named one, else the best guess, else None."""
        named = self.named.get(role)
        if named is None:
            plain = {re.sub("[^a-z0-9]", "", name.lower()): name for name in reversed(table.names)}
            return next((plain[guess] for guess in (*GUESSES[role], *also) if guess in plain), None)
        if named not in table.names:
            how = self.example.format(role=role, name=named)
            raise AssentError(f"{table.origin}: no column {named!r} ({how}); columns: {listed(table.names)}")
        return named

    def find_needed(self, table: Table, role: str, also: tuple[str, ...] = ()) -> str:
        """The column of `table` that plays a role; an `AssentError` if there is none."""
        found = self.find(table, role, also)
        if found is None:
            usual = f"{', '.join((*GUESSES[role], *also))} in any spelling such as {role.title()}_ID"
            accepted = f"{usual}, or name it with {self.example.format(role=role, name='NAME')}"
            which = f"which column is the {role}? columns: {listed(table.names)}"
            raise AssentError(f"{table.origin}: {which}; accepted: {accepted}")
        return found


def _interactions(
    name: str, table: Table, items: Table | None, roles: _Roles, duplicates: Duplicates, *, gaps: bool
) -> Interactions:
    if duplicates not in get_args(Duplicates):
        raise AssentError(f"duplicates={duplicates!r}: accepted: {', '.join(get_args(Duplicates))}")
    log = _log(table, roles, gaps=gaps)
    known = _items_of_log(table, log["item"], roles) if items is None else _items_of_file(items, roles)
    return Interactions(name, _each_pair_once(log, table.origin, duplicates), known)


def _log_in(folder: Path) -> Path:
    files = _files(folder, LOG_FILES)
    atomic = [file for file in files if kind_of(file) == ".inter"]
    named = [file for file in atomic if stem_of(file) == folder.resolve().name]
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
    found = [file for file in files if stem_of(file) == stem_of(log)] or files
    if len(found) > 1:
        raise AssentError(
            f"{folder}: the folder holds {listed([file.name for file in found])}; "
            f"accepted: {stem_of(log)}.item, or exactly one file of .item, or items=PATH"
        )
    return found[0] if found else None


def _files(folder: Path, suffixes: tuple[str, ...]) -> list[Path]:
    """Files with one of the suffixes, sorted by name; hidden ones are leftovers of other programs."""
    return sorted(
        file
        for file in folder.iterdir()
        if kind_of(file) in suffixes and not file.name.startswith(".") and file.is_file()
    )


def _log(table: Table, roles: _Roles, *, gaps: bool) -> pl.DataFrame:
    """The `Interactions.table` of a file, repeated pairs included."""
    user, item = roles.find_needed(table, "user"), roles.find_needed(table, "item")
    if user == item:
        raise AssentError(f"{table.origin}: column {user!r} is both user and item; accepted: two columns")
    time, unwillingness = roles.find(table, "time"), roles.find(table, "unwillingness")
    log = {
        "user": table.ids(user),
        "item": table.ids(item),
        "time": table.times(time) if time else no_values(table.height, pl.Float64()),
    }
    split = _split(table, roles)
    if split is not None:
        log["split"] = split
    if unwillingness is not None:
        log["unwillingness"] = table.unwillingness(unwillingness, gaps=gaps)
    return pl.DataFrame(log)


def _split(table: Table, roles: _Roles) -> pl.Series | None:
    """The part of each row, if a column is named for it, or is called split and holds nothing but parts.

    A column that is called split and holds anything else is ignored, with a warning.
    """
    name = roles.find(table, "split")
    if name is None or "split" in roles.named:
        return table.texts(name) if name else None
    values = table.column(name)
    is_text = values.dtype in (pl.String, pl.Categorical, pl.Enum)
    texts = values.cast(pl.String) if is_text else no_values(len(values), pl.String())
    other = (~texts.is_in(PARTS).fill_null(False)).arg_true()
    if not len(other):
        return texts
    row = other[0]
    warnings.warn(
        f"{table.origin}: column {name!r} is ignored, since row {row + 1} says {quoted(values[row])}; "
        f"accepted: {', '.join(PARTS)} in every row, or insist on it with "
        f"{roles.example.format(role='split', name=name)}",
        stacklevel=5,
    )
    return None


def _each_pair_once(log: pl.DataFrame, origin: str, duplicates: Duplicates) -> pl.DataFrame:
    pair = ["user", "item"]
    repeated = log.select(pair).is_duplicated()
    if not repeated.any():
        return log
    if duplicates == "error":
        rows = log.select(pair).with_row_index("row", offset=1).filter(repeated)
        _, user, item = rows.row(0)
        earlier, later = rows.filter(user=user, item=item)["row"].head(2)
        raise AssentError(
            f"{origin}: rows {earlier} and {later} both have user {quoted(user)} and item {quoted(item)} "
            f"({rows.height - rows.n_unique(pair)} such repetitions in all); "
            "accepted: each pair once, or keep one with duplicates='first' or duplicates='last'"
        )
    if "unwillingness" in log.columns:
        log = log.with_columns(pl.col("unwillingness").max().over(pair))
    in_time = log.with_row_index("row").sort("time", maintain_order=True)
    return in_time.unique(pair, keep=duplicates, maintain_order=True).sort("row").drop("row")


def _items_of_file(table: Table, roles: _Roles) -> pl.DataFrame:
    # The log's item column may have another name in this file.
    ours = {role: name for role, name in roles.named.items() if role != "item" or name in table.names}
    ids = table.ids(_Roles(ours, roles.example).find_needed(table, "item", also=("id",)))
    # "name" is tried here only: in a log it may be the person's.
    title = roles.find(table, "title", also=("name",))
    return _items(table, ids, title, roles.find(table, "category"))


def _items_of_log(table: Table, ids: pl.Series, roles: _Roles) -> pl.DataFrame:
    title, category = roles.find(table, "title"), roles.find(table, "category")
    return _items(table, ids, title, category) if title or category else NO_ITEMS


def _items(table: Table, ids: pl.Series, title: str | None, category: str | None) -> pl.DataFrame:
    """An `Interactions.items` in which the rows of an item are merged into one."""
    titles = table.titles(title) if title else no_values(len(ids), pl.String())
    lists = table.categories(category) if category else no_values(len(ids), pl.List(pl.String))
    categories = pl.col("category").explode().str.strip_chars().replace("", None).drop_nulls()
    return (
        pl.DataFrame({"item": ids, "title": titles, "category": lists})
        .group_by("item", maintain_order=True)
        .agg(pl.col("title").drop_nulls().first(), categories.unique(maintain_order=True))
    )
