"""Players answer one another in turn, each exactly, until nobody moves: the last step of the search.

If all other selections are certain, a player needs only the others' distance to each anchor and what they
gain the player there, h_t. An own selection o earns

    h_t − L_t + Σ_k (o_k − õ_tk) g_tk − price · cost(Σ_k o_k β_k),     t the anchor nearest to all together

With up to 10 units, all selections are compared. With more, those that differ in one unit and the best that
`steering` can hold in each cell (under wishes: the best response to each anchor). A joint selection that
nobody answers differently is an equilibrium, as far as was compared; players with more units keep the bound
on their regret. Players whose bound is 0 are skipped, so turns are few if hardly anybody can change the
nearest anchor. If very many could, turns give up.
"""

from functools import cached_property

import numpy as np

from assent.game.estimates import BLOCK, Estimates, Objective, hamming
from assent.game.nearest import only_just, regret_of
from assent.game.players import ENUMERATED, Players, all_choices
from assent.game.steering import hold
from assent.support.arrays import Bools, Floats, Ints, slices

_ROUNDING = 1e-12
"""A gain below this share of a player's loss counts as 0."""
_ALL = slice(None)


class Turns:
    """Turns of the players of a game at a price.

    `turns_left` and `bounds_left` limit all calls of `settle` together: turns of single players, and
    computations of who could gain.
    """

    def __init__(self, estimates: Estimates, price: float, *, turns_left: int, bounds_left: int) -> None:
        self.estimates, self.price = estimates, price
        self.players = estimates.players(price)
        self.turns_left, self.bounds_left = turns_left, bounds_left
        self._rounding = _ROUNDING * (np.abs(estimates.losses).max(axis=0) + price)

    def settle(self, start: Bools, regret: Floats | None = None) -> tuple[Bools, Floats] | None:
        """The equilibrium that turns lead to from the joint selection `start[Z]`, [Z], and its regret, [N].

        `regret[N]` is that of the start, if known. Returns None if turns go in a circle or run out. Only
        players with too many units to compare all selections keep a regret.
        """
        now, joint, seen = start, None, set[bytes]()
        while (code := now.tobytes()) not in seen:
            seen.add(code)
            if regret is None and self.bounds_left:
                self.bounds_left -= 1
                regret = regret_of(self.estimates, now, objective=Objective.NASH, price=self.price)
            may_gain = [] if regret is None else np.flatnonzero(regret > self._rounding).tolist()
            if regret is None or len(may_gain) > self.turns_left:
                return None
            self.turns_left -= len(may_gain)
            joint = joint or _Joint(self.estimates, start)
            now = joint.selection
            if not [player for player in may_gain if self._moves(joint, player)]:
                long = [player for player in may_gain if self._units(player).max() >= ENUMERATED]
                left = np.zeros_like(regret)
                left[long] = regret[long]
                return now, left
            regret = None
        return None

    def values(self, selection: Bools) -> Floats:
        """What disclosing each interaction is worth to its owner while all else in `selection[Z]` stays: [Z].

        That is g_tk, unless the interaction alone changes the nearest anchor; then it is the difference of
        the payoffs. A value equal to its price is raised by one ulp if the interaction is disclosed.
        """
        estimates = self.estimates
        distances = estimates.distances_of(selection)
        t = int(distances.argmin())
        values: Floats = estimates.own[t].copy()
        if np.partition(distances, 1)[1] - distances[t] <= 2:
            payoffs = estimates.payoffs(selection, Objective.NASH)
            for here in slices(len(values), BLOCK):
                owners, disclosed = estimates.owners[here], selection[here]
                moved = distances[:, None] + np.where(estimates.anchors[:, here] == disclosed, 1, -1)
                near = moved.argmin(axis=0)
                crossing = payoffs[owners, near] - payoffs[owners, t]
                own = estimates.own[near, np.arange(here.start, here.stop)]
                values[here] = np.where(disclosed, -crossing, crossing) + own
        fair = self.price * estimates.unwillingness
        is_fair = np.abs(values - fair) <= self._rounding[estimates.owners]
        values[is_fair] = np.where(selection, np.nextafter(fair, np.inf), fair)[is_fair]
        return values

    def _moves(self, joint: "_Joint", player: int) -> bool:
        """Whether the player gains by another selection; if so, play the best one found."""
        rows = self._rows(player)
        choices = np.vstack([joint.selection[rows], self._choices(joint, player)])
        payoffs = self._payoffs(joint, player, choices)
        best = int(payoffs.argmax())
        if payoffs[best] <= payoffs[0] + self._rounding[player]:
            return False
        joint.play(rows, choices[best])
        return True

    def _payoffs(self, joint: "_Joint", player: int, choices: Bools) -> Floats:
        """What `choices[C, |S|]` earn the player while the others stay; −inf if not allowed: [C].

        The first choice is what the player plays now.
        """
        estimates, rows = self.estimates, self._rows(player)
        anchors, own = estimates.anchors[:, rows], estimates.own[:, rows]
        minded = estimates.unwillingness[rows]
        each = np.concatenate([own, 1.0 - 2 * anchors, minded[None]])
        found = choices.astype(np.float64) @ each.T
        n = len(anchors)
        gains, closer, paid = found[:, :n], found[:, n : 2 * n], found[:, 2 * n]
        near = (joint.distances + closer - closer[0]).argmin(axis=1)
        standing = joint.standing(player, rows) - (anchors * own).sum(axis=1)
        payoffs: Floats = gains[np.arange(len(choices)), near] + standing[near] - self.players.costs(paid)
        if not self.players.wishes.are_plain:
            never = (choices & (minded >= 1)).any(axis=1)
            paid, number = np.where(never, np.inf, paid)[None], choices.sum(axis=1)[None]
            kept = self.players.allow(np.array([player]), paid, number)[0]
            payoffs[~kept | never] = -np.inf
        return payoffs

    def _choices(self, joint: "_Joint", player: int) -> Bools:
        """The selections that the player compares: [C, |S|]."""
        units = self._units(player)
        count = int(units.max()) + 1
        if count <= ENUMERATED:
            return all_choices(count)[:, units]
        rows = self._rows(player)
        here = joint.selection[rows]
        flipped = here ^ (np.arange(count)[:, None] == units)
        return np.vstack([flipped, *self._held(joint, player)])

    def _held(self, joint: "_Joint", player: int) -> list[Bools]:
        """The player's best selections in each cell, as far as they can be found: [|S|] each.

        Under wishes, where steering is slow, the best responses to each anchor instead.
        """
        whole, rows = self.estimates, self._rows(player)
        if not whole.wishes.are_plain:
            return [each[rows] for each in self._answers]
        anchors, margins = whole.anchors[:, rows], [only_just(whole, t) for t in range(whole.n_anchors)]
        players = Players(np.zeros(len(rows), dtype=np.int64), 1, whole.unwillingness[rows], self.price)
        away = joint.distances - hamming(anchors, joint.selection[rows])
        held = [
            hold(anchors, players, whole.own[t, rows], t, margin - (away - away[t]))
            for t, margin in enumerate(margins)
        ]
        return [each.selection for each in held if each is not None]

    @cached_property
    def _answers(self) -> list[Bools]:
        """Everybody's best responses to each anchor: [Z] each."""
        return [self.players.best(each) for each in self.estimates.own]

    @cached_property
    def _order(self) -> tuple[Ints, Ints]:
        """Rows sorted by player, [Z], and where each player's rows begin, with the end: [N + 1]."""
        owners = self.estimates.owners
        lengths = np.bincount(owners, minlength=self.estimates.n_users)
        return np.argsort(owners, kind="stable"), np.concatenate([[0], np.cumsum(lengths)])

    def _rows(self, player: int) -> Ints:
        """The player's interactions: [|S|]."""
        order, ends = self._order
        return order[ends[player] : ends[player + 1]]

    def _units(self, player: int) -> Ints:
        """The units of the player's interactions, counted from 0: [|S|]."""
        rows, groups = self._rows(player), self.estimates.wishes.groups
        if groups is None:
            return np.arange(len(rows))
        units: Ints = np.unique(groups[rows], return_inverse=True)[1]
        return units


