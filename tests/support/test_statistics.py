import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from assent.support.statistics import holm, mean_and_error, paired_difference

samples = st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=20)


@given(samples)
def test_mean_and_error_agree_with_scipy(values: list[float]) -> None:
    mean, error = mean_and_error(values)
    assert mean == pytest.approx(sum(values) / len(values), abs=1e-9)
    assert error == pytest.approx(stats.sem(values), abs=1e-9)


def test_the_error_of_a_worked_example() -> None:
    assert mean_and_error([1, 2, 3, 4]) == pytest.approx((2.5, (5 / 3) ** 0.5 / 2))


def test_one_value_has_no_error_and_stays_json() -> None:
    assert mean_and_error([0.25]) == (0.25, None)
    assert paired_difference([0.5], [0.25]) == (0.25, None, None, None)
    json.dumps([mean_and_error([0.25]), paired_difference([0.5], [0.25])], allow_nan=False)


@pytest.mark.parametrize("values", [[], [[1.0, 2.0]], [1.0, float("nan")], [float("inf")]])
def test_values_must_be_a_vector_of_finite_numbers(values: list[float]) -> None:
    with pytest.raises(ValueError, match="finite numbers"):
        mean_and_error(values)


def test_paired_difference_agrees_with_the_one_sample_test_of_the_differences() -> None:
    rng = np.random.default_rng(1)
    seeds = rng.normal(size=10)
    a, b = seeds + rng.normal(0.1, 0.1, 10), seeds + rng.normal(0, 0.1, 10)

    found = paired_difference(a, b)
    expected = stats.ttest_1samp(a - b, 0)
    assert found.mean == pytest.approx((a - b).mean())
    assert found.error == pytest.approx(stats.sem(a - b))
    assert found.t == pytest.approx(expected.statistic)
    assert found.p == pytest.approx(expected.pvalue)


def test_pairing_sees_what_unpaired_means_do_not() -> None:
    seeds = np.arange(10.0)
    shift = 0.01 + 0.001 * np.cos(seeds)
    p = paired_difference(seeds + shift, seeds).p
    assert p is not None
    assert p < 1e-6
    assert stats.ttest_ind(seeds + shift, seeds).pvalue > 0.9


@given(samples)
def test_swapping_the_sides_turns_the_difference_around(values: list[float]) -> None:
    other = np.linspace(0, 1, len(values)) ** 2
    forth, back = paired_difference(values, other), paired_difference(other, values)
    assert forth.mean == pytest.approx(-back.mean)
    assert forth.error == pytest.approx(back.error)
    assert forth.p == pytest.approx(back.p)


def test_equal_sides_differ_by_nothing_and_are_not_tested() -> None:
    assert paired_difference([0.1, 0.7, 0.3], [0.1, 0.7, 0.3]) == (0, 0, None, None)


def test_a_constant_difference_is_not_tested_though_rounding_varies_it() -> None:
    seeds = np.array([0.1, 0.7, 0.3])
    found = paired_difference(seeds + 1 / 3, seeds)
    assert found.mean == pytest.approx(1 / 3)
    assert found.error != 0
    assert (found.t, found.p) == (None, None)


def test_two_pairs_are_too_few_to_test() -> None:
    found = paired_difference([0.5, 0.9], [0.2, 0.1])
    assert found.error is not None
    assert (found.t, found.p) == (None, None)
    assert paired_difference([0.5, 0.9, 0.6], [0.2, 0.1, 0.2]).p is not None


def test_pairs_need_partners() -> None:
    with pytest.raises(ValueError, match="3 against 2"):
        paired_difference([1, 2, 3], [1, 2])


def test_several_tests_are_corrected_as_holm_has_it() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.6]) == [1.0, 1.0]
    assert holm([]) == []
