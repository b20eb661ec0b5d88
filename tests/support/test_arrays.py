from hashlib import blake2b

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare, kstest

from assent.support.arrays import below, mix, splitmix64, string_keys, uniform, uniforms

numbers = st.integers(0, 2**63 - 1)


def test_splitmix64_gives_the_numbers_of_its_authors() -> None:
    gamma = 0x9E3779B97F4A7C15
    states = np.array([(step * gamma) % 2**64 for step in range(3)], dtype=np.uint64)
    expected = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert splitmix64(states).tolist() == expected


def test_keys_of_names_are_the_same_everywhere() -> None:
    expected = [
        int.from_bytes(blake2b(name, digest_size=8).digest(), "little") for name in (b"a", b"\xc3\xbc")
    ]
    assert string_keys(["a", "ü"]).tolist() == expected == [3405396810240292928, 3976460501203677525]
    assert string_keys(np.array(["a", "ü"])).tolist() == expected
    assert string_keys([]).shape == (0,)


@given(st.lists(st.text("aü☂ ", max_size=4), unique=True))
def test_distinct_names_have_distinct_keys(names: list[str]) -> None:
    assert len(np.unique(string_keys(names))) == len(names)


@given(numbers, st.lists(numbers, min_size=1, max_size=5), st.lists(numbers, min_size=1, max_size=5))
def test_mix_hashes_each_cell_of_the_broadcast_on_its_own(
    seed: int, rows: list[int], columns: list[int]
) -> None:
    table = mix(seed, np.array(rows)[:, None], np.array(columns))
    assert table.shape == (len(rows), len(columns))
    for row, line in zip(rows, table, strict=True):
        for column, cell in zip(columns, line, strict=True):
            assert cell == mix(seed, row, column)[0]


def test_mix_tells_parts_apart() -> None:
    few = np.arange(30)
    assert len(np.unique(mix(few[:, None, None], few[:, None], few))) == 30**3
    assert mix(1, 2) != mix(2, 1)
    assert mix(1) != mix(1, 0)


def test_draws_are_uniform() -> None:
    draws = uniform(mix(7, np.arange(20_000)))
    assert kstest(draws, "uniform").pvalue > 0.001
    # Neighbouring keys are as good as unrelated ones.
    assert abs(np.corrcoef(draws[:-1], draws[1:])[0, 1]) < 4 / np.sqrt(20_000)


def test_draws_are_never_0_or_1() -> None:
    smallest, largest = uniform(np.array([0, 2**64 - 1], dtype=np.uint64))
    assert (smallest, largest) == (2.0**-53, 1 - 2.0**-53)


def test_a_key_has_as_many_draws_as_are_asked_for() -> None:
    keys = mix(7, np.arange(5000))
    draws = uniforms(keys, 4)
    assert draws.shape == (5000, 4)
    assert kstest(draws.ravel(), "uniform").pvalue > 0.001
    assert abs(np.corrcoef(draws.T) - np.eye(4)).max() < 5 / np.sqrt(5000)
    np.testing.assert_array_equal(uniforms(keys[100:200], 2), draws[100:200, :2])


@pytest.mark.parametrize("bound", [1, 7, 64])
def test_integers_are_uniform_below_the_bound(bound: int) -> None:
    counts = np.bincount(below(mix(3, np.arange(200 * bound)), bound), minlength=bound)
    assert len(counts) == bound
    assert bound == 1 or chisquare(counts).pvalue > 0.001
