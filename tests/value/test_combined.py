"""All sources together."""

import numpy as np
import pytest

from assent.arrays import Floats, Ints
from assent.value.combined import combine, errors, relative, structural
from assent.value.paths import Paths, find_paths
from assent.value.pooled import Level
from assent.value.shrinkage import Twice, shrink
from assent.value.trial import Kind, Trial
from assent.value.withdrawal import withdrawn

RNG = np.random.default_rng(0)
ROWS = np.argwhere(RNG.random((30, 20)) < 0.3)
USERS, ITEMS = ROWS[:, 0].copy(), ROWS[:, 1].copy()
PATHS = find_paths(USERS, ITEMS, n_users=30, n_items=20, seed=0)
UNWILLINGNESS = RNG.uniform(0.05, 1, size=len(USERS))
MEASURED = RNG.gamma(2.0, size=len(USERS))


def by(**weights: float) -> list[Trial]:
    """Trials at both budgets that give these weights."""
    every = {kind: weights.get(kind.name, 0.0) for kind in Kind}
    return [Trial(budget, every, every) for budget in (0.5, 0.2)]


def ordered(values: Floats) -> Ints:
    return np.argsort(values / UNWILLINGNESS)


def combined(**weights: float) -> Floats:
    return combine(MEASURED, PATHS, Paths.social, by(**weights), UNWILLINGNESS)


def test_a_source_that_is_believed_alone_decides_alone() -> None:
    unit = MEASURED.mean()
    np.testing.assert_allclose(combined(UNWILLINGNESS=1), unit)
    np.testing.assert_allclose(combined(MEASURED=1), MEASURED)
    alone = withdrawn(structural(PATHS, Paths.social), UNWILLINGNESS)
    np.testing.assert_allclose(combined(STRUCTURE=1), unit * alone / alone.mean())


def test_two_sources_meet_half_way() -> None:
    half = combined(UNWILLINGNESS=0.5, MEASURED=0.5)
    np.testing.assert_allclose(half, np.sqrt(MEASURED) * MEASURED.mean() / np.sqrt(MEASURED).mean())
    places = [np.argsort(ordered(combined(**{name: 1.0}))) for name in ("MEASURED", "STRUCTURE")]
    mixed = np.argsort(ordered(combined(MEASURED=0.5, STRUCTURE=0.5)))
    apart = np.corrcoef(places[0], places[1])[0, 1]
    assert min(np.corrcoef(mixed, each)[0, 1] for each in places) > apart


def test_where_nothing_is_known_all_are_worth_the_same() -> None:
    np.testing.assert_array_equal(relative(np.zeros(4)), np.ones(4))
    nowhere = find_paths(np.arange(6), np.arange(6), n_users=6, n_items=6, seed=0)
    np.testing.assert_array_equal(structural(nowhere, Paths.social)(np.ones(6, dtype=np.bool_)), np.ones(6))
    found = combine(np.zeros(6), nowhere, Paths.social, by(MEASURED=0.5, STRUCTURE=0.5), np.full(6, 0.3))
    np.testing.assert_array_equal(found, np.zeros(6))


def test_sources_that_disagree_make_values_uncertain() -> None:
    one = np.ones(len(USERS))
    rng = np.random.default_rng(1)
    valid, held = rng.normal(size=(2, len(USERS)))
    twice = Twice(valid, held, valid * held, one, one)
    level = Level(shrink(twice, np.ones((len(USERS), 1)), (USERS, ITEMS)), count=1.0)
    assert (level.values > 0).all()
    sure = errors(level, level.values, PATHS, Paths.social, by(MEASURED=1))
    np.testing.assert_allclose(sure, level.errors, atol=0.05 * level.values.mean())
    trials = by(MEASURED=0.5, STRUCTURE=0.5)
    values = combine(level.values, PATHS, Paths.social, trials, UNWILLINGNESS)
    unsure = errors(level, values, PATHS, Paths.social, trials)
    assert (unsure >= level.errors).all()
    said = values.mean() * structural(PATHS, Paths.social)(np.ones(len(USERS), dtype=np.bool_))
    other = values.mean() * relative(level.values)
    apart = ((said - values) ** 2 + (other - values) ** 2) / 2
    np.testing.assert_allclose(unsure**2, level.errors**2 + apart)


def test_values_keep_the_mean_of_what_was_measured() -> None:
    """Also where much of it is negative; nothing is then worth less than nothing."""
    measured = MEASURED - 1.5
    assert (measured < 0).mean() > 0.2
    for weights in (
        {"MEASURED": 1.0},
        {"STRUCTURE": 1.0},
        {"MEASURED": 0.4, "STRUCTURE": 0.4, "UNWILLINGNESS": 0.2},
    ):
        found = combine(measured, PATHS, Paths.social, by(**weights), UNWILLINGNESS)
        assert found.mean() == pytest.approx(measured.mean())
        assert (found > 0).all()
    harmful = combine(-MEASURED, PATHS, Paths.social, by(MEASURED=1), UNWILLINGNESS)
    assert 0 < harmful.mean() < 0.1 * MEASURED.mean()


def test_structure_falls_with_what_is_withheld() -> None:
    value_at = structural(PATHS, Paths.social)
    every = np.ones(len(USERS), dtype=np.bool_)
    full = value_at(every)
    assert full.mean() == pytest.approx(1, abs=0.03)
    kept = np.random.default_rng(2).random(len(USERS)) < 0.5
    assert value_at(kept)[kept].mean() < full[kept].mean()
