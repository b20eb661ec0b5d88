"""How long a reproduction still takes: cells of a kind take about as long as each other, kinds do not."""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from assent.experiments.store import Kept, Key, Store

Kind = tuple[str, ...]
"""What is measured first, then where: the longer a beginning two kinds share, the more they are alike."""
_SECONDS = 30.0
"""Between two looks into the store."""


@dataclass
class TimeLeft:
    """Seconds until all `waiting` cells are there, at `jobs` of them at once; None while none is known.

    A cell is expected to take the mean of those that are there: of its kind, or else of the most similar.
    """

    store: Store
    waiting: Sequence[tuple[Kind, Key]]
    jobs: int
    clock: Callable[[], float] = time.monotonic
    _spent: defaultdict[Kind, float] = field(default_factory=lambda: defaultdict(float))
    _number: Counter[Kind] = field(default_factory=Counter)
    _looked: float | None = None

    def learn(self, kind: Kind, kept: Kept) -> None:
        """Take account of a cell that is there."""
        for length in range(len(kind) + 1):
            self._spent[kind[:length]] += kept.seconds
            self._number[kind[:length]] += 1

    def __call__(self) -> float | None:
        """The seconds, as of the last look."""
        if self._looked is None or self.clock() - self._looked >= _SECONDS:
            self._look()
        if not self._number:
            return None
        return sum(map(self._expected, (kind for kind, _ in self.waiting))) / max(self.jobs, 1)

    def _look(self) -> None:
        self._looked, still = self.clock(), []
        for kind, key in self.waiting:
            kept = self.store.find(key)
            if kept is None:
                still.append((kind, key))
            else:
                self.learn(kind, kept)
        self.waiting = still

    def _expected(self, kind: Kind) -> float:
        known = next(kind[:length] for length in range(len(kind), -1, -1) if self._number[kind[:length]])
        return self._spent[known] / self._number[known]
