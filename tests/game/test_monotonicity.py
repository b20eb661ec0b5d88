"""What a person can count on when she minds more."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assent.arrays import Bools
from assent.data.simulator import simulate
from assent.data.split import make_problem
from assent.game.algorithms import algorithm_1, solve_table
from assent.game.estimates import Estimates
from assent.game.objective import Objective
from assent.game.prices import worth_disclosing
from assent.game.solve import response_values, solve
from assent.game.strategy import TableSettings

from .games import choices_of, eighths, games, payoffs, steady

BOTH = pytest.mark.parametrize("objective", list(Objective))
some_games = st.integers(1, 3).flatmap(lambda n_anchors: games(n_anchors, longest=4))
seeds = st.integers(0, 2**32)


def raised(game: Estimates, k: int, by: float) -> Estimates:
    """The game after the owner of interaction k has come to mind it more."""
    unwillingness = game.unwillingness.copy()
    unwillingness[k] += by
    return replace(game, unwillingness=unwillingness)


def best_response(game: Estimates, player: int, others: Bools, price: float, objective: Objective) -> Bools:
    """Her best selection while the others keep to theirs; of several the first: [Z]."""
    joint = choices_of(game, player, others)
    best: Bools = joint[payoffs(game, joint, price, objective)[:, player].argmax()]
    return best


@BOTH
@settings(steady, max_examples=40)
@given(game=some_games, price=eighths(1, 16), by=eighths(1, 8), seed=seeds)
def test_an_exact_best_response_never_turns_on_what_is_minded_more(
    objective: Objective, game: Estimates, price: float, by: float, seed: int
) -> None:
    """Whatever the number of anchors: two selections cannot each be better than the other."""
    rng = np.random.default_rng(seed)
    k, others = int(rng.integers(len(game.owners))), rng.random(len(game.owners)) < 0.5
    player = int(game.owners[k])
    before = best_response(game, player, others, price, objective)
    after = best_response(raised(game, k, by), player, others, price, objective)
    assert after[k] <= before[k]
    if not before[k]:
        np.testing.assert_array_equal(after, before)


@BOTH
@settings(steady, max_examples=30)
@given(game=some_games, price=eighths(1, 16), by=eighths(1, 8), seed=seeds)
def test_a_factored_response_to_given_strategies_withholds_that_interaction_or_nothing(
    objective: Objective, game: Estimates, price: float, by: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    k, strategy = int(rng.integers(len(game.owners))), rng.random(len(game.owners))
    values, _ = response_values(game, strategy, objective)
    before = worth_disclosing(values, game.unwillingness, price)
    after = worth_disclosing(values, raised(game, k, by).unwillingness, price)
    assert after[k] <= before[k]
    np.testing.assert_array_equal(np.delete(after, k), np.delete(before, k))


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
    assert not solve_table(one, objective=objective, price=1e6, settings=settings, seed=0).selection.any()


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
