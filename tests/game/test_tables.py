import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import comb

from assent.game.tables import Learning, Tables, Update, bits_of, random_codes, simplex_shift
from assent.support.arrays import Floats, mix

from .full_tables import binomial, listed
from .small_games import steady

LENGTHS = np.array([4, 0, 1, 3])
seeds = st.integers(0, 2**32)


def test_the_prior_is_the_binomial_one() -> None:
    tables = Tables.prior(LENGTHS, 0.9)
    for player, length in enumerate(LENGTHS):
        np.testing.assert_allclose(listed(tables, player), binomial(length), rtol=1e-12)
        by_size = (tables.counts * tables.chances)[player, : length + 1]
        sizes = np.arange(length + 1)
        np.testing.assert_allclose(by_size, comb(length, sizes) * 0.9**sizes * 0.1 ** (length - sizes))
    # The paper's example: with three items, all selections of two are as likely.
    three = listed(tables, 3)
    assert three[0b110] == three[0b101] == three[0b011]


def learn(seed: int, steps: int) -> tuple[Learning, list[list[Floats]]]:
    """Random steps of all players, and the same ones on tables written out in full."""
    rng = np.random.default_rng(seed)
    start = Tables.prior(LENGTHS, 0.9)
    learning = Learning(start, steps)
    path = [[listed(start, player)] for player in range(len(LENGTHS))]
    for _ in range(steps):
        classes, codes = learning.now.draw(1, rng.integers(2**63, size=len(LENGTHS), dtype=np.uint64))
        moves = rng.normal(0, rng.choice([0.001, 0.1, 3]), len(LENGTHS))
        learning.step(classes[:, 0], codes[:, 0], moves)
        for player, mine in enumerate(path):
            moved = mine[-1].copy()
            moved[codes[player, 0]] += moves[player]
            mine.append(projected(moved))
    return learning, path


@settings(steady, max_examples=25)
@given(seeds)
def test_classes_are_the_whole_table(seed: int) -> None:
    learning, path = learn(seed, steps=40)
    average, moved = learning.average()
    for player, mine in enumerate(path):
        np.testing.assert_allclose(listed(learning.now, player), mine[-1], atol=1e-12)
        mean = np.mean(mine[:-1], axis=0)
        np.testing.assert_allclose(listed(average, player), mean, atol=1e-12)
        assert moved[player] == pytest.approx(np.abs(mean - mine[0]).sum(), abs=1e-12)
        after = np.mean(mine[1:], axis=0)
        np.testing.assert_allclose(listed(learning.average_after(), player), after, atol=1e-12)


