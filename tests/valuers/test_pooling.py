"""The values that decide, put together once more from their parts, where there is something to measure."""

import time
from typing import Any

import numpy as np
import pytest
from assent.settings import Settings
from assent.valuers import pooling, trying
from assent.workbench import Workbench

from assent.data.problem import Problem
from assent.data.simulate import simulate
from assent.data.split import make_problem
from assent.evaluation.evaluate import validation_losses
from assent.game.estimates import Objective
from assent.game.players import cheapest_first
from assent.methods import make_method
from assent.models import MFSettings
from assent.runs.measure import Stopwatch
from assent.support.arrays import Bools, Floats
from assent.training import Trained, TrainingSettings
from assent.worth.folds import Level, deal, measure, pool, targets
from assent.worth.paths import Paths, find_paths
from assent.worth.shrinkage import features, shrink
from assent.worth.trial import Alike, FromInfluence, FromPaths, Kind, Opinion, Trial, combine, errors

SETTINGS = Settings(
    model_settings=MFSettings(dimension=8),
    training=TrainingSettings(epochs=20, learning_rate=0.05, batch_size=256, evaluate_every=10),
)
FOLDS = 3
WEIGHTS = {
    Objective.WELFARE: ({"measured": 0.3, "structure": 0.5}, {"measured": 0.6, "structure": 0.1}),
    Objective.NASH: ({"measured": 0.8, "structure": 0.2}, {"measured": 0.1, "structure": 0.7}),
}
"""What trials within half and a fifth of the violation lead to, by decree; unwillingness has the rest."""


class Watched(Workbench):
    """Remembers what was tried out."""

    tried: list[tuple[str, Bools]]

    def try_out(self, selection: Bools, label: str) -> Trained:
        self.tried.append((label, selection))
        return super().try_out(selection, label)


def decreed(objective: Objective) -> list[Trial]:
    found = []
    for budget, given in zip((0.5, 0.2), WEIGHTS[objective], strict=True):
        weights = {kind: given.get(kind.value, 1 - sum(given.values())) for kind in Kind}
        found.append(Trial(budget, weights, weights))
    return found


@pytest.fixture(scope="module")
def problem() -> Problem:
    log = simulate(preference="learnable", users=300, items=80, noise=0.1, seed=0)
    return make_problem(log, "full", negatives=20)


@pytest.fixture(scope="module")
def bench(problem: Problem) -> Watched:
    """Both objectives were asked for, welfare first."""
    bench = Watched(problem, SETTINGS, seed=0)
    bench.tried = []
    with pytest.MonkeyPatch.context() as patch:
        for objective in (Objective.WELFARE, Objective.NASH):
            by_budget = {each.budget: each for each in decreed(objective)}
            patch.setattr(trying, "judge", lambda budget, _, known=by_budget: known[budget])
            bench.estimates(1, objective)
    return bench


@pytest.fixture(scope="module")
def levels(problem: Problem, bench: Watched) -> dict[Objective, Level]:
    """What was measured, from the anchors of the folds and that of everything."""
    fold, rows = deal(len(problem.train), FOLDS, seed=0), problem.train
    placed, clusters = features(rows.users, rows.items), (rows.users, rows.items)
    every = []
    for t in range(FOLDS):
        assert not bench.anchor(t)[0][fold == t].any()
        judged = targets(fold, t, len(problem.valid), seed=0)
        model = bench.linearise(t, targets=judged)
        settings = SETTINGS.per_fold(FOLDS)
        every.append(measure(model, len(problem.valid), bench.weights, settings, seed=0, fold=t))
    n_valid, n_held = every[0].n_valid, np.array([each.n_held for each in every])
    ones = np.ones(len(rows))
    twice = {
        Objective.NASH: pool([e.own for e in every], fold, n_valid[rows.users], n_held[:, rows.users]),
        Objective.WELFARE: pool(
            [e.social for e in every], fold, n_valid.sum() * ones, n_held.sum(axis=1)[:, None] * ones
        ),
    }
    shrunk = {key: shrink(each, placed, clusters) for key, each in twice.items()}
    # A model that misses a fold has larger losses than one of everything; what is left of that is the count.
    whole = validation_losses(problem, bench.anchor(FOLDS)[1], SETTINGS.influence.loss)
    missing = np.mean([each.losses.sum() - whole.sum() for each in every]) * FOLDS / len(rows)
    social = shrunk[Objective.WELFARE]
    error = np.sqrt(np.mean(social.error(social.weight) ** 2))
    count = min((missing - social.value(social.weight).mean()) / error, 1.0)
    assert 0 < count < 1
    return {key: Level(each, count) for key, each in shrunk.items()}


def opinions(problem: Problem, levels: dict[Objective, Level], level: Objective) -> dict[Kind, Opinion]:
    rows = problem.train
    paths = find_paths(rows.users, rows.items, n_users=problem.n_users, n_items=problem.n_items, seed=0)
    of = (Paths.own, Paths.own_variance) if level is Objective.NASH else (Paths.social, Paths.social_variance)
    measured = FromInfluence(levels[level])
    return {
        Kind.UNWILLINGNESS: Alike(measured.spread()),
        Kind.MEASURED: measured,
        Kind.STRUCTURE: FromPaths(paths, *of),
    }


