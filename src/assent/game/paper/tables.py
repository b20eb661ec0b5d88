"""Strategies as the paper has them: α^u, a probability for each of a player's 2^|S| selections.

They are stored by classes of equally likely selections. The binomial prior has |S| + 1 classes, its *levels*:
all selections with the same number of interactions. A step of Algorithm 3 moves one selection, then shifts
and clips all alike. So selections that were never sampled stay equal within their level, and only a sampled
one becomes a class of its own. This is the whole table, exactly, in memory that grows with the number of
samples instead of 2^|S|.

A selection is written as a number, its *code*: bit j says whether the player's j-th interaction is disclosed.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from pydantic import BaseModel, ConfigDict, Field
from scipy.special import comb

from assent.data.wishes import USUAL_PRIOR
from assent.support.arrays import Floats, Ints, slices


class Strategy(StrEnum):
    """The form of a strategy."""

    FACTORED = "factored"
    """A probability per interaction; best responses in closed form (`game.solve`)."""
    TABLE = "table"
    """The paper's α^u: a probability for each of the 2^|S| selections, learnt from samples."""


class Gradient(StrEnum):
    """What step 6 of Algorithm 3 uses as the gradient at the sampled selection; 0 everywhere else."""

    WRITTEN = "written"
    """The reward itself, B of eq. (9), as printed."""
    RELATIVE = "relative"
    """The reward minus that of a draw from the player's last strategy against the same others."""
    UNBIASED = "unbiased"
    """That difference over the probability of the sample: unbiased, as Theorem 5 assumes, and very noisy."""


class TableSettings(BaseModel):
    """Settings of Algorithms 2 and 3; defaults are the paper's where it gives one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rounds: int = Field(10, ge=1, description="M, most rounds of Algorithm 2")
    samples: int = Field(1000, ge=1, description="L, samples per round")
    step: float = Field(0.01, gt=0, description="γ, step size of Algorithm 3")
    threshold: float = Field(1e-3, ge=0, description="κ: stop when no strategy moves more, Σ|Δα|")
    prior: float = Field(USUAL_PRIOR, gt=0, lt=1, description="s of the binomial prior if wishes have none")
    gradient: Gradient = Field(Gradient.RELATIVE, description="gradient at a sampled selection")


def simplex_shift(values: Floats, counts: Floats) -> Floats:
    """The shift τ of each row with Σ_c counts_c · max(values_c − τ, 0) = 1: [R].

    max(values − τ, 0) is the Euclidean projection of the row onto the simplex; entry values[R, C] occurs
    counts[R, C] times. Any subset gives a lower bound of τ, (its sum − 1) / its size. Start with all entries
    and drop those at most the bound until none is left to drop (Michelot 1986).
    """
    weighted = values * counts
    shift: Floats = (weighted.sum(axis=1) - 1) / counts.sum(axis=1)
    above = np.empty_like(values)
    while True:
        np.greater(values, shift[:, None], out=above)
        better = (np.einsum("rc,rc->r", weighted, above) - 1) / np.einsum("rc,rc->r", counts, above)
        if (better <= shift).all():
            return shift
        shift = np.maximum(shift, better)


LONGEST = 62
"""Most interactions that a code, a signed 64-bit integer, can hold."""
_BELOW_ONE = 1 - 1e-9
"""Largest draw: rounding must not carry it past the last class."""
_BLOCK = 512
"""Selections that are looked up at once."""


@dataclass
class Tables:
    """The strategies of R players in C classes of selections.

    The first W = longest history + 1 classes are the levels: class w holds the selections of w interactions
    that have no class of their own. Every other class holds one selection, or none yet.
    """

    lengths: Ints
    """[R], |S|"""
    codes: Ints
    """[R, C], the selection of a class; −1 for levels and unused classes."""
    counts: Floats
    """[R, C], number of selections in the class."""
    chances: Floats
    """[R, C], probability of each single selection in the class."""

    @classmethod
    def prior(cls, lengths: Ints, rate: float | Floats) -> "Tables":
        """The binomial prior: n of |S| interactions have probability C(|S|, n) s^n (1 − s)^(|S| − n).

        s is `rate`, one for everybody or [R].
        """
        sizes = np.arange(lengths.max(initial=0) + 1)
        left = np.maximum(lengths[:, None] - sizes, 0)
        counts = np.asarray(comb(lengths[:, None], sizes), dtype=np.float64)
        s = np.reshape(rate, (-1, 1))
        chances = np.where(counts > 0, s**sizes * (1 - s) ** left, 0.0)
        return cls(lengths, np.full(counts.shape, -1), counts, chances)

    @property
    def levels(self) -> int:
        """W."""
        return int(self.lengths.max(initial=0)) + 1

    def draw(self, count: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
        """Sample `count` selections of every player; their classes and codes, both [R, count]."""
        n_players, n_classes = self.chances.shape
        reached = np.cumsum(self.counts * self.chances, axis=1)
        reached /= reached[:, -1:]
        row = np.arange(n_players)[:, None]
        lots = row + np.minimum(rng.random((n_players, count)), _BELOW_ONE)
        found = np.searchsorted((reached + row).ravel(), lots.ravel(), side="right")
        classes: Ints = found.reshape(lots.shape) - row * n_classes
        codes = np.take_along_axis(self.codes, classes, axis=1)
        players, which = np.nonzero(classes < self.levels)
        codes[players, which] = self._from_levels(players, classes[players, which], rng)
        return classes, codes

    def _from_levels(self, players: Ints, sizes: Ints, rng: np.random.Generator) -> Ints:
        """A random selection of sizes[P] interactions for each of players[P], uniform over the level: [P].

        Selections with a class of their own no longer belong to the level and are drawn again.
        """
        codes, lengths = np.empty(len(players), dtype=np.int64), self.lengths[players]
        open_ = np.arange(len(players))
        while len(open_):
            codes[open_] = random_codes(lengths[open_], sizes[open_], rng)
            has_class = [
                (self.codes[players[some], self.levels :] == codes[some, None]).any(axis=1)
                for some in (open_[part] for part in slices(len(open_), _BLOCK))
            ]
            open_ = open_[np.concatenate(has_class)]
        return codes

    def marginals(self) -> Floats:
        """The probability that each interaction is disclosed, 0 beyond a history's end: [R, longest]."""
        longest = self.levels - 1
        bits = bits_of(self.codes[:, self.levels :], longest)
        sizes = bits.sum(axis=2)
        levels = self.chances[:, : self.levels]
        # First as if every level were whole, then the excess of selections with a class of their own.
        with_it = comb(np.maximum(self.lengths - 1, 0)[:, None], np.arange(self.levels) - 1)
        whole = (levels * with_it).sum(axis=1, keepdims=True)
        used = self.counts[:, self.levels :]
        excess = used * (self.chances[:, self.levels :] - np.take_along_axis(levels, sizes, axis=1))
        found = whole + np.einsum("rc,rcj->rj", excess, bits)
        return np.where(np.arange(longest) < self.lengths[:, None], found, 0.0)


