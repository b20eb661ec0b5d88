"""Hold a joint selection in the cell of an anchor, at the least loss to anybody.

The best responses to an anchor's influence g_t may lie nearer to another anchor s. Then they do not answer
themselves: at s they would be different. But interactions that are hardly worth disclosing, or hardly not,
can be decided the other way at little loss. To find those that cost least, pay μ_s for every unit by which
the distance to s exceeds that to t; everybody answers the values

    g_tk + Σ_s μ_s (õ_tk − õ_sk),     μ ≥ 0

Nobody loses more than Σ_s μ_s on one interaction, and the total loss is the least possible. To keep the loss
of single players small instead (`evenly`), an interaction counts with what its owner loses on it and on all
their interactions that cost less; then nobody loses more than Σ_s μ_s in total.
"""

from dataclasses import dataclass, replace

import numpy as np

from assent.game.estimates import hamming
from assent.game.nearest import pull
from assent.game.players import Players
from assent.support.arrays import Bools, Floats, Ints, Signs

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


@dataclass(frozen=True)
class Held:
    """A joint selection, the best response to `values[Z]`."""

    selection: Bools
    """[Z]"""
    values: Floats
    """[Z]"""
    distances: Ints
    """[T], to the anchors."""
    payments: Floats
    """[T], μ; all 0 if nothing had to be paid."""


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
    distances = hamming(anchors, selection)
    short = np.where(others, np.maximum(margins - (distances - distances[t]), 0), 0)
    count = _AT_FIRST + int(short.sum())
    while True:
        count = min(count, len(net))
        some = np.argpartition(net, count - 1)[:count]
        here = Players(players.owners[some], players.n_users, players.unwillingness[some], players.price)
        part = _Part(np.take(anchors, some, axis=1), here, values[some], t, others)
        if evenly:
            part = replace(part, values=_summed_up(part))
        fixed = distances - hamming(part.anchors, selection[some])
        held = _steer(part, margins - (fixed - fixed[t]))
        if count == len(net) or (held is not None and held.payments.sum() < net[some].max()):
            break
        count *= 4
    if held is None:
        return None
    joint, answered = selection.copy(), values.copy()
    paid = np.where(held.selection != selection[some], held.values - part.values, 0.0)
    joint[some], answered[some] = held.selection, values[some] + paid
    return Held(joint, answered, fixed + held.distances, held.payments)


@dataclass(frozen=True)
class _Part:
    """The Z' interactions that may move."""

    anchors: Bools
    """[T, Z']"""
    players: Players
    values: Floats
    """[Z']"""
    t: int
    others: Bools
    """[T], the anchors that differ from t."""


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
