from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from assent.data.wishes import Wishes
from assent.game.estimates import Estimates, Objective
from assent.game.nearest import only_just, response_values, safe, unsure
from assent.game.prices import worth_disclosing
from assent.game.solve import solve
from assent.game.steering import hold
from assent.support.arrays import Bools, Floats

from .small_games import (
    all_selections,
    choices_of,
    eighths,
    first_anchor,
    games,
    make_game,
    payoffs,
    random_game,
    steady,
)

BOTH = pytest.mark.parametrize("objective", list(Objective))
prices = eighths(0, 24)


def most_profitable(game: Estimates, user: int, price: float, objective: Objective) -> Bools:
    """The best of all 2^|S| selections of a user, [|S|]; of equally good ones that which discloses least."""
    theirs = game.owners == user
    # With one anchor it does not matter what the others do; some of them disclose.
    others = np.arange(len(theirs)) % 2 == 0
    joint = choices_of(game, user, others)
    mine, payoff = joint[:, theirs], payoffs(game, joint, price, objective)[:, user]
    best = np.flatnonzero(payoff == payoff.max())
    least: Bools = mine[best[mine[best].sum(axis=1).argmin()]]
    return least


@BOTH
@settings(steady, max_examples=60)
@given(game=games(n_anchors=1), price=prices)
def test_one_anchor_agrees_with_brute_force(objective: Objective, game: Estimates, price: float) -> None:
    found = solve(game, objective=objective, price=price)
    for user in range(game.n_users):
        expected = most_profitable(game, user, price, objective)
        np.testing.assert_array_equal(found.selection[game.owners == user], expected)
    assert found.rounds == 1
    np.testing.assert_array_equal(found.values, game.values(objective)[0])


@BOTH
@steady
@given(game=games(n_anchors=1))
def test_what_is_worth_exactly_its_price_is_withheld(objective: Objective, game: Estimates) -> None:
    values = game.values(objective)[0]
    fair = replace(game, unwillingness=np.abs(values) / 4)
    np.testing.assert_array_equal(solve(fair, objective=objective, price=4.0).selection, False)
    np.testing.assert_array_equal(solve(fair, objective=objective, price=3.75).selection, values > 0)


@BOTH
@steady
@given(game=games(n_anchors=1))
def test_price_0_takes_what_has_value_and_a_huge_price_only_what_is_free(
    objective: Objective, game: Estimates
) -> None:
    valuable = game.values(objective)[0] > 0
    np.testing.assert_array_equal(solve(game, objective=objective, price=0.0).selection, valuable)
    free = valuable & (game.unwillingness == 0)
    np.testing.assert_array_equal(solve(game, objective=objective, price=1e100).selection, free)


@BOTH
@steady
@given(game=games(n_anchors=1), price=prices, more=eighths(), data=st.data())
def test_raising_ones_unwillingness_changes_that_interaction_alone_and_only_to_withheld(
    objective: Objective, game: Estimates, price: float, more: float, data: st.DataObject
) -> None:
    k = data.draw(st.integers(0, len(game.owners) - 1))
    raised = game.unwillingness.copy()
    raised[k] = max(raised[k], more)
    before = solve(game, objective=objective, price=price).selection
    after = solve(replace(game, unwillingness=raised), objective=objective, price=price).selection
    assert after[k] <= before[k]
    np.testing.assert_array_equal(np.delete(after, k), np.delete(before, k))


@BOTH
@pytest.mark.parametrize("n_anchors", [2, 3])
@settings(steady, max_examples=25)
@given(data=st.data(), price=prices)
def test_several_anchors_end_in_a_response_to_the_values_reported(
    objective: Objective, n_anchors: int, data: st.DataObject, price: float
) -> None:
    game = data.draw(games(n_anchors, longest=4))
    found = solve(game, objective=objective, price=price, rounds=20)
    expected = worth_disclosing(found.values, game.unwillingness, price)
    np.testing.assert_array_equal(found.selection, expected)
    assert 1 <= found.rounds <= 20
    again = solve(game, objective=objective, price=price, rounds=20)
    np.testing.assert_array_equal(found.values, again.values)


def two_homes() -> Estimates:
    """A game of 20 users with an equilibrium at either anchor: all disclosed, and nothing."""
    owners, everything = np.arange(20), np.ones(20, dtype=np.bool_)
    effects = np.stack([np.eye(20), -np.eye(20)])
    return make_game(
        owners, np.full(20, 0.5), np.stack([everything, ~everything]), effects, np.zeros((2, 20))
    )


