"""The paper's own algorithms on its own strategies: tables over the 2^|S| selections of a player.

Algorithm 1 solves eq. (6) for one anchor. Algorithm 2 plays rounds with several anchors. Algorithm 3 learns a
player's next strategy within a round. `solve_table` is the entry point and returns what `game.solve` does.
The selection is a sample of the final strategies, as in the paper. Values, probabilities of the cells and
regret are computed from the probability that each interaction is disclosed.

`Rewards` computes B of eq. (9), what a selection earns a player against draws of everybody else's. All of it
is linear in the player's selection except which anchor is nearest. So the player's part (T gains, T
distances, the price paid) is one small matrix product, and the others' part is known once they are drawn.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from assent.data.wishes import Units
from assent.game.estimates import Estimates, Objective
from assent.game.nearest import regret_of, response_values
from assent.game.paper.tables import LONGEST, Gradient, Learning, Tables, TableSettings, bits_of
from assent.game.players import Players
from assent.game.solve import Equilibrium
from assent.support.arrays import Bools, Floats, Ints, slices
from assent.support.errors import AssentError
from assent.support.sparse import SparseMatrix

LONGEST_LISTED = 24
"""Longest history of which Algorithm 1 lists all selections: 2^24 floats are 128 MB."""
_BLOCK = 64
"""Players, or draws, per block."""
_SAMPLED = 256
"""Players that learn at once: their tables fit into the processor's cache."""


@dataclass(frozen=True)
class Histories:
    """Each player's units: `rows[N, longest]`, of which the first `lengths[N]` are valid.

    A unit is what is decided on: an interaction, or a group of them.
    """

    rows: Ints
    lengths: Ints
    units: Units

    @classmethod
    def of(cls, estimates: Estimates) -> "Histories":
        """Each player's units in the order of the log."""
        units = estimates.wishes.units(estimates.owners, estimates.unwillingness)
        lengths = np.bincount(units.owners, minlength=estimates.n_users)
        order = np.argsort(units.owners, kind="stable")
        first = np.concatenate([[0], np.cumsum(lengths)[:-1]])
        place = first[:, None] + np.arange(lengths.max(initial=0))
        return cls(order[np.minimum(place, len(order) - 1)], lengths, units)

    @property
    def inside(self) -> Bools:
        """Which entries of `rows` are units: [N, longest]."""
        inside: Bools = np.arange(self.rows.shape[1]) < self.lengths[:, None]
        return inside

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
        self.histories = Histories.of(estimates)
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

    def meet(self, codes: Ints) -> "Meeting":
        """B draws of everybody's selections, `codes[N, B]`, and what they do together."""
        felt = self._felt(codes) if self.objective is Objective.NASH else None
        return Meeting(self, codes, *self.sums(codes), felt)

    def sums(self, codes: Ints) -> tuple[Floats, Floats]:
        """Total distances to the anchors and total gains of everybody's `codes[N, B]`: [B, T] each."""
        distances, gains = np.zeros((2, codes.shape[1], self.estimates.n_anchors))
        for block in slices(len(codes), _BLOCK):
            parts = self.parts(block, codes[block])
            distances += parts.distances.sum(axis=0)
            gains += parts.gains.sum(axis=0)
        return distances, gains

    def _felt(self, codes: Ints) -> Floats:
        """How much all selections together lower each player's loss at each anchor: [N, B, T].

        Without effects: what a row does for its owner beyond an equal share, and the shares of all rows.
        """
        estimates = self.estimates
        felt, rows = np.empty((*codes.shape, estimates.n_anchors)), np.arange(len(estimates.owners))
        shape, shares = (estimates.n_users, len(rows)), [estimates.share(t) for t in range(felt.shape[2])]
        lone = (
            []
            if estimates.effects
            else [
                SparseMatrix.of(own - share, estimates.owners, rows, shape)
                for own, share in zip(estimates.own, shares, strict=True)
            ]
        )
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


@dataclass(frozen=True)
class Meeting:
    """B draws of everybody's selections: to each player, B draws of the others' selections."""

    rewards: Rewards
    codes: Ints
    """[N, B]"""
    distances: Floats
    """[B, T], total distance to each anchor"""
    gains: Floats
    """[B, T], gains by the objective's values, summed over players"""
    felt: Floats | None
    """[N, B, T], what all selections gain each player; None for `welfare`, which uses the sums"""

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


