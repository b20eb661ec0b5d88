"""Values while others withdraw."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assent.support.arrays import Bools, Floats
from assent.worth.trial import withdrawn


@given(seed=st.integers(0, 2**16), rows=st.integers(1, 60), free=st.floats(0, 1))
@settings(max_examples=50, deadline=None)
def test_what_depends_on_nobody_stays_as_it_is(seed: int, rows: int, free: float) -> None:
    rng = np.random.default_rng(seed)
    values = rng.exponential(size=rows)
    unwillingness = rng.random(rows) * (rng.random(rows) >= free)
    for depends in (True, False):  # what is known to depend on nobody takes one step
        np.testing.assert_allclose(withdrawn(lambda _: values, unwillingness, depends=depends), values)


def test_what_is_worth_something_only_together_goes_together() -> None:
    """Pairs: 2 for each while both are there. The one that is minded more takes the other with it."""
    n, unwillingness = 200, np.random.default_rng(1).uniform(0.1, 1, size=400)
    partner = np.arange(2 * n) ^ 1

    def value_at(kept: Bools) -> Floats:
        return np.where(kept[partner], 2.0, 1e-3)

    prices = withdrawn(value_at, unwillingness) / unwillingness
    pairs = np.sort(prices.reshape(n, 2), axis=1)
    together = pairs[:, 1] < 1.15 * pairs[:, 0]
    assert together.mean() > 0.98  # but for those of the last step, which are not valued again
    np.testing.assert_allclose(
        pairs[together, 0], (2.0 / unwillingness).reshape(n, 2)[together].min(axis=1), rtol=0.1
    )


def test_fewer_and_fewer_are_asked_for_and_what_is_free_stays() -> None:
    asked: list[Bools] = []
    unwillingness = np.array([0.0, 0.2, 0.9, 0.5, 0.0])

    def value_at(kept: Bools) -> Floats:
        asked.append(kept.copy())
        return np.full(5, float(kept.sum()))

    found = withdrawn(value_at, unwillingness)
    for before, after in pairwise(asked):
        assert (after <= before).all()
        assert after.sum() < before.sum()
    assert all(each[[0, 4]].all() for each in asked)
    np.testing.assert_allclose(found[[0, 4]], 2)  # what they add where nothing else is left
    prices = found[1:4] / unwillingness[1:4]
    np.testing.assert_array_equal(np.argsort(prices), [1, 2, 0])


def test_prices_that_would_be_the_same_keep_the_order_in_which_they_fell() -> None:
    """All fall in value as soon as one is gone, so that whole steps are withheld at one price."""
    unwillingness = np.random.default_rng(3).uniform(0.2, 1, size=300)
    order: list[Bools] = []

    def value_at(kept: Bools) -> Floats:
        order.append(kept.copy())
        return np.full(300, float(kept.sum()) ** 3)

    prices = withdrawn(value_at, unwillingness) / unwillingness
    assert len(np.unique(prices)) == 300
    for kept in order:
        assert kept.all() or prices[~kept].max() < prices[kept].min()


@pytest.mark.parametrize("values", [2, 50, 10**6])
def test_many_are_withheld_in_the_order_of_few(values: int) -> None:
    """Against sorting everything at every step; few different values make many equal prices."""
    rng = np.random.default_rng(values)
    unwillingness = np.round(rng.random(70_000), 2)
    worth = rng.integers(1, values, size=70_000).astype(np.float64)
    partner = rng.permutation(70_000)

    def value_at(kept: Bools) -> Floats:
        return worth * (1.0 + kept[partner])

    kept, prices, level = np.ones(70_000, dtype=np.bool_), np.zeros(70_000), 0.0
    left = np.flatnonzero(unwillingness)
    while unwillingness[kept].sum() > 0.01 * unwillingness.sum():
        price = value_at(kept)[left] / unwillingness[left]
        order = left[np.lexsort((-left, -unwillingness[left], price))]
        enough = 0.04 * float(unwillingness[kept].sum())
        gone = order[: np.searchsorted(np.cumsum(unwillingness[order]), enough) + 1]
        prices[gone] = np.maximum(value_at(kept)[gone] / unwillingness[gone], level)
        level, kept[gone] = prices[gone].max(), False
        left = left[kept[left]]
    found = withdrawn(value_at, unwillingness)
    np.testing.assert_allclose(found[~kept], (prices * unwillingness)[~kept], rtol=1e-6)
