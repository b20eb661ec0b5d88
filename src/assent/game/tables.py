"""Strategies as tables over the 2^|S| selections of a player, and how samples move them.

α^u has a probability for each of a player's selections. It is stored by classes of equally likely ones. The
binomial prior has |S| + 1 classes, its *levels*: all selections with the same number of interactions. A step
of Algorithm 3 moves one selection, then shifts and clips all alike. So selections that were never sampled
stay equal within their level, and only a sampled one becomes a class of its own. This is the whole table,
exactly, in memory that grows with the number of samples instead of 2^|S|. A selection is written as a number,
its *code*: bit j says whether the player's j-th interaction is disclosed.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from scipy.special import comb

from assent.support.arrays import Floats, Ints, Keys, uniforms
from assent.support.compiled import compiled, kernel

_BELOW_ONE = 1 - 1e-9
"""Largest draw: rounding must not carry it past the last class."""
_BLOCK = 32
"""Classes that are passed over at once where one is sought."""
_LARGEST = 2.0
"""A move of 2 leads to a corner from anywhere; larger ones would lose digits in the sums."""


class Update(StrEnum):
    """How step 6 of Algorithm 3 moves a strategy along the gradient."""

    PROJECTED = "projected"
    """Add the step to the sampled selection, then project onto the simplex: the paper's."""
    MIRROR = "mirror"
    """Multiply its probability by exp(step), then normalise: what `game.published` does."""


def simplex_shift(values: Floats, counts: Floats) -> Floats:
    """The shift τ of each row with Σ_c counts_c · max(values_c − τ, 0) = 1: [R].

    max(values − τ, 0) is the Euclidean projection of the row onto the simplex; entry values[R, C] occurs
    counts[R, C] times. Any subset gives a lower bound of τ, (its sum − 1) / its size. Start with all entries
    and drop those at most the bound until none is left to drop (Michelot 1986).
    """
    found: Floats = np.empty(len(values))
    _shifts(values, counts, found)
    return found


@kernel
def _shift(values: Floats, counts: Floats) -> float:
    """The shift of one row, see `simplex_shift`."""
    shift = -np.inf
    while True:
        weighted = size = 0.0
        for c in range(len(values)):
            if values[c] > shift:
                weighted += values[c] * counts[c]
                size += counts[c]
        better = (weighted - 1) / size if size > 0 else shift
        if better <= shift:
            return shift
        shift = better


@compiled
def _shifts(values: Floats, counts: Floats, found: Floats) -> None:
    """Write the shift of every row into `found[R]`."""
    for row in range(len(values)):
        found[row] = _shift(values[row], counts[row])


@compiled
def _splitmix(state: np.uint64) -> np.uint64:
    """`splitmix64` of a single state."""
    z = state + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@compiled
def _code(length: int, size: int, key: np.uint64) -> int:
    """A selection of `size` out of `length` interactions, uniform, by a key: those with the least draws."""
    drawn = np.empty(length, dtype=np.uint64)
    for place in range(length):
        drawn[place] = _splitmix(key + np.uint64(place) * np.uint64(0x9E3779B97F4A7C15))
    code = 0
    for place in range(length):
        less = 0
        for other in range(length):
            less += drawn[other] < drawn[place]
        if less < size:
            code |= 1 << place
    return code


@compiled
def _codes(lengths: Ints, sizes: Ints, keys: Keys, found: Ints) -> None:
    """Write a selection per key into `found[P]`."""
    for place in range(len(keys)):
        found[place] = _code(lengths[place], sizes[place], keys[place])


@compiled
def _of_level(own: Ints, length: int, size: int, key: np.uint64) -> int:
    """A selection of a level, uniform over those that have no class of their own among `own[C]`."""
    while True:
        key = _splitmix(key)
        code = _code(length, size, key)
        known = 0
        for other in range(len(own)):
            known += own[other] == code
        if not known:
            return code


