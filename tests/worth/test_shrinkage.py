"""Empirical Bayes: known signals are found back, and noise is given no weight."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import lsq_linear

from assent.support.arrays import Floats, Ints
from assent.worth.shrinkage import Shrunk, Twice, condensed, fit_rising, shrink

ROWS, VALID, HELD = 20_000, 10.0, 7.0


def twice(
    valid: Floats, held: Floats, n_valid: Floats | float = VALID, n_held: Floats | float = HELD
) -> Twice:
    """One anchor's measurements of so many rows."""
    every = np.ones(len(valid))
    return Twice(valid, held, valid * held, n_valid * every, n_held * every, n_valid * every)


def each_alone(rows: int) -> list[Ints]:
    """Nobody shares noise."""
    return [np.arange(rows)]


def drawn(
    structure: float, signal: float, noise: float, mean: float = 0.05, seed: int = 0
) -> tuple[Floats, Twice, Floats]:
    """n τ, what is measured, and features; τ = mean + structure · (first feature) + signal · (the rest)."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(ROWS, 3))
    truth = mean + structure * features[:, 0] + signal * rng.normal(size=ROWS)
    valid = VALID * truth + np.sqrt(VALID) * noise * rng.normal(size=ROWS)
    held = HELD * truth + np.sqrt(HELD) * noise * rng.normal(size=ROWS)
    return VALID * truth, twice(valid, held), features


def error(values: Floats, truth: Floats) -> float:
    return float(np.sqrt(np.mean((values - truth) ** 2)))


@pytest.mark.parametrize(("structure", "signal", "noise"), [(0.3, 0.2, 1), (0, 0.3, 2), (0.1, 0.2, 1.5)])
def test_values_are_nearer_to_the_truth_than_either_part(
    structure: float, signal: float, noise: float
) -> None:
    truth, measured, features = drawn(structure, signal, noise)
    found = shrink(measured, features, each_alone(ROWS))
    assert error(found.values, truth) < min(error(found.measured, truth), error(found.expected, truth))
    for weight in (0.0, 1.0, found.weight):
        said = np.sqrt(np.mean(replace(found, weight=weight).errors ** 2))
        assert 0.9 < said / error(replace(found, weight=weight).values, truth) < 1.2
    variance = noise**2 / (VALID + HELD)
    assert found.measurement == pytest.approx(signal**2 / (signal**2 + variance), abs=0.05)
    explained = structure**2 / (structure**2 + signal**2 + variance)
    assert found.explained == pytest.approx(explained, abs=0.02)


def test_noise_has_no_weight_and_all_are_worth_the_same() -> None:
    """Also where they are worth nothing, when the sign of noise would decide; two standard errors may err."""
    constant = 0
    for seed in range(20):
        _, measured, features = drawn(0, 0, 1, mean=0, seed=seed)
        values = shrink(measured, features, each_alone(ROWS)).values
        constant += np.ptp(values) == 0
        assert np.abs(values).max() < 0.1 * np.abs(measured.valid).max()
    assert constant >= 17


def test_noise_that_the_rows_of_an_item_share_is_no_signal() -> None:
    """Counted one by one, structure that is the item's would seem to explain much."""
    sure = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        items = rng.integers(40, size=ROWS)
        features = rng.normal(size=(40, 3))[items]
        valid, held = (np.sqrt(n) * rng.normal(size=40)[items] for n in (VALID, HELD))
        found = shrink(twice(valid, held), features, [np.arange(ROWS), items])
        sure += found.explained > 0
    assert sure <= 3


def test_a_difference_between_the_two_measurements_does_not_hide_what_they_agree_on() -> None:
    _, measured, features = drawn(0, 0.3, 1)
    plain = shrink(measured, features, each_alone(ROWS)).measurement
    later = twice(measured.valid + 5 + 3 * features[:, 1], measured.held)
    found = shrink(later, features, each_alone(ROWS))
    assert plain > 0.4
    assert found.measurement == pytest.approx(plain, abs=0.1)


def test_who_is_measured_on_more_rows_is_believed_more() -> None:
    rng = np.random.default_rng(0)
    n_held = rng.choice([0.0, 1.0, 9.0], size=ROWS)
    truth = rng.normal(size=ROWS)
    valid = truth + 2 * rng.normal(size=ROWS)
    held = n_held * truth + 2 * np.sqrt(n_held) * rng.normal(size=ROWS)
    found = shrink(twice(valid, held, 1.0, n_held), np.ones((ROWS, 1)), each_alone(ROWS))
    for n in (0, 1, 9):
        assert np.asarray(found.weight)[n_held == n][0] == pytest.approx((1 + n) / (1 + n + 4), abs=0.05)
    assert error(found.values, truth) < 0.95 * min(error(found.measured, truth), error(0 * truth, truth))