@settings(steady, max_examples=10)
@given(seeds)
def test_learning_goes_on_from_an_average(seed: int) -> None:
    first, path = learn(seed, steps=10)
    start, _ = first.average()
    again = Learning(start, 5)
    classes, codes = again.now.draw(1, mix(seed, np.arange(len(LENGTHS))))
    again.step(classes[:, 0], codes[:, 0], np.full(len(LENGTHS), 0.3))
    for player, mine in enumerate(path):
        expected = np.mean(mine[:-1], axis=0)
        expected[codes[player, 0]] += 0.3
        np.testing.assert_allclose(listed(again.now, player), projected(expected), atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_draws_have_the_probabilities_of_the_table(seed: int) -> None:
    tables = learn(seed, steps=6)[0].average()[0]
    classes, codes = tables.draw(20_000, mix(seed, np.arange(len(tables.lengths))))
    for player, length in enumerate(LENGTHS):
        shares = np.bincount(codes[player], minlength=2**length) / 20_000
        np.testing.assert_allclose(shares, listed(tables, player), atol=0.02)
        own = tables.codes[player, classes[player]]
        np.testing.assert_array_equal(own[own >= 0], codes[player, own >= 0])


@settings(steady, max_examples=25)
@given(seeds)
def test_marginals_are_those_of_the_table(seed: int) -> None:
    tables = learn(seed, steps=20)[0].average()[0]
    for player, length in enumerate(LENGTHS):
        expected = listed(tables, player) @ bits_of(np.arange(2**length), length)
        np.testing.assert_allclose(tables.marginals()[player, :length], expected, atol=1e-12)
        np.testing.assert_array_equal(tables.marginals()[player, length:], 0)


def test_random_selections_of_a_size_are_equally_likely() -> None:
    codes = random_codes(np.full(30_000, 5), np.full(30_000, 2), mix(np.arange(30_000)))
    found, counts = np.unique(codes, return_counts=True)
    assert [int(code).bit_count() for code in found] == [2] * 10
    np.testing.assert_allclose(counts / 30_000, 0.1, atol=0.01)
    short = random_codes(np.array([3, 0, 5]), np.array([3, 0, 5]), mix(np.arange(3)))
    np.testing.assert_array_equal(short, [0b111, 0, 0b11111])


def test_long_histories_take_little_memory() -> None:
    tables = Tables.prior(np.array([60]), 0.9)
    _, codes = tables.draw(500, mix(np.arange(len(tables.lengths))))
    assert bits_of(codes, 60).mean() == pytest.approx(0.9, abs=0.01)
    assert tables.chances.shape == (1, 61)
    assert (tables.counts * tables.chances).sum() == pytest.approx(1)


def projected(point: Floats) -> Floats:
    """The nearest point of the simplex, by sorting."""
    falling = np.sort(point)[::-1]
    shifts = (np.cumsum(falling) - 1) / np.arange(1, len(point) + 1)
    nearest: Floats = np.maximum(point - shifts[np.flatnonzero(falling > shifts)[-1]], 0)
    return nearest


@steady
@given(st.integers(0, 2**32), st.integers(1, 12))
def test_the_shift_is_that_of_the_projection(seed: int, length: int) -> None:
    rng = np.random.default_rng(seed)
    points = rng.normal(0, rng.choice([0.01, 1, 100]), (5, length))
    shifts = simplex_shift(points, np.ones_like(points))
    for point, shift in zip(points, shifts, strict=True):
        np.testing.assert_allclose(np.maximum(point - shift, 0), projected(point), atol=1e-12)


@steady
@given(st.integers(0, 2**32))
def test_counts_stand_for_repeated_numbers_and_zero_for_none(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values, counts = rng.normal(size=(1, 6)), rng.integers(0, 4, (1, 6)).astype(np.float64)
    counts[0, 0] = 1
    written_out = np.repeat(values[0], counts[0].astype(np.int64))
    shift = simplex_shift(values, counts)[0]
    np.testing.assert_allclose(np.maximum(written_out - shift, 0), projected(written_out), atol=1e-12)


def test_the_projection_is_nearer_than_any_other_point() -> None:
    rng = np.random.default_rng(0)
    point = rng.normal(size=(1, 5))
    nearest = np.maximum(point - simplex_shift(point, np.ones_like(point))[:, None], 0)
    assert abs(nearest.sum() - 1) < 1e-12
    others = rng.dirichlet(np.ones(5), 2000)
    assert (np.linalg.norm(others - point, axis=1) >= np.linalg.norm(nearest - point)).all()


@steady
@given(seeds)
def test_mirror_steps_multiply_the_probability_of_the_sample(seed: int) -> None:
    rng = np.random.default_rng(seed)
    start = Tables.prior(LENGTHS, 0.9)
    learning = Learning(start, 6, Update.MIRROR)
    path = [listed(start, player) for player in range(len(LENGTHS))]
    for _ in range(6):
        classes, codes = learning.now.draw(1, rng.integers(2**63, size=len(LENGTHS), dtype=np.uint64))
        moves = rng.normal(0, 0.5, len(LENGTHS)).clip(-2, 2)
        learning.step(classes[:, 0], codes[:, 0], moves)
        for player in range(len(path)):
            mine = path[player]
            mine[codes[player, 0]] *= np.exp(moves[player])
            mine /= mine.sum()
            np.testing.assert_allclose(listed(learning.now, player), mine, rtol=1e-9)


@steady
@given(seeds)
def test_the_likeliest_selection_is_that_of_the_table_written_out(seed: int) -> None:
    learning, _ = learn(seed, 8)
    tables = learning.now
    keys = mix(seed, np.arange(len(LENGTHS)))
    for player, (place, code) in enumerate(zip(*tables.likeliest(keys), strict=True)):
        whole = listed(tables, player)
        assert whole[code] == pytest.approx(whole.max(), rel=1e-12)
        assert tables.chances[player, place] == pytest.approx(whole.max(), rel=1e-12)