@pytest.mark.parametrize(("prior", "disclosed"), [(0.9, True), (0.1, False)])
def test_the_prior_decides_between_equilibria(prior: float, disclosed: bool) -> None:
    asked = replace(two_homes(), wishes=Wishes(prior=np.full(20, prior)))
    found = solve(asked, objective=Objective.NASH, price=0.5)
    assert (found.selection == disclosed).all()
    assert not found.regret.any()
    assert found.rounds == found.nearest.sum() == 2


@BOTH
@pytest.mark.parametrize("seed", range(40))
def test_nobody_gains_more_than_the_regret(objective: Objective, seed: int) -> None:
    game = random_game(seed, n_anchors=2 + seed % 2, disagreement=0.4)
    found = solve(game, objective=objective, price=0.5)
    now = payoffs(game, found.selection[None], 0.5, objective)[0]
    for user in range(game.n_users):
        best = payoffs(game, choices_of(game, user, found.selection), 0.5, objective)[:, user].max()
        assert best - now[user] <= found.regret[user] + 1e-9


@pytest.mark.parametrize("seed", range(40))
def test_without_effects_the_regret_is_a_bound_but_of_those_who_can_change_the_nearest_anchor(
    seed: int,
) -> None:
    game = random_game(seed, n_anchors=2 + seed % 2, n_users=5, longest=2, disagreement=0.4)
    blind = replace(game, effects=())
    found = solve(blind, objective=Objective.NASH, price=0.5)
    doubtful = unsure(blind, found.selection, Objective.NASH)
    home = game.nearest(found.selection[None])
    now = payoffs(game, found.selection[None], 0.5, Objective.NASH)[0]
    for user in range(game.n_users):
        choices = choices_of(game, user, found.selection)
        assert doubtful[user] == (game.nearest(choices) != home).any()
        best = payoffs(game, choices, 0.5, Objective.NASH)[:, user].max()
        assert doubtful[user] or best - now[user] <= found.regret[user] + 1e-9
    assert not unsure(game, found.selection, Objective.NASH).any()
    assert not unsure(blind, found.selection, Objective.WELFARE).any()


@pytest.mark.parametrize(
    ("objective", "seeds"), [(Objective.NASH, (10, 11, 14)), (Objective.WELFARE, (20, 33))]
)
def test_cells_are_held_evenly_for_the_sake_of_single_players_alone(
    objective: Objective, seeds: tuple[int, ...]
) -> None:
    """Games that end in a cell that only one of the two ways to hold it leads to."""
    for seed in seeds:
        game = random_game(seed, n_anchors=2, n_users=12, longest=8, disagreement=0.6)
        found, players = solve(game, objective=objective, price=0.5).selection, game.players(0.5)
        reached = set()
        for t, values in enumerate(game.values(objective)):
            margins = only_just(game, t), safe(game, t, players.best(values))
            for margin, evenly in product(margins, (False, True)):
                held = hold(game.anchors, players, values, t, margin, evenly=evenly)
                if held is not None and np.array_equal(held.selection, found):
                    reached.add(evenly)
        assert reached == {objective is Objective.NASH}


@pytest.mark.parametrize("seed", range(30))
def test_welfare_has_the_largest_sum_of_all_selections(seed: int) -> None:
    game = random_game(seed, n_anchors=2 + seed % 2, disagreement=0.4)
    found = solve(game, objective=Objective.WELFARE, price=0.5).selection
    totals = payoffs(game, all_selections(len(found)), 0.5, Objective.WELFARE)[:, 0]
    reached = payoffs(game, found[None], 0.5, Objective.WELFARE)[0, 0]
    assert reached >= totals.max() - 0.06 * np.ptp(totals)


@BOTH
@pytest.mark.parametrize("seed", range(8))
def test_where_many_play_hardly_anybody_gains_by_deviating(objective: Objective, seed: int) -> None:
    game = random_game(seed, n_anchors=4, n_users=400, longest=8, disagreement=0.5)
    game = replace(game, effects=())
    found = solve(game, objective=objective, price=0.5)
    scale = np.abs(game.values(objective)).mean()
    # A few may stand so near to the next cell that they could move everybody, all the rest cannot.
    assert np.quantile(found.regret, 0.95) <= 0.1 * scale
    assert np.median(found.regret) <= 0.01 * scale
    for fewer in (1, 3):
        rushed = solve(game, objective=Objective.NASH, price=0.5, rounds=fewer)
        assert rushed.selection.shape == found.selection.shape


