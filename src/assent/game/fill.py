"""Selections by a score, as far as budgets and wishes allow: what methods without a game do under wishes."""

import numpy as np

from assent.arrays import Bools, Floats
from assent.data.problem import Problem
from assent.errors import AssentError
from assent.game.players import Players
from assent.game.prices import first, fits_into, fitting


def players_of(problem: Problem, price: float = 0.0) -> Players:
    """The users of a problem with their wishes."""
    return Players(problem.train.users, problem.n_users, problem.unwillingness, price, problem.wishes)


def cheapest_first(scores: Floats, problem: Problem, budget: float) -> Bools:
    """Disclose by falling `scores[Z]` (ties: less unwilling first) while the share `budget` lasts: [Z]."""
    unwillingness = problem.unwillingness
    allowed = budget * float(unwillingness.sum())
    if not problem.wishes.are_plain:
        return by_score(players_of(problem), scores, allowed=allowed)
    order = np.lexsort((unwillingness, -scores))
    return first(order, fitting(unwillingness[order], allowed))


def by_score(
    players: Players,
    scores: Floats,
    *,
    allowed: float = np.inf,
    least: float = -np.inf,
    start: Bools | None = None,
) -> Bools:
    """Disclose by falling `scores[Z]` what has at least the score `least`, while `allowed` lasts: [Z].

    `allowed` is the total unwillingness that may be disclosed. Everybody's floor comes first, met by what is
    minded least (or `start[Z]` where it is given); what exceeds somebody's own budget is left out. A unit has
    the mean score of its interactions, and of equal ones that which is minded less comes first.
    """
    units = players.units
    chosen = (floors_alone(players) if start is None else start)[units.first]
    paid = np.bincount(units.owners, units.unwillingness * chosen, players.n_users)
    total = float(paid.sum())
    if start is None:
        check_floors(players, allowed)
    worth = units.sums(scores) / units.sizes
    for unit in np.lexsort((units.unwillingness, -worth)).tolist():
        if worth[unit] < least:
            break
        user, cost = units.owners[unit], float(units.unwillingness[unit])
        if chosen[unit] or units.never[unit] or not fits_into(paid[user] + cost, players.budget[user]):
            continue
        if not fits_into(total + cost, allowed):
            break
        chosen[unit] = True
        paid[user] += cost
        total += cost
    return chosen[units.of]


def floors_alone(players: Players) -> Bools:
    """What meets everybody's floor at the least unwillingness: [Z]."""
    nothing = np.zeros(len(players.owners))
    minding = Players(players.owners, players.n_users, players.unwillingness, 1.0, players.wishes)
    return minding.best_within(nothing)[0]


def check_floors(players: Players, allowed: float) -> None:
    """Refuse a total of `allowed` unwillingness that does not suffice for everybody's floor."""
    if players.wishes.floor is None:
        return
    least = float(players.unwillingness[floors_alone(players)].sum())
    if not fits_into(least, allowed):
        everything = float(players.unwillingness.sum())
        raise AssentError(
            f"budget {allowed / everything:.3g}: everybody's floor alone discloses {least / everything:.3g} "
            "of All's violation; accepted: at least that, or lower floors"
        )
