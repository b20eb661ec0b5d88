"""What a player could gain by deviating from a joint selection alone.

At a joint selection o anchor t is nearest. Within its cell a deviation is worth what g_t says, exactly, and
those that leave it do not count there: with any payments μ ≥ 0 for the leads D_s − D_t over the other
anchors, she gains at most what the values g_tk + Σ_s μ_s (õ_tk − õ_sk) let her gain, plus Σ_s μ_s times half
of what the leads could shrink. A player may also be able to make another anchor s nearest: changing her
interactions on which the two anchors differ and o agrees with t, she shortens D_s − D_t by 2 each. Where that
reaches s, her gain is at most

    c_s − c_t + her best response to g_s,     c the payoff that an anchor predicts for o

because that response need not lie in the cell of s. Without effects on single players c is an estimate, and
so is her gain (`unsure`).
"""

import numpy as np

from assent.game.estimates import Estimates, Objective
from assent.support.arrays import Bools, Floats, Ints, Signs


def regret_of(
    estimates: Estimates,
    selection: Bools,
    *,
    objective: Objective,
    price: float,
    payments: Floats | None = None,
) -> Floats:
    """At most what each player could gain by deviating from `selection[Z]` alone; at least 0: [N].

    An estimate of whom `unsure` names.
    `payments[T]` are the μ that the selection was found with, if any.
    """
    players, influence = estimates.players(price), estimates.values(objective)
    leads = estimates.distances_of(selection)
    t = int(leads.argmin())
    leads = leads - leads[t]
    gains = players.gains(influence[t], selection)
    if payments is not None and payments.any():
        spare = (leads - only_just(estimates, t)) / 2
        held = influence[t] + sum(
            payments[s] * pull(estimates.anchors, t, s) for s in np.flatnonzero(payments).tolist()
        )
        gains = np.minimum(gains, players.gains(held, selection) + float(payments @ np.maximum(spare, 0)))
    payoffs: Floats | None = None
    longest = 2 * int(np.bincount(estimates.owners).max(initial=0))
    for s in np.flatnonzero(estimates.alike != estimates.alike[t]).tolist():
        if leads[s] > longest:
            continue
        crossers = can_reach(estimates, t, s, selection, lead=int(leads[s]))
        if not crossers.any():
            continue
        if payoffs is None:
            payoffs = estimates.payoffs(selection, objective)
        crossing = payoffs[:, s] - payoffs[:, t] + players.gains(influence[s], selection)
        gains = np.where(crossers, np.maximum(gains, crossing), gains)
    return gains


def unsure(estimates: Estimates, selection: Bools, objective: Objective) -> Bools:
    """Whose gain is an estimate: she can make another anchor nearest, and her payoff there is one: [N]."""
    found = np.zeros(estimates.n_users, dtype=np.bool_)
    if objective is Objective.WELFARE or estimates.effects:
        return found
    distances = estimates.distances_of(selection)
    t = int(distances.argmin())
    for s in np.flatnonzero(estimates.alike != estimates.alike[t]).tolist():
        found |= can_reach(estimates, t, s, selection, lead=int(distances[s] - distances[t]))
    return found


def can_reach(estimates: Estimates, t: int, s: int, selection: Bools, *, lead: int) -> Bools:
    """Who alone can make s the nearest anchor, not t; `lead` = D_s − D_t at `selection[Z]`: [N]."""
    able: Bools = reach(estimates, t, s, selection) > lead - only_just(estimates, t)[s]
    return able


def pull(anchors: Bools, t: int, s: int) -> Signs:
    """õ_tk − õ_sk: half of what disclosing an interaction adds to D_s − D_t: [Z]."""
    difference: Signs = anchors[t].astype(np.int8) - anchors[s]
    return difference


def only_just(estimates: Estimates, t: int) -> Ints:
    """The least D_s − D_t with which t is the nearest anchor, the first of equally near ones: [T]."""
    return (np.arange(estimates.n_anchors) < t).astype(np.int64)


def safe(estimates: Estimates, t: int, selection: Bools) -> Ints:
    """The least D_s − D_t that no player can make up for alone, from about `selection[Z]`: [T]."""
    reaches = [int(reach(estimates, t, s, selection).max()) for s in range(estimates.n_anchors)]
    return 1 + np.array(reaches)


def reach(estimates: Estimates, t: int, s: int, selection: Bools) -> Ints:
    """By how much each player can shorten D_s − D_t from `selection[Z]`: [N]."""
    free = (estimates.anchors[t] != estimates.anchors[s]) & (selection == estimates.anchors[t])
    return 2 * np.bincount(estimates.owners[free], minlength=estimates.n_users)