@kernel
def _mass(counts: Floats, chances: Floats) -> float:
    """The probability of some classes, Σ_c counts_c · chances_c."""
    total = 0.0
    for c in range(len(chances)):
        total += counts[c] * chances[c]
    return total


@compiled
def _class_at(counts: Floats, chances: Floats, reach: float) -> int:
    """The first class with which the probability of the classes so far is above `reach`.

    Classes are passed over by the block, and only those of the last block one by one.
    """
    first, before, most = 0, 0.0, len(chances)
    while first + _BLOCK < most:
        block = slice(first, first + _BLOCK)
        here = _mass(counts[block], chances[block])
        if before + here > reach:
            break
        first, before = first + _BLOCK, before + here
    found = first
    for c in range(first, most):
        if counts[c] * chances[c] > 0:
            found, before = c, before + counts[c] * chances[c]
            if before > reach:
                break
    return found


@compiled
def _pick(
    length: int, levels: int, codes: Ints, counts: Floats, chances: Floats, total: float, lot: float,
    key: np.uint64,
) -> tuple[int, int]:  # fmt: skip
    """The class and the code of a lot; a selection of a level is drawn by the key."""
    found = _class_at(counts, chances, lot * total)
    if found < levels:
        return found, _of_level(codes[levels:], length, found, key)
    return found, codes[found]


@compiled
def _draw(
    lengths: Ints, levels: int, codes: Ints, counts: Floats, chances: Floats, used: Ints,
    lots: Floats, keys: Keys, classes: Ints, drawn: Ints,
) -> None:  # fmt: skip
    """Write the class and the code of every lot, both [R, count]."""
    for player in range(len(chances)):
        n = used[player]
        total = _mass(counts[player, :n], chances[player, :n])
        for which in range(lots.shape[1]):
            key = _splitmix(_splitmix(keys[player]) + np.uint64(which))
            classes[player, which], drawn[player, which] = _pick(
                lengths[player], levels, codes[player, :n], counts[player, :n], chances[player, :n], total,
                lots[player, which], key,
            )  # fmt: skip


@compiled
def _likeliest(
    lengths: Ints, levels: int, codes: Ints, counts: Floats, chances: Floats, used: Ints, keys: Keys,
    classes: Ints, found: Ints,
) -> None:  # fmt: skip
    """Write the class and the code of each player's most probable selection, both [R]."""
    for player in range(len(lengths)):
        best, most = 0, -1.0
        for c in range(used[player]):
            if counts[player, c] > 0 and chances[player, c] > most:
                best, most = c, chances[player, c]
        classes[player] = best
        found[player] = codes[player, best]
        if best < levels:
            own = codes[player, levels : used[player]]
            found[player] = _of_level(own, lengths[player], best, keys[player])


@kernel
def _move(
    levels: int, codes: Ints, counts: Floats, chances: Floats, start: Floats, total: Floats, used: int,
    drawn: int, code: int, move: float, is_mirror: bool,
) -> int:  # fmt: skip
    """Split a sampled selection off from its level, add α_l to `total`, then move α_l; all of one player.

    Return how many classes are used then.
    """
    own = drawn
    if drawn < levels:
        own = used
        used += 1
        codes[own] = code
        counts[own] = 1
        counts[drawn] -= 1
        for known in (chances, start, total):
            known[own] = known[drawn]
    for c in range(used):
        total[c] += chances[c]
    move = min(max(move, -_LARGEST), _LARGEST)
    if is_mirror:
        chances[own] *= np.exp(move)
        size = 0.0
        for c in range(used):
            size += chances[c] * counts[c]
        for c in range(used):
            if counts[c] > 0:  # a class without selections would grow without bound
                chances[c] /= size
    else:
        chances[own] += move
        shift = _shift(chances[:used], counts[:used])
        for c in range(used):
            chances[c] = max(chances[c] - shift, 0.0)
    return used


