"""How often minding an interaction more turns it on, in whole equilibria of small random games.

    python -m tests.game.minding 300

prints it for 300 games of each kind. A person has a promise for her own best responses alone; in whole
equilibria the others answer too.
"""

import sys
from dataclasses import replace

import numpy as np

from assent.game.objective import Objective
from assent.game.solve import solve

from .games import random_game

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


if __name__ == "__main__":
    for n_anchors in (2, 3, 4):
        for blind in (False, True):
            on, of = turned_on(int(sys.argv[1]), n_anchors=n_anchors, blind=blind)
            print(f"{n_anchors} anchors, {'without' if blind else 'with'} effects: {on} of {of} turned on")
