from pathlib import Path

import numpy as np
import pytest
import torch
from assent.settings import Settings
from assent.workbench import Workbench
from assent.worth.settings import Source, ValueSettings

from assent.data.problem import Problem
from assent.data.simulate import simulate
from assent.data.split import make_problem
from assent.methods import Choice
from assent.models import MFSettings
from assent.runs.records import Stopwatch
from assent.support.arrays import Bools
from assent.training import Trained, TrainingSettings, disclose, train

SETTINGS = Settings(
    model_settings=MFSettings(dimension=4),
    training=TrainingSettings(epochs=3, learning_rate=0.05, batch_size=64, evaluate_every=3),
    value=ValueSettings(source=Source.INFLUENCE),
)


@pytest.fixture(scope="module")
def problem() -> Problem:
    return make_problem(simulate(preference="learnable", users=30, items=40, seed=0), "full", negatives=5)


@pytest.fixture
def bench(problem: Problem) -> Workbench:
    return Workbench(problem, SETTINGS, seed=2)


def same(one: Trained, other: Trained) -> bool:
    pairs = zip(one.model.state_dict().values(), other.model.state_dict().values(), strict=True)
    return all(torch.equal(ours, theirs) for ours, theirs in pairs)


def everything(problem: Problem) -> Bools:
    return np.ones(len(problem.train), dtype=np.bool_)


def test_estimates_have_a_row_per_anchor(problem: Problem, bench: Workbench) -> None:
    rows, users = len(problem.train), problem.n_users
    estimates = bench.estimates(2)
    assert estimates.anchors.shape == estimates.own.shape == estimates.social.shape == (2, rows)
    assert estimates.losses.shape == (2, users)
    assert estimates.effects == ()
    assert estimates.n_users == users
    np.testing.assert_array_equal(estimates.owners, problem.train.users)
    np.testing.assert_array_equal(estimates.unwillingness, problem.unwillingness)
    for values in (estimates.own, estimates.social, estimates.losses):
        assert np.isfinite(values).all()
        assert (values[0] != values[1]).any()
    assert list(bench.resting_on(2)) == [0, 1]
    assert bench.trainings == len(bench.anchor_seconds) == 2


def test_effects_on_everybody_come_when_asked_for(problem: Problem, bench: Workbench) -> None:
    estimates = bench.estimates(2, effects=True)
    assert [each.shape for each in estimates.effects] == [(problem.n_users, len(problem.train))] * 2
    for own, effects in zip(estimates.own, estimates.effects, strict=True):
        found = effects.toarray()[problem.train.users, np.arange(len(problem.train))]
        np.testing.assert_allclose(found, own, rtol=1e-6)
    assert estimates.predicted_losses(estimates.anchors) == pytest.approx(estimates.losses)


def test_the_first_anchors_do_not_depend_on_how_many_follow(problem: Problem, bench: Workbench) -> None:
    few, many = bench.estimates(1), Workbench(problem, SETTINGS, seed=2).estimates(3)
    for name in ("anchors", "own", "social", "losses"):
        np.testing.assert_array_equal(getattr(many, name)[:1], getattr(few, name), err_msg=name)


def test_more_anchors_are_added_to_those_that_are_known(bench: Workbench) -> None:
    first = bench.estimates(1)
    assert bench.trainings == 1
    bench.estimates(3)
    assert bench.trainings == 3
    again = bench.estimates(1)
    assert bench.trainings == 3
    np.testing.assert_array_equal(again.own, first.own)
    assert again.n_anchors == 1
    assert len(bench.anchor_seconds) == 3


def test_anchors_differ_by_their_selections_alone(problem: Problem) -> None:
    """Where every anchor discloses all, they are one model: they start alike and see rows in one order."""
    bench = Workbench(problem, SETTINGS.model_copy(update={"anchor_rate": 1.0}), seed=2)
    (one, first), (other, second) = bench.anchor(0), bench.anchor(1)
    assert one.all()
    assert other.all()
    assert same(first, second)
    assert not same(first, Workbench(problem, SETTINGS, seed=2).anchor(0)[1])


def test_an_anchor_knows_all_users_and_items_but_learns_from_its_rows(problem: Problem) -> None:
    sparse = SETTINGS.model_copy(update={"anchor_rate": 0.1})
    selection, trained = Workbench(problem, sparse, seed=2).anchor(0)
    whole, seen = disclose(problem, everything(problem)), disclose(problem, selection)
    assert seen.n_users < whole.n_users
    assert seen.n_items < whole.n_items
    assert trained.user_ids.tolist() == whole.user_ids.tolist()
    assert trained.item_ids.tolist() == whole.item_ids.tolist()
    expected = train(
        disclose(problem, selection, vocabulary=everything(problem)),
        model="mf",
        model_settings=SETTINGS.model_settings,
        settings=SETTINGS.training,
        seed=2,
    )
    assert same(trained, expected)


