"""Folds: who is judged on what, and what a value is pooled from."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from assent.settings import Settings
from assent.valuers import pooling, trying
from assent.workbench import Workbench
from assent.worth.settings import Source, ValueSettings

from assent.data.problem import Problem
from assent.data.simulate import simulate
from assent.data.split import make_problem
from assent.data.wishes import Wishes
from assent.evaluation.evaluate import validation_ndcg
from assent.game.estimates import Objective
from assent.influence.estimate import own_influence, social_influence
from assent.methods import make_method
from assent.models import MFSettings
from assent.models.losses import Loss
from assent.support.arrays import Bools
from assent.support.errors import AssentError
from assent.training import Trained, TrainingSettings
from assent.worth.folds import deal, measure, pool, targets
from assent.worth.paths import Paths, find_paths
from assent.worth.trial import BUDGETS, FromPaths, Kind
from assent.worth.withdrawal import withdrawn

SETTINGS = Settings(
    model_settings=MFSettings(dimension=4),
    training=TrainingSettings(epochs=4, learning_rate=0.05, batch_size=64, evaluate_every=4),
    anchors=2,
    value=ValueSettings(folds=3),
)


@pytest.fixture(scope="module")
def problem() -> Problem:
    return make_problem(simulate(preference="learnable", users=40, items=50, seed=0), "full", negatives=5)


def with_source(source: Source) -> Settings:
    return SETTINGS.model_copy(update={"value": ValueSettings(source=source, folds=3)})


def test_every_row_has_a_fold_and_folds_are_even() -> None:
    fold = deal(101, 4, seed=3)
    assert sorted(np.bincount(fold)) == [25, 25, 25, 26]
    np.testing.assert_array_equal(fold, deal(101, 4, seed=3))
    assert (fold != deal(101, 4, seed=4)).any()


def test_more_folds_than_rows_are_refused_in_a_line(problem: Problem) -> None:
    many = ValueSettings(folds=len(problem.train) + 1)
    bench = Workbench(problem, SETTINGS.model_copy(update={"value": many}), seed=0)
    with pytest.raises(AssentError, match=rf"accepted: no more than training rows, {len(problem.train)}"):
        bench.estimates(1)


def test_an_anchor_is_judged_on_its_fold_or_on_a_part_of_it() -> None:
    fold = deal(100, 4, seed=0)
    np.testing.assert_array_equal(targets(fold, 1, 99, seed=0), np.flatnonzero(fold == 1))
    some = targets(fold, 1, 10, seed=0)
    assert len(set(some.tolist())) == 10
    assert (fold[some] == 1).all()


def test_a_row_is_valued_where_it_is_disclosed_alone() -> None:
    """The anchor that withholds a row says 100, which must not be heard."""
    fold = np.array([0, 1, 2, 0])
    parts = [
        (np.where(fold == t, 100.0, t), np.where(fold == t, 100.0, 10.0 * t + np.arange(4))) for t in range(3)
    ]
    found = pool(parts, fold, np.full(4, 6.0), np.array([[1.0], [2.0], [6.0]]) * np.ones(4))
    np.testing.assert_allclose(found.valid, [1.5, 1.0, 0.5, 1.5])
    np.testing.assert_allclose(found.held, [15, 11, 7, 18])
    np.testing.assert_allclose(found.n_valid, 6)
    np.testing.assert_allclose(found.n_held, [4, 3.5, 1.5, 4])
    across = [(1 * 20 + 2 * 10) / 2, (0 * 21 + 2 * 1) / 2, (0 * 12 + 1 * 2) / 2, (1 * 23 + 2 * 13) / 2]
    np.testing.assert_allclose(found.joint, across)


@pytest.mark.parametrize("loss", list(Loss))
def test_both_parts_are_the_influence_on_their_rows(problem: Problem, loss: Loss) -> None:
    settings = SETTINGS.model_copy(update={"influence": SETTINGS.influence.model_copy(update={"loss": loss})})
    bench = Workbench(problem, settings, seed=0)
    bench.estimates(1)
    fold = deal(len(problem.train), 3, seed=0)
    judged = targets(fold, 0, len(problem.valid), seed=0)
    model = bench.linearise(0, targets=judged)
    n_valid = len(problem.valid)
    assert len(model.valid.users) == n_valid + len(judged)
    np.testing.assert_array_equal(model.valid.owners[n_valid:], problem.train.users[judged])
    found = measure(model, n_valid, np.ones(problem.n_users), settings.influence, seed=0, fold=0)
    plain = bench.linearise(0)
    for level, compute in (("own", own_influence), ("social", social_influence)):
        expected = compute(plain, settings.influence, 0)[0].double().numpy()
        np.testing.assert_allclose(getattr(found, level)[0], expected, rtol=1e-3, atol=1e-6)
        assert np.abs(getattr(found, level)[1]).max() > 0
    np.testing.assert_allclose(found.losses, plain.valid.per_user(plain.valid_losses()), rtol=1e-6)
    np.testing.assert_array_equal(found.n_valid, np.bincount(problem.valid.users, minlength=problem.n_users))
    users = problem.train.users[judged]
    np.testing.assert_array_equal(found.n_held, np.bincount(users, minlength=problem.n_users))


def test_one_value_stands_around_everything_and_says_how_reliable_it_is(problem: Problem) -> None:
    bench = Workbench(problem, SETTINGS, seed=0)
    estimates = bench.estimates(2)
    assert estimates.anchors.shape == (1, len(problem.train))
    assert estimates.anchors.all()
    everything = bench.linearise(3)
    np.testing.assert_allclose(estimates.losses[0], everything.valid.per_user(everything.valid_losses()))
    trained = len(bench.resting_on(2))
    # Folds, everything, three sources within two budgets; what two of them would select is tried once.
    assert 3 + 1 + 2 <= trained <= 3 + 1 + 6
    assert bench.trainings == trained
    # Whoever asks first has paid for all of them.
    assert len(bench.anchor_seconds) == trained
    assert bench.anchor_owed == [0.0] * trained
    choice = make_method("ifrqe++").within(bench, 0.5)
    assert len(choice.anchors) == trained
    assert choice.errors is not None
    assert choice.errors.shape == (len(problem.train),)
    social = choice.certificate["value_social"]
    assert isinstance(social, dict)
    assert set(social) == {"explained", "measurement", "agreement", "count", "error"}


def test_folds_start_from_different_parameters_and_random_anchors_from_the_same(problem: Problem) -> None:
    pooled = Workbench(problem, SETTINGS, seed=0)
    assert len({pooled.anchor(t)[1].seed for t in range(4)}) == 4
    single = Workbench(problem, with_source(Source.INFLUENCE), seed=0)
    assert {single.anchor(t)[1].seed for t in range(2)} == {0}


def test_the_papers_game_is_there_under_its_names(problem: Problem) -> None:
    influence, lissa = (
        Workbench(problem, with_source(source), seed=0).estimates(2)
        for source in (Source.INFLUENCE, Source.LISSA)
    )
    assert (influence.social[0] != influence.social[1]).any()
    assert (influence.social != lissa.social).any()
    np.testing.assert_array_equal(influence.anchors, lissa.anchors)


def test_effects_on_single_others_need_single_anchors(problem: Problem) -> None:
    with pytest.raises(AssentError, match="--value influence"):
        Workbench(problem, SETTINGS, seed=0).estimates(1, effects=True)


@pytest.mark.parametrize(
    ("model", "folds", "groups"), [("mf", 3, 1), ("lightgcn", 2, 2), ("lightgcn", 3, 1), ("din", 3, 1)]
)
def test_anchors_that_are_averaged_have_few_groups(model: str, folds: int, groups: int) -> None:
    settings = Settings(model=model)
    assert settings.per_fold(folds) == settings.influence.model_copy(update={"groups": groups})


def test_a_model_is_valued_as_it_asks_for() -> None:
    assert Settings(model="lightgcn", value={"source": "structure"}).influence.loss is Loss.CALIBRATED
    assert Settings(model="lightgcn", influence={"loss": "bce"}).influence.loss is Loss.BCE


def test_what_is_tried_is_what_each_source_would_select(problem: Problem) -> None:
    """Trained as a final model is, judged on the validation rows; what was measured on those is left out."""
    bench = Workbench(problem, SETTINGS, seed=0)
    bench.estimates(1)
    trials = bench.trust(1)["value_trials"]
    assert isinstance(trials, list)
    assert [trial["budget"] for trial in trials] == list(BUDGETS)
    for trial in trials:
        threshold = make_method("threshold").within(bench, trial["budget"]).selection
        ranks = validation_ndcg(problem, bench.final(threshold))
        by_user = [ranks[problem.valid.users == u].mean() for u in np.unique(problem.valid.users)]
        assert trial["unwillingness"]["ndcg"] == pytest.approx(np.mean(by_user))
        structure = Workbench(problem, with_source(Source.STRUCTURE), seed=0)
        selected = make_method("ifrqe").within(structure, trial["budget"]).selection
        ranks = validation_ndcg(problem, bench.final(selected))
        by_user = [ranks[problem.valid.users == u].mean() for u in np.unique(problem.valid.users)]
        assert trial["structure"]["ndcg"] == pytest.approx(np.mean(by_user))
        assert sum(trial[kind]["weight"] for kind in Kind) == pytest.approx(1)


def test_structure_alone_needs_one_model_and_has_the_units_of_the_loss(problem: Problem) -> None:
    bench = Workbench(problem, with_source(Source.STRUCTURE), seed=0)
    found = bench.estimates(3)
    assert list(bench.resting_on(3)) == [0]
    assert bench.trainings == 1
    errors = bench.errors(found, Objective.WELFARE)
    assert errors is not None
    assert ((errors > 0) | (found.social[0] < 0.1 * found.social[0].mean())).all()
    assert bench.trust(3)["value_paths"] == paths_of(problem).facts()
    (at,) = found.anchors
    assert at.all()
    blank = len(problem.valid) * (problem.valid_candidates.shape[1] - 1) * np.log(2)
    paths = paths_of(problem)
    unit = (blank - found.losses.sum()) / len(problem.train)
    worth = FromPaths(paths, Paths.social, Paths.social_variance).values()
    expected = withdrawn(lambda kept: unit * worth(kept), problem.unwillingness)
    np.testing.assert_allclose(found.social[0], expected)
    # Of three interactions on a path, one begins it.
    assert paths.own().sum() == pytest.approx(paths.social().sum() / 3)
    selfish = FromPaths(paths, Paths.own, Paths.own_variance).values()
    own = withdrawn(lambda kept: unit / 3 * selfish(kept), problem.unwillingness)
    np.testing.assert_allclose(found.own[0], own)


def paths_of(problem: Problem) -> Paths:
    rows = problem.train
    return find_paths(rows.users, rows.items, n_users=problem.n_users, n_items=problem.n_items, seed=0)


def test_trials_keep_wishes(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the floors alone are more than the budget."""
    budget, floor = np.full(problem.n_users, 0.6), np.full(problem.n_users, 1)
    asked = replace(problem, wishes=Wishes(budget=budget, floor=floor))
    tried: list[Bools] = []
    plain = Workbench.try_out

    def watch(bench: Workbench, selection: Bools, label: str) -> Trained:
        tried.append(selection)
        return plain(bench, selection, label)

    monkeypatch.setattr(Workbench, "try_out", watch)
    Workbench(asked, SETTINGS, seed=0).estimates(1)
    assert tried
    for selection in tried:
        paid = np.bincount(problem.train.users, problem.unwillingness * selection, problem.n_users)
        assert (paid <= 0.6 + 1e-9).all()


