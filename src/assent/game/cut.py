"""Which rows of a log in partitions a budget allows, in the order of their scores.

Rows are in the order of (−score, unwillingness, person, time, file, row), as `cheapest_first` has them. What
a budget allows is a start of that list, so the decision on all rows is a single *cut*: the last row that is
disclosed. It is found in a few passes over the partitions:

    each part names some of its rows, evenly spaced      candidates for the cut
    each part adds up what people pay up to candidates   a search among them, three at a time
    each part sends its rows between two candidates      few enough to finish in memory

The process that leads holds a number for each person, never the log.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import polars as pl

from assent.game.budget import fitting, up_to_rounding, within
from assent.game.prices import break_even_prices, worth_disclosing
from assent.lab.executor import Executor
from assent.lab.partitions import Part, ids_of
from assent.support.arrays import Bools, Floats, Ints, Strings, sum_by
from assent.support.errors import AssentError
from assent.support.files import read_json, write_bytes
from assent.support.progress import SILENT, Advance, Progress

Order = Literal["threshold", "occurrence", "value"]
"""By what rows are disclosed: the least unwillingness, the score of `Occurrence`, or given values."""
ORDERS: Final = ("threshold", "occurrence", "value")
_CANDIDATES = 64
"""Rows that each part names."""
_AT_ONCE = 3
"""Candidates that are tried in one pass."""


@dataclass(frozen=True)
class Scores:
    """The scores of rows: what they are ordered by."""

    order: Order
    item_ids: Strings = field(default_factory=lambda: np.zeros(0, np.str_))
    """Sorted; with `counts` how many rows have the item, for `occurrence`."""
    counts: Ints = field(default_factory=lambda: np.zeros(0, np.int64))

    def of(self, table: pl.DataFrame) -> Floats:
        """Return the score of each row: [rows]."""
        minded = table["unwillingness"].to_numpy()
        if self.order == "threshold":
            return -minded
        if self.order == "value":
            return break_even_prices(table["value"].to_numpy(), minded)
        others = (self.counts[np.searchsorted(self.item_ids, ids_of(table["item"]))] - 1).astype(np.float64)
        return np.where(minded == 0, np.inf, break_even_prices(others, minded))


class Place(NamedTuple):
    """A row's place in the order."""

    falling_score: float
    unwillingness: float
    user: str
    time: float
    part: int
    row: int


@dataclass(frozen=True)
class Cut:
    """The decision on all rows: disclosed up to `last`; None: nothing is."""

    scores: Scores
    last: Place | None

    def disclosed(self, part: Part, table: pl.DataFrame) -> Bools:
        """Return which rows of a part are disclosed: [rows]."""
        if self.last is None:
            return np.zeros(table.height, dtype=np.bool_)
        number = np.full(table.height, part.number)
        keys = [-self.scores.of(table), table["unwillingness"].to_numpy(), ids_of(table["user"]),
                table["time"].to_numpy(), number, table["row"].to_numpy()]  # fmt: skip
        return _until(keys, self.last)

    def keep(self, file: Path) -> None:
        """Write it to a file."""
        scores = self.scores
        about = {
            "order": scores.order,
            "last": self.last and [*map(str, self.last)],
            "item_ids": scores.item_ids.tolist(),
            "counts": scores.counts.tolist(),
        }
        write_bytes(file, json.dumps(about).encode(), private=True)

    @classmethod
    def kept(cls, file: Path) -> "Cut | None":
        """Read it from a file, if that is there."""
        if not file.exists():
            return None
        about = read_json(file)
        ids, counts = np.array(about["item_ids"], dtype=np.str_), np.array(about["counts"], dtype=np.int64)
        last = None
        if about["last"] is not None:
            kinds = float, float, str, float, int, int
            last = Place(*(kind(each) for kind, each in zip(kinds, about["last"], strict=True)))
        return cls(Scores(about["order"], ids, counts), last)


@dataclass(frozen=True)
class AtPrice:
    """The decision on rows with given values: disclosed if they are worth more than their price."""

    price: float

    def disclosed(self, part: Part, table: pl.DataFrame) -> Bools:
        """Return which rows of a part are disclosed: [rows]."""
        return worth_disclosing(table["value"].to_numpy(), table["unwillingness"].to_numpy(), self.price)


@dataclass(frozen=True)
class _People:
    """Everybody, sorted, and the scores of rows."""

    user_ids: Strings
    scores: Scores

    def keys(self, table: pl.DataFrame) -> tuple[Floats, Floats, Ints]:
        """Return what orders rows, as far as the search looks at it: [rows] each."""
        users = np.searchsorted(self.user_ids, ids_of(table["user"]))
        return -self.scores.of(table), table["unwillingness"].to_numpy(), users


class _Tried(NamedTuple):
    """Candidates to try: those before the first and after the last are out of the question."""

    people: _People
    cuts: tuple[tuple[float, float, int], ...]


class _Seen(NamedTuple):
    """The people of a part with what they mind, and its items with their numbers of rows."""

    users: Strings
    minded: Floats
    items: Strings
    counts: Ints


class _Rows(NamedTuple):
    """Rows between two candidates; [rows] each."""

    falling: Floats
    unwillingness: Floats
    users: Ints
    time: Floats
    part: Ints
    row: Ints


