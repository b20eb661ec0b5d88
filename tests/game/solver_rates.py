"""How often the solver finds an equilibrium, and how often raising an unwillingness turns a row on.

    python -m tests.game.solver_rates 150

prints both for 150 small random games of each kind. Best responses never turn on what is minded more; whole
equilibria may, because the others answer too.
"""

import sys
from dataclasses import replace

import numpy as np

from assent.game.estimates import Objective
from assent.game.solve import solve

from .small_games import code_of, equilibria, random_game

PRICE = 0.5


def turned_on(
    n_games: int, *, n_anchors: int, objective: Objective = Objective.NASH, blind: bool = False
) -> tuple[int, int]:
    """Withheld interactions that are disclosed once their unwillingness is 1, and all that were tried.

    Four users, histories of at most four, anchors that disagree by more than values differ. Up to five
    interactions are tried in each game; `blind` ones do without effects on single users.
    """
    turned = tried = 0
    for seed in range(n_games):
        game = random_game(seed, n_anchors=n_anchors, n_users=4, longest=4, disagreement=0.6)
        game = replace(game, effects=()) if blind else game
        withheld = np.flatnonzero(~solve(game, objective=objective, price=PRICE).selection)
        for k in np.random.default_rng(seed).permutation(withheld)[:5]:
            minded = game.unwillingness.copy()
            minded[k] = 1.0
            after = solve(replace(game, unwillingness=minded), objective=objective, price=PRICE)
            turned, tried = turned + int(after.selection[k]), tried + 1
    return turned, tried


def solved(n_games: int, *, n_anchors: int, blind: bool) -> tuple[int, int]:
    """How many of the games that have an equilibrium in selections are solved to one, and how many have."""
    found = exist = 0
    for seed in range(n_games):
        game = random_game(seed, n_anchors=n_anchors, disagreement=0.4)
        game = replace(game, effects=()) if blind else game
        are = equilibria(game, PRICE)
        selection = solve(game, objective=Objective.NASH, price=PRICE).selection
        found, exist = found + int(are[code_of(selection)]), exist + int(are.any())
    return found, exist


if __name__ == "__main__":
    games = int(sys.argv[1])
    for n_anchors in (2, 3, 4):
        for blind in (False, True):
            kind = f"{n_anchors} anchors, {'without' if blind else 'with'} effects"
            for objective in Objective:
                on, of = turned_on(games, n_anchors=n_anchors, objective=objective, blind=blind)
                print(f"{kind}, {objective}: {on} of {of} turned on")
            found, exist = solved(games, n_anchors=n_anchors, blind=blind)
            print(f"{kind}: {exist} of {games} have an equilibrium, {found} are solved to one", flush=True)
