"""How a player's strategy is held, and the settings of the paper's own.

The Euclidean projection onto the simplex, for numbers that are given once with how often they occur.

Strategies as the paper has them: α^u, a probability for each of a player's 2^|S| selections.

They are held by classes of equally likely selections. The binomial prior knows |S| + 1 of them, its *levels*:
all selections with the same number of interactions. The step of Algorithm 3 moves one selection and then
shifts and clips all alike, so that those never sampled stay equal within their level, and only a sampled one
becomes a class of its own. This is the whole table, exactly, in memory that grows with the samples drawn
instead of with 2^|S|.

A selection is written as a number, its *code*: bit j says whether the player's j-th interaction is disclosed.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from pydantic import BaseModel, ConfigDict, Field
from scipy.special import comb

from assent.data.wishes import USUAL_PRIOR
from assent.support.arrays import Bools, Floats, Ints, slices


class Strategy(StrEnum):
    """The form of a strategy."""

    FACTORED = "factored"
    """A probability per interaction; best responses in closed form (`solve`)."""
    TABLE = "table"
    """The paper's α^u: a probability for each of the 2^|S| selections, learnt from samples (`algorithms`)."""


class Gradient(StrEnum):
    """What step 6 of Algorithm 3 puts at the selection that was sampled; zero everywhere else."""

    WRITTEN = "written"
    """The reward itself, B of eq. (9): to the letter."""
    RELATIVE = "relative"
    """The reward less that of a draw from her last round's strategy against the same others."""
    UNBIASED = "unbiased"
    """That gain divided by the probability of the sample: unbiased, as Theorem 5 supposes, and very noisy."""


class TableSettings(BaseModel):
    """How Algorithms 2 and 3 are run; the figures are those of the paper where it has one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rounds: int = Field(10, ge=1, description="M, largest number of rounds of Algorithm 2")
    samples: int = Field(1000, ge=1, description="L, samples that a strategy is learnt from in each round")
    step: float = Field(0.01, gt=0, description="γ, learning rate of Algorithm 3")
    threshold: float = Field(1e-3, ge=0, description="κ: stop when no strategy moves farther, Σ|Δα|")
    prior: float = Field(USUAL_PRIOR, gt=0, lt=1, description="s of the binomial prior without --prior")
    gradient: Gradient = Field(Gradient.RELATIVE, description="what a sample adds to its selection")


def simplex_shift(values: Floats, counts: Floats) -> Floats:
    """The shift τ of each row with Σ_c counts_c · max(values_c − τ, 0) = 1: [R].

    max(values − τ, 0) is then the point of the simplex that is nearest to the row, in which values[R, C]
    occur counts[R, C] times. Every set of numbers gives a lower bound of τ, (their sum − 1) / how many they
    are; starting from all of them, those at most the bound are dropped until none is left to drop (Michelot
    1986).
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
"""Interactions that a code, a signed integer of 64 bits, has room for."""
_BELOW_ONE = 1 - 1e-9
"""No draw comes so near to 1 that rounding could carry it past the last class."""


@dataclass
class Tables:
    """The strategies of R players in C classes of selections.

    The first W = longest history + 1 classes are the levels: class w holds the selections of w interactions
    that are no class of their own. The others hold one selection each, or none yet.
    """

    lengths: Ints
    """[R], |S|"""
    codes: Ints
    """[R, C], the selection that a class consists of; −1 for levels and classes not used yet."""
    counts: Floats
    """[R, C], selections in the class."""
    chances: Floats
    """[R, C], the probability of each single selection in the class."""

    @classmethod
    def prior(cls, lengths: Ints, rate: float | Floats) -> "Tables":
        """The binomial prior: n interactions of |S| have C(|S|, n) s^n (1 − s)^(|S| − n) together.

        s is `rate`, that of everybody or [R].
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
        """Sample `count` selections of every player: their classes and their codes, both [R, count]."""
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
        """A selection of sizes[P] interactions for each of players[P], all as likely: codes [P].

        Those that are a class of their own do not belong to a level any more and are drawn again.
        """
        codes = np.empty(len(players), dtype=np.int64)
        open_ = np.arange(len(players))
        while len(open_):
            lengths = self.lengths[players[open_]]
            codes[open_] = random_codes(lengths, sizes[open_], rng)
            open_ = open_[self._has_class(players[open_], codes[open_])]
        return codes

    def _has_class(self, players: Ints, codes: Ints) -> Bools:
        """Whether selections codes[P] of players[P] are classes of their own: [P]."""
        known = np.zeros(len(codes), dtype=np.bool_)
        if self.codes.shape[1] > self.levels:
            for part in slices(len(codes), _BLOCK):
                known[part] = (self.codes[players[part], self.levels :] == codes[part, None]).any(axis=1)
        return known

    def marginals(self) -> Floats:
        """How likely each interaction is disclosed: [R, longest history]; 0 beyond the end of a history."""
        longest = self.levels - 1
        bits = bits_of(self.codes[:, self.levels :], longest)
        sizes = bits.sum(axis=2)
        levels = self.chances[:, : self.levels]
        # As if every level were whole, then what its classes of their own have more or less than that.
        with_it = comb(np.maximum(self.lengths - 1, 0)[:, None], np.arange(self.levels) - 1)
        whole = (levels * with_it).sum(axis=1, keepdims=True)
        used = self.counts[:, self.levels :]
        excess = used * (self.chances[:, self.levels :] - np.take_along_axis(levels, sizes, axis=1))
        found = whole + np.einsum("rc,rcj->rj", excess, bits)
        return np.where(np.arange(longest) < self.lengths[:, None], found, 0.0)


def bits_of(codes: Ints, length: int) -> Ints:
    """The first `length` interactions of selections `codes[…]`, 0 or 1: […, length]."""
    bits: Ints = (codes[..., None] >> np.arange(length)) & 1
    return bits


def random_codes(lengths: Ints, sizes: Ints, rng: np.random.Generator) -> Ints:
    """For each of P players one of her selections of `sizes[P]` interactions, all as likely: codes [P]."""
    places = np.arange(lengths.max(initial=0))
    keys = rng.random((len(lengths), len(places)))
    keys[places >= lengths[:, None]] = 2
    bits = np.int64(1) << np.argsort(keys, axis=1)
    codes: Ints = np.where(places < sizes[:, None], bits, 0).sum(axis=1)
    return codes


_BLOCK = 512
"""Selections that are looked up at once."""
