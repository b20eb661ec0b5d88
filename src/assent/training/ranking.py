"""The best items of many people: a block of scores at a time, of which compiled loops keep the k largest."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import torch

from assent.support.arrays import Ints, Strings, slices
from assent.support.compiled import compiled
from assent.support.errors import AssentError
from assent.support.runtime import one_thread, reuse_freed_memory

_SCORES = 2**23
"""Scores per block: 32 MB, the most that the C library gives out again without asking the system."""
Scores = npt.NDArray[np.floating[Any]]
"""Floating-point array [rows, candidates]; larger is better, -inf marks an excluded candidate."""
Pairs = pl.DataFrame | Iterable[tuple[str, str]]
"""Pairs of user and item: a table with these columns, or tuples."""


@dataclass(frozen=True)
class Hidden:
    """What is not recommended to whom: to person p the `columns[starts[p] : starts[p + 1]]`, which rise."""

    starts: Ints  # [people + 1]
    columns: Ints

    @classmethod
    def of(cls, people: pl.Series, item_ids: Strings, *pairs: Pairs) -> "Hidden":
        """Return the places in `item_ids` of each person's items in `pairs`; others are no matter."""
        rows = pl.DataFrame({"user": people}).with_row_index("row")
        columns = pl.DataFrame({"item": pl.Series(item_ids, dtype=pl.String)}).with_row_index("column")
        listed = pl.concat(map(_table_of, ([], *pairs)))
        found = listed.join(rows, on="user").join(columns, on="item").unique(["row", "column"])
        found = found.sort("row", "column")
        counts = np.bincount(found["row"].to_numpy(), minlength=len(people))
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return cls(starts, found["column"].to_numpy().astype(np.int64))


def _table_of(pairs: Pairs) -> pl.DataFrame:
    """Return pairs as a table of the columns user and item, both text."""
    kinds = {"user": pl.String, "item": pl.String}
    if not isinstance(pairs, pl.DataFrame):
        pairs = pl.DataFrame(list(pairs), kinds, orient="row")
    if missing := kinds.keys() - set(pairs.columns):
        raise AssentError(f"exclude: no column {min(missing)}; accepted: a table with user and item")
    return pairs.select(pl.col("user", "item").cast(pl.String))


def best_items(
    people: pl.Series, item_ids: Strings, k: int, scores_of: Callable[[slice], Scores], *pairs: Pairs
) -> pl.DataFrame:
    """Return the k best items of each person: a table of user, item, score and rank (1 is the best).

    `scores_of` gives the scores of the people in a slice for all items, in the first columns of an array:
    [people, len(item_ids) or more]; several threads call it at once. Pairs are not recommended, nor are items
    of score -inf. Equal scores are ordered by the ids of items. Raises if a score is NaN.
    """
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise AssentError(f"k={k!r}: accepted: a positive integer")
    hidden = Hidden.of(people, item_ids, *pairs)
    shape = len(people), min(k, len(item_ids))
    columns, scores = np.full(shape, -1, dtype=np.int64), np.full(shape, -np.inf)
    reuse_freed_memory()

    def fill(here: slice) -> bool:
        block, starts = np.ascontiguousarray(scores_of(here)), hidden.starts[here.start : here.stop + 1]
        return _keep_best(block, len(item_ids), starts, hidden.columns, columns[here], scores[here])

    blocks = slices(shape[0] if shape[1] else 0, max(1, _SCORES // (len(item_ids) + 1)))
    threads = torch.get_num_threads()
    # A thread for each block: the scores of a block do not depend on the number of threads.
    with one_thread(), ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        is_whole = all(pool.map(fill, blocks))
    if not is_whole:
        raise AssentError("scores: the model has diverged (NaN); train it with other settings")
    rows, places = np.nonzero(columns >= 0)
    return pl.DataFrame(
        {
            "user": people.gather(rows),
            "item": pl.Series(item_ids, dtype=pl.String).gather(columns[rows, places]),
            "score": scores[rows, places],
            "rank": places + 1,
        }
    )


@compiled
def _keep_best(
    scores: npt.NDArray[Any], items: int, starts: Ints, hidden: Ints, columns: Ints, best: npt.NDArray[Any]
) -> bool:
    """Write the best columns of each row and their scores, best first; return whether no score is NaN.

    While a row is scanned, its list is a heap with the worst at the root. Columns rise, so that one of equal
    score never replaces one that is there.
    """
    k = columns.shape[1]
    for row in range(len(scores)):
        line, kept, values, count = scores[row], columns[row], best[row], 0
        worst = -np.inf
        first = 0
        for place in range(starts[row], starts[row + 1] + 1):
            end = items if place == starts[row + 1] else hidden[place]
            for column in range(first, end):
                score = line[column]
                if score <= worst:
                    continue
                if np.isnan(score):
                    return False
                if count < k:
                    _rise(kept, values, count, column, score)
                    count += 1
                else:
                    _sink(kept, values, count, column, score)
                if count == k:
                    worst = values[0]
            first = end + 1
        while count:  # the worst of those left goes to the end
            count -= 1
            column, score = kept[count], values[count]
            kept[count], values[count] = kept[0], values[0]
            _sink(kept, values, count, column, score)
    return True


@compiled
def _rise(kept: Ints, values: npt.NDArray[Any], place: int, column: int, score: float) -> None:
    """Put a candidate at the end of the heap, `place`, and move it to where it belongs."""
    while place:
        above = (place - 1) // 2
        if score > values[above] or (score == values[above] and column < kept[above]):
            break
        kept[place], values[place] = kept[above], values[above]
        place = above
    kept[place], values[place] = column, score


@compiled
def _sink(kept: Ints, values: npt.NDArray[Any], count: int, column: int, score: float) -> None:
    """Put a candidate in the place of the root of a heap of `count`, and move it to where it belongs."""
    place = 0
    while 2 * place + 1 < count:
        below = 2 * place + 1
        other = below + 1
        if other < count and (
            values[other] < values[below] or (values[other] == values[below] and kept[other] > kept[below])
        ):
            below = other
        if score < values[below] or (score == values[below] and column > kept[below]):
            break
        kept[place], values[place] = kept[below], values[below]
        place = below
    if count:
        kept[place], values[place] = column, score
