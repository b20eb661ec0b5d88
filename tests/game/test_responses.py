"""Factored best responses with several anchors, against everything that the others can do."""

import numpy as np
import pytest

from assent.game.estimates import Estimates, Objective
from assent.game.prices import worth_disclosing
from assent.game.solve import response_values
from assent.support.arrays import Floats

from .games import all_selections, payoffs, random_game

PRICE = 0.5


def expected_payoffs(game: Estimates, player: int, strategy: Floats, objective: Objective) -> Floats:
    """Of each of her 2^|S| selections while the others disclose with probabilities `strategy[Z]`: [2^|S|].

    All that the others can do is listed, and so the distribution of their distances to the anchors is exact.
    """
    hers = game.owners == player
    others = all_selections(int((~hers).sum()))
    chance = np.where(others, strategy[~hers], 1 - strategy[~hers]).prod(axis=1)
    joint = np.empty((len(others), len(hers)), dtype=np.bool_)
    joint[:, ~hers] = others
    found = []
    for mine in all_selections(int(hers.sum())):
        joint[:, hers] = mine
        found.append(chance @ payoffs(game, joint, PRICE, objective)[:, player])
    return np.array(found)


@pytest.mark.parametrize("objective", list(Objective))
@pytest.mark.parametrize("n_anchors", [2, 3])
def test_responses_are_nearly_the_best_of_all_selections(objective: Objective, n_anchors: int) -> None:
    """They rest on normal distances and on slopes at her own strategy: good, not exact, for 12 bits."""
    lost: list[float] = []
    blind: list[float] = []
    for seed in range(25):
        game = random_game(seed, n_anchors=n_anchors, n_users=5, longest=3, disagreement=0.2)
        strategy = np.random.default_rng(seed).uniform(0.2, 0.8, len(game.owners))
        values, _ = response_values(game, strategy, objective)
        hers = game.owners == 0
        exact = expected_payoffs(game, 0, strategy, objective)
        for given, losses in ((values, lost), (game.values(objective)[0], blind)):
            answer = worth_disclosing(given, game.unwillingness, PRICE)[hers]
            reached = exact[int(answer @ (1 << np.arange(len(answer))))]
            losses.append((exact.max() - reached) / np.ptp(exact))
    print(f"{objective}, {n_anchors} anchors, share of the range lost: {np.quantile(lost, [0.5, 0.8, 1])}")
    assert np.median(lost) == 0
    assert np.mean(lost) < 0.05
    assert np.mean(lost) < 0.7 * np.mean(blind)