def cut_within(
    parts: Sequence[Part], order: Order, share: float, *, executor: Executor, progress: Progress = SILENT
) -> Cut:
    """Return the cut within the budget of `share`: what is disclosed is the longest start that it allows."""
    with progress.task("reading what people mind", len(parts)) as advance:
        seen = executor.map(_see, parts, None, advance)
    user_ids = np.unique(np.concatenate([each.users for each in seen]))
    item_ids = np.unique(np.concatenate([each.items for each in seen]))
    counts, minded = np.zeros(len(item_ids), np.int64), np.zeros(len(user_ids))
    for each in seen:
        counts[np.searchsorted(item_ids, each.items)] += each.counts
        minded[np.searchsorted(user_ids, each.users)] += each.minded
    if not len(user_ids):
        raise AssentError(f"{parts[0].file.parent}: no row that may be used; accepted: at least one")
    allowances = up_to_rounding(share) * minded
    scores = Scores(order, item_ids, counts) if order == "occurrence" else Scores(order)
    people = _People(user_ids, scores)
    with progress.task("deciding, candidates", len(parts)) as advance:
        named = executor.map(_candidates, parts, people, advance)
    cuts = sorted({each for some in named for each in some})
    low, high, paid = -1, len(cuts), np.zeros(len(user_ids))
    while high - low > 1:
        steps = np.linspace(low, high, _AT_ONCE + 2).astype(np.int64).tolist()
        tried = sorted({max(step, low + 1) for step in steps[1:-1]})
        with progress.task(f"deciding among {high - low:,} candidates", len(parts)) as advance:
            found = executor.map(_paid, parts, _Tried(people, tuple(cuts[n] for n in tried)), advance)
        for number, sums in zip(tried, _together(found, len(tried), len(user_ids)), strict=True):
            if not within(allowances, sums):
                high = number
                break
            low, paid = number, sums
    if high == len(cuts):  # the last of all rows is a candidate
        return Cut(people.scores, Place(np.inf, np.inf, "", np.inf, 0, 0))
    between = _Tried(people, (cuts[high],) if low < 0 else (cuts[low], cuts[high]))
    with progress.task("deciding, the last rows", len(parts)) as advance:
        near = executor.map(_between, parts, between, advance)
    rows = _Rows(*(np.concatenate(each) for each in zip(*near, strict=True)))
    in_order = np.lexsort(tuple(reversed(rows)))
    count = fitting(allowances, in_order, rows.users, rows.unwillingness, paid)
    if count:
        falling, unwillingness, user, *rest = (each[in_order[count - 1]] for each in rows)
        return Cut(people.scores, Place(falling, unwillingness, str(user_ids[user]), *rest))
    if low < 0:
        return Cut(people.scores, None)
    falling, unwillingness, user = cuts[low]
    return Cut(people.scores, Place(falling, unwillingness, str(user_ids[user]), np.inf, 0, 0))


def _until(keys: Sequence[Any], last: Sequence[Any]) -> Bools:
    """Return which rows come up to `last` in the order of their `keys`, each [rows]: [rows]."""
    before, level = np.zeros(len(keys[0]), np.bool_), np.ones(len(keys[0]), np.bool_)
    for key, end in zip(keys, last, strict=True):
        before |= level & (key < end)
        level &= key == end
    return before | level


def _see(shared: None, part: Part, tell: Advance) -> _Seen:
    """Return who and what is in a part."""
    table = part.read()
    users, owners = np.unique(ids_of(table["user"]), return_inverse=True)
    items, counts = np.unique(ids_of(table["item"]), return_counts=True)
    tell()
    return _Seen(users, sum_by(owners, table["unwillingness"].to_numpy(), len(users)), items, counts)


def _candidates(people: _People, part: Part, tell: Advance) -> list[tuple[float, float, int]]:
    """Return the keys of evenly spaced rows of a part in its order, the last one among them."""
    falling, minded, users = people.keys(part.read())
    order = np.lexsort((users, minded, falling))
    some = order[np.linspace(0, len(order) - 1, min(_CANDIDATES, len(order))).astype(np.int64)]
    tell()
    return list(zip(falling[some].tolist(), minded[some].tolist(), users[some].tolist(), strict=True))


def _paid(tried: _Tried, part: Part, tell: Advance) -> tuple[Ints, Floats]:
    """Return the people of a part, [n], and what each pays there up to each candidate: [candidates, n]."""
    keys = tried.people.keys(part.read())
    users, owners = np.unique(keys[2], return_inverse=True)
    sums = [sum_by(owners, keys[1] * _until(keys, cut), len(users)) for cut in tried.cuts]
    tell()
    return users, np.array(sums)


def _together(found: Sequence[tuple[Ints, Floats]], candidates: int, people: int) -> Floats:
    """Add up what parts found, in their order: [candidates, people]."""
    paid = np.zeros((candidates, people))
    for users, sums in found:
        paid[:, users] += sums
    return paid


def _between(tried: _Tried, part: Part, tell: Advance) -> _Rows:
    """Return the rows of a part after the first candidate, if there are two, and up to the last one."""
    table = part.read()
    keys = tried.people.keys(table)
    here = _until(keys, tried.cuts[-1])
    if len(tried.cuts) > 1:
        here &= ~_until(keys, tried.cuts[0])
    time, row = table["time"].to_numpy(), table["row"].to_numpy().astype(np.int64)
    tell()
    number = np.full(int(here.sum()), part.number)
    return _Rows(keys[0][here], keys[1][here], keys[2][here], time[here], number, row[here])
