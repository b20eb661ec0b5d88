"""The paper's own strategies, tables over the 2^|S| selections of a player, and Algorithms 1 to 3 on them.

α^u has a probability for each of a player's selections. It is stored by classes of equally likely ones. The
binomial prior has |S| + 1 classes, its *levels*: all selections with the same number of interactions. A step
of Algorithm 3 moves one selection, then shifts and clips all alike. So selections that were never sampled
stay equal within their level, and only a sampled one becomes a class of its own. This is the whole table,
exactly, in memory that grows with the number of samples instead of 2^|S|. A selection is written as a number,
its *code*: bit j says whether the player's j-th interaction is disclosed.

Algorithm 1 solves eq. (6) for one anchor. Algorithm 2 plays rounds with several anchors. Algorithm 3 learns a
player's next strategy within a round. `solve_table` is the entry point and returns what `game.solve` does.
The selection is a sample of the final strategies, as in the paper. Values and regret are computed from the
probability that each interaction is disclosed.

`Rewards` computes B of eq. (9), what a selection earns a player against draws of everybody else's. All of it
is linear in the player's selection except which anchor is nearest. So the player's part (T gains, T
distances, the price paid) is one small matrix product, and the others' part is known once they are drawn.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field
from scipy.special import comb

from assent.data.wishes import USUAL_PRIOR
from assent.game.estimates import Estimates, Objective
from assent.game.nearest import regret_of, response_values
from assent.game.players import Players
from assent.game.solve import Equilibrium
from assent.support.arrays import Bools, Floats, Ints, Keys, mix, slices, uniforms
from assent.support.errors import AssentError
from assent.support.sparse import SparseMatrix

LONGEST = 62
"""Most interactions that a code, a signed 64-bit integer, can hold."""
_BELOW_ONE = 1 - 1e-9
"""Largest draw: rounding must not carry it past the last class."""
_LOOKED_UP = 512
"""Selections that are looked up at once."""
LONGEST_LISTED = 24
"""Longest history of which Algorithm 1 lists all selections: 2^24 floats are 128 MB."""
_BLOCK = 64
"""Players, or draws, per block."""
_CHOSEN, _JUDGED = -1, -2
"""Rounds that nobody plays: for the draw of the selection, and of what tells the nearest anchors."""
_SAMPLED = 256
"""Players that learn at once: their tables fit into the processor's cache."""


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


class OneAnchor(StrEnum):
    """How the game of one anchor is solved."""

    LISTED = "listed"
    """By Algorithm 1, which lists all selections of a player and takes the best."""
    LEARNT = "learnt"
    """By Algorithms 2 and 3, like that of several anchors: both can then be compared."""


class Update(StrEnum):
    """How step 6 of Algorithm 3 moves a strategy along the gradient."""

    PROJECTED = "projected"
    """Add the step to the sampled selection, then project onto the simplex: the paper's."""
    MIRROR = "mirror"
    """Multiply its probability by exp(step), then normalise: what the authors' published code does."""


class Choose(StrEnum):
    """Which selection is taken of a final strategy."""

    DRAWN = "drawn"
    """A sample of it: the paper's."""
    LIKELIEST = "likeliest"
    """The most probable one: what the authors' published code does."""


