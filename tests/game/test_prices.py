from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from assent.game.prices import break_even_prices, price_path, worth_disclosing
from assent.results.records import DEAREST
from assent.support.arrays import Bools, Floats

from .small_games import GRID, eighths, steady

Goods = tuple[Floats, Floats]
"""Values and unwillingness."""

prices = eighths(0, 64)
normal_floats = partial(st.floats, allow_subnormal=False)


@st.composite
def goods(draw: st.DrawFn, least: int = 0) -> Goods:
    """Values and unwillingness on a grid: ties, zeros and values without worth abound, and sums are exact."""
    length = draw(st.integers(least, 12))
    values = draw(arrays(np.int64, length, elements=st.integers(-GRID, GRID))) / GRID
    return values, draw(arrays(np.float64, length, elements=eighths()))


def paid(selection: Bools, unwillingness: Floats) -> float:
    return float(unwillingness[selection].sum())


@steady
@given(goods(), prices)
def test_the_path_has_the_closed_form_of_every_price(some: Goods, price: float) -> None:
    np.testing.assert_array_equal(price_path(*some).at_price(price), worth_disclosing(*some, price))


@steady
@given(goods())
def test_the_path_has_the_closed_form_around_every_break_even(some: Goods) -> None:
    path = price_path(*some)
    known = np.unique(path.prices[np.isfinite(path.prices)])
    between = (known[1:] + known[:-1]) / 2
    for price in [0.0, *between, known.max(initial=0) + 1]:
        np.testing.assert_array_equal(path.at_price(price), worth_disclosing(*some, price))


@steady
@given(goods(), prices, prices)
def test_selections_are_nested_as_the_price_falls(some: Goods, one: float, other: float) -> None:
    path = price_path(*some)
    dear, cheap = path.at_price(max(one, other)), path.at_price(min(one, other))
    assert (dear <= cheap).all()


@steady
@given(goods())
def test_price_zero_discloses_what_has_value_and_no_price_is_too_high_for_what_is_free(some: Goods) -> None:
    values, unwillingness = some
    path = price_path(*some)
    np.testing.assert_array_equal(path.at_price(0), values > 0)
    np.testing.assert_array_equal(path.at_price(1e300), (values > 0) & (unwillingness == 0))


@steady
@given(goods())
def test_break_even_prices_are_ratios_inf_where_free_and_0_without_value(some: Goods) -> None:
    for value, minded, price in zip(*some, break_even_prices(*some), strict=True):
        if value <= 0:
            assert price == 0
        elif minded == 0:
            assert price == np.inf
        else:
            assert price == value / minded


@steady
@given(st.floats(1e-6, 1e3), st.floats(1e-6, 1))
def test_below_its_break_even_price_an_interaction_is_disclosed_and_above_withheld(
    value: float, minded: float
) -> None:
    some = np.array([value]), np.array([minded])
    price = float(break_even_prices(*some)[0])
    for disclosed, near in [(True, price * (1 - 1e-9)), (False, price * (1 + 1e-9))]:
        assert worth_disclosing(*some, near).item() is disclosed
        assert price_path(*some).at_price(near).item() is disclosed


@steady
@given(goods())
def test_the_order_is_by_falling_price_then_by_rising_unwillingness(some: Goods) -> None:
    values, unwillingness = some
    path = price_path(*some)
    keys = [(-price, unwillingness[k]) for price, k in zip(path.prices, path.order, strict=True)]
    assert keys == sorted(keys)
    assert sorted(path.order) == list(range(len(values)))
    np.testing.assert_array_equal(path.prices, break_even_prices(*some)[path.order])
    worthless = path.order[values[path.order] <= 0]
    np.testing.assert_array_equal(path.order[len(values) - len(worthless) :], worthless)
    np.testing.assert_array_equal(unwillingness[worthless], np.sort(unwillingness[values <= 0]))


@steady
@given(goods(), eighths(0, 100))
def test_within_discloses_the_first_until_the_next_would_exceed_the_budget(
    some: Goods, budget: float
) -> None:
    _, unwillingness = some
    path = price_path(*some)
    selection = path.within(budget)
    count = selection.sum()
    assert set(np.flatnonzero(selection)) == set(path.order[:count])
    assert paid(selection, unwillingness) <= budget
    if count < len(selection):
        assert paid(selection, unwillingness) + unwillingness[path.order[count]] > budget


@steady
@given(
    arrays(np.float64, 30, elements=normal_floats(-1, 1)),
    arrays(np.float64, 30, elements=normal_floats(0, 1)),
    normal_floats(0, 1),
)
def test_within_a_share_of_everything_holds_for_any_figures(
    values: Floats, unwillingness: Floats, share: float
) -> None:
    budget = share * unwillingness.sum()
    used = paid(price_path(values, unwillingness).within(budget), unwillingness)
    assert used <= budget * (1 + 1e-9)
    assert used >= budget * (1 - 1e-9) - unwillingness.max()


def test_a_budget_that_sums_of_floats_miss_by_an_ulp_is_used_up() -> None:
    tenths = np.full(10, 0.1)
    path = price_path(np.ones(10), tenths)
    assert 0.1 + 0.1 + 0.1 > 0.3
    assert [int(path.within(count / 10).sum()) for count in range(11)] == list(range(11))


