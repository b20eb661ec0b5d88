"""Reading a log of interactions, and what is known of its items, from a file, a folder or a data frame.

The door comes first: of rows that are "never" or closed, only the owner, the item and the unwillingness are
read. What the other rows say is read as if these rows were not there.
"""

import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

import polars as pl

from assent.data.columns import Scale, Table, listed, no_values, quoted, table_of
from assent.data.databases import ACCEPTED, database, is_url
from assent.data.door import judge
from assent.data.formats import ITEM_FILES, LOG_FILES, kind_of, read_table, stem_of
from assent.data.interactions import (
    NO_ITEMS,
    NO_ROWS,
    OWN_COLUMN,
    PARTS,
    Interactions,
    Told,
    known_items,
    turned_away,
)
from assent.data.later import read_later
from assent.data.ratings import rated_enough
from assent.data.roles import Roles, plain, refuse_repeated_pairs
from assent.data.unwillingness import Answer, Arrivals, Consent, Kinds, for_the_record, modified
from assent.support.errors import AssentError

Duplicates = Literal["error", "first", "last"]


def read_interactions(
    path: str | Path,
    *,
    query: str | None = None,
    columns: Mapping[str, str] | None = None,
    min_rating: float | None = None,
    items: str | Path | None = None,
    duplicates: Duplicates = "error",
    unwillingness: str | None = None,
    wishes: str | Path | None = None,
    wishes_columns: Mapping[str, str] | None = None,
    rest: str | None = None,
    closed: float | None = None,
    seed: int = 0,
    scale: Scale | str = Scale.UNIT,
    allow_unmatched: bool = False,
    gaps: bool = False,
) -> Interactions:
    """Read the log at `path`: a csv, tsv, jsonl, parquet or `.inter` file, or a folder that holds one.

    `path` may also be the URL of a database, sqlite:///FILE or postgresql://USER@HOST/DATABASE, with `query`:
    SQL, or the name of a table (`interactions`).

    `columns` names columns by role, such as {"user": "member", "item": "film"}; other roles are guessed from
    `GUESSES`. Categories and titles are columns of the file `items`, or of the log if there is none.

    A folder is read as RecBole lays it out: `<folder>.inter`, or else its only data file, with its `.item`
    file if there is one. Rows keep their order. Ids become text. Dates become seconds since 1970 (UTC unless
    they name a zone); plain numbers stay as they are. Categories are a list, or text split at `|`; an item on
    several rows has the first title and all categories of those rows. A split is kept as a column.

    Ratings are not looked at: every row is an interaction. With `min_rating`, rows that are rated below it
    are not used. What people said about them still counts, in `rest` and for other rows of the same pair.

    `unwillingness` is a source, one of `SOURCES`, with the `rest`, `seed` and `allow_unmatched` of `assign`;
    without one it is the log's own column, if there is one. `wishes` is a file of what people said later,
    over all that: a number for an interaction or for everything of a person, or "withdraw" (`data.later`).
    `scale` is how unwillingness is written; `wishes_columns` names the columns of files of wishes by role.
    Rows of unwillingness 1, and above the limit `closed`, are turned away at the door: they are in `sealed`,
    and nothing else depends on them. With `gaps`, an empty unwillingness is null; else it is an error.

    A (user, item) pair on several rows is an error, or `duplicates` keeps the row first or last in time. The
    kept row has the largest unwillingness of all of them, so that nobody becomes more willing.
    """
    roles = Roles(dict(columns or {}), "columns={{{role!r}: {name!r}}}")
    consent = Consent.asked(
        unwillingness,
        scale=scale,
        wishes_columns=wishes_columns,
        wishes=wishes,
        seed=seed,
        rest=rest,
        closed=closed,
        allow_unmatched=allow_unmatched,
        gaps=gaps,
    )
    changed = None
    if isinstance(path, str) and is_url(path):
        source = database(path)
        name, table = source.name, source.table(query)
    elif query is not None:
        raise AssentError(f"query={quoted(query)}: the log is no database; accepted: {ACCEPTED}")
    else:
        path = Path(path)
        log_path = _log_in(path) if path.is_dir() else path
        items = _items_in(path, log_path) if path.is_dir() and items is None else items
        name, table = path.resolve().name if path.is_dir() else stem_of(path), read_table(log_path, LOG_FILES)
        changed = modified(log_path)
    known = None if items is None else read_table(Path(items), ITEM_FILES)
    return _interactions(name, table, known, roles, duplicates, consent, changed, min_rating)


