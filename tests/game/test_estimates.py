import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from assent.game.estimates import Estimates, Objective
from assent.support.arrays import Bools

from .small_games import all_selections, eighths, games, make_game, random_game, steady

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


@steady
@given(any_games, st.data())
def test_permuted_influence_moves_with_its_interaction_to_the_new_owner(
    game: Estimates, data: st.DataObject
) -> None:
    order = np.array(data.draw(st.permutations(range(len(game.owners)))), dtype=np.int64)
    found = game.permuted(order)
    rows = np.arange(len(order))
    np.testing.assert_array_equal(found.own, game.own[:, order])
    np.testing.assert_array_equal(found.social, game.social[:, order])
    for before, after in zip(game.effects, found.effects, strict=True):
        old, new = before.toarray(), after.toarray()
        np.testing.assert_array_equal(new[game.owners, rows], old[game.owners[order], order])
        np.testing.assert_array_equal(np.sort(new, axis=0), np.sort(old[:, order], axis=0))
    same = game.permuted(rows)
    for before, after in zip(game.effects, same.effects, strict=True):
        np.testing.assert_array_equal(after.toarray(), before.toarray())


@steady
@given(any_games, st.data())
def test_uncentred_influence_counts_all_that_is_disclosed(game: Estimates, data: st.DataObject) -> None:
    selection = draw_selection(data, game)
    (found,) = game.uncentred().predicted_losses(selection[None])
    (nearest,) = game.nearest(selection[None])
    expected = game.losses[nearest] - game.effects[nearest].toarray() @ selection
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


def test_without_influence_the_losses_are_all_that_is_known() -> None:
    game = random_game(0, n_anchors=2, disagreement=0.2).without_influence()
    assert not game.own.any()
    assert not game.social.any()
    change = np.ones(len(game.owners))
    assert not game.felt(0, change).any()
