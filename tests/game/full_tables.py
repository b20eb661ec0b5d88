"""Tables of strategies written out in full, and expected rewards from all joint selections."""

import numpy as np

from assent.game.estimates import Estimates, Objective
from assent.game.paper import Histories, Meeting, Rewards
from assent.game.tables import Tables, bits_of
from assent.support.arrays import Floats, Ints

from .small_games import payoffs


def listed(tables: Tables, player: int) -> Floats:
    """α^u in the order of the codes: [2^|S|]."""
    length = int(tables.lengths[player])
    found: Floats = tables.chances[player, bits_of(np.arange(2**length), length).sum(axis=1)]
    own = tables.codes[player] >= 0
    found[tables.codes[player, own]] = tables.chances[player, own]
    return found


def joint(strategies: list[Floats]) -> tuple[Floats, Ints]:
    """All joint selections of `strategies[N][2^|S|]`: their probabilities, [J], and codes, [N, J]."""
    chance, codes = np.ones(1), np.zeros((0, 1), dtype=np.int64)
    for strategy in strategies:
        chance = np.multiply.outer(chance, strategy).ravel()
        mine = np.tile(np.arange(len(strategy)), codes.shape[1])
        codes = np.vstack([np.repeat(codes, len(strategy), axis=1), mine])
    return chance, codes


def expected_rewards(
    game: Estimates, strategies: list[Floats], price: float, objective: Objective = Objective.NASH
) -> Floats:
    """z_u of all players from all joint selections, by brute force: [N]."""
    chance, codes = joint(strategies)
    rewards: Floats = chance @ payoffs(game, Histories(game).selections(codes), price, objective)
    return rewards


def drawn_rewards(game: Estimates, codes: Ints, price: float) -> Floats:
    """What `Rewards` says that the joint selections `codes[N, B]` earn each player: [N, B]."""
    opponents = Meeting(Rewards(game, Objective.NASH, price), codes).seen_by(slice(0, game.n_users))
    return opponents.rewards(opponents.drawn)


def binomial(length: int, rate: float = 0.9) -> Floats:
    """The paper's prior, a selection at a time: [2^length]."""
    sizes = [int(code).bit_count() for code in range(2**length)]
    return np.array([rate**size * (1 - rate) ** (length - size) for size in sizes])