def from_frame(
    frame: Any,
    *,
    user: str | None = None,
    item: str | None = None,
    time: str | None = None,
    unwillingness: str | None = None,
    willingness: str | None = None,
    category: str | None = None,
    title: str | None = None,
    split: str | None = None,
    rating: str | None = None,
    min_rating: float | None = None,
    items: Any = None,
    name: str = "frame",
    duplicates: Duplicates = "error",
    source: str | None = None,
    wishes: str | Path | None = None,
    wishes_columns: Mapping[str, str] | None = None,
    rest: str | None = None,
    closed: float | None = None,
    seed: int = 0,
    scale: Scale | str = Scale.UNIT,
    allow_unmatched: bool = False,
    gaps: bool = False,
) -> Interactions:
    """Take a log from a polars or pandas DataFrame, with the checks and rules of `read_interactions`.

    `user` to `rating` name columns; those that are None are guessed from `GUESSES`. `items` is a data frame
    of titles and categories. `source` is that of unwillingness, if it is not a column. Messages call the log
    `name` and count rows from 1.
    """
    named = {
        "user": user,
        "item": item,
        "time": time,
        "unwillingness": unwillingness,
        "willingness": willingness,
        "category": category,
        "title": title,
        "split": split,
        "rating": rating,
    }
    roles = Roles({role: each for role, each in named.items() if each is not None}, "{role}={name!r}")
    known = None if items is None else table_of(items, f"{name} items")
    consent = Consent.asked(
        source,
        scale=scale,
        wishes_columns=wishes_columns,
        wishes=wishes,
        seed=seed,
        rest=rest,
        closed=closed,
        allow_unmatched=allow_unmatched,
        gaps=gaps,
    )
    return _interactions(name, table_of(frame, name), known, roles, duplicates, consent, None, min_rating)


def _interactions(
    name: str,
    table: Table,
    items: Table | None,
    roles: Roles,
    duplicates: Duplicates,
    consent: Consent,
    changed: str | None,
    min_rating: float | None,
) -> Interactions:
    """Read a log, the door first, then ratings; `changed` is when it was last changed."""
    if duplicates not in get_args(Duplicates):
        raise AssentError(f"duplicates={duplicates!r}: accepted: {', '.join(get_args(Duplicates))}")
    table = _named_by_others(table, roles, consent)
    user, item = roles.find_needed(table, "user"), roles.find_needed(table, "item")
    if user == item:
        raise AssentError(f"{table.origin}: column {user!r} is both user and item; accepted: two columns")
    ids = pl.DataFrame({"user": table.ids(user), "item": table.ids(item)})
    later = gone = told = None
    if consent.later is not None:
        words = read_later(consent.later, consent)
        later = words.of(ids, allow_unmatched=consent.allow_unmatched)
        kept = ~later["withdrawn"]
        if not kept.any():
            raise AssentError(f"{consent.later}: everything is withdrawn; accepted: a log with a row left")
        gone, later = ids.filter(~kept), later.filter(kept)
        table, minded = table.only(kept), ids.filter(kept).filter(later["unwillingness"].is_not_null())
        told = Told(for_the_record(f"file:{consent.later}"), minded, words.withdrawn(ids, gone))
        ids = ids.filter(kept)
    known = None if items is None else _items_of_file(items, roles)
    rows = _arrivals(name, table, roles, ids, known, consent, changed)
    rows = replace(rows, later=later, withdrawn=gone)
    if rows.column is None and not consent.is_demanded:
        used = rated_enough(table, roles, pl.repeat(True, table.height, eager=True), min_rating)
        return _read(name, table.only(used), roles, ids.filter(used), known, duplicates)
    verdicts = judge(rows, consent)
    kept = verdicts["reason"].is_null()
    used = rated_enough(table, roles, kept, min_rating)
    log = ids.hstack(verdicts.drop("reason")).filter(used)
    read = _read(name, table.only(used), roles, log, known, duplicates)
    away = ids.hstack(verdicts).filter(~kept)
    return replace(read, sealed=_sealed(table.only(~kept), roles, away, known), told=told)


