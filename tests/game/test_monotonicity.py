"""What a person can count on when they mind more."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assent.data.problem import make_problem
from assent.data.simulate import simulate
from assent.game.estimates import Estimates, Objective
from assent.game.nearest import response_values
from assent.game.paper import (
    Gradient,
    Meeting,
    Rewards,
    TableSettings,
    algorithm_1,
    algorithm_2,
    marginals,
    solve_table,
)
from assent.game.players import Players
from assent.game.solve import solve
from assent.support.arrays import Bools, Floats, Ints

from .small_games import all_selections, eighths, games, keys_of, random_game, steady
from .test_players import cases

BOTH = pytest.mark.parametrize("objective", list(Objective))
some_games = st.integers(1, 3).flatmap(lambda n_anchors: games(n_anchors, longest=4))
seeds = st.integers(0, 2**32)


def raised(game: Estimates, k: int, by: float) -> Estimates:
    """The game after the owner of interaction k has come to mind it more."""
    unwillingness = game.unwillingness.copy()
    unwillingness[k] += by
    return replace(game, unwillingness=unwillingness)


def best_response(game: Estimates, player: int, others: Ints, price: float, objective: Objective) -> Bools:
    """The best selection by eq. (9) while the others play the codes `others[N]`; of several the first."""
    rewards, theirs = Rewards(game, objective, price), slice(player, player + 1)
    length = int(rewards.histories.lengths[player])
    own = np.arange(2**length)[None]
    opponents = Meeting(rewards, np.repeat(others[:, None], own.size, axis=1)).seen_by(theirs)
    best: Bools = all_selections(length)[opponents.rewards(rewards.parts(theirs, own)).argmax()]
    return best


@BOTH
@settings(steady, max_examples=40)
@given(game=some_games, price=eighths(1, 16), by=eighths(1, 8), seed=seeds)
def test_an_exact_best_response_never_turns_on_what_is_minded_more(
    objective: Objective, game: Estimates, price: float, by: float, seed: int
) -> None:
    """Whatever the number of anchors: two selections cannot each be better than the other."""
    rng = np.random.default_rng(seed)
    k = int(rng.integers(len(game.owners)))
    player = int(game.owners[k])
    mine = int((game.owners[:k] == player).sum())
    others = rng.integers(0, 2 ** np.bincount(game.owners, minlength=game.n_users))
    before, after, hated = (
        best_response(each, player, others, price, objective)
        for each in (game, raised(game, k, by), raised(game, k, 1e6))
    )
    assert after[mine] <= before[mine]
    assert not hated[mine]
    if not before[mine]:
        np.testing.assert_array_equal(after, before)


@BOTH
@settings(steady, max_examples=30)
@given(game=some_games, price=eighths(1, 16), by=eighths(1, 8), seed=seeds)
def test_a_factored_response_to_given_strategies_withholds_that_interaction_or_nothing(
    objective: Objective, game: Estimates, price: float, by: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    k, strategy = int(rng.integers(len(game.owners))), rng.random(len(game.owners))
    before, after, hated = (
        each.players(price).best(response_values(each, strategy, objective)[0])
        for each in (game, raised(game, k, by), raised(game, k, 1e6))
    )
    assert after[k] <= before[k]
    assert not hated[k]
    np.testing.assert_array_equal(np.delete(after, k), np.delete(before, k))


@settings(steady, max_examples=60)
@given(case=cases(longest=7), by=eighths(1, 8), seed=seeds)
def test_a_best_response_under_wishes_never_turns_on_what_is_minded_more(
    case: tuple[Players, Floats], by: float, seed: int
) -> None:
    """Budgets, floors, groups and dearer units: what discloses k gets worse or is ruled out, nothing else."""
    people, values = case
    k = int(np.random.default_rng(seed).integers(len(values)))
    more = np.arange(len(values)) == k
    minding = replace(people, unwillingness=people.unwillingness + by * more)
    before, after = people.best_within(values)[0], minding.best_within(values)[0]
    assert after[k] <= before[k]
    if not before[k]:
        np.testing.assert_allclose(minding.payoffs(values, after), people.payoffs(values, before), atol=1e-9)
    never = replace(people, unwillingness=np.where(more, 1.0, people.unwillingness))
    assert not never.best_within(values)[0][k]


@settings(steady, max_examples=40)
@given(game=some_games, price=eighths(1, 16), by=eighths(1, 8), seed=seeds)
def test_the_largest_sum_of_rewards_never_turns_on_what_is_minded_more(
    game: Estimates, price: float, by: float, seed: int
) -> None:
    """`welfare` is one maximum, so that it is monotone with any number of anchors."""
    k = int(np.random.default_rng(seed).integers(len(game.owners)))
    before, after, hated = (
        solve(each, objective=Objective.WELFARE, price=price).selection
        for each in (game, raised(game, k, by), raised(game, k, 1e6))
    )
    assert after[k] <= before[k]
    assert not hated[k]


@pytest.mark.parametrize("gradient", [Gradient.RELATIVE, Gradient.UNBIASED])
@pytest.mark.parametrize("seed", [1, 2])
def test_tables_disclose_less_often_what_is_minded_more(seed: int, gradient: Gradient) -> None:
    """Samples decide, so it is a matter of probability: of everybody's first interaction, one at a time."""
    game = random_game(seed, n_anchors=2, n_users=4, disagreement=0.3)
    settings = TableSettings(rounds=2, samples=200, step=0.05, gradient=gradient)

    def shown(game: Estimates) -> Floats:
        rewards = Rewards(game, Objective.NASH, 0.5)
        return marginals(rewards, algorithm_2(rewards, settings, keys_of(game, seed))[0])

    before = shown(game)
    for k in np.unique(game.owners, return_index=True)[1]:
        assert shown(raised(game, int(k), 2.0))[k] < before[k]