class TableSettings(BaseModel):
    """Settings of Algorithms 2 and 3; defaults are the paper's where it gives one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rounds: int = Field(10, ge=1, description="M, most rounds of Algorithm 2")
    samples: int = Field(1000, ge=1, description="L, samples per round")
    step: float = Field(0.01, gt=0, description="γ, step size of Algorithm 3")
    threshold: float = Field(1e-3, ge=0, description="κ: stop when no strategy moves more, Σ|Δα|")
    prior: float = Field(USUAL_PRIOR, gt=0, lt=1, description="s of the binomial prior if wishes have none")
    gradient: Gradient = Field(Gradient.RELATIVE, description="gradient at a sampled selection")
    one_anchor: OneAnchor = Field(OneAnchor.LISTED, description="how the game of one anchor is solved")
    update: Update = Field(Update.PROJECTED, description="how a strategy is moved along the gradient")
    choose: Choose = Field(Choose.DRAWN, description="which selection is taken of the final strategy")

    def lists(self, anchors: int) -> bool:
        """Return whether a game of so many anchors is solved by Algorithm 1."""
        return anchors == 1 and self.one_anchor is OneAnchor.LISTED


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

    def draw(self, count: int, keys: Keys) -> tuple[Ints, Ints]:
        """Sample `count` selections per player by `keys[R]`; their classes and codes, both [R, count]."""
        n_players, n_classes = self.chances.shape
        reached = np.cumsum(self.counts * self.chances, axis=1)
        reached /= reached[:, -1:]
        row = np.arange(n_players)[:, None]
        lots = row + np.minimum(uniforms(keys, count), _BELOW_ONE)
        found = np.searchsorted((reached + row).ravel(), lots.ravel(), side="right")
        classes: Ints = found.reshape(lots.shape) - row * n_classes
        codes = np.take_along_axis(self.codes, classes, axis=1)
        players, which = np.nonzero(classes < self.levels)
        again = mix(keys[players], which)
        codes[players, which] = self._from_levels(players, classes[players, which], again)
        return classes, codes

    def _from_levels(self, players: Ints, sizes: Ints, keys: Keys) -> Ints:
        """A selection of sizes[P] interactions for each of players[P], uniform over the level: [P].

        It is drawn by `keys[P]`. Selections with a class of their own no longer belong to the level and are
        drawn again.
        """
        codes, lengths = np.empty(len(players), dtype=np.int64), self.lengths[players]
        open_ = np.arange(len(players))
        while len(open_):
            keys = mix(keys)
            codes[open_] = random_codes(lengths[open_], sizes[open_], keys[open_])
            has_class = [
                (self.codes[players[some], self.levels :] == codes[some, None]).any(axis=1)
                for some in (open_[part] for part in slices(len(open_), _LOOKED_UP))
            ]
            open_ = open_[np.concatenate(has_class)]
        return codes

    def likeliest(self, keys: Keys) -> Ints:
        """The most probable selection of each player, of equal ones one drawn by `keys[R]`: codes [R, 1]."""
        classes = np.where(self.counts > 0, self.chances, -1).argmax(axis=1)
        codes: Ints = self.codes[np.arange(len(classes)), classes]
        (levels,) = np.nonzero(classes < self.levels)
        codes[levels] = self._from_levels(levels, classes[levels], keys[levels])
        return codes.reshape(-1, 1)

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

    def __init__(self, start: Tables, samples: int, update: Update = Update.PROJECTED) -> None:
        self._lengths, self._levels, self._update = start.lengths, start.levels, update
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
        """α_{l+1} = Π[α_l + moves at the sampled selections], or α_l · exp(moves) there; all [R]."""
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
        moves = np.clip(moves, -2, 2)
        if self._update is Update.MIRROR:
            tables.chances[np.arange(len(owned)), owned] *= np.exp(moves)
            tables.chances /= np.einsum("rc,rc->r", tables.counts, tables.chances)[:, None]
            return
        tables.chances[np.arange(len(owned)), owned] += moves
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


def random_codes(lengths: Ints, sizes: Ints, keys: Keys) -> Ints:
    """A selection of `sizes[P]` out of `lengths[P]` interactions each, uniform, by `keys[P]`: codes [P]."""
    places = np.arange(lengths.max(initial=0))
    drawn = uniforms(keys, len(places))
    drawn[places >= lengths[:, None]] = 2
    bits = np.int64(1) << np.argsort(drawn, axis=1)
    codes: Ints = np.where(places < sizes[:, None], bits, 0).sum(axis=1)
    return codes


class Histories:
    """Each player's units in the order of the log: `rows[N, longest]`, valid where `inside[N, longest]`.

    A unit is what is decided on: an interaction, or a group of them. Player u has `lengths[u]` units.
    """

    def __init__(self, estimates: Estimates) -> None:
        self.units = estimates.wishes.units(estimates.owners, estimates.unwillingness)
        self.lengths = np.bincount(self.units.owners, minlength=estimates.n_users)
        order = np.argsort(self.units.owners, kind="stable")
        first, places = np.cumsum(self.lengths) - self.lengths, np.arange(self.lengths.max(initial=0))
        self.rows: Ints = order[np.minimum(first[:, None] + places, len(order) - 1)]
        self.inside: Bools = places < self.lengths[:, None]

    def selections(self, codes: Ints) -> Bools:
        """The joint selections [B, Z] in which player u plays `codes[u, b]`."""
        found = np.empty((codes.shape[1], int(self.lengths.sum())), dtype=np.bool_)
        bits = bits_of(codes, self.rows.shape[1])
        found[:, self.rows[self.inside]] = bits.transpose(1, 0, 2)[:, self.inside]
        return found[:, self.units.of]


class Parts(NamedTuple):
    """What a player's selections do by themselves, whatever others play."""

    gains: Floats
    """[…, T], Σ_k (o_k − õ_tk) g_tk over the player's interactions"""
    distances: Floats
    """[…, T], Hamming distance of the player's part to each anchor's"""
    paid: Floats
    """[…], price · Σ_k o_k β_k"""