def _named_by_others(table: Table, roles: Roles, consent: Consent) -> Table:
    """The table with the columns that its rows have, but for those which their own unwillingness turns away.

    The lines of a JSON file may have keys of their own, and keys of a row that is turned away must not change
    which column the user of other rows is. Its own user and item are found under any of their names.
    """
    is_reversed, is_own = "willingness" in roles.named, consent.source in (None, OWN_COLUMN)
    minded = roles.find(table, "willingness" if is_reversed else "unwillingness")
    if table.names_in is None or minded is None or not (is_own or plain(minded) == "unwillingness"):
        return table
    values = consent.scale.read(table.column(minded))
    values = 1.0 - values if is_reversed else values
    away = turned_away(values, consent.closed if is_own else None).is_not_null()
    named = replace(table, names=table.names_in(~away))
    if away.all() or {*named.names} == {*table.names}:
        return table
    names = {roles.find(named, role): roles.may_be(table, role) for role in ("user", "item", "unwillingness")}

    def column(name: str) -> pl.Series:
        cells = table.column(name)
        for other in names.get(name, ()):
            with suppress(AssentError):  # whatever stands there, it stops nobody
                if (more := table.column(other)).dtype == cells.dtype:
                    cells = cells.zip_with(~away | cells.is_not_null(), more)
        return cells

    return replace(named, column=cache(column))


def _arrivals(
    name: str,
    table: Table,
    roles: Roles,
    ids: pl.DataFrame,
    known: pl.DataFrame | None,
    consent: Consent,
    changed: str | None,
) -> Arrivals:
    """What the source of unwillingness may look at."""
    is_own = consent.source in (None, OWN_COLUMN)
    minded = roles.find_minded(table) if is_own else None
    other = None if is_own else roles.find(table, "unwillingness")
    other = other if other is not None and plain(other) == "unwillingness" else None  # beta may be anything

    def column() -> Answer:
        assert minded is not None
        column, is_reversed = minded
        gaps, scale = consent.has_gaps, consent.scale
        return Answer(table.unwillingness(column, gaps=gaps, scale=scale, is_reversed=is_reversed), changed)

    @cache
    def never() -> pl.Series:
        assert other is not None
        return (table.unwillingness(other, gaps=True, scale=consent.scale) == 1).fill_null(value=False)

    @cache
    def categories() -> Kinds:
        if known is not None:
            return Kinds.of_items(ids["item"], known)
        lists = _categories(table, roles)
        return Kinds(pl.int_range(len(lists), eager=True), lists)

    return Arrivals(
        name,
        ids["user"],
        ids["item"],
        column if minded else None,
        categories,
        has_own_categories=known is None,
        is_scaled=minded is not None or other is not None,
        never=never if other is not None else None,
    )


def _read(
    name: str,
    table: Table,
    roles: Roles,
    log: pl.DataFrame,
    known: pl.DataFrame | None,
    duplicates: Duplicates,
) -> Interactions:
    """Read the rows of `table`, all of which may be read; their ids and unwillingness stand in `log`."""
    time, split = roles.find(table, "time"), _split(table, roles)
    if time is None and not table.is_ordered:
        accepted = f"a column of times, {roles.naming('time', 'NAME')}, or a query with order by"
        raise AssentError(f"{table.origin}: rows of a database have no order; accepted: {accepted}")
    times = table.times(time) if time else no_values(table.height, pl.Float64())
    about = [times.alias("time"), *([] if split is None else [split.alias("split")])]
    whole = log.select("user", "item").hstack(about).hstack(log.drop("user", "item"))
    if known is None:
        known = _items_of_log(table, log["item"], roles)
    return Interactions(name, _each_pair_once(whole, table, duplicates), known)


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


