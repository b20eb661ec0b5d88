"""The last steps of the search: hold a selection near an anchor, and let players answer one after the other.

**Holding.** The best responses to an anchor's influence g_t may lie nearer to another anchor s. Then they do
not answer themselves: at s they would be different. But interactions that are hardly worth disclosing, or
hardly not, can be decided the other way at little loss. To find those that cost least, pay μ_s for every unit
by which the distance to s exceeds that to t; everybody answers the values

    g_tk + Σ_s μ_s (õ_tk − õ_sk),     μ ≥ 0

Nobody loses more than Σ_s μ_s on one interaction, and the total loss is the least possible. To keep the loss
of single players small instead (`evenly`), an interaction counts with what its owner loses on it and on all
their interactions that cost less; then nobody loses more than Σ_s μ_s in total.

**Turns.** If all other selections are certain, a player needs only the others' distance to each anchor and
what they gain the player there, h_t. An own selection o earns

    h_t − L_t + Σ_k (o_k − õ_tk) g_tk − price · cost(Σ_k o_k β_k),     t the anchor nearest to all together

With up to 10 units, all selections are compared. With more, those that differ in one unit and the best that
can be held in each cell (under wishes: the best response to each anchor). A joint selection that nobody
answers differently is an equilibrium, as far as was compared; players with more units keep the bound on their
regret. Players whose bound is 0 are skipped, so turns are few if hardly anybody can change the nearest
anchor. If very many could, turns give up.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from assent.game.estimates import BLOCK, Estimates, Objective, hamming
from assent.game.nearest import only_just, pull, regret_of
from assent.game.players import ENUMERATED, Players, all_choices
from assent.support.arrays import Bools, Floats, Ints, Signs, slices
from assent.support.exact import rounded

_SWEEPS = 3
"""Corrections per anchor: paying for one distance may shorten another, or lengthen it too much."""
_WASTE = 1e-2
"""Superfluous payments, as a share of the mean value, that are not worth another correction."""
_AT_FIRST = 1000
"""Interactions nearest to indifference in the first try, plus one per unit of distance that is missing."""
_SPARED = 10_000
"""Most interactions that are reconsidered where a margin is larger than needed."""
_DOUBLINGS, _HALVINGS = 40, 12
_ROUNDING = 1e-12
"""A gain below this share of a player's loss counts as 0, and payments are rounded up by it."""
_ALL = slice(None)


@dataclass(frozen=True)
class Held:
    """A joint `selection[Z]`, the best response to `values[Z]`, with its `distances[T]` to the anchors.

    `payments[T]` are μ; all 0 if nothing had to be paid.
    """

    selection: Bools
    values: Floats
    distances: Ints
    payments: Floats


def hold(
    anchors: Bools, players: Players, values: Floats, t: int, margins: Ints, *, evenly: bool = False
) -> Held | None:
    """Best responses to `values[Z]`, steered until each of `anchors[T, Z]` is farther than t by `margins[s]`.

    Returns None if that fails. Anchors that coincide with t are ignored. Without wishes, only the
    interactions nearest to indifference may move, more of them until no other could; and `evenly` keeps the
    loss of each player small instead of the total.
    """
    selection = players.best(values)
    others = np.array([not np.array_equal(anchor, anchors[t]) for anchor in anchors])
    if not players.wishes.are_plain:
        return _steer(_Part(anchors, players, values, t, others), margins)
    net = np.abs(values - players.price * players.unwillingness)

    def nearest(count: int) -> Nearest:
        some = least(net, count)
        here = Players(players.owners[some], players.n_users, players.unwillingness[some], players.price)
        part = np.take(anchors, some, axis=1)
        return Nearest(some, part, here, values[some], selection[some], float(net[some].max()))

    found = hold_nearest(nearest, len(net), hamming(anchors, selection), t, others, margins, evenly=evenly)
    if found is None:
        return None
    held, some = found
    joint, answered = selection.copy(), values.copy()
    joint[some.rows], answered[some.rows] = held.selection, held.values
    return replace(held, selection=joint, values=answered)