@BOTH
def test_a_cell_that_does_not_answer_itself_is_held(objective: Objective) -> None:
    # Each anchor's influence is answered nearer to the other one; only hardly worthy interactions are moved.
    rng = np.random.default_rng(0)
    owners, anchors = np.arange(3000) // 3, np.zeros((2, 3000), dtype=np.bool_)
    anchors[0, :1500] = anchors[1, 1500:] = True
    own = np.where(anchors, -1.0, 1.0) * 0.05 + rng.normal(size=3000)
    losses = np.ones((2, 1000))
    game = Estimates(owners, 1000, np.full(3000, 0.5), anchors, own, own, losses)
    for t in range(2):
        response = worth_disclosing(own[t], game.unwillingness, 0.5)
        assert game.nearest(response[None])[0] != t
    found = solve(game, objective=objective, price=0.5)
    np.testing.assert_array_equal(found.selection, worth_disclosing(found.values, game.unwillingness, 0.5))
    assert found.regret.max() <= 0.2
    nearest = game.nearest(found.selection[None])[0]
    moved = found.selection != worth_disclosing(own[nearest], game.unwillingness, 0.5)
    assert 0 < moved.mean() < 0.05


@BOTH
@pytest.mark.parametrize("n_anchors", [1, 3])
def test_wishes_are_kept_by_solutions(objective: Objective, n_anchors: int) -> None:
    game = random_game(3, n_anchors=n_anchors, n_users=40, longest=8, disagreement=0.3)
    wishes = Wishes(
        groups=game.owners * 3 + np.arange(len(game.owners)) % 3,
        budget=np.full(40, 1.5),
        floor=np.full(40, 1),
        power=2.0,
    )
    found = solve(replace(game, wishes=wishes), objective=objective, price=0.5)
    paid = np.bincount(game.owners, game.unwillingness * found.selection, 40)
    assert paid.max() <= 1.5
    units = wishes.units(game.owners, game.unwillingness)
    np.testing.assert_array_equal(found.selection, found.selection[units.first][units.of])
    possible = np.array(
        [game.unwillingness[units.of == unit].sum() <= 1.5 for unit in range(len(units.first))]
    )
    number = np.bincount(game.owners[found.selection], minlength=40)
    able = np.bincount(units.owners[possible], minlength=40) > 0
    assert (number[able] >= 1).all()


@BOTH
@pytest.mark.parametrize("n_anchors", [2, 3])
@pytest.mark.parametrize("seed", range(5))
def test_anchors_that_agree_on_one_linear_truth_have_its_closed_form(
    objective: Objective, n_anchors: int, seed: int
) -> None:
    game = random_game(seed, n_anchors=n_anchors, n_users=10, longest=8, disagreement=0)
    found = solve(game, objective=objective, price=0.5)
    alone = solve(first_anchor(game), objective=objective, price=0.5)
    np.testing.assert_allclose(found.values, alone.values, atol=1e-9)
    np.testing.assert_array_equal(found.selection, alone.selection)


@BOTH
@pytest.mark.parametrize("n_anchors", [2, 3])
def test_anchors_that_coincide_have_the_closed_form_of_one(objective: Objective, n_anchors: int) -> None:
    one = first_anchor(random_game(1, n_anchors=1, n_users=10, longest=8, disagreement=0.5))
    same = replace(
        one,
        anchors=np.repeat(one.anchors, n_anchors, axis=0),
        own=np.repeat(one.own, n_anchors, axis=0),
        social=np.repeat(one.social, n_anchors, axis=0),
        losses=np.repeat(one.losses, n_anchors, axis=0),
        effects=one.effects * n_anchors,
    )
    found = solve(same, objective=objective, price=0.5)
    alone = solve(one, objective=objective, price=0.5)
    np.testing.assert_allclose(found.values, alone.values, atol=1e-12)
    np.testing.assert_array_equal(found.selection, alone.selection)


@pytest.mark.parametrize("near", [0, 1])
def test_an_anchor_that_is_certainly_nearest_is_the_only_one_that_counts(near: int) -> None:
    objective = Objective.NASH
    rng = np.random.default_rng(near)
    owners, anchors = np.arange(200) // 8, np.zeros((2, 200), dtype=np.bool_)
    anchors[near] = True
    effects = rng.normal(size=(2, 25, 200)) / 25
    effects[near, owners, np.arange(200)] += rng.uniform(0, 4, 200)
    game = make_game(owners, rng.random(200), anchors, effects, rng.random((2, 25)))
    found = solve(game, objective=objective, price=1.0)
    values = game.values(objective)[near]
    np.testing.assert_allclose(found.values, values, atol=1e-9)
    np.testing.assert_array_equal(found.selection, values > game.unwillingness)
    assert 0.5 < found.selection.mean() < 1
    assert game.nearest(found.selection[None])[0] == near


