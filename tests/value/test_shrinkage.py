"""Empirical Bayes: known signals are found back, and noise is given no weight."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assent.arrays import Floats
from assent.value.shrinkage import Shrunk, shrink

ROWS, RATIO = 20_000, 0.7


def drawn(
    structure: float, signal: float, noise: float, seed: int = 0
) -> tuple[Floats, Floats, Floats, Floats]:
    """τ, v, f and features, where τ = 0.5 + structure · (first feature) + signal · (what no feature says)."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(ROWS, 3))
    truth = 0.5 + structure * features[:, 0] + signal * rng.normal(size=ROWS)
    valid = truth + noise * rng.normal(size=ROWS)
    held = RATIO * truth + np.sqrt(RATIO) * noise * rng.normal(size=ROWS)
    return truth, valid, held, features


def error(values: Floats, truth: Floats) -> float:
    return float(np.sqrt(np.mean((values - truth) ** 2)))


@pytest.mark.parametrize(("structure", "signal", "noise"), [(1, 0.5, 1), (0, 1, 2), (0.3, 0.5, 1.5)])
def test_values_are_nearer_to_the_truth_than_either_part(
    structure: float, signal: float, noise: float
) -> None:
    truth, valid, held, features = drawn(structure, signal, noise)
    found = shrink(valid, held, RATIO, features)
    assert error(found.value, truth) < min(error(found.measured, truth), error(found.expected, truth))
    for weight, values in (
        (0, found.expected),
        (1, found.measured),
        (found.reliability.measurement, found.value),
    ):
        said = np.sqrt(np.mean(found.error(weight) ** 2))
        assert said == pytest.approx(error(values, truth), rel=0.1)
    variance = noise**2 / (1 + RATIO)
    assert found.reliability.measurement == pytest.approx(signal**2 / (signal**2 + variance), abs=0.05)
    explained = structure**2 / (structure**2 + signal**2 + variance)
    assert found.reliability.structure == pytest.approx(explained, abs=0.02)


def test_noise_has_no_weight_and_all_are_worth_the_same() -> None:
    found = shrink(*drawn(0, 0, 1)[1:3], RATIO, drawn(0, 0, 1)[3])
    assert found.reliability.structure < 0.001
    assert found.reliability.measurement < 0.03
    assert found.value.std() < 0.05 * found.measured.std()
    assert found.value.mean() == pytest.approx(0.5, abs=0.05)


def test_two_measurements_that_agree_are_believed() -> None:
    truth, _, _, features = drawn(0, 1, 0)
    found = shrink(truth, RATIO * truth, RATIO, features)
    assert found.reliability.measurement == pytest.approx(1, abs=1e-3)
    assert found.reliability.agreement == pytest.approx(1)
    np.testing.assert_allclose(found.value, truth, atol=1e-2)


@given(seed=st.integers(0, 2**16), rows=st.integers(1, 12), scale=st.floats(0.1, 100))
@settings(max_examples=60, deadline=None)
def test_any_input_gives_finite_weights_and_units_carry_over(seed: int, rows: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    valid, held = rng.normal(size=rows), rng.normal(size=rows)
    features = np.array(rng.integers(2, size=(rows, 4)), dtype=np.float64)

    def of(factor: float) -> Shrunk:
        return shrink(factor * valid, factor * held, RATIO, features)

    plain, scaled = of(1), of(scale)
    assert np.isfinite(plain.value).all()
    assert 0 <= plain.reliability.measurement <= 1
    assert 0 <= plain.reliability.structure <= 1
    np.testing.assert_allclose(scaled.value, scale * plain.value, rtol=1e-6, atol=1e-9 * scale)


def test_what_is_measured_worse_is_said_to_be_less_certain() -> None:
    truth, _, _, features = drawn(1, 0.5, 0)
    rng = np.random.default_rng(1)
    noise = np.where(features[:, 0] > 0, 2.0, 0.5)
    valid = truth + noise * rng.normal(size=ROWS)
    held = RATIO * truth + np.sqrt(RATIO) * noise * rng.normal(size=ROWS)
    found = shrink(valid, held, RATIO, features)
    said = found.error(found.reliability.measurement)
    for some in (features[:, 0] > 0.2, features[:, 0] < -0.2):
        assert np.sqrt(np.mean(said[some] ** 2)) == pytest.approx(
            error(found.value[some], truth[some]), rel=0.15
        )


def test_constant_measurements_stay_what_they_are() -> None:
    found = shrink(np.full(9, 2.0), np.full(9, 2.0 * RATIO), RATIO, np.ones((9, 4)))
    np.testing.assert_allclose(found.value, 2.0)
    assert not found.error(found.reliability.measurement).any()
