"""All sources together."""

import dataclasses

import numpy as np
import pytest

from assent.data.problem import Rows
from assent.support.arrays import Floats, Ints, mix
from assent.worth.paths import Paths, find_paths
from assent.worth.shrinkage import Shrunk, Twice, shrink
from assent.worth.trial import Kind, Opinion, Trial, by_influence, by_paths, combine, errors, withdrawn
from assent.worth.trial import opinions as opinions_of

RNG = np.random.default_rng(0)
ROWS = np.argwhere(RNG.random((30, 20)) < 0.3)
USERS, ITEMS = ROWS[:, 0].copy(), ROWS[:, 1].copy()
PATHS = find_paths(Rows(USERS, ITEMS), mix(np.arange(30)), mix(1, np.arange(20)), seed=0)
UNWILLINGNESS = RNG.uniform(0.05, 1, size=len(USERS))
MEASURED = RNG.gamma(2.0, size=len(USERS))


def by(**weights: float) -> list[Trial]:
    """Trials at both budgets that give these weights."""
    every = {kind: weights.get(kind.name, 0.0) for kind in Kind}
    return [Trial(budget=budget, qualities=every, weights=every) for budget in (0.5, 0.2)]


def ordered(values: Floats) -> Ints:
    return np.argsort(values / UNWILLINGNESS)


def level(values: Floats) -> Shrunk:
    """A level on which `values[Z]` were measured, for certain."""
    none = np.zeros(len(values))
    return Shrunk(values, values, none, none + 1, none + 1, none, none, 0.0, 1.0, 1.0)


def opinions(measured: Shrunk, paths: Paths = PATHS) -> dict[Kind, Opinion]:
    return opinions_of(measured, by_paths(paths, Paths.social, Paths.social_variance))


def combined(measured: Floats = MEASURED, /, **weights: float) -> Floats:
    known = level(measured)
    return combine(opinions(known), by(**weights), UNWILLINGNESS, mean=known.mean)


def structure() -> Opinion:
    return by_paths(PATHS, Paths.social, Paths.social_variance)


def test_a_source_that_is_believed_alone_decides_alone() -> None:
    unit = MEASURED.mean()
    np.testing.assert_allclose(combined(UNWILLINGNESS=1), unit)
    np.testing.assert_allclose(combined(MEASURED=1), MEASURED)
    alone = withdrawn(structure().values, UNWILLINGNESS)
    np.testing.assert_allclose(combined(STRUCTURE=1), unit * alone / alone.mean())


def test_two_sources_meet_half_way() -> None:
    half = combined(UNWILLINGNESS=0.5, MEASURED=0.5)
    np.testing.assert_allclose(half, np.sqrt(MEASURED) * MEASURED.mean() / np.sqrt(MEASURED).mean())
    places = [np.argsort(ordered(combined(**{name: 1.0}))) for name in ("MEASURED", "STRUCTURE")]
    mixed = np.argsort(ordered(combined(MEASURED=0.5, STRUCTURE=0.5)))
    apart = np.corrcoef(places[0], places[1])[0, 1]
    assert min(np.corrcoef(mixed, each)[0, 1] for each in places) > apart


def test_where_nothing_is_known_all_are_worth_the_same() -> None:
    six = np.arange(6)
    nowhere = find_paths(Rows(six, six), mix(six), mix(1, six), seed=0)
    known = opinions(level(np.zeros(6)), nowhere)
    for each in known.values():
        np.testing.assert_array_equal(each.at_first, np.ones(6))
        np.testing.assert_array_equal(each.errors, np.ones(6))
    found = combine(known, by(MEASURED=0.5, STRUCTURE=0.5), np.full(6, 0.3), mean=0.0)
    np.testing.assert_array_equal(found, np.zeros(6))