def _split(table: Table, roles: Roles) -> pl.Series | None:
    """The part of each row, if a column is named for it, or is called split and holds nothing but parts.

    A column that is called split and holds anything else is ignored, with a warning.
    """
    name = roles.find(table, "split")
    if name is None:
        return None
    values, is_named = table.column(name), "split" in roles.named
    is_text = values.dtype in (pl.String, pl.Categorical, pl.Enum)
    texts = table.texts(name) if is_text or is_named else no_values(len(values), pl.String())
    parts = texts.replace("validation", "valid")
    other = (~parts.is_in(PARTS).fill_null(False)).arg_true()
    if not len(other):
        return parts
    row, value = table.number(other[0]), quoted(values[other[0]])
    if is_named:
        place = f"{table.origin}: row {row}, column {name!r}"
        raise AssentError(f"{place} is {value}; accepted: {', '.join(PARTS)}")
    warnings.warn(
        f"{table.origin}: column {name!r} is ignored, since row {row} says {value}; "
        f"accepted: {', '.join(PARTS)} in every row, or insist on it with {roles.naming('split', name)}",
        stacklevel=5,
    )
    return None


def _each_pair_once(log: pl.DataFrame, table: Table, duplicates: Duplicates) -> pl.DataFrame:
    """The rows of `log`, one of each pair; all rows of a pair have the same unwillingness."""
    if duplicates == "error":
        accepted = "each pair once, or keep one with duplicates='first' or duplicates='last'"
        refuse_repeated_pairs(log["user"], log["item"], table, accepted)
        return log
    in_time = log.with_row_index("row").sort("time", maintain_order=True)
    return in_time.unique(["user", "item"], keep=duplicates, maintain_order=True).sort("row").drop("row")


def _items_of_file(table: Table, roles: Roles) -> pl.DataFrame:
    # The log's item column may have another name in this file.
    ours = {role: name for role, name in roles.named.items() if role != "item" or name in table.names}
    ids = table.ids(Roles(ours, roles.example).find_needed(table, "item", also=("id",)))
    # "name" is tried here only: in a log it may be the person's.
    title = roles.find(table, "title", also=("name",))
    titles = table.titles(title) if title else no_values(len(ids), pl.String())
    return known_items(ids, titles, _categories(table, roles))


def _items_of_log(table: Table, ids: pl.Series, roles: Roles) -> pl.DataFrame:
    title = roles.find(table, "title")
    if title is None and roles.find(table, "category") is None:
        return NO_ITEMS
    titles = table.titles(title) if title else no_values(len(ids), pl.String())
    return known_items(ids, titles, _categories(table, roles))


def _categories(table: Table, roles: Roles) -> pl.Series:
    """The categories of each row: List[String], may be empty."""
    name = roles.find(table, "category")
    lists = table.categories(name) if name else no_values(table.height, pl.List(pl.String))
    named = pl.element().str.strip_chars().replace("", None).drop_nulls()
    return lists.list.eval(named).fill_null([])


def _sealed(table: Table, roles: Roles, away: pl.DataFrame, known: pl.DataFrame | None) -> pl.DataFrame:
    """The `Interactions.sealed` of the rows of `table`, which were turned away with the verdicts `away`."""
    title = roles.find(table, "title")
    if known is not None:
        away = away.join(known.select("item", "title"), on="item", how="left", maintain_order="left")
    else:
        titles = no_values(table.height, pl.String())
        with suppress(AssentError):  # whatever stands there, it stops nobody
            titles = table.titles(title) if title else titles
        away = away.with_columns(title=titles)
    return away.select(NO_ROWS.columns).unique(["user", "item"], keep="first", maintain_order=True)
