"""B of eq. (9): what a selection earns a player against draws of everybody else's.

Everything is linear in her selection but which anchor is nearest. So her part of all that counts, T gains,
T distances and the price paid, is one small matrix product; the others' part is known once they are drawn.
"""

from dataclasses import dataclass

import numpy as np

from assent.arrays import Bools, Floats, Ints, slices
from assent.data.wishes import Units
from assent.game.estimates import Estimates
from assent.game.objective import Objective
from assent.game.tables import bits_of
from assent.sparse import SparseMatrix


@dataclass(frozen=True)
class Histories:
    """Where each player's units are: `rows[N, longest]`, valid for the first `lengths[N]`.

    A unit is what she decides on, an interaction or a group of them; `units` says which is of which.
    """

    rows: Ints
    lengths: Ints
    units: Units

    @classmethod
    def of(cls, estimates: Estimates) -> "Histories":
        """Each player's units in the order of the problem."""
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


@dataclass(frozen=True)
class Parts:
    """What a selection does by itself, whoever else plays: arrays […, T], […, T] and […]."""

    gains: Floats
    """Σ_k (o_k − õ_tk) g_tk over her interactions"""
    distances: Floats
    """Hamming distance of her part to each anchor's"""
    paid: Floats
    """price · Σ_k o_k β_k"""


class Rewards:
    """The game of some `estimates`, laid out player by player."""

    def __init__(self, estimates: Estimates, objective: Objective, price: float) -> None:
        self.estimates = estimates
        self.objective = objective
        self.histories = Histories.of(estimates)
        rows, inside = self.histories.rows, self.histories.inside[:, :, None]
        anchors, values = estimates.anchors, estimates.values(objective)
        paid = price * estimates.unwillingness[None]
        per_bit = self._by_unit(np.concatenate([values, 1.0 - 2 * anchors, paid]))[rows]
        at_nothing = self._by_unit(np.concatenate([-values * anchors, anchors, 0 * paid]))[rows]
        self._per_bit = np.where(inside, per_bit, 0.0)
        self._at_nothing: Floats = np.where(inside, at_nothing, 0.0).sum(axis=1)

    def _by_unit(self, terms: Floats) -> Floats:
        """`terms[C, Z]` of interactions summed over units: [U, C]."""
        return np.array([self.histories.units.sums(term) for term in terms]).T

    def parts(self, players: slice, codes: Ints) -> Parts:
        """What the selections `codes[R, B]` of some players do by themselves."""
        bits = bits_of(codes, self.histories.rows.shape[1]).astype(np.float64)
        found = bits @ self._per_bit[players] + self._at_nothing[players][:, None]
        n = self.estimates.n_anchors
        return Parts(found[..., :n], found[..., n : 2 * n], found[..., 2 * n])

    def meet(self, codes: Ints) -> "Meeting":
        """Everybody's selections `codes[N, B]`, and what they do together."""
        distances, gains = self.sums(codes)
        felt = self._felt(codes) if self.objective is Objective.NASH else None
        return Meeting(self, codes, distances, gains, felt)

    def sums(self, codes: Ints) -> tuple[Floats, Floats]:
        """How far everybody's `codes[N, B]` are from each anchor, and what they gain: [B, T] each."""
        distances, gains = np.zeros((2, codes.shape[1], self.estimates.n_anchors))
        for block in slices(len(codes), _BLOCK):
            parts = self.parts(block, codes[block])
            distances += parts.distances.sum(axis=0)
            gains += parts.gains.sum(axis=0)
        return distances, gains

    def _felt(self, codes: Ints) -> Floats:
        """What all selections together gain each player at each anchor (`Estimates.felt`): [N, B, T]."""
        estimates = self.estimates
        felt = np.empty((*codes.shape, estimates.n_anchors))
        lone = [] if estimates.effects else [self._beyond_share(t) for t in range(estimates.n_anchors)]
        for block in slices(codes.shape[1], _BLOCK):
            selections = self.histories.selections(codes[:, block])
            for t, anchor in enumerate(estimates.anchors):
                if estimates.effects:
                    change = selections.T.astype(np.float32) - anchor[:, None]
                    felt[:, block, t] = estimates.effects[t] @ change
                else:
                    changes = (selections - anchor.astype(np.float64)).T
                    felt[:, block, t] = lone[t] @ changes + estimates.share(t) @ changes
        return felt

    def _beyond_share(self, t: int) -> SparseMatrix:
        """By how much a player's own interactions do more for her than for each of the others: [N, Z]."""
        estimates = self.estimates
        rows = np.arange(len(estimates.owners))
        more = estimates.own[t] - estimates.share(t)
        return SparseMatrix.of(more, estimates.owners, rows, (estimates.n_users, len(rows)))


@dataclass(frozen=True)
class Meeting:
    """B draws of everybody's selections; to each player, B draws of the others'."""

    rewards: Rewards
    codes: Ints
    """[N, B]"""
    distances: Floats
    """[B, T], total distance to each anchor"""
    gains: Floats
    """[B, T], what each player's selection gains by the objective's values, summed over players"""
    felt: Floats | None
    """[N, B, T], what all selections gain each player; None for `welfare`, where the sums say it"""

    def seen_by(self, players: slice) -> "Opponents":
        """The draws as some of the players, R, meet them."""
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
    """[R, B], the selections that the players themselves drew with the others, which they may not play"""

    def rewards(self, own: Parts) -> Floats:
        """B of eq. (9) of own selections, one per draw: [R, B]; of equally near anchors the first counts."""
        nearest = (self.away + own.distances).argmin(axis=-1)[..., None]
        gained = np.take_along_axis(self.standing + own.gains, nearest, axis=-1)[..., 0]
        return gained - own.paid

    def at(self, draw: int) -> "Opponents":
        """One of the draws, B = 1."""
        one = slice(draw, draw + 1)
        drawn = Parts(self.drawn.gains[:, one], self.drawn.distances[:, one], self.drawn.paid[:, one])
        return Opponents(self.away[:, one], self.standing[:, one], drawn)


_BLOCK = 64
"""Players, or draws, that are worked on at once."""