@BOTH
def test_values_are_the_slopes_of_the_expected_payoff(objective: Objective) -> None:
    # At probabilities of one half the variance of the distances has no slope, so nothing is left out.
    game = random_game(2, n_anchors=2, n_users=6, longest=5, disagreement=0.3)
    half = np.full(len(game.owners), 0.5)
    values, probability = response_values(game, half, objective)
    found = np.empty(len(values))
    for k, owner in enumerate(game.owners):
        move = 1e-4 * (np.arange(len(half)) == k)
        rise = expected_payoff(game, half + move, objective) - expected_payoff(game, half - move, objective)
        found[k] = rise[owner] / 2e-4
    np.testing.assert_allclose(values, found, atol=0.01)
    assert np.abs(found - probability @ game.values(objective)).max() > 0.03


def expected_payoff(game: Estimates, strategy: Floats, objective: Objective) -> Floats:
    """Σ_t π_t c_t of each player with two anchors and normal distances, the price left out: [N]."""
    differ = game.anchors[0] != game.anchors[1]
    spread = 2 * np.sqrt((strategy * (1 - strategy))[differ].sum())
    d = game.moments(strategy)[0]
    probability = norm.cdf([(d[1] - d[0]) / spread, (d[0] - d[1]) / spread])
    each = [game.effects[t] @ (strategy - game.anchors[t]) - game.losses[t] for t in range(2)]
    payoff = probability @ np.array(each)
    return payoff if objective is Objective.NASH else np.full(game.n_users, payoff.sum())


@pytest.mark.parametrize("n_anchors", [1, 2])
def test_nash_looks_at_own_influence_and_welfare_at_social(n_anchors: int) -> None:
    game = random_game(4, n_anchors=n_anchors, n_users=8, longest=6, disagreement=0.3)
    nash, welfare = (solve(game, objective=each, price=0.5) for each in (Objective.NASH, Objective.WELFARE))
    assert not np.array_equal(nash.selection, welfare.selection)
    selfless = replace(game, own=np.zeros_like(game.own))
    selfish = replace(game, social=np.zeros_like(game.social))
    found = solve(selfish, objective=Objective.NASH, price=0.5)
    np.testing.assert_array_equal(found.values, nash.values)
    found = solve(selfless, objective=Objective.WELFARE, price=0.5)
    np.testing.assert_array_equal(found.values, welfare.values)


def test_welfare_is_at_least_as_good_for_all_as_nash() -> None:
    for seed in range(20):
        game = random_game(seed, n_anchors=1, disagreement=0)
        totals = {
            each: game.predicted_rewards(solve(game, objective=each, price=0.5).selection[None], 0.5).sum()
            for each in Objective
        }
        assert totals[Objective.WELFARE] >= totals[Objective.NASH] - 1e-12


@BOTH
def test_few_players_gain_much_by_deviating(objective: Objective) -> None:
    # Not every game has an equilibrium in selections. Measured here, as shares of the range of payoffs: 90 %
    # of nash and all of welfare have 0, where those who know the first anchor alone leave 0.22 (both).
    found, naive = [], []
    for seed in range(60):
        game = random_game(seed, n_anchors=2, disagreement=0.2)
        found.append(regret(game, solve(game, objective=objective, price=0.5).selection, 0.5, objective))
        alone = solve(first_anchor(game), objective=objective, price=0.5)
        naive.append(regret(game, alone.selection, 0.5, objective))
    print(f"regret of {objective}, quantiles 50, 75, 90, 100 %: {np.quantile(found, [0.5, 0.75, 0.9, 1])}")
    print(f"if only the first anchor is known: {np.quantile(naive, [0.5, 0.75, 0.9, 1])}")
    assert np.median(found) < 1e-9
    assert np.quantile(found, 0.9) < 1e-9
    assert np.mean(found) < 0.2 * np.mean(naive)


def regret(game: Estimates, selection: Bools, price: float, objective: Objective) -> float:
    """The largest gain of any player from deviating, as a share of the range of their payoffs."""
    everything = payoffs(game, all_selections(len(selection)), price, objective)
    now = payoffs(game, selection[None], price, objective)[0]
    best = [
        payoffs(game, choices_of(game, user, selection), price, objective)[:, user].max()
        for user in range(game.n_users)
    ]
    return float(((best - now) / np.ptp(everything, axis=0)).max())