def test_what_structure_and_ranking_take_is_an_anchors_too(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asks second is charged for them as who asked first: a clock that both put forward."""
    clock, late = time.perf_counter, [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: clock() + sum(late))

    def slow(work: Callable[..., Any], seconds: float) -> Callable[..., Any]:
        def run(*given: Any, **more: Any) -> Any:
            late.append(seconds)
            return work(*given, **more)

        return run

    monkeypatch.setattr(pooling, "find_paths", slow(find_paths, 1e5))
    monkeypatch.setattr(trying, "validation_ndcg", slow(validation_ndcg, 1e6))
    bench = Workbench(problem, SETTINGS, seed=0)
    bench.estimates(1)
    tried = len(bench.resting_on(1)) - 4
    assert sum(bench.anchor_seconds) == pytest.approx(1e5 + tried * 1e6, rel=1e-2)


def test_a_run_that_was_killed_tries_nothing_again(problem: Problem, tmp_path: Path) -> None:
    first, second = (Workbench(problem, SETTINGS, seed=0, folder=tmp_path) for _ in range(2))
    before = first.estimates(1)
    again = second.estimates(1)
    assert second.trainings == 0
    np.testing.assert_array_equal(before.social, again.social)
    assert len(second.anchor_owed) == len(first.resting_on(1))
    assert min(second.anchor_owed) > 0