class Rewards:
    """A game laid out player by player."""

    def __init__(self, estimates: Estimates, objective: Objective, price: float) -> None:
        self.estimates, self.objective = estimates, objective
        self.histories = Histories(estimates)
        rows, inside = self.histories.rows, self.histories.inside[:, :, None]
        anchors, values = estimates.anchors, estimates.values(objective)
        paid = price * estimates.unwillingness[None]

        def by_player(*terms: Floats | Bools) -> Floats:
            """Terms of interactions, [C, Z] in all, summed over units: [N, longest, C]."""
            of_units = np.array([self.histories.units.sums(term) for term in np.concatenate(terms)]).T
            return np.where(inside, of_units[rows], 0.0)

        self._per_bit = by_player(values, np.where(anchors, -1.0, 1.0), paid)
        self._at_nothing: Floats = by_player(-values * anchors, anchors, 0 * paid).sum(axis=1)

    def parts(self, players: slice, codes: Ints) -> Parts:
        """What the selections `codes[R, B]` of R players do by themselves."""
        bits = bits_of(codes, self.histories.rows.shape[1]).astype(np.float64)
        found = bits @ self._per_bit[players] + self._at_nothing[players][:, None]
        n = self.estimates.n_anchors
        return Parts(found[..., :n], found[..., n : 2 * n], found[..., 2 * n])

    def sums(self, codes: Ints) -> tuple[Floats, Floats]:
        """Total distances to the anchors and total gains of everybody's `codes[N, B]`: [B, T] each."""
        distances, gains = np.zeros((2, codes.shape[1], self.estimates.n_anchors))
        for block in slices(len(codes), _BLOCK):
            parts = self.parts(block, codes[block])
            distances += parts.distances.sum(axis=0)
            gains += parts.gains.sum(axis=0)
        return distances, gains

    def felt(self, codes: Ints) -> Floats:
        """How much all selections together lower each player's loss at each anchor: [N, B, T].

        Without effects: what a row does for its owner beyond an equal share, and the shares of all rows.
        """
        estimates = self.estimates
        felt, rows = np.empty((*codes.shape, estimates.n_anchors)), np.arange(len(estimates.owners))
        shape, shares = (estimates.n_users, len(rows)), [estimates.share(t) for t in range(felt.shape[2])]
        beyond = [] if estimates.effects else [estimates.own[t] - share for t, share in enumerate(shares)]
        lone = [SparseMatrix.of(each, estimates.owners, rows, shape) for each in beyond]
        for block in slices(codes.shape[1], _BLOCK):
            selections = self.histories.selections(codes[:, block])
            for t, anchor in enumerate(estimates.anchors):
                if estimates.effects:
                    change = selections.T.astype(np.float32) - anchor[:, None]
                    felt[:, block, t] = estimates.effects[t] @ change
                else:
                    changes = (selections - anchor.astype(np.float64)).T
                    felt[:, block, t] = lone[t] @ changes + shares[t] @ changes
        return felt


class Meeting:
    """B draws of everybody's selections, `codes[N, B]`: to each player, B draws of the others' selections."""

    def __init__(self, rewards: Rewards, codes: Ints) -> None:
        self.rewards, self.codes = rewards, codes
        self.distances, self.gains = rewards.sums(codes)
        self.felt = rewards.felt(codes) if rewards.objective is Objective.NASH else None

    def seen_by(self, players: slice) -> "Opponents":
        """The draws as R of the players meet them."""
        estimates = self.rewards.estimates
        drawn = self.rewards.parts(players, self.codes[players])
        if self.felt is None:
            standing = self.gains - estimates.losses.sum(axis=1) - drawn.gains
        else:
            standing = self.felt[players] - drawn.gains - estimates.losses.T[players][:, None]
        away = self.distances - drawn.distances
        return Opponents(away, np.broadcast_to(standing, away.shape), drawn)


