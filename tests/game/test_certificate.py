from dataclasses import replace

import numpy as np
import pytest

from assent.game.certificate import certify, with_truth
from assent.game.estimates import Estimates, Objective
from assent.game.solve import solve
from assent.support.arrays import sum_by

from .small_games import payoffs, random_game


def high_losses(seed: int) -> Estimates:
    """A game whose losses stay positive whatever is disclosed."""
    game = random_game(seed, n_anchors=1, n_users=12, longest=6, disagreement=0.3)
    return replace(game, losses=game.losses + 50)


@pytest.mark.parametrize("seed", range(6))
def test_figures_of_one_anchor_agree_with_the_payoffs(seed: int) -> None:
    game = high_losses(seed)
    nash, welfare = (solve(game, objective=each, price=0.5) for each in (Objective.NASH, Objective.WELFARE))
    totals = [payoffs(game, found.selection[None], 0.5, Objective.NASH).sum() for found in (nash, welfare)]
    found = certify(game, nash, objective=Objective.NASH, price=0.5, rounds=40)
    assert found.predicted_reward == pytest.approx(totals[0] / 12)
    assert found.anarchy_cost == pytest.approx((totals[1] - totals[0]) / 12)
    assert found.anarchy_cost >= 0
    assert found.price_of_anarchy == pytest.approx(totals[0] / totals[1])
    assert found.largest_gain == found.mean_gain == found.largest_own_gain == found.own_gainers == 0
    assert found.rounds_nearest == [1]
    assert found.nearest_anchor == 1


@pytest.mark.parametrize("seed", range(6))
def test_players_who_disclose_for_others_could_gain_for_themselves(seed: int) -> None:
    """At the welfare optimum nobody can add to the sum of rewards, but many to their own."""
    game = high_losses(seed)
    best = solve(game, objective=Objective.WELFARE, price=0.5)
    found = certify(game, best, objective=Objective.WELFARE, price=0.5, rounds=40)
    assert found.largest_gain == found.mean_gain == 0
    worth = game.own[0] - 0.5 * game.unwillingness
    gains = sum_by(game.owners, np.where(best.selection, -worth, worth).clip(0), game.n_users)
    assert found.largest_own_gain == pytest.approx(gains.max())
    assert found.mean_own_gain == pytest.approx(gains.mean())
    assert found.own_gainers == (gains > 0).sum() > 0


def test_a_selection_that_is_no_equilibrium_is_found_out() -> None:
    game = random_game(3, n_anchors=1, n_users=12, longest=6, disagreement=0.3)
    everything = np.ones(len(game.owners), dtype=np.bool_)
    mean = game.predicted_total(everything, 0.5) / 12
    assert mean == pytest.approx(payoffs(game, everything[None], 0.5, Objective.NASH).mean())
    regret = np.maximum(0.5 * game.unwillingness - game.own[0], 0)
    solved = solve(game, objective=Objective.NASH, price=0.5)
    worse = certify(
        game,
        type(solved)(everything, solved.values, 1, sum_by(game.owners, regret, 12), solved.nearest),
        objective=Objective.NASH,
        price=0.5,
        rounds=40,
    )
    assert worse.largest_gain > 0
    assert worse.largest_gain_share == pytest.approx(worse.largest_gain / abs(mean))


@pytest.mark.parametrize("objective", list(Objective))
def test_what_was_solved_is_not_solved_again(objective: Objective) -> None:
    """Marked as solved, even a bad selection stands for its own objective in the price of anarchy."""
    game = random_game(3, n_anchors=3, n_users=12, longest=6, disagreement=0.3)
    found = solve(game, objective=objective, price=0.5)
    fresh, kept = (
        certify(game, found, objective=objective, price=0.5, rounds=40, is_solved=is_solved)
        for is_solved in (False, True)
    )
    assert kept.anarchy_cost == pytest.approx(fresh.anarchy_cost)
    assert replace(kept, anarchy_cost=0.0, price_of_anarchy=None) == replace(
        fresh, anarchy_cost=0.0, price_of_anarchy=None
    )
    bad = replace(found, selection=~found.selection)
    fresh, kept = (
        certify(game, bad, objective=objective, price=0.5, rounds=40, is_solved=is_solved)
        for is_solved in (False, True)
    )
    worse = (game.predicted_total(found.selection, 0.5) - game.predicted_total(bad.selection, 0.5)) / 12
    assert worse > 0
    sign = 1 if objective is Objective.NASH else -1
    assert kept.anarchy_cost - fresh.anarchy_cost == pytest.approx(sign * worse)


def test_the_truth_is_put_beside_the_prediction() -> None:
    found = with_truth({"predicted_reward": -3.0}, np.array([1.0, 3.0]), np.array([2.0, 0.0]), 0.5)
    assert found == {"predicted_reward": -3.0, "true_reward": -2.5, "prediction_error": pytest.approx(0.2)}
    assert with_truth({}, np.array([1.0]), np.array([0.0]), 1.0) == {
        "true_reward": -1.0,
        "prediction_error": None,
    }
