import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.game.estimates import draw_anchors

from .games import steady

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
