"""Tables written out in full, and what brute force says about games that are played with them."""

import numpy as np

from assent.arrays import Floats
from assent.game.estimates import Estimates
from assent.game.objective import Objective
from assent.game.rewards import Histories
from assent.game.tables import Tables, bits_of

from .games import payoffs


def listed(tables: Tables, player: int) -> Floats:
    """α^u in the order of the codes: [2^|S|]."""
    length = int(tables.lengths[player])
    found: Floats = tables.chances[player, bits_of(np.arange(2**length), length).sum(axis=1)]
    own = tables.codes[player] >= 0
    found[tables.codes[player, own]] = tables.chances[player, own]
    return found


def expected_rewards(
    game: Estimates, strategies: list[Floats], price: float, objective: Objective = Objective.NASH
) -> Floats:
    """z_u of all players when player u plays `strategies[u][2^|S|]`, from all joint selections: [N]."""
    chance, codes = np.ones(1), np.zeros((0, 1), dtype=np.int64)
    for strategy in strategies:
        chance = np.multiply.outer(chance, strategy).ravel()
        mine = np.tile(np.arange(len(strategy)), codes.shape[1])
        codes = np.vstack([np.repeat(codes, len(strategy), axis=1), mine])
    selections = Histories.of(game).selections(codes)
    rewards: Floats = chance @ payoffs(game, selections, price, objective)
    return rewards


def binomial(length: int, rate: float = 0.9) -> Floats:
    """The paper's prior, a selection at a time: [2^length]."""
    sizes = [int(code).bit_count() for code in range(2**length)]
    return np.array([rate**size * (1 - rate) ** (length - size) for size in sizes])
