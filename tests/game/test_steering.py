import numpy as np
import pytest

from assent.game.steering import hold

from .small_games import random_game

PRICE = 0.5


@pytest.mark.parametrize("n_anchors", [2, 3])
@pytest.mark.parametrize("seed", range(10))
def test_holding_evenly_costs_no_player_more_in_all_than_the_payments(seed: int, n_anchors: int) -> None:
    game = random_game(seed, n_anchors=n_anchors, n_users=12, longest=8, disagreement=0.6)
    players = game.players(PRICE)
    values = game.own[0]
    net = values - PRICE * game.unwillingness
    best = players.best(values)
    margins = np.where(np.arange(n_anchors) > 0, game.distances_of(best)[0] - game.distances_of(best) + 6, 0)
    plain, even = (hold(game.anchors, players, values, 0, margins, evenly=evenly) for evenly in (False, True))
    assert plain is not None
    assert even is not None
    for held in (plain, even):
        distances = game.distances_of(held.selection)
        assert ((distances - distances[0])[1:] >= margins[1:]).all()
        np.testing.assert_array_equal(held.selection, players.best(held.values))
    lost = [
        np.bincount(game.owners, weights=np.where(held.selection != best, np.abs(net), 0))
        for held in (plain, even)
    ]
    assert lost[1].max() <= even.payments.sum() + 1e-9
    if n_anchors == 2:
        assert lost[1].max() <= lost[0].max() + 1e-9
