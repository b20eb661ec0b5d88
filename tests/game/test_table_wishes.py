"""Remark (iii) of the paper with the paper's own tables: decisions by category and informative priors."""

from dataclasses import replace

import numpy as np
import pytest

from assent.data.wishes import Wishes
from assent.game.estimates import Estimates, Objective
from assent.game.paper import (
    Gradient,
    Meeting,
    Rewards,
    TableSettings,
    algorithm_2,
    marginals,
    solve_table,
)
from assent.game.solve import solve
from assent.game.tables import Tables
from assent.support.arrays import Floats
from assent.support.errors import AssentError

from .full_tables import binomial, listed
from .small_games import keys_of, payoffs, random_game

FEW = TableSettings(rounds=1, samples=50)


def by_category(game: Estimates) -> Estimates:
    """Everybody has up to two categories."""
    return replace(game, wishes=Wishes(groups=game.owners * 2 + np.arange(len(game.owners)) % 2))


@pytest.mark.parametrize("objective", list(Objective))
@pytest.mark.parametrize("seed", range(6))
def test_algorithm_1_decides_on_categories_as_the_closed_form_does(objective: Objective, seed: int) -> None:
    game = by_category(random_game(seed, n_anchors=1, n_users=5, longest=8, disagreement=0))
    found = solve_table(game, objective=objective, price=0.5, settings=FEW, keys=keys_of(game))
    closed = solve(game, objective=objective, price=0.5)
    np.testing.assert_array_equal(found.selection, closed.selection)
    single = solve(replace(game, wishes=Wishes()), objective=objective, price=0.5)
    assert seed or not np.array_equal(found.selection, single.selection)


def test_rewards_of_categories_are_those_of_their_interactions() -> None:
    game = by_category(random_game(2, n_anchors=3, n_users=4, longest=6, disagreement=0.4))
    rewards = Rewards(game, Objective.NASH, 0.5)
    codes = np.random.default_rng(0).integers(0, 2 ** rewards.histories.lengths[:, None], (4, 30))
    opponents = Meeting(rewards, codes).seen_by(slice(0, 4))
    selections = rewards.histories.selections(codes)
    expected = payoffs(game, selections, 0.5, Objective.NASH)
    np.testing.assert_allclose(opponents.rewards(opponents.drawn).T, expected, atol=1e-6)
    units = rewards.histories.units
    np.testing.assert_array_equal(selections, selections[:, units.first][:, units.of])


@pytest.mark.parametrize("gradient", list(Gradient))
def test_tables_disclose_categories_as_a_whole(gradient: Gradient) -> None:
    game = by_category(random_game(3, n_anchors=2, n_users=4, longest=6, disagreement=0.4))
    settings = TableSettings(rounds=1, samples=60, gradient=gradient)
    found = solve_table(
        game, objective=Objective.NASH, price=0.5, settings=settings, keys=keys_of(game, 1)
    ).selection
    units = game.wishes.units(game.owners, game.unwillingness)
    assert units.sizes.max() > 1
    np.testing.assert_array_equal(found, found[units.first][units.of])


def test_everybody_starts_from_her_own_prior() -> None:
    lengths = np.array([4, 3])
    tables = Tables.prior(lengths, np.array([0.2, 0.7]))
    for player, rate in enumerate((0.2, 0.7)):
        np.testing.assert_allclose(listed(tables, player), binomial(int(lengths[player]), rate), rtol=1e-12)
    game = random_game(5, n_anchors=2, n_users=6, longest=5, disagreement=0.3)
    asked = replace(game, wishes=Wishes(prior=np.where(game.owners < 3, 0.1, 0.8)))
    # So small a step leaves people where they started.
    still = TableSettings(rounds=1, samples=2, step=1e-12)
    rewards = Rewards(asked, Objective.NASH, 0.5)
    found: Floats = marginals(rewards, algorithm_2(rewards, still, keys_of(game))[0])
    np.testing.assert_allclose(found, np.where(game.owners < 3, 0.1, 0.8), atol=1e-6)


@pytest.mark.parametrize("n_anchors", [1, 2])
@pytest.mark.parametrize(
    ("wishes", "said"),
    [
        (Wishes(budget=np.ones(3)), "a budget per user"),
        (Wishes(floor=np.ones(3, dtype=np.int64)), "a floor per user"),
        (Wishes(power=2.0), "a utility of power 2"),
        (Wishes(budget=np.ones(3), power=0.5), "a budget per user, a utility of power 0.5"),
    ],
)
def test_other_wishes_are_refused_by_the_solver_itself(n_anchors: int, wishes: Wishes, said: str) -> None:
    game = replace(random_game(0, n_anchors=n_anchors, disagreement=0), wishes=wishes)
    accepted = "accepted: .*by category.*prior by user.*factored"
    with pytest.raises(AssentError, match=rf"{said} not supported; {accepted}"):
        solve_table(game, objective=Objective.NASH, price=0.5, settings=FEW, keys=keys_of(game))


def test_a_prior_that_differs_between_a_persons_items_is_refused() -> None:
    game = random_game(0, n_anchors=2, longest=4, disagreement=0)
    prior = np.random.default_rng(0).random(len(game.owners))
    with pytest.raises(AssentError, match="a prior by item not supported; accepted: "):
        solve_table(
            replace(game, wishes=Wishes(prior=prior)),
            objective=Objective.NASH,
            price=0.5,
            settings=FEW,
            keys=keys_of(game),
        )
