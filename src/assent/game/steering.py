"""Holding a joint selection within the cell of an anchor, at the least loss to anybody.

The best responses to an anchor's influence g_t may lie nearer to another anchor s, whose influence would be
answered differently: then no selection of best responses answers itself. But interactions that are hardly
worth disclosing, or hardly not, can be decided the other way at hardly any loss. Paying μ_s for every unit by
which the distance to s exceeds that to t finds those that cost least: everybody answers the values

    g_tk + Σ_s μ_s (õ_tk − õ_sk),     μ ≥ 0

and nobody loses more than Σ_s μ_s on an interaction.
"""

from dataclasses import dataclass, replace

import numpy as np

from assent.arrays import Bools, Floats, Ints, Signs
from assent.game.estimates import Estimates
from assent.game.players import Players
from assent.game.regret import pull

_SWEEPS = 6
"""Corrections per anchor: paying for one distance may shorten another, or lengthen it more than is needed."""
_SPARED = 10_000
"""Interactions looked at, at most, for what a margin leaves over."""
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
    """[T], μ; all 0 where nothing had to be paid."""


def hold(estimates: Estimates, players: Players, values: Floats, t: int, margins: Ints) -> Held | None:
    """Best responses to `values[Z]`, steered until every anchor s is farther than t by `margins[s]`.

    Each μ_s in turn is made as small as the others allow. Of what keeps the margins, that which pays least
    for what it does not need is taken; None where nothing does. Anchors that coincide with t are left out.
    """
    others = estimates.alike != estimates.alike[t]
    payments = np.zeros(estimates.n_anchors)
    selection, paid_for = players.best(values), values
    best, least = None, np.inf
    for _ in range(_SWEEPS * estimates.n_anchors):
        distances = estimates.distances_of(selection)
        short = np.where(others, margins - (distances - distances[t]), 0)
        wasted = float(-payments @ np.minimum(short, 0))
        if short.max() <= 0 and wasted < least:
            best, least = Held(selection, paid_for, distances, payments.copy()), wasted
        # A lead changes by 2 with every interaction, so that one unit may be left over.
        off = np.where((payments > 0) & (short < -1), -short, np.maximum(short, 0))
        if not off.any():
            break
        s = int(off.argmax())
        towards = pull(estimates, t, s)
        paid_for = paid_for - payments[s] * towards
        selection = players.best(paid_for)
        distances = estimates.distances_of(selection)
        payment = _payment(
            players, paid_for, selection, towards, int(margins[s] - distances[s] + distances[t])
        )
        if payment is None:
            break
        payments[s] = payment
        paid_for = paid_for + payment * towards
        selection = players.best(paid_for)
    return best and _without_waste(estimates, players, best, margins, values=values, t=t)


def _without_waste(
    estimates: Estimates, players: Players, held: Held, margins: Ints, *, values: Floats, t: int
) -> Held:
    """Decide by `values[Z]` after all where the margins leave room, what gains most by it first."""
    if not players.wishes.are_plain:
        return held
    selection, distances, answered = held.selection.copy(), held.distances, held.values.copy()
    net = values - players.price * players.unwillingness
    against = np.flatnonzero((net > 0) != selection)
    against = against[np.argsort(-np.abs(net[against]))][:_SPARED]
    others = estimates.alike != estimates.alike[t]
    for k in against:
        moved = distances + np.where(estimates.anchors[:, k] == selection[k], 1, -1)
        if (moved - moved[t] >= margins)[others].all():
            selection[k], distances, answered[k] = not selection[k], moved, values[k]
    return replace(held, selection=selection, values=answered, distances=distances)


def _payment(players: Players, values: Floats, selection: Bools, towards: Signs, short: int) -> float | None:
    """The least μ that makes up for a difference of `short` in the distances; None if none does.

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
    """The same by doubling and halving, where interactions are not decided one by one."""

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
