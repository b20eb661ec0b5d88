from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from assent.data.problem import Problem, Rows, make_problem
from assent.data.simulate import simulate
from assent.support.arrays import Bools, Ints, positions, string_keys
from assent.training.disclosed import Disclosed, disclose, monitor_candidates, negatives

few = settings(max_examples=20, deadline=None)
seeds = st.integers(0, 2**31)


@pytest.fixture(scope="module")
def problem() -> Problem:
    return make_problem(simulate(preference="learnable", users=40, items=30, seed=0), "full", negatives=5)


def some_rows(problem: Problem, seed: int, share: float = 0.6) -> Bools:
    return np.random.default_rng(seed).random(len(problem.train)) < share


def everything(problem: Problem) -> Bools:
    return np.ones(len(problem.train), dtype=np.bool_)


def pairs(data: Disclosed) -> list[tuple[str, str]]:
    """The disclosed rows as ids."""
    users, items = data.user_ids[data.rows.users], data.item_ids[data.rows.items]
    return list(zip(users.tolist(), items.tolist(), strict=True))


def pairs_of(problem: Problem, rows: Rows) -> list[tuple[str, str]]:
    users, items = problem.user_ids[rows.users], problem.item_ids[rows.items]
    return list(zip(users.tolist(), items.tolist(), strict=True))


def disclosed_items(data: Disclosed, user: int) -> set[int]:
    return set(data.rows.items[data.rows.users == user].tolist())


@few
@given(seeds, st.sampled_from([0.05, 0.5, 0.95]))
def test_the_rows_kept_are_the_selected_ones_and_so_is_the_vocabulary(
    problem: Problem, seed: int, share: float
) -> None:
    selection = some_rows(problem, seed, share)
    data = disclose(problem, selection)

    expected = pairs_of(problem, problem.train[selection])
    assert pairs(data) == expected
    assert data.user_ids.tolist() == sorted({user for user, _ in expected})
    assert data.item_ids.tolist() == sorted({item for _, item in expected})


def test_validation_rows_are_unknown_where_the_vocabulary_lacks_them(problem: Problem) -> None:
    data = disclose(problem, some_rows(problem, 0, share=0.05))
    for user, item, (user_id, item_id) in zip(
        data.valid.users, data.valid.items, pairs_of(problem, problem.valid), strict=True
    ):
        assert [*data.user_ids, None][user] == (user_id if user_id in data.user_ids else None)
        assert [*data.item_ids, None][item] == (item_id if item_id in data.item_ids else None)
    assert (data.valid.users == data.n_users).any()
    assert (data.valid.items == data.n_items).any()


def test_an_anchor_keeps_the_vocabulary_that_it_asks_for(problem: Problem) -> None:
    selection = some_rows(problem, 0, share=0.05)
    whole = disclose(problem, everything(problem))
    anchor = disclose(problem, selection, vocabulary=everything(problem))
    assert pairs(anchor) == pairs_of(problem, problem.train[selection])
    assert anchor.user_ids.tolist() == whole.user_ids.tolist()
    assert anchor.item_ids.tolist() == whole.item_ids.tolist()
    assert disclose(problem, selection).n_items < whole.n_items


def test_nothing_disclosed_is_nothing_known(problem: Problem) -> None:
    data = disclose(problem, ~everything(problem))
    assert (len(data.rows), data.n_users, data.n_items) == (0, 0, 0)
    assert not data.valid.users.any()
    assert not data.valid.items.any()


def test_keys_belong_to_ids_whatever_else_is_disclosed(problem: Problem) -> None:
    one, other = (disclose(problem, some_rows(problem, seed)) for seed in (0, 1))
    keys = dict(zip(pairs(one), one.row_keys.tolist(), strict=True))
    others = dict(zip(pairs(other), other.row_keys.tolist(), strict=True))
    common = keys.keys() & others.keys()
    assert len(common) > 50
    assert all(keys[pair] == others[pair] for pair in common)
    assert len(set(keys.values())) == len(keys)
    assert one.valid_keys.tolist() == other.valid_keys.tolist()


@given(st.sets(st.integers(0, 20)), st.lists(st.integers(0, 20)))
def test_positions_are_places_in_a_sorted_list(known: set[int], values: list[int]) -> None:
    ordered = sorted(known)
    found = positions(np.array(ordered, dtype=np.int64), np.array(values, dtype=np.int64))
    assert found.tolist() == [ordered.index(v) if v in known else len(ordered) for v in values]


@few
@given(seeds, seeds, st.integers(0, 60), st.integers(1, 4))
def test_negatives_stay_when_the_rows_of_others_leave(
    problem: Problem, lot: int, seed: int, epoch: int, count: int
) -> None:
    vocabulary = everything(problem)
    lone = np.random.default_rng(lot).integers(problem.n_users)
    theirs = problem.train.users == lone
    before = negatives(disclose(problem, vocabulary), seed=seed, epoch=epoch, count=count)
    alone = negatives(disclose(problem, theirs, vocabulary), seed=seed, epoch=epoch, count=count)
    np.testing.assert_array_equal(alone, before[theirs])


