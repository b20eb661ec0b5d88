"""What interactions are worth, put together once more from its parts, where there is something to measure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
from tests.small import QUICK, Listener, Recorded, entries, small_problem, some_of, trained_in

from assent.data.problem import Problem, make_problem
from assent.data.simulate import simulate
from assent.data.wishes import Wishes
from assent.evaluation.evaluate import validation_losses, validation_ndcg
from assent.evaluation.metrics import RewardForm
from assent.game.budget import Budget
from assent.game.estimates import Objective
from assent.game.players import cheapest_first
from assent.lab import Entry, Found, Lab, Processes, Store, Task, Training
from assent.lab.anchors import linearised, loss_weights
from assent.methods import make_method
from assent.methods.worth import WorthMethod
from assent.models.losses import Loss
from assent.support.arrays import Bools, Floats
from assent.training import Settings
from assent.worth import trial
from assent.worth.estimate import Source, Worth, WorthSettings, estimate, fold_trainings, model_of_everything
from assent.worth.folds import Measured, deal, measure, pool, targets
from assent.worth.paths import Paths, find_paths
from assent.worth.shrinkage import Shrunk, features, shrink
from assent.worth.trial import BUDGETS, Kind, Opinion, Trial, combine, errors, judge, withdrawn

FOLDS = 3
SETTINGS = WorthSettings(folds=FOLDS)
LEARNING = Settings.model_validate(
    {
        "model": "mf",
        "model_settings": {"dimension": 8},
        "training": {"epochs": 20, "learning_rate": 0.05, "batch_size": 256, "evaluate_every": 10},
    }
)
SHARES = {
    Objective.NASH: {0.5: (0.3, 0.5, 0.7), 0.2: (0.2, 0.6, 0.5)},
    Objective.WELFARE: {0.5: (0.2, 0.5, 0.5), 0.2: (0.3, 0.4, 0.6)},
}
"""Of the rows that the models of trials are trained on, by decree: by unwillingness, measured, structure.

