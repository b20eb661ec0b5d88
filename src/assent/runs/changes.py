"""What changed between a run and the present log: new rows, changed minds, rows and people that are gone.

Changes say what became of rows, not how: a row that is gone and comes back is in `gone` and in `added`, and
what was known of it is forgotten. They are made from a run and a log (`Changes.between`) or by hand
(`Changes.of`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from assent.data.interactions import OWN_COLUMN, Interactions
from assent.results.words import plural
from assent.runs.folder import Run
from assent.support.errors import AssentError

PAIR: Final = ["user", "item"]
_SAID: Final = {"source": pl.String(), "said": pl.String()}
_ADDED: Final[Mapping[str, pl.DataType]] = {
    "user": pl.String(), "item": pl.String(), "unwillingness": pl.Float64(), **_SAID,
    "title": pl.String(), "category": pl.List(pl.String()),
}  # fmt: skip
_MINDS: Final[Mapping[str, pl.DataType]] = {
    "user": pl.String(), "item": pl.String(), "before": pl.Float64(), "after": pl.Float64(), **_SAID,
}  # fmt: skip
_GONE: Final[Mapping[str, pl.DataType]] = {"user": pl.String(), "item": pl.String()}


@dataclass(frozen=True)
class Changes:
    """What became of rows since a run: each table has at most one row per pair of user and item.

    They take place in this order: people are withdrawn, rows go, minds change, rows are added. The rows of
    a person who is withdrawn are in no other table, unless they come back: those are in `added`.
    """

    added: pl.DataFrame
    """New rows: user, item, unwillingness (1: turned away at the door), source, said, title, category."""
    minds: pl.DataFrame
    """Changed minds: user, item, the unwillingness before and after (1 is never), source, said."""
    gone: pl.DataFrame
    """Rows that are there no more: user, item."""
    withdrawn: tuple[str, ...] = ()
    """People of whom everything goes, sorted."""

    def __post_init__(self) -> None:
        for name, schema in (("added", _ADDED), ("minds", _MINDS), ("gone", _GONE)):
            object.__setattr__(self, name, _conformed(name, getattr(self, name), schema))
        object.__setattr__(self, "withdrawn", tuple(sorted(set(self.withdrawn))))
        both = self.minds.join(pl.concat([self.gone, self.added.select(PAIR)]), on=PAIR, how="semi")
        theirs = pl.concat([self.minds.select(PAIR), self.gone])
        if both.height or theirs["user"].is_in(self.withdrawn).any():
            raise AssentError(
                "changes: a row changes its mind and goes, is added or belongs to somebody who withdraws; "
                "accepted: one of these"
            )

    @classmethod
    def of(
        cls,
        *,
        added: Iterable[tuple[str, str, float]] = (),
        minds: Iterable[tuple[str, str, float, float]] = (),
        gone: Iterable[tuple[str, str]] = (),
        withdrawn: Iterable[str] = (),
    ) -> "Changes":
        """Changes that are listed: (user, item, unwillingness), (user, item, before, after), (user, item)."""
        people = [withdrawn] if isinstance(withdrawn, str) else list(withdrawn)
        if wrong := [each for each in people if not isinstance(each, str)]:
            raise AssentError(
                f"changes: withdrawn has {wrong[0]!r}; accepted: ids of people, and single rows in gone"
            )
        return cls(
            _listed("added", added, list(_ADDED)[:3]),
            _listed("minds", minds, list(_MINDS)[:4]),
            _listed("gone", gone, list(_GONE)),
            tuple(people),
        )

    @classmethod
    def between(cls, run: Run, log: Interactions) -> "Changes":
        """What changed from a run to the present log; a row that is turned away there or here counts too."""
        before = _rows_of(run)
        unread = log.sealed.with_columns(category=pl.lit([], pl.List(pl.String))).select(list(_ADDED))
        readable = log.minded.join(log.items, on="item", how="left").select(list(_ADDED))
        now = pl.concat([readable, unread])
        both = before.join(now, on=PAIR)
        minds = both.filter(pl.col("before") != pl.col("unwillingness")).rename({"unwillingness": "after"})
        here = now["user"].unique()
        gone = before.join(now, on=PAIR, how="anti")
        is_here = gone["user"].is_in(here.implode())
        withdrawn = gone.filter(~is_here)["user"].unique()
        return cls(
            added=now.join(before, on=PAIR, how="anti"),
            minds=minds.select(list(_MINDS)),
            gone=gone.filter(is_here).select(PAIR),
            withdrawn=tuple(withdrawn),
        )

    @property
    def people(self) -> list[str]:
        """The ids of all whom the changes are about, sorted."""
        tables = (self.added, self.said, self.gone)
        return sorted({*self.withdrawn, *(user for table in tables for user in table["user"])})

    @property
    def said(self) -> pl.DataFrame:
        """The changed minds that somebody spoke of: a mean that stands for silence changes with others."""
        return self.minds.filter(~pl.col("source").str.starts_with("rest:"))

    def rows_withdrawn(self, run: Run) -> int:
        """How many rows a run has of the people who are withdrawn."""
        return _rows_of(run).filter(pl.col("user").is_in(self.withdrawn)).height

    @property
    def is_empty(self) -> bool:
        """Whether nothing changed."""
        return not (self.added.height or self.minds.height or self.gone.height or self.withdrawn)

    def counts(self) -> dict[str, int]:
        """How many of each, for records: no ids."""
        never = int((self.said["after"] == 1).sum())
        return {
            "added": self.added.height,
            "changed": self.said.height - never,
            "never": never,
            "gone": self.gone.height,
            "people_withdrawn": len(self.withdrawn),
        }

    def summary(self) -> str:
        """One sentence for people."""
        found = self.counts()
        rows = (
            f"{plural(found['added'], 'interaction')} added, {found['changed']:,} with another unwillingness"
        )
        away = f"{found['never']:,} now never used, {found['gone']:,} gone"
        return f"{rows}, {away}; {plural(found['people_withdrawn'], 'person', 'people')} withdrawn."


def _rows_of(run: Run) -> pl.DataFrame:
    """Every row that a run knows, decided on, held out or turned away: user, item, before."""
    tables = (run.selection, run.held_out, run.sealed)
    listed = pl.concat(table.select(*PAIR, before="unwillingness") for table in tables)
    return listed.unique(PAIR, keep="first", maintain_order=True)


def _listed(name: str, rows: Iterable[tuple[Any, ...]], columns: list[str]) -> pl.DataFrame:
    """The table of some rows, each of which has ids and then numbers."""
    found = list(rows)
    for row in found:
        is_whole = isinstance(row, tuple | list) and len(row) == len(columns)
        if not is_whole or not all(isinstance(each, str) for each in row[:2]):
            raise AssentError(f"changes: {name} has {row!r}; accepted: ({', '.join(columns)}), ids as text")
        if not all(isinstance(each, int | float) for each in row[2:]):
            raise AssentError(f"changes: {name} has {row!r}; accepted: ({', '.join(columns)}), with numbers")
    kinds = {each: pl.String if each in PAIR else pl.Float64 for each in columns}
    return pl.DataFrame(found, kinds, orient="row", strict=False)


def _conformed(name: str, table: pl.DataFrame, schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """The table with the columns of `schema`, in the order of ids; what is not said is filled in."""
    needed = [column for column in schema if column not in ("source", "said", "title", "category")]
    if missing := [column for column in needed if column not in table.columns]:
        raise AssentError(f"changes: {name} has no column {missing[0]}; accepted: {', '.join(needed)}")
    usual: dict[str, Any] = {"source": OWN_COLUMN, "said": None, "title": None, "category": None}
    extra = [pl.lit(usual[each]).alias(each) for each in schema if each not in table.columns]
    try:
        found = table.with_columns(extra).select(pl.col(each).cast(kind) for each, kind in schema.items())
    except pl.exceptions.PolarsError as error:
        reason = str(error).splitlines()[0]
        raise AssentError(f"changes: {name} has other values than text and numbers ({reason})") from None
    if "category" in schema:
        found = found.with_columns(pl.col("category").fill_null([]))
    if found.select(PAIR).null_count().sum_horizontal()[0] or found.select(PAIR).is_duplicated().any():
        raise AssentError(f"changes: {name} has a pair of user and item twice, or none; accepted: each once")
    for column in schema.keys() & {"unwillingness", "before", "after"}:
        if not found[column].is_between(0, 1).fill_null(value=False).all():
            raise AssentError(f"changes: {name} has {column} that is not from 0 to 1; accepted: 0 to 1")
    return found.sort(PAIR)