@dataclass(frozen=True)
class Opponents:
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
    estimates: Estimates, *, objective: Objective, price: float, settings: TableSettings, seed: int
) -> Equilibrium:
    """Algorithm 1 for one anchor, Algorithm 2 for more; `seed` decides all samples."""
    check_table(estimates.players(price), several=estimates.n_anchors > 1)
    if estimates.n_anchors == 1:
        selection, rounds = algorithm_1(estimates, objective=objective, price=price), 1
        strategy, nearest = selection.astype(np.float64), np.ones(1, dtype=np.int64)
    else:
        rewards = Rewards(estimates, objective, price)
        rng = np.random.default_rng((seed, 2))
        tables, rounds = algorithm_2(rewards, settings, rng)
        selection = rewards.histories.selections(draw_all(tables, 1, rng))[0]
        strategy = marginals(rewards, tables)
        distances, _ = rewards.sums(draw_all(tables, settings.samples, rng))
        nearest = np.bincount(distances.argmin(axis=1), minlength=estimates.n_anchors)
    values, probability = response_values(estimates, strategy, objective)
    regret = regret_of(estimates, selection, objective=objective, price=price)
    return Equilibrium(selection, values, probability, rounds, regret, nearest)


def algorithm_1(estimates: Estimates, *, objective: Objective, price: float) -> Bools:
    """The optimum of eq. (6) for every player, by listing A(o^u) of all 2^|S| selections: [Z].

    Objective (6) is linear in α^u, so one selection gets all the probability; the first of equally good ones.
    It does not depend on what others play, so a second round would repeat the first and is not played.
    """
    rewards = Rewards(estimates, objective, price)
    histories = rewards.histories
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


def algorithm_2(
    rewards: Rewards, settings: TableSettings, rng: np.random.Generator
) -> tuple[list[Tables], int]:
    """Strategies of blocks of players after at most M rounds, and how many rounds were played.

    In each round all players learn against the strategies of the round before. The L draws of o^{-u} are
    taken from L draws of everybody's selections, so that sums over all players are computed once.
    """
    lengths, wishes = rewards.histories.lengths, rewards.estimates.wishes
    blocks = list(slices(len(lengths), _SAMPLED))
    rates = np.full(len(lengths), settings.prior)
    if wishes.prior is not None:
        rates[rewards.estimates.owners] = wishes.prior
    tables = [Tables.prior(lengths[block], rates[block]) for block in blocks]
    for played in range(1, settings.rounds + 1):
        meeting = rewards.meet(draw_all(tables, settings.samples, rng))
        learnt = [
            algorithm_3(start, meeting, block, settings, rng)
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
    rng: np.random.Generator,
    *,
    observe: Callable[[Tables, Ints, Floats], None] | None = None,
) -> tuple[Tables, Floats]:
    """α_m of R players from α_{m−1} = `start`, and how far each moved, Σ |Δα|: [R].

    `observe` is called before every step with α_l, the sampled codes [R] and their moves γĝ [R].
    """
    opponents = meeting.seen_by(players)
    last = opponents.rewards(opponents.drawn)
    standard = np.zeros_like(last) if settings.gradient is Gradient.WRITTEN else last
    learning = Learning(start, settings.samples)
    for draw in range(settings.samples):
        now = learning.now
        classes, codes = now.draw(1, rng)
        own = meeting.rewards.parts(players, codes)
        gradient = opponents.rewards(own, slice(draw, draw + 1))[:, 0] - standard[:, draw]
        if settings.gradient is Gradient.UNBIASED:
            gradient = gradient / np.take_along_axis(now.chances, classes, axis=1)[:, 0]
        moves = settings.step * gradient
        if observe is not None:
            observe(now, codes[:, 0], moves)
        learning.step(classes[:, 0], codes[:, 0], moves)
    return learning.average()


def draw_all(tables: list[Tables], count: int, rng: np.random.Generator) -> Ints:
    """`count` selections of every player: codes [N, count]."""
    return np.concatenate([each.draw(count, rng)[1] for each in tables])


def marginals(rewards: Rewards, tables: list[Tables]) -> Floats:
    """The probability that each interaction is disclosed: [Z]."""
    histories = rewards.histories
    found = np.empty(len(histories.units.first))
    for here, each in zip(slices(len(histories.lengths), _SAMPLED), tables, strict=True):
        inside = histories.inside[here, : each.levels - 1]
        found[histories.rows[here, : each.levels - 1][inside]] = each.marginals()[inside]
    return found[histories.units.of]


def check_table(players: Players, *, several: bool) -> None:
    """Raise for wishes that tables do not support, and for histories that are too long.

    In the binomial prior all selections of one size are equally likely, so a prior may differ between people
    only. Algorithm 1 (one anchor) lists all selections; with `several` anchors histories may be longer.
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
    longest = LONGEST if several else LONGEST_LISTED
    if lengths.max(initial=0) > longest:
        what = "interactions" if wishes.groups is None else "decisions"
        raise AssentError(
            f"strategy=table: a history of {lengths.max()} {what} has 2^{lengths.max()} selections; "
            f"accepted: histories of at most {longest}, or strategy=factored"
        )