@compiled
def _step(
    levels: int, codes: Ints, counts: Floats, chances: Floats, start: Floats, total: Floats, used: Ints,
    classes: Ints, sampled: Ints, moves: Floats, is_mirror: bool,
) -> None:  # fmt: skip
    """Move every player by the sampled selection."""
    for player in range(len(classes)):
        used[player] = _move(
            levels, codes[player], counts[player], chances[player], start[player], total[player],
            used[player], classes[player], sampled[player], moves[player], is_mirror,
        )  # fmt: skip


@compiled
def _learn(
    lengths: Ints, levels: int, codes: Ints, counts: Floats, chances: Floats, start: Floats, total: Floats,
    used: Ints, is_mirror: bool, keys: Keys, first: int, away: Floats, standing: Floats, standard: Floats,
    per_bit: Floats, at_nothing: Floats, step: float, is_unbiased: bool, sampled: Ints, moves: Floats,
) -> None:  # fmt: skip
    """Sample, earn and move, draw after draw, from draw `first` on; write the codes and moves, [R, draws].

    What a selection earns is eq. (9): its own part is summed over its bits, the nearest anchor decides.
    """
    n_anchors, own = away.shape[2], np.empty(at_nothing.shape[1])
    for player in range(len(lengths)):
        for draw in range(sampled.shape[1]):
            n, number = used[player], first + draw
            key = _splitmix(_splitmix(keys[player]) + np.uint64(number))
            lot = (np.float64(_splitmix(key) >> np.uint64(12)) + 0.5) * 2.0**-52
            whole = _mass(counts[player, :n], chances[player, :n])
            drawn, code = _pick(
                lengths[player], levels, codes[player, :n], counts[player, :n], chances[player, :n], whole,
                min(lot, _BELOW_ONE), _splitmix(_splitmix(key)),
            )  # fmt: skip
            own[:] = at_nothing[player]
            for place in range(lengths[player]):
                if (code >> place) & 1:
                    own += per_bit[player, place]
            nearest = 0
            for t in range(1, n_anchors):
                here, best = own[n_anchors + t], own[n_anchors + nearest]
                if away[player, number, t] + here < away[player, number, nearest] + best:
                    nearest = t
            gradient = standing[player, number, nearest] + own[nearest] - own[2 * n_anchors]
            gradient -= standard[player, number]
            if is_unbiased:
                gradient /= chances[player, drawn]
            sampled[player, draw], moves[player, draw] = code, step * gradient
            used[player] = _move(
                levels, codes[player], counts[player], chances[player], start[player], total[player],
                n, drawn, code, moves[player, draw], is_mirror,
            )  # fmt: skip


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
    used: Ints
    """[R], how many of the C classes a player has, the levels included."""

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
        return cls(lengths, np.full(counts.shape, -1), counts, chances, np.full(len(lengths), len(sizes)))

    @property
    def levels(self) -> int:
        """W."""
        return int(self.lengths.max(initial=0)) + 1

    def draw(self, count: int, keys: Keys) -> tuple[Ints, Ints]:
        """Sample `count` selections per player by `keys[R]`; their classes and codes, both [R, count]."""
        lots = np.minimum(uniforms(keys, count), _BELOW_ONE)
        classes, codes = (np.empty(lots.shape, dtype=np.int64) for _ in range(2))
        known = self.lengths, self.levels, self.codes, self.counts, self.chances, self.used
        _draw(*known, lots, keys, classes, codes)
        return classes, codes

    def likeliest(self, keys: Keys) -> tuple[Ints, Ints]:
        """The most probable selection of each player, of equal ones one drawn by `keys[R]`.

        Return its class and its code, both [R].
        """
        classes, codes = (np.empty(len(self.lengths), dtype=np.int64) for _ in range(2))
        _likeliest(
            self.lengths, self.levels, self.codes, self.counts, self.chances, self.used, keys, classes, codes
        )
        return classes, codes

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


class Faced(NamedTuple):
    """A game as R players face it in each of B draws of the others' selections, with T anchors."""

    away: Floats
    """[R, B, T], the others' distance to each anchor"""
    standing: Floats
    """[R, B, T], what a player earns but for the own part"""
    standard: Floats
    """[R, B], what is subtracted from a reward"""
    per_bit: Floats
    """[R, longest, 2T + 1], gains, distances and price paid that each interaction adds"""
    at_nothing: Floats
    """[R, 2T + 1], those of a player who discloses nothing"""
    is_unbiased: bool
    """Whether rewards are divided by the probability of the sample."""