class _Joint:
    """A joint selection of which one player after the other may change their part."""

    def __init__(self, estimates: Estimates, selection: Bools) -> None:
        self.estimates, self.selection = estimates, selection.copy()
        self.distances = estimates.distances_of(selection)
        self._felt = np.zeros(estimates.n_anchors)
        """[T], Σ_k (o_k − õ_tk) (social − own)_tk / (N − 1), if effects are unknown."""
        if not estimates.effects:
            for here in slices(len(selection), BLOCK):
                change: Floats = selection[here] - estimates.anchors[:, here].astype(np.float64)
                self._felt += (change * estimates.share(_ALL, here)).sum(axis=1)

    def play(self, rows: Ints, chosen: Bools) -> None:
        """Change the part `rows` of one player to `chosen`."""
        anchors = self.estimates.anchors[:, rows]
        move = chosen.astype(np.float64) - self.selection[rows]
        self.distances = self.distances + (chosen != anchors).sum(axis=1)
        self.distances -= (self.selection[rows] != anchors).sum(axis=1)
        if not self.estimates.effects:
            self._felt += self.estimates.share(_ALL, rows) @ move
        self.selection[rows] = chosen

    def standing(self, player: int, rows: Ints) -> Floats:
        """h_t − L_t, what a player has from the others at each anchor: [T]."""
        estimates = self.estimates
        losses = estimates.losses[:, player]
        if not estimates.effects:
            change: Floats = self.selection[rows] - estimates.anchors[:, rows].astype(np.float64)
            own = (change * estimates.share(_ALL, rows)).sum(axis=1)
            return np.asarray(self._felt - own - losses)
        others = []
        for effects, anchor in zip(estimates.effects, estimates.anchors, strict=True):
            columns, values = effects.row(player)
            moved = self.selection[columns] - anchor[columns].astype(np.float64)
            others.append(float(values @ np.where(estimates.owners[columns] == player, 0.0, moved)))
        return np.array(others) - losses
