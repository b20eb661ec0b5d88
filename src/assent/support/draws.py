"""Random draws that are functions of a seed, a purpose and ids: never of positions or of the number of rows.

So a row that goes, or comes, leaves the draws of all others as they are. What is drawn for a row is keyed by
`Problem.row_keys`, what is drawn for a person by `Problem.user_keys`.
"""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from assent.support.arrays import Floats, Ints, Keys, mix, splitmix64, uniform
from assent.support.compiled import compiled


class Purpose(IntEnum):
    """What is drawn; no two kinds of draws share one."""

    ANCHORS = 0
    LOTS = 1
    TABLES = 2
    PROACTIVE = 3
    SCRATCH = 4
    GROUPS = 5
    FOLDS = 6
    TARGETS = 7
    PATHS = 8
    CANDIDATES = 9
    LISSA = 10
    LDS = 11
    APPROXIMATION = 12
    ORDER = 13
    PARAMETERS = 14
    CALIBRATION = 15
    NULL = 16
    DRIFT = 18


def lots(keys: Keys, seed: int, purpose: Purpose, *number: int) -> Floats:
    """Draw a number strictly between 0 and 1 per key; `number` tells draws of a purpose apart: [n]."""
    return uniform(mix(seed, purpose, *number, keys))


def by_lot(keys: Keys, seed: int, purpose: Purpose, *number: int) -> Ints:
    """Put keys into random order; the order of two does not depend on any other: places [n]."""
    return np.argsort(mix(seed, purpose, *number, keys), kind="stable")


def some_by_lot(keys: Keys, count: int, seed: int, purpose: Purpose, *number: int) -> Ints:
    """Draw `count` of the keys, all if there are fewer: rising places.

    If a drawn key goes, one more is drawn; all others stay.
    """
    if len(keys) <= count:
        return np.arange(len(keys))
    return np.sort(np.argpartition(mix(seed, purpose, *number, keys), count)[:count])


@dataclass(frozen=True)
class Urn:
    """Items to draw from, each equally likely.

    Every item has a cell of its own among a power of two, at least twice as many as there are items. A draw
    looks into random cells until one is not empty. An item's cell is a function of its key, or the next of
    its cells if items with smaller keys have the first. So an item that goes changes the draws of itself and
    of the few items that move to its cell; others change only where the number of cells does.
    """

    cells: npt.NDArray[np.int32]
    """The item in each cell, −1 in empty ones."""

    @classmethod
    def of(cls, keys: Keys) -> "Urn":
        """Return the urn of the items 0 .. n − 1 with these distinct `keys[n]`."""
        size = 1 << (2 * len(keys) - 1).bit_length() if len(keys) else 1
        return cls(_fill(keys, np.argsort(keys, kind="stable"), size))

    def draw(self, keys: Keys) -> Ints:
        """Draw an item per key; 0 if there is none: the shape of `keys`."""
        users, starts = np.zeros(keys.size, dtype=np.int64), np.zeros(2, dtype=np.int64)
        drawn = self.draw_other(keys.reshape(-1, 1), users, starts, starts[:0], attempts=1)
        return drawn.reshape(keys.shape)

    def draw_other(self, keys: Keys, users: Ints, starts: Ints, items: Ints, attempts: int) -> Ints:
        """Draw an item per key of `keys[n, m]` that `users[n]` do not have; 0 if there are no items: [n, m].

        User u has the rising `items[starts[u] : starts[u + 1]]`. After so many `attempts` an item that the
        user has is taken.
        """
        if len(self.cells) == 1:
            return np.zeros(keys.shape, dtype=np.int64)
        return _draw_other(self.cells, np.ascontiguousarray(keys), users, starts, items, attempts)

    def draw_distinct(self, keys: Keys, users: Ints, starts: Ints, items: Ints, count: int) -> Ints:
        """Draw `count` distinct items per key that `users[n]` do not have: [n, count].

        Every order of such items is equally likely. Where a user lacks fewer than `count` items, those are
        repeated in the order drawn; where they lack none, all are −1. User u has the distinct
        `items[starts[u] : starts[u + 1]]`.
        """
        n_items = int(self.cells.max(initial=-1)) + 1
        return _draw_distinct(self.cells, n_items, keys, users, starts, items, count)


mixed_key = compiled(splitmix64)
"""`splitmix64` of one key, in compiled code."""
_STEP = np.uint64(0x9E3779B97F4A7C15)


@compiled
def _fill(keys: Keys, order: Ints, size: int) -> npt.NDArray[np.int32]:
    cells, mask = np.full(size, -1, dtype=np.int32), np.uint64(size - 1)
    for item in order:
        state = keys[item]
        while cells[mixed_key(state) & mask] >= 0:
            state += _STEP
        cells[mixed_key(state) & mask] = item
    return cells


@compiled
def _draw_other(
    cells: npt.NDArray[np.int32], keys: Keys, users: Ints, starts: Ints, items: Ints, attempts: int
) -> Ints:
    found, mask = np.empty(keys.shape, dtype=np.int64), np.uint64(len(cells) - 1)
    for n in range(keys.shape[0]):
        first, last = starts[users[n]], starts[users[n] + 1]
        for m in range(keys.shape[1]):
            state, item = keys[n, m], -1
            for _ in range(attempts):
                item = -1
                while item < 0:
                    item = cells[mixed_key(state) & mask]
                    state += _STEP
                low, high = first, last
                while low < high:
                    middle = (low + high) // 2
                    if items[middle] < item:
                        low = middle + 1
                    else:
                        high = middle
                if low == last or items[low] != item:
                    break
            found[n, m] = item
    return found


@compiled
def _draw_distinct(
    cells: npt.NDArray[np.int32],
    n_items: int,
    keys: Keys,
    users: Ints,
    starts: Ints,
    items: Ints,
    count: int,
) -> Ints:
    found, mask = np.empty((len(keys), count), dtype=np.int64), np.uint64(len(cells) - 1)
    met = np.full(n_items, -1, dtype=np.int64)  # the last key for which an item may not be drawn any more
    for n in range(len(keys)):
        first, last = starts[users[n]], starts[users[n] + 1]
        for k in range(first, last):
            met[items[k]] = n
        lacked = n_items - (last - first)
        state = keys[n]
        for m in range(count):
            if m >= lacked:
                found[n, m] = found[n, m - lacked] if lacked else -1
                continue
            item = -1
            while item < 0 or met[item] == n:
                item = cells[mixed_key(state) & mask]
                state += _STEP
            met[item] = n
            found[n, m] = item
    return found
