"""Draws by ids: what goes leaves the draws of others as they are, and every item is equally likely."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from assent.support.arrays import Ints, Keys, mix
from assent.support.draws import Purpose, Urn, by_lot, lots, some_by_lot

names = st.lists(st.integers(0, 10**9), min_size=2, max_size=60, unique=True)
seeds = st.integers(0, 2**40)


def keys_of(chosen: list[int]) -> Keys:
    return mix(np.array(chosen))


@given(names, seeds, st.data())
def test_what_goes_leaves_the_lots_of_others_as_they_are(
    chosen: list[int], seed: int, data: st.DataObject
) -> None:
    keys, gone = keys_of(chosen), data.draw(st.integers(0, len(chosen) - 1))
    left = np.delete(np.arange(len(keys)), gone)
    np.testing.assert_array_equal(lots(keys[left], seed, Purpose.LOTS), lots(keys, seed, Purpose.LOTS)[left])
    order = by_lot(keys, seed, Purpose.ORDER, 3)
    np.testing.assert_array_equal(left[by_lot(keys[left], seed, Purpose.ORDER, 3)], order[order != gone])
    few = set(some_by_lot(keys, 5, seed, Purpose.TARGETS).tolist())
    after = set(left[some_by_lot(keys[left], 5, seed, Purpose.TARGETS)].tolist())
    assert few - {gone} <= after
    assert len(after) == min(5, len(left))


def test_purposes_and_numbers_tell_draws_apart() -> None:
    keys = mix(np.arange(500))
    assert len({each.value for each in Purpose}) == len(Purpose)
    every = [lots(keys, 0, purpose, number) for purpose in Purpose for number in (0, 1)]
    together = np.corrcoef(np.array(every)) - np.eye(len(every))
    assert np.abs(together).max() < 0.25


@given(names, seeds, st.data())
def test_an_item_that_goes_changes_only_draws_from_cells_that_changed(
    chosen: list[int], seed: int, data: st.DataObject
) -> None:
    keys, gone = keys_of(chosen), data.draw(st.integers(0, len(chosen) - 1))
    left = np.delete(np.arange(len(keys)), gone)
    whole, without = Urn.of(keys), Urn.of(keys[left])
    if len(whole.cells) != len(without.cells):
        return  # one item more or less than a power of two
    named = np.where(without.cells >= 0, left[without.cells], -1)
    moved = {int(item) for item in whole.cells[whole.cells != named]} - {-1}
    assert gone in moved
    draws = mix(seed, np.arange(200))
    before, after = whole.draw(draws), left[without.draw(draws)]
    assert set(before[before != after].tolist()) <= moved


def test_few_items_move_when_one_goes() -> None:
    keys, draws = mix(np.arange(3000)), mix(1, np.arange(20_000))
    whole, changed = Urn.of(keys), []
    before = whole.draw(draws)
    for gone in range(0, 3000, 100):
        left = np.delete(np.arange(3000), gone)
        changed.append((left[Urn.of(keys[left]).draw(draws)] != before).sum())
    assert np.mean(changed) < 3 * len(draws) / len(keys)  # one third is the item itself


@pytest.mark.parametrize("items", [1, 2, 5, 33, 300])
def test_every_item_is_equally_likely(items: int) -> None:
    drawn = Urn.of(mix(7, np.arange(items))).draw(mix(np.arange(100 * items + 1000)))
    counts = np.bincount(drawn, minlength=items)
    assert len(counts) == items
    assert items == 1 or chisquare(counts).pvalue > 0.01


def test_items_that_somebody_has_are_not_drawn_and_the_rest_evenly() -> None:
    urn = Urn.of(mix(np.arange(40)))
    starts, items = np.array([0, 0, 10]), np.arange(3, 33, 3)
    users: Ints = np.arange(2000) % 2
    keys = mix(np.arange(2000)[:, None], np.arange(8))
    drawn = urn.draw_other(keys, users, starts, items, 99)
    assert not np.isin(drawn[users == 1], items).any()
    left = np.setdiff1d(np.arange(40), items)
    assert chisquare(np.bincount(drawn[users == 1].ravel(), minlength=40)[left]).pvalue > 0.01
    distinct = urn.draw_distinct(mix(np.arange(2000)), users, starts, items, 30)
    np.testing.assert_array_equal(np.sort(distinct[users == 1]), np.tile(left, (1000, 1)))
    assert (np.diff(np.sort(distinct[users == 0])) > 0).all()
    assert chisquare(np.bincount(distinct[users == 1][:, 0], minlength=40)[left]).pvalue > 0.01


def test_where_somebody_lacks_too_few_items_these_are_drawn_again_in_the_same_order() -> None:
    urn = Urn.of(mix(np.arange(5)))
    starts, items = np.array([0, 2, 7, 7]), np.array([1, 3, 0, 1, 2, 3, 4])
    some, nothing, anything = urn.draw_distinct(mix(np.arange(3)), np.arange(3), starts, items, 7)
    assert sorted(some[:3]) == [0, 2, 4]
    assert some.tolist() == [*some[:3], *some[:3], some[0]]
    assert nothing.tolist() == [-1] * 7
    assert sorted(anything[:5]) == [0, 1, 2, 3, 4]


def test_an_urn_without_items_gives_the_first_index() -> None:
    empty = Urn.of(mix(np.arange(0)))
    assert empty.draw(mix(np.arange(3))).tolist() == [0, 0, 0]