So all sources get a weight, and another one for every objective and budget."""


@dataclass(frozen=True)
class Case:
    """A lab, and the worth that it found for both objectives, welfare first."""

    lab: Lab
    levels: Mapping[Objective, Shrunk]
    trials: Mapping[Objective, list[Trial]]
    found: Mapping[Objective, Worth]

    def opinions(self, level: Objective) -> dict[Kind, Opinion]:
        return opinions(self.lab.problem, self.levels, level)


def levels_of(lab: Lab) -> dict[Objective, Shrunk]:
    """What was measured, from the models of the folds and that of everything."""
    problem = lab.problem
    fold, rows = deal(problem.row_keys, FOLDS, seed=0), problem.train
    placed, clusters = features(rows.users, rows.items), (rows.users, rows.items)
    trainings, weights = fold_trainings(lab, SETTINGS), loss_weights(lab, RewardForm.SUM)
    every: list[Measured] = []
    for t, trained in enumerate(lab.train(trainings)):
        judged = targets(problem.row_keys, fold, t, len(problem.valid), seed=0)
        model = linearised(lab, trainings[t], trained, SETTINGS.influence, judged)
        every.append(measure(model, len(problem.valid), weights, SETTINGS.per_fold, seed=0, fold=t)[0])
    n_valid, n_held = every[0].n_valid, np.array([each.n_held for each in every])
    ones = np.ones(len(rows))
    twice = {
        Objective.NASH: pool(
            [(e.own_valid, e.own_held) for e in every], fold, n_valid[rows.users], n_held[:, rows.users]
        ),
        Objective.WELFARE: pool(
            [(e.social_valid, e.social_held) for e in every],
            fold,
            n_valid.sum() * ones,
            n_held.sum(axis=1)[:, None] * ones,
        ),
    }
    shrunk = {key: shrink(each, placed, clusters) for key, each in twice.items()}
    # A model that misses a fold has larger losses than one of everything; what is left of that is the count.
    [whole] = lab.train([model_of_everything(lab, SETTINGS)])
    losses = validation_losses(problem, whole, SETTINGS.influence.loss)
    missing = np.mean([each.losses.sum() - losses.sum() for each in every]) * FOLDS / len(rows)
    social = shrunk[Objective.WELFARE]
    error = np.sqrt(np.mean(social.errors**2))
    count = min((missing - social.values.mean()) / error, 1.0)
    assert 0 < count < 1
    return {key: replace(each, count=count) for key, each in shrunk.items()}


def opinions(problem: Problem, levels: Mapping[Objective, Shrunk], level: Objective) -> dict[Kind, Opinion]:
    of = (Paths.own, Paths.own_variance) if level is Objective.NASH else (Paths.social, Paths.social_variance)
    return trial.opinions(levels[level], trial.by_paths(paths_of(problem), *of))


def paths_of(problem: Problem) -> Paths:
    rows = problem.train
    return find_paths(rows, problem.user_keys, problem.item_keys, seed=0)


def selections(
    problem: Problem, levels: Mapping[Objective, Shrunk], objective: Objective, budget: float
) -> dict[Kind, Bools]:
    """What each source selects by itself, without what it knows of the rows that judge it."""
    held = levels[objective].held_values
    by_held = np.maximum(held / np.abs(held).mean(), 0.03) / problem.unwillingness
    return {
        Kind.UNWILLINGNESS: cheapest_first(1 / problem.unwillingness, problem, budget),
        Kind.MEASURED: cheapest_first(by_held, problem, budget),
        Kind.STRUCTURE: by_paths(problem, opinions(problem, levels, objective)[Kind.STRUCTURE], budget),
    }


def by_paths(problem: Problem, paths: Opinion, budget: float) -> Bools:
    """What is left when what is worth least for its unwillingness goes first, a little at a time."""
    minded, value_at = problem.unwillingness, paths.values
    kept, most = np.ones(len(minded), dtype=np.bool_), Budget.of(problem, budget)
    while True:
        order = np.argsort(np.where(kept, value_at(kept) / minded, np.inf), kind="stable")
        at_once, before = 0.04 * minded[kept].sum(), minded[kept].sum()
        for k in order:
            kept[k] = False
            if most.allows(kept):
                return kept
            if before - minded[kept].sum() >= at_once:
                break


def quality_by_user(problem: Problem, ranks: Floats) -> Floats:
    """The mean NDCG of everybody who has validation rows."""
    return np.array([ranks[problem.valid.users == u].mean() for u in np.unique(problem.valid.users)])


@pytest.fixture(scope="module")
def case() -> Case:
    log = simulate(preference="learnable", users=200, items=60, noise=0.1, seed=3)
    lab = Lab(make_problem(log, "full", negatives=20), LEARNING)
    levels, problem = levels_of(lab), lab.problem
    trials: dict[Objective, list[Trial]] = {}
    for objective in (Objective.WELFARE, Objective.NASH):
        trials[objective] = []
        for budget in BUDGETS:
            chosen = selections(problem, levels, objective, budget)
            qualities = {}
            for n, kind in enumerate(Kind):
                donor = Training(some_of(problem, SHARES[objective][budget][n], seed=n))
                if kind is Kind.UNWILLINGNESS:  # which selects the same for both objectives
                    donor = Training(some_of(problem, SHARES[Objective.NASH][budget][n], seed=n))
                [trained] = lab.train([donor])
                [entry] = lab.run([donor])
                key = Training(chosen[kind], epochs=LEARNING.training.epochs // 3).key(lab)
                lab.store.put(key, Found(entry.arrays, entry.facts, trainings=1), seconds=1)
                qualities[kind] = quality_by_user(problem, validation_ndcg(problem, trained))
            trials[objective].append(judge(budget, qualities))
    found = {each: estimate(lab, SETTINGS, each) for each in (Objective.WELFARE, Objective.NASH)}
    return Case(lab, levels, trials, found)


def test_a_fold_is_trained_and_measured_in_one_job() -> None:
    """Few jobs of equal size: as many as folds, and one for everything."""
    executor = Recorded()
    problem = small_problem()
    estimate(Lab(problem, QUICK, executor=executor), SETTINGS, Objective.WELFARE)
    assert len(executor.lists[0]) == FOLDS + 1
    assert len(executor.lists) == 2  # then the trials


def test_there_is_a_signal(case: Case) -> None:
    assert case.levels[Objective.WELFARE].measurement > 0.1
    for level in case.levels.values():
        assert np.ptp(level.held_values) > 0
        assert np.corrcoef(level.held_values, level.values)[0, 1] < 0.99
    every = [trial.weights for trials in case.trials.values() for trial in trials]
    assert sum(weights[Kind.STRUCTURE] > 0.05 for weights in every) >= 2
    assert sum(weights[Kind.MEASURED] > 0.05 for weights in every) >= 2
    assert len({tuple(weights.values()) for weights in every}) == 4


@pytest.mark.parametrize("objective", list(Objective))
def test_values_are_those_of_their_level_weighed_for_the_objective(objective: Objective, case: Case) -> None:
    found, trials, unwillingness = (
        case.found[objective],
        case.trials[objective],
        case.lab.problem.unwillingness,
    )
    for level, values in ((Objective.NASH, found.own), (Objective.WELFARE, found.social)):
        mean = case.levels[level].values.mean()
        expected = combine(case.opinions(level), trials, unwillingness, mean=mean)
        np.testing.assert_allclose(values, expected, rtol=1e-6)
    mine = found.own if objective is Objective.NASH else found.social
    uncertain = errors(case.opinions(objective), trials, mine)
    told = found.error_own if objective is Objective.NASH else found.error_social
    np.testing.assert_allclose(told, uncertain, rtol=1e-6)
    assert (uncertain > 0).all()
    [whole] = case.lab.train([model_of_everything(case.lab, SETTINGS)])
    losses = validation_losses(case.lab.problem, whole, SETTINGS.influence.loss)
    np.testing.assert_allclose(found.losses, losses, rtol=1e-6)


@pytest.mark.parametrize("objective", list(Objective))
def test_trials_are_judged_by_how_well_they_rank(objective: Objective, case: Case) -> None:
    facts = case.found[objective].facts
    assert facts["value_trials"] == [trial.facts() for trial in case.trials[objective]]
    for level, name in ((Objective.NASH, "value_own"), (Objective.WELFARE, "value_social")):
        assert facts[name] == pytest.approx(case.levels[level].facts())
    assert facts["value_paths"] == paths_of(case.lab.problem).facts()


def test_each_objective_costs_its_own_trials_and_what_both_rest_on(case: Case) -> None:
    welfare, nash = (case.found[each].cost for each in (Objective.WELFARE, Objective.NASH))
    trained = [{part for part, (_, count) in cost.parts.items() if count} for cost in (welfare, nash)]
    assert [len(each) for each in trained] == [welfare.trainings, nash.trainings] == [FOLDS + 1 + 6] * 2
    # Folds, everything, and what unwillingness alone selects within both budgets.
    assert len(trained[0] & trained[1]) == FOLDS + 1 + 2
    assert (welfare + nash).trainings == FOLDS + 1 + 2 + 4 + 4
    for objective, cost in ((Objective.WELFARE, welfare), (Objective.NASH, nash)):
        choice = make_method("worth", folds=FOLDS, objective=objective).within(case.lab, 0.5)
        assert choice.cost.trainings == cost.trainings
        assert choice.cost.parts.items() >= cost.parts.items()
        trials = choice.certificate["value_trials"]
        assert isinstance(trials, list)
        assert [each["budget"] for each in trials] == [0.5, 0.2]


def test_paths_are_not_counted_where_trials_gave_them_no_weight(case: Case) -> None:
    """The values are those of the other sources, as if paths had been counted and not heard."""
    silent = [
        replace_weights(each, {Kind.UNWILLINGNESS: 0.4, Kind.MEASURED: 0.6, Kind.STRUCTURE: 0.0})
        for each in case.trials[Objective.WELFARE]
    ]
    settings = SETTINGS.model_copy(update={"trials": tuple(silent)})
    found = estimate(case.lab, settings, Objective.WELFARE)
    assert "value_paths" not in found.facts
    for level, values in ((Objective.NASH, found.own), (Objective.WELFARE, found.social)):
        mean = case.levels[level].values.mean()
        expected = combine(case.opinions(level), silent, case.lab.problem.unwillingness, mean=mean)
        np.testing.assert_allclose(values, expected, rtol=1e-6)


def replace_weights(tried: Trial, weights: Mapping[Kind, float]) -> Trial:
    return tried.model_copy(update={"weights": weights})


# What does not need a signal.


@pytest.fixture(scope="module")
def lab() -> Lab:
    return Lab(small_problem(negatives=5), QUICK)


def worth_of(lab: Lab, source: Source = Source.COMBINED, objective: Objective = Objective.WELFARE) -> Worth:
    return estimate(lab, WorthSettings(source=source, folds=FOLDS), objective)


@pytest.mark.parametrize("source", list(Source))
def test_worth_has_a_value_for_each_interaction_and_says_how_reliable_it_is(source: Source, lab: Lab) -> None:
    rows, found = len(lab.problem.train), worth_of(lab, source)
    assert found.own.shape == found.social.shape == found.error_social.shape == (rows,)
    assert found.losses.shape == (lab.problem.n_users,)
    assert all(
        np.isfinite(array).all() for array in (found.own, found.social, found.error_social, found.losses)
    )
    known = {"value_own", "value_social"} if source is not Source.STRUCTURE else set()
    known |= {"value_paths"} if source is not Source.CROSS_FITTED else set()
    known |= {"value_trials"} if source is Source.COMBINED else set()
    assert {name for name in found.facts if name.startswith("value")} == known
    if "value_social" in known:
        assert set(found.facts["value_social"]) == {"explained", "measurement", "agreement", "count", "error"}
    choice = WorthMethod(source=source, folds=FOLDS).within(lab, 0.5)
    assert choice.certificate.items() >= found.facts.items()
    np.testing.assert_array_equal(choice.errors, found.error_social)
    np.testing.assert_array_equal(choice.error_owner, found.error_own)


def test_cross_fitted_worth_is_what_was_measured_and_shrunk(lab: Lab) -> None:
    levels = levels_of_any(lab)
    for objective in Objective:
        found = worth_of(lab, Source.CROSS_FITTED, objective)
        np.testing.assert_allclose(found.own, levels[Objective.NASH].values, rtol=1e-6)
        np.testing.assert_allclose(found.social, levels[Objective.WELFARE].values, rtol=1e-6)
        np.testing.assert_allclose(found.error_own, levels[Objective.NASH].errors, rtol=1e-6)
        np.testing.assert_allclose(found.error_social, levels[Objective.WELFARE].errors, rtol=1e-6)


def levels_of_any(lab: Lab) -> dict[Objective, Shrunk]:
    """As `levels_of`, with the count that was found."""
    facts = worth_of(lab, Source.CROSS_FITTED).facts
    problem, trainings = lab.problem, fold_trainings(lab, SETTINGS)
    fold, rows = deal(problem.row_keys, FOLDS, seed=0), problem.train
    every = []
    for t, trained in enumerate(lab.train(trainings)):
        judged = targets(problem.row_keys, fold, t, len(problem.valid), seed=0)
        model = linearised(lab, trainings[t], trained, SETTINGS.influence, judged)
        weights = loss_weights(lab, RewardForm.SUM)
        every.append(measure(model, len(problem.valid), weights, SETTINGS.per_fold, seed=0, fold=t)[0])
    n_valid, n_held = every[0].n_valid, np.array([each.n_held for each in every])
    ones, about = np.ones(len(rows)), (features(rows.users, rows.items), (rows.users, rows.items))
    own = pool([(e.own_valid, e.own_held) for e in every], fold, n_valid[rows.users], n_held[:, rows.users])
    social = pool(
        [(e.social_valid, e.social_held) for e in every],
        fold,
        n_valid.sum() * ones,
        n_held.sum(axis=1)[:, None] * ones,
    )
    return {
        Objective.NASH: replace(shrink(own, *about), count=facts["value_own"]["count"]),
        Objective.WELFARE: replace(shrink(social, *about), count=facts["value_social"]["count"]),
    }


def test_structure_alone_needs_one_model_and_has_the_units_of_the_loss() -> None:
    lab = Lab(small_problem(negatives=5), LEARNING)
    problem, found = lab.problem, worth_of(lab, Source.STRUCTURE)
    assert found.cost.trainings == 1
    assert ((found.error_social > 0) | (found.social < 0.1 * found.social.mean())).all()
    blank = len(problem.valid) * (problem.valid_candidates.shape[1] - 1) * np.log(2)
    paths = paths_of(problem)
    unit = (blank - found.losses.sum()) / len(problem.train)
    assert unit > 0
    worth = trial.by_paths(paths, Paths.social, Paths.social_variance).values
    expected = withdrawn(lambda kept: unit * worth(kept), problem.unwillingness)
    np.testing.assert_allclose(found.social, expected)
    # Of three interactions on a path, one begins it.
    assert paths.own().sum() == pytest.approx(paths.social().sum() / 3)
    selfish = trial.by_paths(paths, Paths.own, Paths.own_variance).values
    own = withdrawn(lambda kept: unit / 3 * selfish(kept), problem.unwillingness)
    np.testing.assert_allclose(found.own, own)


def test_sources_that_rest_on_the_same_models_share_them() -> None:
    lab = Lab(small_problem(negatives=5), QUICK)
    trained = []
    for source in (Source.CROSS_FITTED, Source.COMBINED, Source.STRUCTURE):
        before = trained_in(lab.store)
        worth_of(lab, source)
        trained.append(trained_in(lab.store) - before)
    assert trained[0] == FOLDS + 1
    assert 2 <= trained[1] <= 6  # trials alone; sources that select the same are tried once
    assert trained[2] == 1
    before = trained_in(lab.store)
    estimate(lab, WorthSettings(source=Source.CROSS_FITTED, folds=2), Objective.WELFARE)
    assert trained_in(lab.store) - before == 3


@pytest.mark.parametrize("source", list(Source))
def test_everybody_is_charged_alike_whoever_asked_first(source: Source) -> None:
    """The second objective's models, and the other source's, are found, and cost what they cost before."""
    lab = Lab(small_problem(negatives=5), QUICK)
    asked = [(source, Objective.WELFARE), (Source.CROSS_FITTED, Objective.NASH), (source, Objective.NASH)]
    costs = [worth_of(lab, *each).cost for each in asked]
    every = {name: each["cost"] for name, each in entries(lab.store).items()}
    for cost in costs:
        for part, (seconds, trainings) in cost.parts.items():
            assert every[part][part] == [seconds, trainings]
    again = [worth_of(lab, *each).cost for each in reversed(asked)]
    assert again[::-1] == costs


def test_what_was_estimated_is_found_again(tmp_path: Path) -> None:
    listener = Listener()
    first, second = (
        Lab(small_problem(negatives=5), QUICK, store=Store(tmp_path), progress=each)
        for each in (Listener(), listener)
    )
    before, again = worth_of(first), worth_of(second)
    assert listener.told == []
    for name in ("own", "social", "error_own", "error_social", "losses"):
        np.testing.assert_array_equal(getattr(before, name), getattr(again, name))
    assert (before.facts, before.cost) == (again.facts, again.cost)
    # A run that was killed in its last step has all models still.
    for each in entries(first.store, "worth").values():
        first.store.remove(each["key"])
    worth_of(second)
    assert listener.told == []


def test_worth_is_the_same_on_two_workers(lab: Lab) -> None:
    before = worth_of(lab)
    with Processes(2) as processes:
        beside = worth_of(replace(lab, store=Store.temporary(), executor=processes))
    for name in ("own", "social", "error_own", "error_social", "losses"):
        np.testing.assert_array_equal(getattr(before, name), getattr(beside, name))
    assert before.facts == beside.facts
    assert before.cost.trainings == beside.cost.trainings


@dataclass(frozen=True)
class Watched(Lab):
    """Remembers what it was asked to train."""

    asked: list[Training] = field(default_factory=list)

    def run(self, tasks: Sequence[Task], label: str = "") -> list[Entry]:
        self.asked.extend(task for task in tasks if isinstance(task, Training))
        return super().run(tasks, label)


def test_trials_keep_wishes() -> None:
    """Also where the floors alone are more than the budget."""
    plain = small_problem(negatives=5)
    budget, floor = np.full(plain.n_users, 0.6), np.full(plain.n_users, 1)
    lab = Watched(replace(plain, wishes=Wishes(budget=budget, floor=floor)), QUICK)
    worth_of(lab)
    tried = [training for training in lab.asked if training.label.startswith("trial")]
    assert [training.label for training in tried] == [
        f"trial: {share} by {kind}" for share in ("50%", "20%") for kind in Kind
    ]
    for training in tried:
        paid = np.bincount(plain.train.users, plain.unwillingness * training.selection, plain.n_users)
        assert (paid <= 0.6 + 1e-9).all()
        assert training.vocabulary is None
        assert training.seed is None


def test_a_model_is_valued_as_it_asks_for() -> None:
    asked = WorthMethod().settings_for("lightgcn")
    assert asked.influence.loss is Loss.CALIBRATED
    own = make_method("worth", "lightgcn", influence={"loss": "bce"})
    assert isinstance(own, WorthMethod)
    assert own.settings_for("lightgcn").influence.loss is Loss.BCE
