from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assent.game.estimates import Estimates, Objective
from assent.game.paper import Histories, Meeting, Rewards

from .full_tables import drawn_rewards
from .small_games import eighths, games, payoffs, random_game, shared, steady

any_games = st.integers(1, 3).flatmap(lambda n_anchors: games(n_anchors, longest=4))
BOTH = pytest.mark.parametrize("objective", list(Objective))


@BOTH
@settings(steady, max_examples=30)
@given(game=any_games, price=eighths(0, 16), seed=st.integers(0, 2**32))
def test_rewards_against_draws_are_those_of_the_joint_selections(
    objective: Objective, game: Estimates, price: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    rewards = Rewards(game, objective, price)
    lengths = rewards.histories.lengths
    drawn, own = rng.integers(0, 2 ** lengths[:, None], (2, game.n_users, 5))
    everybody = slice(0, game.n_users)
    found = Meeting(rewards, drawn).seen_by(everybody).rewards(rewards.parts(everybody, own))
    for player in range(game.n_users):
        joint = drawn.copy()
        joint[player] = own[player]
        selections = rewards.histories.selections(joint)
        expected = payoffs(game, selections, price, objective)[:, player]
        if objective is Objective.WELFARE:
            others = game.unwillingness * (game.owners != player)
            expected = expected + price * (selections @ others)
        np.testing.assert_allclose(found[player], expected, atol=1e-12)


@pytest.mark.parametrize("n_users", [1, 3, 6])
def test_without_effects_what_is_done_to_others_is_shared_equally(n_users: int) -> None:
    game = random_game(1, n_anchors=2, n_users=n_users, disagreement=0.3)
    codes = np.random.default_rng(0).integers(0, 2, (game.n_users, 20))
    blind = replace(game, effects=())
    found, expected = (drawn_rewards(each, codes, 0.5) for each in (blind, shared(game)))
    np.testing.assert_allclose(found, expected, atol=1e-12)
    everything = np.ones(len(game.owners))
    both = [each.payoffs(everything, Objective.NASH) for each in (blind, shared(game))]
    np.testing.assert_allclose(both[0], both[1], atol=1e-12)
    np.testing.assert_allclose(both[0].sum(axis=0), game.payoffs(everything, Objective.WELFARE)[0])


def test_histories_find_the_interactions_of_unsorted_owners() -> None:
    game = random_game(0, n_anchors=1, disagreement=0)
    mixed = replace(game, owners=np.resize([2, 0, 1, 0], len(game.owners)))
    histories = Histories(mixed)
    for player in range(mixed.n_users):
        theirs = np.flatnonzero(mixed.owners == player)
        np.testing.assert_array_equal(histories.rows[player, : histories.lengths[player]], theirs)
        code = np.zeros((mixed.n_users, 1), dtype=np.int64)
        code[player] = 1
        np.testing.assert_array_equal(np.flatnonzero(histories.selections(code)[0]), theirs[:1])