class Nearest(NamedTuple):
    """The Z' interactions nearest to indifference, in their order."""

    rows: Ints
    anchors: Bools
    players: Players
    values: Floats
    selection: Bools
    """What everybody's best responses are."""
    farthest: float
    """How far from indifference they are at most."""


def least(net: Floats, count: int) -> Ints:
    """The places of the `count` smallest of `net[Z]`, of equal ones the first, in order: [count]."""
    limit = np.partition(net, count - 1)[count - 1]
    below = np.flatnonzero(net < limit)
    equal = np.flatnonzero(net == limit)[: count - len(below)]
    return np.sort(np.concatenate([below, equal]))


def hold_nearest(
    nearest: Callable[[int], Nearest],
    total: int,
    distances: Ints,
    t: int,
    others: Bools,
    margins: Ints,
    *,
    evenly: bool,
) -> tuple[Held, Nearest] | None:
    """Hold the best responses of a game without wishes by moving those that are `nearest` to indifference.

    `nearest(count)` returns so many of the `total` interactions; `distances[T]` are those of the best
    responses. The result is the interactions that may have moved, with the distances of the whole selection.
    """
    short = np.where(others, np.maximum(margins - (distances - distances[t]), 0), 0)
    count = _AT_FIRST + int(short.sum())
    while True:
        count = min(count, total)
        some = nearest(count)
        part = _Part(some.anchors, some.players, some.values, t, others)
        if evenly:
            part = replace(part, values=_summed_up(part))
        fixed = distances - hamming(some.anchors, some.selection)
        held = _steer(part, margins - (fixed - fixed[t]))
        if count == total or (held is not None and held.payments.sum() < some.farthest):
            break
        count *= 4
    if held is None:
        return None
    paid = np.where(held.selection != some.selection, held.values - part.values, 0.0)
    return Held(held.selection, some.values + paid, fixed + held.distances, held.payments), some


@dataclass(frozen=True)
class _Part:
    """The Z' interactions that may move: `anchors[T, Z']`, `values[Z']`; `others[T]` differ from anchor t."""

    anchors: Bools
    players: Players
    values: Floats
    t: int
    others: Bools


def _summed_up(part: _Part) -> Floats:
    """Values whose distance from indifference is the owner's loss on k and on all that move before k: [Z'].

    An interaction can move if the best response and some other anchor both differ from t there.
    """
    fair, owners = part.players.price * part.players.unwillingness, part.players.owners
    net = part.values - fair
    mine = part.anchors[part.t]
    moves = (part.anchors[part.others] != mine).any(axis=0) & ((net > 0) != mine)
    costs = np.where(moves, np.abs(net), 0.0)
    order = np.lexsort((costs, owners))
    sums = np.cumsum(costs[order])
    begins = np.searchsorted(owners[order], owners[order])
    in_all = np.empty_like(sums)
    in_all[order] = sums - (sums - costs[order])[begins]
    return fair + np.copysign(np.where(moves, np.maximum(in_all, costs), np.abs(net)), net)