def test_two_measurements_that_agree_are_believed() -> None:
    truth, measured, features = drawn(0, 1, 0)
    found = shrink(measured, features, each_alone(ROWS))
    assert found.measurement == pytest.approx(1, abs=1e-3)
    assert found.agreement == pytest.approx(1)
    np.testing.assert_allclose(found.values, truth, atol=1e-1)


@pytest.mark.parametrize("structure", [0.3, -0.3])
def test_what_is_known_of_a_feature_goes_before_what_is_measured(structure: float) -> None:
    """What goes against it is not expected."""
    _, measured, features = drawn(structure, 0.2, 1)
    found = shrink(measured, features, each_alone(ROWS))
    slope = np.polyfit(features[:, 0], found.expected, 1)[0] / VALID
    assert slope == pytest.approx(max(structure, 0), abs=0.02)
    assert (found.explained > 0.3) == (structure > 0)


def test_what_the_validation_rows_judge_does_not_rest_on_them() -> None:
    """Only through two numbers, the weight and what structure explains, do they come in."""
    truth, measured, features = drawn(0.3, 0.3, 1)
    found = shrink(measured, features, each_alone(ROWS))
    noise = found.held_values - truth
    without = measured.valid - truth
    assert abs(np.corrcoef(noise, without)[0, 1]) < 0.03
    assert np.corrcoef(found.values - truth, without)[0, 1] > 0.3
    assert error(found.held_values, truth) < min(error(found.held, truth), error(found.expected, truth))
    assert error(found.values, truth) < error(found.held_values, truth)


@given(
    seed=st.integers(0, 2**16),
    rows=st.integers(1, 12),
    scale=st.floats(0.1, 100),
)
@settings(max_examples=60, deadline=None)
def test_any_input_gives_finite_weights_and_units_carry_over(seed: int, rows: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    valid, held = rng.normal(size=rows), rng.normal(size=rows)
    n_valid, n_held = rng.integers(2, size=(2, rows)).astype(np.float64)
    features = np.array(rng.integers(2, size=(rows, 4)), dtype=np.float64)

    def of(factor: float) -> Shrunk:
        return shrink(
            twice(factor * valid * n_valid, factor * held * n_held, n_valid, n_held),
            features,
            each_alone(rows),
        )

    plain, scaled = of(1), of(scale)
    assert np.isfinite(plain.values).all()
    assert np.isfinite(plain.held_values).all()
    assert np.isfinite(plain.errors).all()
    assert np.all((np.asarray(plain.weight) >= 0) & (np.asarray(plain.weight) <= 1))
    assert 0 <= plain.explained <= 1
    np.testing.assert_allclose(scaled.values, scale * plain.values, rtol=1e-6, atol=1e-9 * scale)


def test_what_is_measured_worse_is_said_to_be_less_certain() -> None:
    truth, _, features = drawn(0.3, 0.2, 0)
    rng = np.random.default_rng(1)
    noise = np.where(features[:, 0] > 0, 2.0, 0.5)
    valid = truth + np.sqrt(VALID) * noise * rng.normal(size=ROWS)
    held = HELD / VALID * truth + np.sqrt(HELD) * noise * rng.normal(size=ROWS)
    found = shrink(twice(valid, held), features, each_alone(ROWS))
    said = found.errors
    for some in (features[:, 0] > 0.2, features[:, 0] < -0.2):
        told = np.sqrt(np.mean(said[some] ** 2))
        assert told == pytest.approx(error(found.values[some], truth[some]), rel=0.15)


def test_constant_measurements_stay_what_they_are() -> None:
    found = shrink(
        twice(np.full(9, 2.0 * VALID), np.full(9, 2.0 * HELD)),
        np.ones((9, 4)),
        each_alone(9),
    )
    np.testing.assert_allclose(found.values, 2.0 * VALID)
    np.testing.assert_allclose(found.errors, 0, atol=1e-6)


@given(seed=st.integers(0, 2**16))
@settings(max_examples=60, deadline=None)
def test_rising_least_squares_are_those_of_another_solver(seed: int) -> None:
    rng = np.random.default_rng(seed)
    design, target = rng.normal(size=(30, 4)) * [1, 100, 0.01, 1], rng.normal(size=30)
    expected = lsq_linear(design, target, bounds=(0, np.inf), method="bvls", tol=1e-14).x
    np.testing.assert_allclose(fit_rising(design, target), expected, atol=1e-7 * np.abs(expected).max())


def test_coefficients_of_many_rows_are_those_of_the_normal_equations() -> None:
    """Regressions on more than a million rows are condensed."""
    rng = np.random.default_rng(0)
    design = rng.exponential(size=(2**20 + 7, 3))
    target, scale = design @ [1.0, -0.5, 2.0] + rng.normal(size=len(design)), rng.random(len(design))
    few, aims = condensed(design, target, scale)
    assert len(few) == 4
    found = fit_rising(few, aims)
    some = scale[:, None] * design[:, [0, 2]]
    np.testing.assert_allclose(found[[0, 2]], np.linalg.solve(some.T @ some, some.T @ target))
    assert found[1] == 0