class Opponents(NamedTuple):
    """B draws of the others' selections as R players meet them."""

    away: Floats
    """[R, B, T], the others' distance to each anchor"""
    standing: Floats
    """[R, B, T], −L_t + Σ_{v≠u} (o^v)ᵀ g^{t,v}: B without the player's own part."""
    drawn: Parts
    """[R, B], what the players' own drawn selections do"""

    def rewards(self, own: Parts, draws: slice = slice(None)) -> Floats:
        """B of eq. (9) for own selections, one per draw: [R, B]; the first of equally near anchors counts."""
        nearest = (self.away[:, draws] + own.distances).argmin(axis=-1)[..., None]
        gained = np.take_along_axis(self.standing[:, draws] + own.gains, nearest, axis=-1)[..., 0]
        return gained - own.paid


def solve_table(
    estimates: Estimates, *, objective: Objective, price: float, settings: TableSettings, keys: Keys
) -> Equilibrium:
    """Algorithm 1 for one anchor that is `listed`, else Algorithm 2; `keys[N]` decide all samples."""
    is_listed = settings.lists(estimates.n_anchors)
    check_table(estimates.players(price), learnt=not is_listed)
    if is_listed:
        selection, rounds = algorithm_1(estimates, objective=objective, price=price), 1
        strategy, nearest = selection.astype(np.float64), np.ones(1, dtype=np.int64)
    else:
        rewards = Rewards(estimates, objective, price)
        tables, rounds = algorithm_2(rewards, settings, keys)
        chosen = likeliest_all if settings.choose is Choose.LIKELIEST else partial(draw_all, count=1)
        selection = rewards.histories.selections(chosen(tables, keys=mix(keys, _CHOSEN)))[0]
        strategy = marginals(rewards, tables)
        distances, _ = rewards.sums(draw_all(tables, settings.samples, mix(keys, _JUDGED)))
        nearest = np.bincount(distances.argmin(axis=1), minlength=estimates.n_anchors)
    values, _ = response_values(estimates, strategy, objective)
    regret = regret_of(estimates, selection, objective=objective, price=price)
    return Equilibrium(selection, values, rounds, regret, nearest)