def _steer(part: _Part, margins: Ints) -> Held | None:
    """Make each μ_s in turn as small as the others allow; return what pays least for nothing."""
    players, t = part.players, part.t
    payments = np.zeros(len(part.anchors))
    selection, paid_for = players.best(part.values), part.values
    best, least = None, np.inf
    scale = float(np.abs(part.values).mean())
    for step in range(2 * _SWEEPS * len(part.anchors)):
        # If lowering payments does not lead into the cell, they only grow in the second half of the steps.
        grows = step >= _SWEEPS * len(part.anchors)
        distances = hamming(part.anchors, selection)
        short = np.where(part.others, margins - (distances - distances[t]), 0)
        wasted = float(-payments @ np.minimum(short, 0))
        if short.max() <= 0 and wasted < least:
            best, least = Held(selection, paid_for, distances, payments.copy()), wasted
        if best is not None and (grows or least <= _WASTE * scale):
            break
        # A lead changes by 2 with every interaction, so one unit may be left over.
        is_wasted = (payments > 0) & (short < -1)
        off = np.maximum(short, 0) if grows else np.where(is_wasted, -short, np.maximum(short, 0))
        if not off.any():
            break
        s = int(off.argmax())
        towards = pull(part.anchors, t, s)
        if not grows:
            paid_for = paid_for - payments[s] * towards
            selection, payments[s] = players.best(paid_for), 0.0
        farther, nearer = hamming(part.anchors[[s, t]], selection).tolist()
        lacking = int(margins[s]) - (farther - nearer)
        payment = _payment(players, paid_for, selection, towards, lacking + (lacking // 20 if grows else 0))
        if payment is None:
            break
        payments[s] += payment
        paid_for = paid_for + payment * towards
        selection = players.best(paid_for)
    return best and _without_waste(part, best, margins)


def _without_waste(part: _Part, held: Held, margins: Ints) -> Held:
    """Undo moves that the margins do not need, the costliest first."""
    if not part.players.wishes.are_plain:
        return held
    selection, distances, answered = held.selection.copy(), held.distances, held.values.copy()
    net = part.values - part.players.price * part.players.unwillingness
    against = np.flatnonzero((net > 0) != selection)
    against = against[np.argsort(-np.abs(net[against]))][:_SPARED]
    for k in against:
        moved = distances + np.where(part.anchors[:, k] == selection[k], 1, -1)
        if (moved - moved[part.t] >= margins)[part.others].all():
            selection[k], distances, answered[k] = not selection[k], moved, part.values[k]
    return replace(held, selection=selection, values=answered, distances=distances)


def _payment(players: Players, values: Floats, selection: Bools, towards: Signs, short: int) -> float | None:
    """The least μ that widens the difference of the distances by `short`; None if there is none.

    Every interaction that changes with μ widens the difference by 2.
    """
    if short <= 0:
        return 0.0
    needed = -(-short // 2)
    if not players.wishes.are_plain:
        return _searched(players, values, selection, towards, needed)
    moving = np.flatnonzero(towards * (1 - 2 * selection.astype(np.int8)) > 0)
    if len(moving) < needed:
        return None
    prices = np.abs(values[moving] - players.price * players.unwillingness[moving])
    last = float(np.partition(prices, needed - 1)[needed - 1])
    scale = float(np.abs(values[moving]).max()) + players.price
    return last + _ROUNDING * max(last, scale)


def _searched(
    players: Players, values: Floats, selection: Bools, towards: Signs, needed: int
) -> float | None:
    """The least μ that moves `needed` interactions under wishes, by bisection; None if none does."""

    def enough(payment: float) -> bool:
        changed = players.best(values + payment * towards).astype(np.int8) - selection
        return int((changed * towards).sum()) >= needed

    low, high = 0.0, 1e-6 * (float(np.abs(values).max()) + players.price)
    for _ in range(_DOUBLINGS):
        if enough(high):
            break
        low, high = high, 2 * high
    else:
        return None
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


class Turns:
    """Turns of the players of a game at a price.

    `turns_left` and `bounds_left` limit all calls of `settle` together: turns of single players, and
    computations of who could gain.
    """

    def __init__(self, estimates: Estimates, price: float, *, turns_left: int, bounds_left: int) -> None:
        self.estimates, self.price = estimates, price
        self.players = estimates.players(price)
        self.turns_left, self.bounds_left = turns_left, bounds_left
        self.rounding = self.rounding_of(estimates.losses, price)

    @staticmethod
    def rounding_of(losses: Floats, price: float) -> Floats:
        """Gains of players that count as 0, from `losses[T, N]`: [N]."""
        rounding: Floats = _ROUNDING * (np.abs(losses).max(axis=0) + price)
        return rounding

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
            may_gain = [] if regret is None else np.flatnonzero(regret > self.rounding).tolist()
            if regret is None or len(may_gain) > self.turns_left:
                return None
            self.turns_left -= len(may_gain)
            joint = joint or Joint(self.estimates, start)
            now = joint.selection
            if not [player for player in may_gain if self.moves(joint, player)]:
                long = [player for player in may_gain if self.units(player).max() >= ENUMERATED]
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
        is_fair = np.abs(values - fair) <= self.rounding[estimates.owners]
        values[is_fair] = np.where(selection, np.nextafter(fair, np.inf), fair)[is_fair]
        return values

    def moves(self, joint: "Joint", player: int) -> bool:
        """Whether the player gains by another selection; if so, play the best one found."""
        rows = self._rows(player)
        choices = np.vstack([joint.selection[rows], self._choices(joint, player)])
        payoffs = self._payoffs(joint, player, choices)
        best = int(payoffs.argmax())
        if payoffs[best] <= payoffs[0] + self.rounding[player]:
            return False
        joint.play(rows, choices[best])
        return True

    def _payoffs(self, joint: "Joint", player: int, choices: Bools) -> Floats:
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

    def _choices(self, joint: "Joint", player: int) -> Bools:
        """The selections that the player compares: [C, |S|].

        With many units: those that differ in one, and the best in each cell, as far as they can be found.
        Under wishes, where steering is slow, the best responses to each anchor instead.
        """
        whole, rows, units = self.estimates, self._rows(player), self.units(player)
        count = int(units.max()) + 1
        if count <= ENUMERATED:
            return all_choices(count)[:, units]
        flipped = joint.selection[rows] ^ (np.arange(count)[:, None] == units)
        if not whole.wishes.are_plain:
            return np.vstack([flipped, *(each[rows] for each in self._answers)])
        anchors, own = whole.anchors[:, rows], whole.own[:, rows]
        players = Players(np.zeros(len(rows), dtype=np.int64), 1, whole.unwillingness[rows], self.price)
        away = joint.distances - hamming(anchors, joint.selection[rows])
        margins = [only_just(whole, t) - (away - away[t]) for t in range(len(anchors))]
        held = [hold(anchors, players, own[t], t, margin) for t, margin in enumerate(margins)]
        return np.vstack([flipped, *(each.selection for each in held if each is not None)])

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

    def units(self, player: int) -> Ints:
        """The units of the player's interactions, counted from 0: [|S|]."""
        rows, groups = self._rows(player), self.estimates.wishes.groups
        if groups is None:
            return np.arange(len(rows))
        units: Ints = np.unique(groups[rows], return_inverse=True)[1]
        return units


class Joint:
    """A joint selection of which one player after the other may change their part."""

    def __init__(self, estimates: Estimates, selection: Bools) -> None:
        self.estimates, self.selection = estimates, selection.copy()
        self.distances = estimates.distances_of(selection)
        self.felt: Floats = np.zeros(estimates.n_anchors)
        """[T], Σ_k (o_k − õ_tk) (social − own)_tk / (N − 1), if effects are unknown."""
        if not estimates.effects:
            changes = (selection - anchor.astype(np.float64) for anchor in estimates.anchors)
            self.felt = np.array([rounded(estimates.shared(t, each)) for t, each in enumerate(changes)])

    def play(self, rows: Ints, chosen: Bools) -> None:
        """Change the part `rows` of one player to `chosen`."""
        anchors = self.estimates.anchors[:, rows]
        move = chosen.astype(np.float64) - self.selection[rows]
        self.distances = self.distances + (chosen != anchors).sum(axis=1)
        self.distances -= (self.selection[rows] != anchors).sum(axis=1)
        if not self.estimates.effects:
            self.felt += self.estimates.share(_ALL, rows) @ move
        self.selection[rows] = chosen

    def standing(self, player: int, rows: Ints) -> Floats:
        """h_t − L_t, what a player has from the others at each anchor: [T]."""
        estimates = self.estimates
        losses = estimates.losses[:, player]
        if not estimates.effects:
            change: Floats = self.selection[rows] - estimates.anchors[:, rows].astype(np.float64)
            own = (change * estimates.share(_ALL, rows)).sum(axis=1)
            return np.asarray(self.felt - own - losses)
        others = []
        for effects, anchor in zip(estimates.effects, estimates.anchors, strict=True):
            columns, values = effects.row(player)
            moved = self.selection[columns] - anchor[columns].astype(np.float64)
            others.append(float(values @ np.where(estimates.owners[columns] == player, 0.0, moved)))
        return np.array(others) - losses