class Learning:
    """The strategies of R players while they learn from at most `samples` samples, from `start` on.

    Steps 3 to 9 of Algorithm 3: move the sampled selection, project onto the simplex, average over the steps.
    """

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
        """α_l, without unused classes; a view that the next step changes."""
        used = slice(0, int(self._next.max(initial=self._levels)))
        return Tables(self._lengths, self._codes[:, used], self._counts[:, used], self._chances[:, used])

    def step(self, classes: Ints, codes: Ints, moves: Floats) -> None:
        """α_{l+1} = Π[α_l + moves at the sampled selections]; all arguments [R]."""
        # Sampled selections without a class of their own are split off from their levels.
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
        tables = self.now
        self._sum[:, : tables.chances.shape[1]] += tables.chances
        self._steps += 1
        # A move of 2 leads to a corner from anywhere; larger ones would lose digits in the sums.
        tables.chances[np.arange(len(owned)), owned] += np.clip(moves, -2, 2)
        tables.chances -= simplex_shift(tables.chances, tables.counts)[:, None]
        np.maximum(tables.chances, 0, out=tables.chances)

    def average(self) -> tuple[Tables, Floats]:
        """(1/L) Σ_l α_l, and each player's distance from the start, Σ |Δα| over all selections: [R]."""
        now = self.now
        used = now.chances.shape[1]
        mean = self._sum[:, :used] / self._steps
        moved = (now.counts * np.abs(mean - self._start[:, :used])).sum(axis=1)
        return Tables(now.lengths, now.codes.copy(), now.counts.copy(), mean), moved


def bits_of(codes: Ints, length: int) -> Ints:
    """The first `length` bits of `codes[…]`: […, length]."""
    bits: Ints = (codes[..., None] >> np.arange(length)) & 1
    return bits


def random_codes(lengths: Ints, sizes: Ints, rng: np.random.Generator) -> Ints:
    """A uniform random selection of `sizes[P]` out of `lengths[P]` interactions each: codes [P]."""
    places = np.arange(lengths.max(initial=0))
    keys = rng.random((len(lengths), len(places)))
    keys[places >= lengths[:, None]] = 2
    bits = np.int64(1) << np.argsort(keys, axis=1)
    codes: Ints = np.where(places < sizes[:, None], bits, 0).sum(axis=1)
    return codes
