"""Which source is believed, by what came of trying it."""

import numpy as np
import pytest

from assent.support.arrays import Floats
from assent.worth.trial import Kind, Trial, judge, weights_at

E, M, S = Kind.UNWILLINGNESS, Kind.MEASURED, Kind.STRUCTURE


def of_people(**behind: float) -> dict[Kind, Floats]:
    """Qualities of 400 people; each source is so many standard errors behind one that is nobody's."""
    rng = np.random.default_rng(0)
    best = rng.random(400)
    found = {}
    for kind in Kind:
        noise = rng.normal(size=400)
        noise = (noise - noise.mean()) / noise.std(ddof=1)
        found[kind] = best - (behind[kind.name] / 20 - noise) * 0.1
    return found


def test_who_ranks_better_counts_more() -> None:
    trial = judge(0.5, of_people(UNWILLINGNESS=9, MEASURED=2, STRUCTURE=0))
    assert trial.qualities[S] > trial.qualities[M] > trial.qualities[E]
    assert trial.weights[S] > 2 * trial.weights[M] > 100 * trial.weights[E]
    assert sum(trial.weights.values()) == pytest.approx(1)


def test_weights_fall_by_e_for_every_standard_error() -> None:
    people = of_people(UNWILLINGNESS=5, MEASURED=0, STRUCTURE=1)
    weights = judge(0.5, people).weights
    for kind in (E, S):
        differences = people[M] - people[kind]
        z = differences.mean() / (differences.std(ddof=1) / 20)
        assert weights[kind] / weights[M] == pytest.approx(np.exp(-z))


@pytest.mark.parametrize("people", [0, 1, 50])
def test_where_nobody_sees_a_difference_unwillingness_alone_decides(people: int) -> None:
    same = np.linspace(0, 1, people)
    assert judge(0.2, dict.fromkeys(Kind, same)).weights == {E: 1, M: 0, S: 0}


def test_who_says_nothing_of_its_own_has_no_second_vote() -> None:
    people = of_people(UNWILLINGNESS=1, MEASURED=0, STRUCTURE=0)
    people[M] = people[E].copy()
    weights = judge(0.2, people).weights
    assert weights[M] == 0
    both = judge(0.2, {**people, M: people[E] - 1e6 * np.arange(400)}).weights
    assert weights[E] == pytest.approx(both[E])


def test_a_difference_that_everybody_sees_is_certain() -> None:
    assert judge(0.2, {E: np.ones(9), M: np.ones(9), S: np.zeros(9)}).weights == {E: 1, M: 0, S: 0}
    for kind, other in ((M, S), (S, M)):
        weights = judge(0.2, {E: np.zeros(9), kind: np.ones(9), other: np.zeros(9)}).weights
        assert weights[kind] == 1


@pytest.mark.parametrize(("ahead", "heard"), [(-1, False), (1.9, False), (2.1, True)])
def test_structure_has_to_be_ahead_for_certain(ahead: float, heard: bool) -> None:
    """Who is behind by less would still count e^-z of the best: half of a vote for noise."""
    people = of_people(UNWILLINGNESS=0, MEASURED=0, STRUCTURE=0)
    people[M] = people[E].copy()
    noise = people[S] - people[S].mean() - (people[E] - people[E].mean())
    people[S] = people[E] + noise + ahead * noise.std(ddof=1) / 20
    assert judge(0.5, people).weights == pytest.approx(
        {E: 1 / (1 + np.exp(ahead)), M: 0, S: 1 / (1 + np.exp(-ahead))} if heard else {E: 1, M: 0, S: 0}
    )


def test_weights_go_from_budget_to_budget() -> None:
    high, low = ({kind: float(kind is one) for kind in Kind} for one in (S, E))
    trials = [Trial(budget=0.5, qualities=high, weights=high), Trial(budget=0.2, qualities=low, weights=low)]
    assert weights_at(1.0, trials) == weights_at(0.5, trials) == high
    assert weights_at(0.2, trials) == weights_at(0.0, trials) == low
    between = weights_at(np.sqrt(0.1), trials)
    assert between[S] == pytest.approx(0.5)
    assert between[E] == pytest.approx(0.5)