@BOTH
@settings(steady, max_examples=30)
@given(game=games(n_anchors=1), price=eighths(0, 16), by=eighths(1, 8), seed=seeds)
def test_algorithm_1_withholds_that_interaction_or_nothing(
    objective: Objective, game: Estimates, price: float, by: float, seed: int
) -> None:
    k = int(np.random.default_rng(seed).integers(len(game.owners)))
    before = algorithm_1(game, objective=objective, price=price)
    after = algorithm_1(raised(game, k, by), objective=objective, price=price)
    assert after[k] <= before[k]
    np.testing.assert_array_equal(np.delete(after, k), np.delete(before, k))


@BOTH
@settings(steady, max_examples=20)
@given(game=some_games, least=eighths(1, 8))
def test_a_price_beyond_all_value_discloses_nothing(
    objective: Objective, game: Estimates, least: float
) -> None:
    minded = replace(game, unwillingness=np.maximum(game.unwillingness, least))
    assert not solve(minded, objective=objective, price=1e6, rounds=5).selection.any()
    one = replace(
        minded,
        anchors=game.anchors[:1],
        own=game.own[:1],
        social=game.social[:1],
        losses=game.losses[:1],
        effects=game.effects[:1],
    )
    settings = TableSettings()
    found = solve_table(one, objective=objective, price=1e6, settings=settings, keys=keys_of(one))
    assert not found.selection.any()


def test_never_is_in_no_game() -> None:
    log = simulate(preference="learnable", users=40, items=60, seed=3)
    said_never = pl.Series(np.where(np.arange(len(log)) % 5 == 0, 1.0, 0.5))
    problem = make_problem(log.with_unwillingness(said_never), "paper-tables", negatives=5)
    never = log.table.filter(said_never == 1.0).select("user", "item").rows()
    played = zip(
        problem.user_ids[problem.train.users].tolist(),
        problem.item_ids[problem.train.items].tolist(),
        strict=True,
    )
    assert len(problem.train) > 50
    assert problem.unwillingness.max() < 1
    assert not set(never) & set(played)