@steady
@given(goods())
def test_within_everything_is_everything_and_within_nothing_what_is_free(some: Goods) -> None:
    _, unwillingness = some
    path = price_path(*some)
    assert path.within(unwillingness.sum()).all()
    assert paid(path.within(0), unwillingness) == 0


@steady
@given(goods(), eighths(0, 100))
def test_price_within_is_the_lowest_that_keeps_to_the_budget(some: Goods, budget: float) -> None:
    _, unwillingness = some
    path = price_path(*some)
    price = path.price_within(budget)
    assert price >= 0
    assert paid(path.at_price(price), unwillingness) <= budget
    assert (path.at_price(price) <= path.within(budget)).all()
    if price > 0:
        assert paid(path.at_price(np.nextafter(price, 0)), unwillingness) > budget


@steady
@given(goods(least=1), prices, eighths(), st.data())
def test_raising_ones_unwillingness_never_turns_an_interaction_on(
    some: Goods, price: float, more: float, data: st.DataObject
) -> None:
    values, unwillingness = some
    k = data.draw(st.integers(0, len(values) - 1))
    raised = unwillingness.copy()
    raised[k] = max(raised[k], more)
    before, after = price_path(values, unwillingness), price_path(values, raised)
    assert worth_disclosing(values, raised, price)[k] <= worth_disclosing(values, unwillingness, price)[k]
    assert after.at_price(price)[k] <= before.at_price(price)[k]
    for budget in np.arange(0, 12, 0.125):
        assert after.within(budget)[k] <= before.within(budget)[k]
    # A budget that is a share of everything rises with a person's unwillingness, but by less than it.
    for share in (0.25, 0.5, 0.75):
        assert after.within(share * raised.sum())[k] <= before.within(share * unwillingness.sum())[k]


def test_a_worked_example() -> None:
    values = np.array([0.2, 0.5, -1.0, 0.1, 0.0, 0.4])
    unwillingness = np.array([0.5, 0.5, 0.3, 0.0, 0.1, 0.8])
    path = price_path(values, unwillingness)
    assert path.order.tolist() == [3, 1, 5, 0, 4, 2]
    assert path.prices == pytest.approx([np.inf, 1.0, 0.5, 0.4, 0.0, 0.0])
    assert path.paid == pytest.approx([0.0, 0.5, 1.3, 1.8, 1.9, 2.2])
    assert np.flatnonzero(path.at_price(0.45)).tolist() == [1, 3, 5]
    assert np.flatnonzero(path.within(1.85)).tolist() == [0, 1, 3, 5]
    assert path.price_within(1.5) == pytest.approx(0.4)
    assert path.price_within(1.85) == 0
    assert path.price_within(5) == 0


unwilling = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 5e-324, 1e-310, 1e-200, 1e-12, 1 - 2**-53]))
worths = st.one_of(st.floats(-1e6, 1e6), st.sampled_from([0.0, 5e-324, -5e-324, 1e-310, 1e300]))


@st.composite
def extreme_goods(draw: st.DrawFn) -> Goods:
    """Values and unwillingness of any size."""
    length = draw(st.integers(1, 8))
    return draw(arrays(np.float64, length, elements=worths)), draw(
        arrays(np.float64, length, elements=unwilling)
    )


@steady
@given(extreme_goods(), st.sampled_from([0.0, 1e-300, 1e-12, 1.0, 1e12, DEAREST]))
def test_at_any_size_the_path_answers_a_price_as_the_closed_form_does(some: Goods, price: float) -> None:
    values, unwillingness = some
    with np.errstate(all="raise", under="ignore"):
        path, disclosed = price_path(*some), worth_disclosing(*some, price)
    assert not np.isnan(path.prices).any()
    margin = np.abs(values - price * unwillingness) <= 1e-12 * np.abs(values)  # a tie, up to rounding
    np.testing.assert_array_equal(path.at_price(price)[~margin], disclosed[~margin])


@steady
@given(extreme_goods(), st.floats(0, 1))
def test_at_any_size_a_budget_is_kept_and_its_price_is_one_that_can_be_asked(
    some: Goods, budget: float
) -> None:
    allowed = budget * float(some[1].sum())
    with np.errstate(all="raise", under="ignore"):
        path = price_path(*some)
        chosen, price = path.within(allowed), path.price_within(allowed)
    assert paid(chosen, some[1]) <= allowed * (1 + 1e-9)
    assert 0 <= price <= DEAREST
    assert chosen[some[1] == 0][some[0][some[1] == 0] > 0].all()


def test_what_is_worth_more_than_any_price_times_its_unwillingness_comes_first() -> None:
    values, unwillingness = np.array([1e-3, 5.0, 1e-3]), np.array([0.5, 0.5, 1e-310])
    assert break_even_prices(values, unwillingness).tolist() == [0.002, 10.0, np.inf]
    path = price_path(values, unwillingness)
    assert path.at_price(DEAREST).tolist() == [False, False, True]
    assert path.within(0.5).tolist() == [False, True, True]
    assert path.price_within(0) == DEAREST
