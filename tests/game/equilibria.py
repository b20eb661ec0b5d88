"""Which joint selections of a small game are equilibria, by looking at all of them."""

import numpy as np

from assent.game.estimates import Estimates, Objective
from assent.support.arrays import Bools, Floats, Ints

from .games import all_selections, payoffs, shared


def equilibria(game: Estimates, price: float, tolerance: float = 1e-9) -> Bools:
    """Whether nobody gains by deviating alone from each joint selection, by the number of its code: [2^Z].

    A game without effects is taken as one in which others have equal shares.
    """
    known = game if game.effects else shared(game)
    selections = all_selections(len(game.owners))
    earned: Floats = payoffs(known, selections, price, Objective.NASH)
    found, codes = np.ones(len(selections), dtype=np.bool_), np.arange(len(selections))
    for user in range(game.n_users):
        others = codes & ~code_of(game.owners == user)
        best = np.full(len(selections), -np.inf)
        np.maximum.at(best, others, earned[:, user])
        found &= earned[:, user] >= best[others] - tolerance
    return found


def code_of(selection: Bools) -> Ints:
    """The number of a selection, its first interaction being the lowest bit."""
    code: Ints = selection @ (1 << np.arange(len(selection)))
    return code
