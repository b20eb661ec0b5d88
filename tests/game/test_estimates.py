import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.game.estimates import Estimates, Objective, draw_anchors
from assent.support.arrays import Bools

from .small_games import all_selections, eighths, games, make_game, steady

any_games = st.integers(1, 3).flatmap(lambda n_anchors: games(n_anchors, longest=4))


def draw_selection(data: st.DataObject, game: Estimates) -> Bools:
    length = len(game.owners)
    return np.array(data.draw(st.lists(st.booleans(), min_size=length, max_size=length)))


def hamming(a: Bools, b: Bools) -> int:
    return sum(bool(x) != bool(y) for x, y in zip(a, b, strict=True))


@steady
@given(any_games, st.data())
def test_distance_of_a_selection_counts_the_bits_that_differ(game: Estimates, data: st.DataObject) -> None:
    selection = draw_selection(data, game)
    expected = [hamming(selection, anchor) for anchor in game.anchors]
    assert game.moments(selection.astype(np.float64))[0].tolist() == expected


@steady
@given(games(n_anchors=2, longest=3, most_users=2), st.data())
def test_distance_of_a_strategy_is_the_expected_one(game: Estimates, data: st.DataObject) -> None:
    length = len(game.owners)
    strategy = np.array(data.draw(st.lists(eighths(), min_size=length, max_size=length)))
    expected = np.zeros(2)
    for selection in all_selections(length):
        weight = np.prod(
            [p if disclosed else 1 - p for p, disclosed in zip(strategy, selection, strict=True)]
        )
        expected += [weight * hamming(selection, anchor) for anchor in game.anchors]
    np.testing.assert_allclose(game.moments(strategy)[0], expected, atol=1e-12)


@steady
@given(any_games, st.data())
def test_nearest_is_the_first_of_the_nearest(game: Estimates, data: st.DataObject) -> None:
    selection = draw_selection(data, game)
    distances = [hamming(selection, anchor) for anchor in game.anchors]
    assert game.nearest(selection[None]).tolist() == [distances.index(min(distances))]


@steady
@given(any_games, st.data())
def test_predictions_are_those_of_the_nearest_anchor_centred_there(
    game: Estimates, data: st.DataObject
) -> None:
    selections = np.array([draw_selection(data, game) for _ in range(data.draw(st.integers(1, 3)))])
    price = data.draw(eighths(0, 16))
    losses = np.empty((len(selections), game.n_users))
    paid = np.zeros_like(losses)
    for s, (selection, t) in enumerate(zip(selections, game.nearest(selections), strict=True)):
        effects = game.effects[t].toarray()
        for u in range(game.n_users):
            losses[s, u] = game.losses[t, u]
            for k, owner in enumerate(game.owners):
                losses[s, u] -= (int(selection[k]) - int(game.anchors[t, k])) * effects[u, k]
                paid[s, u] += game.unwillingness[k] if owner == u and selection[k] else 0.0
    np.testing.assert_allclose(game.predicted_losses(selections), losses, atol=1e-12)
    np.testing.assert_allclose(game.predicted_rewards(selections, price), -losses - price * paid, atol=1e-12)


@steady
@given(any_games)
def test_an_anchor_predicts_its_own_losses(game: Estimates) -> None:
    first = {anchor.tobytes(): t for t, anchor in reversed(list(enumerate(game.anchors)))}
    expected = [game.losses[first[anchor.tobytes()]] for anchor in game.anchors]
    np.testing.assert_array_equal(game.predicted_losses(game.anchors), expected)


@steady
@given(any_games)
def test_nash_counts_own_influence_and_welfare_social(game: Estimates) -> None:
    assert game.values(Objective.NASH) is game.own
    assert game.values(Objective.WELFARE) is game.social
    assert game.n_anchors == len(game.anchors)


def test_a_worked_example() -> None:
    game = make_game(
        owners=np.array([0, 0, 1]),
        unwillingness=np.array([0.5, 0.25, 1.0]),
        anchors=np.array([[True, True, True], [False, False, True]]),
        effects=np.array([[[1.0, 2.0, 0.0], [0.5, 0.0, 3.0]], [[4.0, 0.0, 0.0], [0.0, 0.0, 1.0]]]),
        losses=np.array([[10.0, 20.0], [30.0, 40.0]]),
    )
    selection = np.array([True, False, False])
    np.testing.assert_array_equal(game.moments(selection.astype(np.float64))[0], [2, 2])
    selections = np.array([selection, [False, False, False]])
    np.testing.assert_array_equal(game.predicted_losses(selections), [[12, 23], [30, 41]])
    np.testing.assert_array_equal(game.predicted_rewards(selections, 2.0), [[-13, -23], [-30, -41]])


seeds = st.integers(0, 2**32)


@steady
@given(seeds, st.integers(1, 4), st.integers(0, 4))
def test_the_first_anchors_do_not_depend_on_how_many_follow(seed: int, few: int, more: int) -> None:
    short = draw_anchors(50, few, rate=0.9, seed=seed)
    long = draw_anchors(50, few + more, rate=0.9, seed=seed)
    assert short.shape == (few, 50)
    assert short.dtype == np.bool_
    np.testing.assert_array_equal(short, long[:few])


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_each_anchor_discloses_its_share(rate: float) -> None:
    shares = draw_anchors(20_000, 4, rate=rate, seed=1).mean(axis=1)
    np.testing.assert_allclose(shares, rate, atol=0.015)


def test_a_rate_of_one_discloses_everything() -> None:
    assert draw_anchors(100, 3, rate=1, seed=0).all()


def test_anchors_and_seeds_are_independent_draws() -> None:
    drawn = np.concatenate([draw_anchors(20_000, 3, rate=0.9, seed=seed) for seed in range(3)])
    correlations = np.corrcoef(drawn) - np.eye(len(drawn))
    assert np.abs(correlations).max() < 0.04


@steady
@given(seeds)
def test_a_higher_rate_only_adds(seed: int) -> None:
    low, high = (draw_anchors(200, 2, rate=rate, seed=seed) for rate in (0.4, 0.6))
    assert (low <= high).all()
    assert (low < high).any()