class Learning:
    """The strategies of R players while they learn from at most `samples` samples, from `start` on.

    Steps 3 to 9 of Algorithm 3: move the sampled selection, project onto the simplex, average over the steps.
    """

    def __init__(self, start: Tables, samples: int, update: Update = Update.PROJECTED) -> None:
        self._lengths, self._levels, self._update = start.lengths, start.levels, update
        most = min(samples, 2 ** int(self._lengths.max(initial=0)))
        spare = ((0, 0), (0, most))
        self._codes = np.pad(start.codes, spare, constant_values=-1)
        self._counts = np.pad(start.counts, spare)
        self._chances = np.pad(start.chances, spare)
        self._start = self._chances.copy()
        self._sum = np.zeros_like(self._chances)
        self._next = start.used.copy()
        self._steps = 0

    @property
    def now(self) -> Tables:
        """α_l, without unused classes; a view that the next step changes."""
        used = slice(0, int(self._next.max(initial=self._levels)))
        tables = self._codes[:, used], self._counts[:, used], self._chances[:, used]
        return Tables(self._lengths, *tables, self._next)

    def step(self, classes: Ints, codes: Ints, moves: Floats) -> None:
        """α_{l+1} = Π[α_l + moves at the sampled selections], or α_l · exp(moves) there; all [R]."""
        _step(
            self._levels, self._codes, self._counts, self._chances, self._start, self._sum, self._next,
            classes, codes, moves, self._update is Update.MIRROR,
        )  # fmt: skip
        self._steps += 1

    def learn(self, game: Faced, keys: Keys, *, draws: range, step: float) -> tuple[Ints, Floats]:
        """Take a step of size γ = `step` along the gradient at each of the `draws` of a game.

        A player's samples are keyed by `keys[R]`. Return the sampled codes and the moves, both [R, draws].
        """
        codes = np.empty((len(self._lengths), len(draws)), dtype=np.int64)
        moves = np.empty(codes.shape)
        _learn(
            self._lengths, self._levels, self._codes, self._counts, self._chances, self._start, self._sum,
            self._next, self._update is Update.MIRROR, keys, draws.start, game.away, game.standing,
            game.standard, game.per_bit, game.at_nothing, step, game.is_unbiased, codes, moves,
        )  # fmt: skip
        self._steps += len(draws)
        return codes, moves

    def average(self) -> tuple[Tables, Floats]:
        """(1/L) Σ_l α_l, l from 1 to L, and each player's distance from the start, Σ |Δα|: [R]."""
        mean = self._sum / self._steps
        moved = (self._counts * np.abs(mean - self._start)).sum(axis=1)
        return self._with(mean), moved

    def average_after(self) -> Tables:
        """(1/L) Σ_l α_{l+1}, l from 1 to L: the mean of the strategies after each step."""
        return self._with((self._sum - self._start + self._chances) / self._steps)

    def _with(self, chances: Floats) -> Tables:
        """The classes that are used by now, with these probabilities."""
        now = self.now
        used = now.chances.shape[1]
        return Tables(
            now.lengths, now.codes.copy(), now.counts.copy(), chances[:, :used].copy(), now.used.copy()
        )


def bits_of(codes: Ints, length: int) -> Ints:
    """The first `length` bits of `codes[…]`: […, length]."""
    bits: Ints = (codes[..., None] >> np.arange(length)) & 1
    return bits


def random_codes(lengths: Ints, sizes: Ints, keys: Keys) -> Ints:
    """A selection of `sizes[P]` out of `lengths[P]` interactions each, uniform, by `keys[P]`: codes [P]."""
    codes: Ints = np.empty(len(keys), dtype=np.int64)
    _codes(lengths, sizes, keys, codes)
    return codes