def test_the_final_model_is_trained_on_the_selection_alone(problem: Problem, bench: Workbench) -> None:
    selection = np.random.default_rng(0).random(len(problem.train)) < 0.2
    bench.estimates(1)
    trained = bench.final(selection)
    assert bench.trainings == 2
    assert trained.user_ids.tolist() == sorted(set(problem.user_ids[problem.train.users[selection]].tolist()))
    assert trained.item_ids.tolist() == sorted(set(problem.item_ids[problem.train.items[selection]].tolist()))
    assert same(trained, Workbench(problem, SETTINGS, seed=2).final(selection))
    assert not same(trained, Workbench(problem, SETTINGS, seed=3).final(selection))


def test_a_second_bench_finds_the_anchors_of_the_first(problem: Problem, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    first = Workbench(problem, SETTINGS, seed=2, folder=folder)
    before = first.estimates(2)
    names = sorted(file.name for file in folder.iterdir())
    assert [(name[:8], name.rpartition(".")[2]) for name in names] == [
        (f"anchor-{t}", suffix) for t in range(2) for suffix in ("json", "safetensors", "seconds")
    ]
    second = Workbench(problem, SETTINGS, seed=2, folder=folder)
    after = second.estimates(2)
    assert second.trainings == 0
    for name in ("anchors", "own", "social", "losses"):
        np.testing.assert_array_equal(getattr(after, name), getattr(before, name), err_msg=name)
    second.estimates(3)
    assert second.trainings == 1


def test_a_bench_of_other_settings_or_seed_leaves_them(problem: Problem, tmp_path: Path) -> None:
    Workbench(problem, SETTINGS, seed=2, folder=tmp_path).estimates(1)
    other = SETTINGS.model_copy(update={"training": TrainingSettings(epochs=2)})
    for settings, seed in ((other, 2), (SETTINGS, 3)):
        bench = Workbench(problem, settings, seed=seed, folder=tmp_path)
        bench.estimates(1)
        assert bench.trainings == 1


def test_sources_whose_anchors_lie_at_the_same_places_share_them(problem: Problem, tmp_path: Path) -> None:
    trained = {}
    for source in (Source.CROSS_FITTED, Source.COMBINED, Source.STRUCTURE, Source.INFLUENCE, Source.LISSA):
        settings = SETTINGS.model_copy(update={"value": ValueSettings(source=source)})
        bench = Workbench(problem, settings, seed=2, folder=tmp_path)
        bench.anchor(0)
        trained[source] = bench.trainings
    assert trained == {
        Source.CROSS_FITTED: 1,
        Source.COMBINED: 0,
        Source.STRUCTURE: 1,
        Source.INFLUENCE: 1,
        Source.LISSA: 0,
    }
    fewer = SETTINGS.model_copy(update={"value": ValueSettings(source=Source.COMBINED, folds=2)})
    sparser = SETTINGS.model_copy(update={"anchor_rate": 0.5})
    for settings in (fewer, sparser):
        bench = Workbench(problem, settings, seed=2, folder=tmp_path)
        bench.anchor(0)
        assert bench.trainings == 1


def test_an_anchor_that_was_not_saved_whole_is_trained_again(problem: Problem, tmp_path: Path) -> None:
    first = Workbench(problem, SETTINGS, seed=2, folder=tmp_path / "work")
    first.estimates(2)
    next((tmp_path / "work").glob("anchor-1-*.json")).unlink()
    second = Workbench(problem, SETTINGS, seed=2, folder=tmp_path / "work")
    second.estimates(2)
    assert second.trainings == 1
    assert same(second.anchor(1)[1], first.anchor(1)[1])


def test_clearing_removes_all_that_knows_of_withheld_rows(problem: Problem, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    bench = Workbench(problem, SETTINGS, seed=2, folder=folder)
    bench.clear()
    bench.estimates(1)
    (folder / ".final.progress.x1y2.tmp").write_bytes(b"left by a killed process")
    bench.clear()
    assert not folder.exists()
    assert list(tmp_path.iterdir()) == []


def test_without_a_folder_nothing_is_written(
    bench: Workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    bench.estimates(1)
    bench.clear()
    assert not list(tmp_path.iterdir())


def test_what_killed_processes_spent_on_anchors_is_owed(problem: Problem, tmp_path: Path) -> None:
    Workbench(problem, SETTINGS, seed=2, folder=tmp_path).anchor(1)
    for file in tmp_path.glob("anchor-*.seconds"):
        file.write_text("1000")
    again = Workbench(problem, SETTINGS, seed=2, folder=tmp_path)
    watch = Stopwatch(again)
    again.estimates(2)
    nothing = np.zeros(len(problem.train), dtype=np.bool_)
    charged = [watch.seconds(Choice(nothing, None, anchors=range(anchors))) for anchors in (0, 1, 2)]
    assert charged == pytest.approx([0, 1000, 2000], abs=50)
    again.clear()
    assert not tmp_path.exists()


def test_anchors_that_were_trained_for_another_end_are_owed_and_others_are_not(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = iter(range(0, 10_000, 100))
    monkeypatch.setattr("assent.workbench.time.perf_counter", lambda: float(next(now)))
    bench = Workbench(problem, SETTINGS, seed=2)
    bench.anchor(0)
    assert bench.anchor_owed == [100.0]
    bench.estimates(2)
    assert bench.anchor_owed == [100.0, 0.0]
    assert len(bench.anchor_seconds) == 2
