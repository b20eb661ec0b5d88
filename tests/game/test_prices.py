from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from assent.game.budget import Budget
from assent.game.prices import break_even_prices, price_path, worth_disclosing
from assent.results.records import DEAREST
from assent.support.arrays import Bools, Floats, Ints

from .small_games import GRID, eighths, is_within, steady

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


@st.composite
def owned_goods(draw: st.DrawFn) -> tuple[Goods, Ints]:
    """Goods and whose they are, of at most four people."""
    some = draw(goods())
    return some, draw(arrays(np.int64, len(some[0]), elements=st.integers(0, 3)))


def budget_of(share: float, unwillingness: Floats, owners: Ints | None = None) -> Budget:
    """A budget for four people; without `owners`, for one."""
    alone = np.zeros(len(unwillingness), dtype=np.int64)
    return Budget(share, alone if owners is None else owners, unwillingness, 4)


@steady
@given(owned_goods(), eighths())
def test_within_discloses_the_first_until_the_next_would_exceed_the_budget(
    some: tuple[Goods, Ints], share: float
) -> None:
    (values, unwillingness), owners = some
    path = price_path(values, unwillingness)
    selection = path.within(budget_of(share, unwillingness, owners))
    count = int(selection.sum())
    assert set(np.flatnonzero(selection)) == set(path.order[:count])
    assert is_within(share, owners, unwillingness, selection)
    for longer in range(count + 1, len(selection) + 1):
        more = np.isin(np.arange(len(selection)), path.order[:longer])
        assert not is_within(share, owners, unwillingness, more)


@steady
@given(
    arrays(np.float64, 30, elements=normal_floats(-1, 1)),
    arrays(np.float64, 30, elements=normal_floats(0, 1)),
    arrays(np.int64, 30, elements=st.integers(0, 3)),
    normal_floats(0, 1),
)
def test_within_a_share_of_everything_holds_for_any_figures(
    values: Floats, unwillingness: Floats, owners: Ints, share: float
) -> None:
    path, most = price_path(values, unwillingness), share * unwillingness.sum()
    alone = paid(path.within(budget_of(share, unwillingness)), unwillingness)
    assert most * (1 - 1e-9) - unwillingness.max() <= alone <= most * (1 + 1e-9)
    budget = budget_of(share, unwillingness, owners)
    selection = path.within(budget)
    assert is_within(share, owners, unwillingness, selection)
    unused = (share * budget.minded - budget.paid(selection)).max()
    assert paid(selection, unwillingness) >= most * (1 - 1e-9) - unwillingness.max() - unused


def test_a_budget_that_sums_of_floats_miss_by_an_ulp_is_used_up() -> None:
    tenths = np.full(10, 0.1)
    path = price_path(np.ones(10), tenths)
    assert 0.1 + 0.1 + 0.1 > 0.3
    shares = np.arange(11) / 10
    assert [int(path.within(budget_of(share, tenths)).sum()) for share in shares] == list(range(11))


@steady
@given(owned_goods())
def test_within_everything_is_everything_and_within_nothing_what_is_free(some: tuple[Goods, Ints]) -> None:
    (values, unwillingness), owners = some
    path = price_path(values, unwillingness)
    assert path.within(budget_of(1.0, unwillingness, owners)).all()
    assert paid(path.within(budget_of(0.0, unwillingness, owners)), unwillingness) == 0


@steady
@given(owned_goods(), eighths())
def test_price_within_is_the_lowest_that_keeps_to_the_budget(some: tuple[Goods, Ints], share: float) -> None:
    (values, unwillingness), owners = some
    path, budget = price_path(values, unwillingness), budget_of(share, unwillingness, owners)
    price = path.price_within(budget)
    assert price >= 0
    assert is_within(share, owners, unwillingness, path.at_price(price))
    assert (path.at_price(price) <= path.within(budget)).all()
    if price > 0:
        assert not is_within(share, owners, unwillingness, path.at_price(np.nextafter(price, 0)))


@steady
@given(goods(least=1), prices, eighths(), st.data())
def test_raising_ones_unwillingness_never_turns_an_interaction_on(
    some: Goods, price: float, more: float, data: st.DataObject
) -> None:
    values, unwillingness = some
    k = data.draw(st.integers(0, len(values) - 1))
    owners = data.draw(arrays(np.int64, len(values), elements=st.integers(0, 3)))
    raised = unwillingness.copy()
    raised[k] = max(raised[k], more)
    before, after = price_path(values, unwillingness), price_path(values, raised)
    assert worth_disclosing(values, raised, price)[k] <= worth_disclosing(values, unwillingness, price)[k]
    assert after.at_price(price)[k] <= before.at_price(price)[k]
    # A budget rises with a person's unwillingness, but by less than it.
    for share in np.arange(0, 1, 0.125):
        minding, used_to = (budget_of(share, each, owners) for each in (raised, unwillingness))
        assert after.within(minding)[k] <= before.within(used_to)[k]


def test_a_worked_example() -> None:
    values = np.array([0.2, 0.5, -1.0, 0.1, 0.0, 0.4])
    unwillingness = np.array([0.5, 0.5, 0.3, 0.0, 0.1, 0.8])
    path = price_path(values, unwillingness)
    assert path.order.tolist() == [3, 1, 5, 0, 4, 2]
    assert path.prices == pytest.approx([np.inf, 1.0, 0.5, 0.4, 0.0, 0.0])
    assert path.paid == pytest.approx([0.0, 0.5, 1.3, 1.8, 1.9, 2.2])
    assert np.flatnonzero(path.at_price(0.45)).tolist() == [1, 3, 5]
    assert np.flatnonzero(path.within(budget_of(0.85, unwillingness))).tolist() == [0, 1, 3, 5]
    assert path.price_within(budget_of(0.7, unwillingness)) == pytest.approx(0.4)
    assert path.price_within(budget_of(0.85, unwillingness)) == 0
    assert path.price_within(budget_of(1.0, unwillingness)) == 0
    # Of two people, neither may disclose more than the share of what they mind themselves.
    owners = np.array([0, 0, 0, 1, 1, 1])
    assert np.flatnonzero(path.within(budget_of(0.85, unwillingness, owners))).tolist() == [1, 3]
    assert path.price_within(budget_of(0.85, unwillingness, owners)) == pytest.approx(0.5)


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
    allowed = budget_of(budget, some[1])
    with np.errstate(all="raise", under="ignore"):
        path = price_path(*some)
        chosen, price = path.within(allowed), path.price_within(allowed)
    assert is_within(budget, np.zeros(len(chosen), dtype=np.int64), some[1], chosen)
    assert 0 <= price <= DEAREST
    assert chosen[some[1] == 0][some[0][some[1] == 0] > 0].all()


def test_what_is_worth_more_than_any_price_times_its_unwillingness_comes_first() -> None:
    values, unwillingness = np.array([1e-3, 5.0, 1e-3]), np.array([0.5, 0.5, 1e-310])
    assert break_even_prices(values, unwillingness).tolist() == [0.002, 10.0, np.inf]
    path = price_path(values, unwillingness)
    assert path.at_price(DEAREST).tolist() == [False, False, True]
    assert path.within(budget_of(0.5, unwillingness)).tolist() == [False, True, True]
    assert path.price_within(budget_of(0.0, unwillingness)) == DEAREST
