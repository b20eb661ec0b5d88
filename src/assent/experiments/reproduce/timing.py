"""How long a reproduction still takes: cells of a kind take about as long as each other, kinds do not.

What is learnt of one kind and expected of another is in proportion to the rows of their data sets.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from assent.experiments.store import Kept, Key, Store

Kind = tuple[str, ...]
"""What is measured first, then where: the longer a beginning two kinds share, the more they are alike."""
_SECONDS = 30.0
"""Between two looks into the store."""


class Waiting(NamedTuple):
    """A cell that is not there yet."""

    kind: Kind
    key: Key
    rows: int
    """How many rows its data set has."""


@dataclass
class TimeLeft:
    """Seconds until all `waiting` cells are there, at `jobs` of them at once; None while none is known.

    A cell is expected to take what a row of those that are there took, of its kind or else of the most
    similar. The first of those that wait are being computed, since the last one came.
    """

    store: Store
    waiting: Sequence[Waiting]
    jobs: int
    clock: Callable[[], float] = time.monotonic
    _spent: defaultdict[Kind, float] = field(default_factory=lambda: defaultdict(float))
    _rows: Counter[Kind] = field(default_factory=Counter)
    _looked: float | None = None
    _came: float = 0.0

    def learn(self, kind: Kind, rows: int, kept: Kept) -> None:
        """Take account of a cell that is there."""
        for length in range(len(kind) + 1):
            self._spent[kind[:length]] += kept.seconds
            self._rows[kind[:length]] += rows

    def __call__(self) -> float | None:
        """The seconds, as of now; who has come is looked up now and then."""
        now = self.clock()
        if self._looked is None or now - self._looked >= _SECONDS:
            self._look(now)
        if not self._rows:
            return None
        expected, jobs = [self._expected(cell) for cell in self.waiting], max(self.jobs, 1)
        begun = sum(min(seconds, now - self._came) for seconds in expected[:jobs])
        return (sum(expected) - begun) / jobs

    def _look(self, now: float) -> None:
        still = []
        for cell in self.waiting:
            kept = self.store.find(cell.key)
            if kept is None:
                still.append(cell)
            else:
                self.learn(cell.kind, cell.rows, kept)
        if self._looked is None or len(still) < len(self.waiting):
            self._came = now
        self._looked, self.waiting = now, still

    def _expected(self, cell: Waiting) -> float:
        kinds = (cell.kind[:length] for length in range(len(cell.kind), -1, -1))
        known = next(kind for kind in kinds if self._rows[kind])
        return self._spent[known] / self._rows[known] * cell.rows