def algorithm_1(estimates: Estimates, *, objective: Objective, price: float) -> Bools:
    """The optimum of eq. (6) for every player, by listing A(o^u) of all 2^|S| selections: [Z].

    Objective (6) is linear in α^u, so one selection gets all the probability; the first of equally good ones.
    It does not depend on what others play, so a second round would repeat the first and is not played.
    """
    histories = Histories(estimates)
    gain = histories.units.sums(estimates.values(objective)[0] - price * estimates.unwillingness)
    best = np.zeros((estimates.n_users, 1), dtype=np.int64)
    for length in np.unique(histories.lengths):
        players = np.flatnonzero(histories.lengths == length)
        for some in np.array_split(players, -(-len(players) * 2**length // 2**LONGEST_LISTED)):
            worth = np.zeros((len(some), 1))
            for k in range(length):
                worth = np.concatenate([worth, worth + gain[histories.rows[some, k], None]], axis=1)
            best[some, 0] = worth.argmax(axis=1)
    selection: Bools = histories.selections(best)[0]
    return selection


def algorithm_2(rewards: Rewards, settings: TableSettings, keys: Keys) -> tuple[list[Tables], int]:
    """Strategies of blocks of players after at most M rounds, and how many rounds were played.

    In each round all players learn against the strategies of the round before. The L draws of o^{-u} are
    taken from L draws of everybody's selections, so that sums over all players are computed once. A player's
    draws are keyed by `keys[N]`.
    """
    lengths, wishes = rewards.histories.lengths, rewards.estimates.wishes
    blocks = list(slices(len(lengths), _SAMPLED))
    rates = np.full(len(lengths), settings.prior)
    if wishes.prior is not None:
        rates[rewards.estimates.owners] = wishes.prior
    tables = [Tables.prior(lengths[block], rates[block]) for block in blocks]
    for played in range(1, settings.rounds + 1):
        now = mix(keys, played)
        meeting = Meeting(rewards, draw_all(tables, settings.samples, now))
        learnt = [
            algorithm_3(start, meeting, block, settings, mix(now[block]))
            for start, block in zip(tables, blocks, strict=True)
        ]
        tables = [each for each, _ in learnt]
        if max(moved.max() for _, moved in learnt) < settings.threshold:
            return tables, played
    return tables, settings.rounds


def algorithm_3(
    start: Tables,
    meeting: Meeting,
    players: slice,
    settings: TableSettings,
    keys: Keys,
    *,
    observe: Callable[[Tables, Ints, Floats], None] | None = None,
) -> tuple[Tables, Floats]:
    """α_m of R players from α_{m−1} = `start`, and how far each moved, Σ |Δα|: [R].

    A player's draws are keyed by `keys[R]`. `observe` is called before every step with α_l, the sampled codes
    [R] and their moves γĝ [R].
    """
    opponents = meeting.seen_by(players)
    last = opponents.rewards(opponents.drawn)
    standard = np.zeros_like(last) if settings.gradient is Gradient.WRITTEN else last
    learning = Learning(start, settings.samples, settings.update)
    for draw in range(settings.samples):
        now = learning.now
        classes, codes = now.draw(1, mix(keys, draw))
        own = meeting.rewards.parts(players, codes)
        gradient = opponents.rewards(own, slice(draw, draw + 1))[:, 0] - standard[:, draw]
        if settings.gradient is Gradient.UNBIASED:
            gradient = gradient / np.take_along_axis(now.chances, classes, axis=1)[:, 0]
        moves = settings.step * gradient
        if observe is not None:
            observe(now, codes[:, 0], moves)
        learning.step(classes[:, 0], codes[:, 0], moves)
    return learning.average()


def draw_all(tables: list[Tables], count: int, keys: Keys) -> Ints:
    """`count` selections of every player, by `keys[N]`: codes [N, count]."""
    blocks = slices(len(keys), _SAMPLED)
    drawn = [each.draw(count, keys[block])[1] for each, block in zip(tables, blocks, strict=True)]
    return np.concatenate(drawn)


def likeliest_all(tables: list[Tables], keys: Keys) -> Ints:
    """The most probable selection of every player, of equal ones one drawn by `keys[N]`: codes [N, 1]."""
    blocks = slices(len(keys), _SAMPLED)
    return np.concatenate([each.likeliest(keys[block]) for each, block in zip(tables, blocks, strict=True)])


def marginals(rewards: Rewards, tables: list[Tables]) -> Floats:
    """The probability that each interaction is disclosed: [Z]."""
    histories = rewards.histories
    found = np.empty(len(histories.units.first))
    for here, each in zip(slices(len(histories.lengths), _SAMPLED), tables, strict=True):
        inside = histories.inside[here, : each.levels - 1]
        found[histories.rows[here, : each.levels - 1][inside]] = each.marginals()[inside]
    return found[histories.units.of]


def check_table(players: Players, *, learnt: bool) -> None:
    """Raise for wishes that tables do not support, and for histories that are too long.

    In the binomial prior all selections of one size are equally likely, so a prior may differ between people
    only. Algorithm 1 lists all selections; tables that are `learnt` may have longer histories.
    """
    wishes, by_user = players.wishes, np.zeros(players.n_users)
    if wishes.prior is not None:
        by_user[players.owners] = wishes.prior
    known = {
        "a budget per user": wishes.budget is None,
        "a floor per user": wishes.floor is None,
        f"a utility of power {wishes.power:g}": wishes.power == 1,
        "a prior by item": wishes.prior is None or bool((by_user[players.owners] == wishes.prior).all()),
    }
    refused = [name for name, is_known in known.items() if not is_known]
    if refused:
        raise AssentError(
            f"strategy=table: {', '.join(refused)} not supported; accepted: decisions by category, "
            "a prior by user, or strategy=factored"
        )
    lengths = np.bincount(players.units.owners)
    longest = LONGEST if learnt else LONGEST_LISTED
    if lengths.max(initial=0) > longest:
        what = "interactions" if wishes.groups is None else "decisions"
        raise AssentError(
            f"strategy=table: a history of {lengths.max()} {what} has 2^{lengths.max()} selections; "
            f"accepted: histories of at most {longest}, or strategy=factored"
        )