@few
@given(seeds, seeds)
def test_what_leaves_can_only_come_back_as_a_negative(problem: Problem, lot: int, seed: int) -> None:
    """A row's draws change only where they were turned down for an item that is now withheld."""
    vocabulary, kept = everything(problem), some_rows(problem, lot)
    whole, part = disclose(problem, vocabulary), disclose(problem, kept, vocabulary)
    before = negatives(whole, seed=seed, epoch=0, count=3)[kept]
    after = negatives(part, seed=seed, epoch=0, count=3)
    for row, column in zip(*np.nonzero(before != after), strict=True):
        user = part.rows.users[row]
        withheld = disclosed_items(whole, user) - disclosed_items(part, user)
        assert after[row, column] in withheld


@pytest.fixture(scope="module")
def wide() -> Problem:
    """A log of many items: nobody has more than a small share of them."""
    return make_problem(simulate(preference="learnable", users=40, items=400, seed=0), "full", negatives=5)


@few
@given(seeds, st.integers(0, 60), st.integers(1, 4))
def test_negatives_are_items_that_their_user_has_not_disclosed(
    wide: Problem, seed: int, epoch: int, count: int
) -> None:
    data = disclose(wide, everything(wide))
    drawn = negatives(data, seed=seed, epoch=epoch, count=count)
    assert drawn.shape == (len(data.rows), count)
    assert drawn.min() >= 0
    assert drawn.max() < data.n_items
    modest = [user for user in range(data.n_users) if len(disclosed_items(data, user)) < data.n_items / 20]
    assert len(modest) > 10
    for user in modest:
        assert not disclosed_items(data, user) & set(drawn[data.rows.users == user].ravel().tolist())


def one_user(items: int, others: int) -> Disclosed:
    """Somebody who has the first `items` items; `others` more are in the vocabulary."""
    ids = np.array([f"i{number:04}" for number in range(items + others)])
    rows = Rows(np.zeros(items, dtype=np.int64), np.arange(items))
    nobody = rows[:0]
    keys = np.arange(items, dtype=np.uint64)
    users = np.array(["u"])
    return Disclosed(
        users, ids, string_keys(users), string_keys(ids), rows, keys, nobody, valid_keys=keys[:0]
    )


def test_negatives_are_uniform_over_what_is_left() -> None:
    data = one_user(items=10, others=40)
    drawn = negatives(data, seed=5, epoch=2, count=2000)
    counts = np.bincount(drawn.ravel(), minlength=50)
    assert not counts[:10].any()
    assert chisquare(counts[10:]).pvalue > 0.001
    # Each row's draws are, too, and so are those that had to be repeated: a fifth of all.
    assert chisquare(np.bincount(drawn[0] - 10, minlength=40)).pvalue > 0.001


def test_a_withheld_item_is_drawn_like_any_other(problem: Problem) -> None:
    whole = disclose(problem, everything(problem))
    user = int(np.bincount(whole.rows.users).argmax())
    theirs = np.flatnonzero(problem.train.users == user)
    withheld = whole.rows.items[theirs[0]]
    selection = everything(problem)
    selection[theirs[0]] = False
    part = disclose(problem, selection, vocabulary=everything(problem))

    drawn = negatives(part, seed=0, epoch=0, count=3000)[part.rows.users == user]
    left = sorted(set(range(part.n_items)) - disclosed_items(part, user))
    counts = np.bincount(drawn.ravel(), minlength=part.n_items)[left]
    assert withheld in left
    assert chisquare(counts).pvalue > 0.001


def test_somebody_who_has_everything_still_gets_negatives() -> None:
    drawn = negatives(one_user(items=6, others=0), seed=0, epoch=0, count=3)
    assert drawn.shape == (6, 3)
    assert set(drawn.ravel().tolist()) <= set(range(6))


def test_negatives_are_a_function_of_seed_epoch_and_row(problem: Problem) -> None:
    data = disclose(problem, some_rows(problem, 0))

    def drawn(seed: int, epoch: int) -> Ints:
        return negatives(data, seed=seed, epoch=epoch, count=2)

    np.testing.assert_array_equal(drawn(3, 4), drawn(3, 4))
    for seed, epoch in ((3, 5), (4, 4), (4, 3)):
        # Two unrelated draws among some twenty items agree once in twenty.
        assert (drawn(3, 4) == drawn(seed, epoch)).mean() < 0.2
    assert (drawn(3, 4)[:, 0] == drawn(3, 4)[:, 1]).mean() < 0.2
    np.testing.assert_array_equal(negatives(data, seed=3, epoch=4, count=5)[:, :2], drawn(3, 4))


def test_monitor_candidates_belong_to_the_validation_row(problem: Problem) -> None:
    data = disclose(problem, some_rows(problem, 0))
    candidates = monitor_candidates(data, seed=1, count=50)
    assert candidates.shape == (len(data.valid), 50)
    assert chisquare(np.bincount(candidates.ravel(), minlength=data.n_items)).pvalue > 0.001
    np.testing.assert_array_equal(candidates, monitor_candidates(data, seed=1, count=50))
    assert (candidates != monitor_candidates(data, seed=2, count=50)).mean() > 0.8
    some = np.arange(0, len(data.valid), 3)
    cut = replace(data, valid=data.valid[some], valid_keys=data.valid_keys[some])
    np.testing.assert_array_equal(monitor_candidates(cut, seed=1, count=50), candidates[some])
