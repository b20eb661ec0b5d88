"""The paper's anchors: random selections that do not depend on one another."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assent.data.problem import Problem
from assent.lab.anchors import random_anchors
from assent.lab.lab import Lab
from assent.lab.store import Store
from assent.support.arrays import Bools
from tests.small import small_problem

steady = settings(deadline=None, derandomize=True)
seeds = st.integers(0, 2**32)


@cache
def problem() -> Problem:
    return small_problem(1000, 100)


def draw(count: int, *, rate: float, seed: int) -> Bools:
    lab = Lab(problem(), seed=seed, store=Store(Path("unused")))
    return np.array([each.selection for each in random_anchors(lab, count, rate=rate)])


@steady
@given(seeds, st.integers(1, 4), st.integers(0, 4))
def test_the_first_anchors_do_not_depend_on_how_many_follow(seed: int, few: int, more: int) -> None:
    short, long = draw(few, rate=0.9, seed=seed), draw(few + more, rate=0.9, seed=seed)
    assert short.shape == (few, len(problem().train))
    assert short.dtype == np.bool_
    np.testing.assert_array_equal(short, long[:few])


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_each_anchor_discloses_its_share(rate: float) -> None:
    np.testing.assert_allclose(draw(4, rate=rate, seed=1).mean(axis=1), rate, atol=0.02)


def test_a_rate_of_one_discloses_everything() -> None:
    assert draw(3, rate=1, seed=0).all()


def test_anchors_and_seeds_are_independent_draws() -> None:
    drawn = np.concatenate([draw(3, rate=0.9, seed=seed) for seed in range(3)])
    assert np.abs(np.corrcoef(drawn) - np.eye(len(drawn))).max() < 0.05


@steady
@given(seeds)
def test_a_higher_rate_only_adds(seed: int) -> None:
    low, high = (draw(2, rate=rate, seed=seed) for rate in (0.4, 0.6))
    assert (low <= high).all()
    assert (low < high).any()
