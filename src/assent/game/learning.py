"""Steps 3 to 9 of Algorithm 3: move what was sampled, project onto the simplex, average over the way."""

import numpy as np

from assent.arrays import Floats, Ints
from assent.game.simplex import simplex_shift
from assent.game.tables import Tables


class Learning:
    """The strategies of R players while they learn from at most `samples` samples, from `start` on."""

    def __init__(self, start: Tables, samples: int) -> None:
        self._lengths, self._levels = start.lengths, start.levels
        spare = ((0, 0), (0, samples))
        self._codes = np.pad(start.codes, spare, constant_values=-1)
        self._counts = np.pad(start.counts, spare)
        self._chances = np.pad(start.chances, spare)
        self._start = self._chances.copy()
        self._sum = np.zeros_like(self._chances)
        self._next: Ints = self._levels + (start.codes >= 0).sum(axis=1)
        self._steps = 0

    @property
    def now(self) -> Tables:
        """α_l, as far as classes are in use; a view that the next step changes."""
        used = slice(0, int(self._next.max(initial=self._levels)))
        return Tables(self._lengths, self._codes[:, used], self._counts[:, used], self._chances[:, used])

    def step(self, classes: Ints, codes: Ints, moves: Floats) -> None:
        """α_{l+1} = Π[α_l + moves at the selection that each player sampled], all arguments [R]."""
        classes = self._own_class(classes, codes)
        tables = self.now
        self._sum[:, : tables.chances.shape[1]] += tables.chances
        self._steps += 1
        # A move of 2 leads to a corner from anywhere; the sums of much larger ones would lose all digits.
        tables.chances[np.arange(len(classes)), classes] += np.clip(moves, -2, 2)
        tables.chances -= simplex_shift(tables.chances, tables.counts)[:, None]
        np.maximum(tables.chances, 0, out=tables.chances)

    def average(self) -> tuple[Tables, Floats]:
        """(1/L) Σ_l α_l, and how far that is from the start, Σ |Δα| over the selections of a player: [R]."""
        now = self.now
        used = now.chances.shape[1]
        mean = self._sum[:, :used] / self._steps
        moved = (now.counts * np.abs(mean - self._start[:, :used])).sum(axis=1)
        return Tables(now.lengths, now.codes.copy(), now.counts.copy(), mean), moved

    def _own_class(self, classes: Ints, codes: Ints) -> Ints:
        """The classes that consist of the sampled selections alone; made where they were part of a level."""
        fresh = np.flatnonzero(classes < self._levels)
        place, level = self._next[fresh], classes[fresh]
        self._codes[fresh, place] = codes[fresh]
        self._counts[fresh, place] = 1
        self._counts[fresh, level] -= 1
        for known in (self._chances, self._start, self._sum):
            known[fresh, place] = known[fresh, level]
        self._next[fresh] += 1
        owned = classes.copy()
        owned[fresh] = place
        return owned