def test_there_is_a_signal(levels: dict[Objective, Level]) -> None:
    assert levels[Objective.WELFARE].shrunk.reliability.measurement > 0.1
    for level in levels.values():
        assert np.ptp(level.held_values) > 0
        assert np.corrcoef(level.held_values, level.values)[0, 1] < 0.99


@pytest.mark.parametrize("objective", list(Objective))
def test_values_are_those_of_their_level_weighed_for_the_objective(
    objective: Objective, problem: Problem, bench: Watched, levels: dict[Objective, Level]
) -> None:
    found = bench.estimates(1, objective)
    for level, values in ((Objective.NASH, found.own[0]), (Objective.WELFARE, found.social[0])):
        said = opinions(problem, levels, level)
        mean = levels[level].values.mean()
        expected = combine(said, decreed(objective), problem.unwillingness, mean=mean)
        np.testing.assert_allclose(values, expected, rtol=1e-6)
    said = opinions(problem, levels, objective)
    uncertain = errors(said, decreed(objective), found.values(objective)[0])
    here = bench.errors(found, objective)
    assert here is not None
    np.testing.assert_allclose(here, uncertain, rtol=1e-6)
    assert (uncertain > 0).all()


def test_both_objectives_are_tried_and_nobody_knows_the_rows_that_judge(
    problem: Problem, bench: Watched, levels: dict[Objective, Level]
) -> None:
    """Unwillingness alone selects the same for both, and is tried once."""
    expected: list[tuple[str, Bools]] = []
    for objective in (Objective.WELFARE, Objective.NASH):
        paths = opinions(problem, levels, objective)[Kind.STRUCTURE]
        for budget in ("50%", "20%"):
            held = levels[objective].held_values
            by_held = np.maximum(held / np.abs(held).mean(), 0.03) / problem.unwillingness
            share = float(budget.rstrip("%")) / 100
            if objective is Objective.WELFARE:
                expected.append((f"trial: {budget} by unwillingness", selected(problem, None, share)))
            expected.append((f"trial: {budget} by measured", selected(problem, by_held, share)))
            expected.append((f"trial: {budget} by structure", by_paths(problem, paths, share)))
    assert [label for label, _ in bench.tried] == [label for label, _ in expected]
    for (_, found), (_, wanted) in zip(bench.tried, expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


def selected(problem: Problem, scores: Floats | None, budget: float) -> Bools:
    return cheapest_first(1 / problem.unwillingness if scores is None else scores, problem, budget)


def by_paths(problem: Problem, paths: Opinion, budget: float) -> Bools:
    """What is left when what is worth least for its unwillingness goes first, a little at a time."""
    minded, value_at = problem.unwillingness, paths.values()
    kept, allowed = np.ones(len(minded), dtype=np.bool_), budget * minded.sum()
    while True:
        order = np.argsort(np.where(kept, value_at(kept) / minded, np.inf), kind="stable")
        at_once, before = 0.09 * minded[kept].sum(), minded[kept].sum()
        for k in order:
            kept[k] = False
            if minded[kept].sum() <= allowed:
                return kept
            if before - minded[kept].sum() >= at_once:
                break


def test_what_all_rest_on_is_paid_by_everybody(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths, for instance, by the clock that finding them puts forward; and trials by those who need them."""
    clock, late = time.perf_counter, [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: clock() + sum(late))

    def slow(*given: Any, **more: Any) -> Paths:
        late.append(1e6)
        return find_paths(*given, **more)

    monkeypatch.setattr(pooling, "find_paths", slow)
    quick = SETTINGS.model_copy(update={"training": SETTINGS.training.model_copy(update={"epochs": 1})})
    bench = Workbench(problem, quick, seed=0)
    for objective in (Objective.WELFARE, Objective.NASH):
        watch = Stopwatch(bench)
        choice = make_method("ifrqe++", objective).within(bench, 0.5)
        assert watch.seconds(choice) == pytest.approx(1e6, rel=1e-3)


def test_each_objective_is_charged_for_its_own_trials(problem: Problem, bench: Watched) -> None:
    welfare, nash = (bench.resting_on(1, each) for each in (Objective.WELFARE, Objective.NASH))
    assert len(welfare) == len(nash) == FOLDS + 1 + 6
    # Folds, everything, and what unwillingness alone selects within both budgets.
    assert len(set(welfare) & set(nash)) == FOLDS + 1 + 2
    assert set(welfare) | set(nash) == set(range(bench.trainings))
    for objective, rests_on in ((Objective.WELFARE, welfare), (Objective.NASH, nash)):
        choice = make_method("ifrqe++", objective).within(bench, 0.5)
        assert list(choice.anchors) == list(rests_on)
        trials = choice.certificate["value_trials"]
        assert isinstance(trials, list)
        assert [each["budget"] for each in trials] == [0.5, 0.2]
