"""Decisions within a budget: what fits is found at the lowest price and filled up."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from assent.data.wishes import Wishes
from assent.game.budget import Budget, up_to_rounding
from assent.game.estimates import Estimates, Objective
from assent.game.nearest import regret_of
from assent.game.prices import break_even_prices, price_path
from assent.game.solve import Equilibrium, decide_within, solve
from assent.support.arrays import Bools
from assent.support.errors import AssentError

from .small_games import is_within, random_game

BOTH = pytest.mark.parametrize("objective", list(Objective))
SHARES = (0.0, 0.15, 0.5, 0.9, 1.0)


def player_of(game: Estimates, objective: Objective) -> Callable[[float], Equilibrium]:
    return lambda price: solve(game, objective=objective, price=price)


def budget_of(game: Estimates, share: float) -> Budget:
    return Budget(share, game.owners, game.unwillingness, game.n_users)


def fits(game: Estimates, selection: Bools, share: float) -> bool:
    return is_within(share, game.owners, game.unwillingness, selection)


@BOTH
@pytest.mark.parametrize("seed", range(4))
def test_one_anchor_has_the_closed_form_of_the_price_path(objective: Objective, seed: int) -> None:
    game = random_game(seed, n_anchors=1, n_users=12, longest=6, disagreement=0)
    path = price_path(game.values(objective)[0], game.unwillingness)
    for share in SHARES:
        found, price = decide_within(game, player_of(game, objective), share, objective)
        np.testing.assert_array_equal(found.selection, path.within(budget_of(game, share)))
        assert price == path.price_within(budget_of(game, share))


@BOTH
@pytest.mark.parametrize("seed", range(4))
def test_several_anchors_fit_and_leave_no_room_for_the_next(objective: Objective, seed: int) -> None:
    game = random_game(seed, n_anchors=3, n_users=8, longest=4, disagreement=0.4)
    for share in SHARES:
        found, price = decide_within(game, player_of(game, objective), share, objective)
        assert fits(game, found.selection, share)
        left = price_path(found.values, game.unwillingness).order[int(found.selection.sum()) :]
        assert not found.selection[left].any()
        if len(left):
            assert not fits(game, found.selection | (np.arange(len(game.owners)) == left[0]), share)
        assert price == (break_even_prices(found.values, game.unwillingness)[left[0]] if len(left) else 0)
        expected = regret_of(game, found.selection, objective=objective, price=price)
        np.testing.assert_array_equal(found.regret, expected)


def test_what_is_played_costs_about_the_price_at_which_it_just_fits() -> None:
    """Below the price that is found, within 1 %, the solution of the game exceeds the budget."""
    game = random_game(5, n_anchors=3, n_users=30, longest=6, disagreement=0.3)
    wished = replace(game, wishes=Wishes(power=1.5))
    play = player_of(wished, Objective.WELFARE)
    _, price = decide_within(wished, play, 0.4, Objective.WELFARE)
    assert fits(game, play(price).selection, 0.4)
    assert not fits(game, play(0.98 * price).selection, 0.4)


@BOTH
@pytest.mark.parametrize("n_anchors", [1, 3])
@pytest.mark.parametrize("seed", range(3))
def test_wishes_are_kept_and_filled_up_by_units(objective: Objective, n_anchors: int, seed: int) -> None:
    game = random_game(seed, n_anchors=n_anchors, n_users=7, longest=5, disagreement=0.3)
    wishes = Wishes(groups=game.owners * 3 + np.arange(len(game.owners)) % 3, budget=np.full(7, 1.2))
    game = replace(game, wishes=wishes)
    for share in (0.2, 0.5):
        found, price = decide_within(game, player_of(game, objective), share, objective)
        players = game.players(price)
        paid, units = players.paid(found.selection), players.units
        assert fits(game, found.selection, share)
        assert (paid <= up_to_rounding(players.budget)).all()
        chosen = found.selection[units.first]
        np.testing.assert_array_equal(found.selection, chosen[units.of])
        # Of the units that their owners have room for, the best by break-even price finds none in the budget.
        room = (
            ~chosen
            & ~units.never
            & (paid[units.owners] + units.unwillingness <= up_to_rounding(players.budget[units.owners]))
        )
        prices = break_even_prices(units.sums(found.values), units.unwillingness)
        order = np.lexsort((units.unwillingness, -prices))
        following = order[room[order]]
        if len(following):
            assert not fits(game, found.selection | (units.of == following[0]), share)


def test_where_no_price_fits_values_alone_order_the_interactions() -> None:
    game = random_game(1, n_anchors=1, n_users=8, longest=5, disagreement=0)
    everything = np.ones(len(game.owners), dtype=np.bool_)
    groups = np.arange(len(game.owners))
    stubborn = replace(game, wishes=Wishes(groups=groups))

    def play(price: float) -> Equilibrium:
        return replace(solve(stubborn, objective=Objective.NASH, price=price), selection=everything)

    found, price = decide_within(stubborn, play, 0.3, Objective.NASH)
    path = price_path(found.values, game.unwillingness)
    np.testing.assert_array_equal(found.selection, path.within(budget_of(game, 0.3)))
    assert price == path.price_within(budget_of(game, 0.3))


def test_floors_that_exceed_the_budget_are_refused() -> None:
    game = random_game(1, n_anchors=1, n_users=8, longest=5, disagreement=0)
    asked = replace(game, wishes=Wishes(floor=np.full(8, 1)))
    with pytest.raises(AssentError, match="everybody's floor alone takes a budget of"):
        decide_within(asked, player_of(asked, Objective.NASH), 0.01, Objective.NASH)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("ahead", [1.7, 10.0, 1000.0])
def test_a_price_that_was_bisected_is_at_most_1_percent_above_the_lowest_that_fits(
    ahead: float, seed: int
) -> None:
    """However far values lead astray: here they are `ahead` times what is played by."""
    plain = random_game(seed, n_anchors=1, n_users=12, longest=6, disagreement=0)
    game = replace(plain, wishes=Wishes(floor=np.zeros(12, dtype=np.int64)))
    values = plain.values(Objective.WELFARE)[0]

    def play(price: float) -> Equilibrium:
        found = solve(plain, objective=Objective.WELFARE, price=price)
        return replace(found, values=ahead * found.values)

    budget = Budget(0.4, game.owners, game.unwillingness, game.n_users)
    lowest = price_path(values, game.unwillingness).price_within(budget)
    _, price = decide_within(game, play, 0.4, Objective.WELFARE)
    assert lowest <= price <= 1.0102 * lowest