def test_sources_that_disagree_make_values_uncertain() -> None:
    one = np.ones(len(USERS))
    rng = np.random.default_rng(1)
    valid, held = rng.normal(size=(2, len(USERS)))
    twice = Twice(valid, held, valid * held, one, one, one)
    known = dataclasses.replace(shrink(twice, np.ones((len(USERS), 1)), (USERS, ITEMS)), count=1.0)
    assert (known.values > 0).all()
    said = opinions(known)
    sure = errors(said, by(MEASURED=1), known.values)
    np.testing.assert_allclose(sure, known.errors, atol=0.05 * known.values.mean())
    trials = by(MEASURED=0.5, STRUCTURE=0.5)
    values = combine(said, trials, UNWILLINGNESS, mean=1.7)
    assert values.mean() == pytest.approx(1.7)
    unsure = errors(said, trials, values)
    squares = np.zeros(len(USERS))
    for kind in (Kind.MEASURED, Kind.STRUCTURE):
        apart = 1.7 * said[kind].at_first - values
        squares += ((1.7 * said[kind].errors) ** 2 + apart**2) / 2
    np.testing.assert_allclose(unsure**2, squares)
    np.testing.assert_allclose(
        said[Kind.STRUCTURE].errors, np.sqrt(PATHS.social_variance()) / PATHS.social().mean()
    )


def test_errors_keep_the_units_of_the_loss_where_values_have_both_signs() -> None:
    measured = MEASURED - 1.5
    off = np.full(len(USERS), 0.7)
    known = dataclasses.replace(level(measured), spread=off**2)
    np.testing.assert_allclose(known.errors, off)
    values = combine(opinions(known), by(MEASURED=1), UNWILLINGNESS, mean=known.mean)
    assert (errors(opinions(known), by(MEASURED=1), values) >= off - 1e-12).all()
    spread, measured_alone = opinions(known)[Kind.UNWILLINGNESS].errors, opinions(known)[Kind.MEASURED]
    apart, alone = measured_alone.at_first - 1, measured_alone.errors
    np.testing.assert_allclose(spread**2, alone**2 + apart**2)


def test_what_was_not_told_from_noise_is_the_same_of_all() -> None:
    """Also where people have different numbers of validation rows, which own values are proportional to."""
    opinion = by_influence(dataclasses.replace(level(MEASURED), explained=0.0, measurement=0.0))
    everything = np.ones(len(USERS), dtype=np.bool_)
    for value_at in (opinion.values, opinion.untold):
        np.testing.assert_array_equal(value_at(everything), np.ones(len(USERS)))


def test_values_keep_the_mean_of_what_was_measured() -> None:
    """Also where much of it is negative; nothing is then worth less than nothing."""
    measured = MEASURED - 1.5
    assert (measured < 0).mean() > 0.2
    for weights in (
        {"MEASURED": 1.0},
        {"STRUCTURE": 1.0},
        {"MEASURED": 0.4, "STRUCTURE": 0.4, "UNWILLINGNESS": 0.2},
    ):
        found = combined(measured, **weights)
        assert found.mean() == pytest.approx(measured.mean())
        assert (found > 0).all()
    harmful = combined(-MEASURED, MEASURED=1)
    assert 0 < harmful.mean() < 0.1 * MEASURED.mean()


def test_structure_falls_with_what_is_withheld() -> None:
    value_at = structure().values
    every = np.ones(len(USERS), dtype=np.bool_)
    full = value_at(every)
    assert full.mean() == pytest.approx(1, abs=0.03)
    kept = np.random.default_rng(2).random(len(USERS)) < 0.5
    assert value_at(kept)[kept].mean() < full[kept].mean()
    np.testing.assert_array_equal(value_at(every), full)


def test_what_all_think_the_same_of_goes_as_by_unwillingness_alone() -> None:
    """Also among equals: what comes first in the log stays longest, as methods without values have it."""
    unwillingness = np.repeat([0.2, 0.5], 5)
    values = withdrawn(lambda kept: np.ones(10), unwillingness)
    order = np.lexsort((unwillingness, -(values / unwillingness)))
    np.testing.assert_array_equal(order, np.arange(10))
