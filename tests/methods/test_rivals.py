"""Proactive and SCR: what they learn, what they train, that a killed one goes on."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from assent.game.retraining import ProactiveSettings, ScratchSettings
from assent.settings import Settings
from assent.workbench import Workbench

from assent.data.problem import Problem
from assent.data.simulate import simulate
from assent.data.split import make_problem
from assent.evaluation.evaluate import validation_losses
from assent.evaluation.metrics import RewardForm
from assent.methods import make_method
from assent.methods.exploring import Explorer
from assent.methods.proactive import has_converged, learn
from assent.methods.scratch import own_values, play
from assent.models import MFSettings
from assent.support.arrays import Bools, Floats, sum_by
from assent.training import Trained, TrainingSettings, train

SETTINGS = Settings(
    model_settings=MFSettings(dimension=4),
    training=TrainingSettings(epochs=3),
    proactive=ProactiveSettings(rounds=6, window=3),
    scratch=ScratchSettings(selections=6, rounds=2),
)
RIVALS = ["proactive", "scratch"]


@pytest.fixture(scope="module")
def problem() -> Problem:
    log = simulate(preference="learnable", users=40, items=40, seed=3)
    return make_problem(log, "paper-tables", negatives=9)


def with_settings(**changes: Any) -> Settings:
    return SETTINGS.model_copy(update=changes)


def pretend(monkeypatch: pytest.MonkeyPatch, losses: Callable[[Bools], Floats]) -> None:
    """Let trainings lead to `losses` of a selection, at no cost."""

    def explored(self: Explorer, selection: Bools) -> Floats:
        self.trainings += 1
        return losses(selection)

    monkeypatch.setattr(Explorer, "losses", explored)


def linear(problem: Problem, values: Floats, *, noise: float = 0.0) -> Callable[[Bools], Floats]:
    """Losses from which each disclosed interaction takes its value off, whatever others do."""
    random = np.random.default_rng(0)

    def losses(selection: Bools) -> Floats:
        drawn = noise * random.standard_normal(problem.n_users)
        return 5 + drawn - sum_by(problem.train.users, values * selection, problem.n_users)

    return losses


@pytest.fixture
def worth(problem: Problem) -> Floats:
    """Some interactions help their owners, some harm them."""
    return np.random.default_rng(1).choice([-0.4, 0.2, 1.5], len(problem.train))


def test_proactive_learns_to_disclose_what_pays(
    problem: Problem, worth: Floats, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, linear(problem, worth, noise=0.1))
    settings = with_settings(proactive=ProactiveSettings(rounds=400, tolerance=0.0))
    bench = Workbench(problem, settings, seed=0)
    choice = make_method("proactive").at_price(bench, 1.0)
    gain = worth - problem.unwillingness
    clear = np.abs(gain) > 0.3
    assert (choice.selection == (gain > 0))[clear].mean() > 0.9
    everything = gain.sum()
    assert gain[choice.selection].sum() > 0.95 * gain[gain > 0].sum() > everything


def test_proactive_learns_from_the_price_alone_where_nothing_helps(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, linear(problem, np.zeros(len(problem.train))))
    settings = with_settings(proactive=ProactiveSettings(rounds=200, tolerance=0.0))
    bench = Workbench(problem, settings, seed=0)
    assert make_method("proactive").at_price(bench, 1.0).selection.mean() < 0.25
    assert make_method("proactive").at_price(bench, 0.0).selection.all()


def test_proactive_moves_its_price_towards_a_budget(
    problem: Problem, worth: Floats, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, linear(problem, np.abs(worth)))
    settings = with_settings(proactive=ProactiveSettings(rounds=200, window=200))
    found = {
        budget: learn(Workbench(problem, settings, seed=0), price=1.0, budget=budget) for budget in (0.2, 0.8)
    }
    assert found[0.2].price > found[0.8].price
    low, high = (float(found[budget].probabilities @ problem.unwillingness) for budget in (0.2, 0.8))
    assert low < 0.6 * high
    assert high / problem.unwillingness.sum() == pytest.approx(0.8, abs=0.1)


def test_proactive_keeps_a_budget_that_nobody_minds(
    problem: Problem, worth: Floats, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = replace(problem, unwillingness=np.zeros(len(problem.train)))
    pretend(monkeypatch, linear(free, worth))
    found = learn(Workbench(free, SETTINGS, 0), price=1.0, budget=0.5)
    assert found.price == 1.0
    assert np.isfinite(found.probabilities).all()


def test_convergence_is_told_from_two_windows_of_rounds() -> None:
    settings = ProactiveSettings(window=2, tolerance=0.1, patience=1)
    rising = [(10.0 - n, 1.0) for n in range(6)]
    assert not has_converged(rising, 1.0, settings)
    level = [*rising, (4.9, 1.0), (4.9, 1.0), (4.9, 1.0), (4.9, 1.0)]
    assert has_converged(level, 1.0, settings)
    assert not has_converged(level[:-1], 1.0, settings)  # within a window
    assert not has_converged(level[:2], 1.0, settings)
    assert has_converged([(1.0, 1.0)] * 4, 1.0, settings)
    patient = settings.model_copy(update={"patience": 3})
    assert not has_converged([(1.0, 1.0)] * 6, 1.0, patient)
    assert has_converged([(1.0, 1.0)] * 8, 1.0, patient)
    # The price counts: less disclosed is a gain.
    sparing = [(5.0, 4.0), (5.0, 4.0), (5.0, 2.0), (5.0, 2.0)]
    assert not has_converged(sparing, 1.0, settings)
    assert has_converged(sparing, 0.0, settings)


@pytest.mark.parametrize("explored", [300, 5], ids=["more selections than rows", "fewer"])
def test_own_values_are_a_ridge_regression(problem: Problem, worth: Floats, explored: int) -> None:
    random = np.random.default_rng(2)
    tried = random.random((explored, len(problem.train))) < 0.7
    losses = np.array([linear(problem, worth)(each) for each in tried])
    rounds = np.arange(explored) // 100
    losses += rounds[:, None]  # what others do from round to round
    values = own_values(problem.train.users, tried, losses, rounds, ridge=0.5)
    for user in (0, 3, problem.n_users - 1):
        rows = problem.train.users == user
        x, y = np.array(tried, dtype=float)[:, rows], losses[:, user].copy()
        for here in (rounds == number for number in range(3)):
            if here.any():
                x[here] -= x[here].mean(0)
                y[here] -= y[here].mean()
        slopes = np.linalg.lstsq(
            np.vstack([x, np.sqrt(0.5) * np.eye(rows.sum())]), np.append(y, np.zeros(rows.sum())), rcond=None
        )[0]
        np.testing.assert_allclose(values[rows], -slopes, atol=1e-9)
    if explored > 100:
        np.testing.assert_allclose(values, worth, atol=0.05)


def test_scratch_plays_the_game_of_true_rewards(
    problem: Problem, worth: Floats, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, linear(problem, worth, noise=0.05))
    settings = with_settings(scratch=ScratchSettings(selections=200))
    choice = make_method("scratch").at_price(Workbench(problem, settings, seed=0), 1.0)
    clear = np.abs(worth - problem.unwillingness) > 0.1
    np.testing.assert_array_equal(choice.selection[clear], (worth > problem.unwillingness)[clear])
    assert choice.explored == 200


@pytest.mark.parametrize("price", [0.1, 1.0])
def test_scratch_does_not_take_what_others_do_for_the_work_of_ones_own(
    price: float, problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everybody's loss falls with what all disclose together: one interaction of one's own hardly matters."""
    pretend(monkeypatch, lambda selection: np.full(problem.n_users, 5 - 3 * selection.mean()))
    settings = with_settings(scratch=ScratchSettings(selections=200))
    choice = make_method("scratch").at_price(Workbench(problem, settings, seed=0), price)
    assert choice.values is not None
    assert choice.values.mean() == pytest.approx(3 / len(problem.train), abs=0.01)


def test_scratch_explores_around_what_everybody_responded(
    problem: Problem, worth: Floats, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[Bools] = []

    def losses(selection: Bools) -> Floats:
        tried.append(selection)
        return linear(problem, worth)(selection)

    pretend(monkeypatch, losses)
    settings = with_settings(scratch=ScratchSettings(selections=90, rounds=3))
    keep = worth > 0
    play(Workbench(problem, settings, seed=0), lambda values: keep)
    shares = [np.array(tried[30 * m : 30 * (m + 1)]) for m in range(3)]
    kept, dropped = ([part[:, rows].mean() for part in shares] for rows in (keep, ~keep))
    assert kept == pytest.approx([0.9, 0.95, 0.9 / 3 + 2 / 3], abs=0.02)
    assert dropped == pytest.approx([0.9, 0.45, 0.3], abs=0.03)


def trained_labels(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The labels of the models that are trained from now on."""
    labels: list[str] = []

    def counted(*args: Any, **kwargs: Any) -> Trained:
        labels.append(kwargs["label"])
        return train(*args, **kwargs)

    monkeypatch.setattr("assent.workbench.train", counted)
    return labels


@pytest.mark.parametrize("name", RIVALS)
def test_every_training_is_counted(name: str, problem: Problem) -> None:
    bench = Workbench(problem, SETTINGS, seed=0)
    choice = make_method(name).at_price(bench, 0.5)
    assert choice.explored == bench.trainings == 6
    assert not choice.anchors


@pytest.mark.parametrize("form", list(RewardForm))
def test_what_is_explored_are_true_losses_of_the_form_of_the_reward(
    form: RewardForm, problem: Problem
) -> None:
    bench = Workbench(problem, with_settings(reward=form), seed=0)
    selection = np.arange(len(problem.train)) % 3 > 0
    truth = validation_losses(problem, bench.final(selection))
    found = Explorer(bench, "some").losses(selection)
    np.testing.assert_allclose(found, truth if form is RewardForm.SUM else truth / 10)


@pytest.mark.parametrize("name", RIVALS)
def test_test_rows_do_not_matter(name: str, problem: Problem) -> None:
    assert problem.test_candidates is not None
    swapped = replace(
        problem,
        test=replace(problem.test, items=problem.test.items[::-1].copy()),
        test_candidates=problem.test_candidates[::-1].copy(),
    )
    choices = [
        make_method(name).at_price(Workbench(each, SETTINGS, seed=0), 0.05) for each in (problem, swapped)
    ]
    np.testing.assert_array_equal(choices[0].selection, choices[1].selection)


@pytest.mark.parametrize("warm", [None, 2], ids=["from scratch", "warm"])
@pytest.mark.parametrize("name", RIVALS)
def test_a_killed_exploration_goes_on_where_it_was(
    name: str, warm: int | None, problem: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = with_settings(
        proactive=SETTINGS.proactive.model_copy(update={"warm_epochs": warm}),
        scratch=SETTINGS.scratch.model_copy(update={"warm_epochs": warm}),
    )
    whole = make_method(name).at_price(Workbench(problem, settings, seed=0), 0.3)
    for survived in (2, 4):

        def killed(*args: Any, survived: int = survived, **kwargs: Any) -> Trained:
            if kwargs["label"].endswith(f"selection {survived + 1}"):
                raise KeyboardInterrupt
            return train(*args, **kwargs)

        with monkeypatch.context() as patched:
            patched.setattr("assent.workbench.train", killed)
            with pytest.raises(KeyboardInterrupt):
                make_method(name).at_price(Workbench(problem, settings, 0, folder=tmp_path), 0.3)
    labels = trained_labels(monkeypatch)
    bench = Workbench(problem, settings, 0, folder=tmp_path)
    choice = make_method(name).at_price(bench, 0.3)
    assert [label.rpartition(" ")[2] for label in labels] == ["5", "6"]
    np.testing.assert_array_equal(choice.selection, whole.selection)
    assert choice.explored == 6
    assert choice.owed > 0
    bench.clear()
    assert not tmp_path.exists()


def test_warm_trainings_go_on_from_the_one_before(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[tuple[bool, int]] = []

    def watched(*args: Any, **kwargs: Any) -> Trained:
        begun.append((kwargs["start"] is not None, kwargs["settings"].epochs))
        return train(*args, **kwargs)

    monkeypatch.setattr("assent.workbench.train", watched)
    explorer = Explorer(Workbench(problem, SETTINGS, seed=0), "some", warm_epochs=2)
    some, others = (np.random.default_rng(n).random(len(problem.train)) < 0.8 for n in (0, 1))
    first, _, again = (explorer.losses(each) for each in (some, others, some))
    assert begun == [(False, 3), (True, 2), (True, 2)]
    assert (first != again).any()


def test_a_path_whose_last_model_is_gone_is_walked_again(
    problem: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    selections = [np.random.default_rng(n).random(len(problem.train)) < 0.8 for n in range(3)]

    def explore(count: int) -> Floats:
        explorer = Explorer(Workbench(problem, SETTINGS, 0, folder=tmp_path), "some", warm_epochs=2)
        return np.array([explorer.losses(each) for each in selections[:count]])

    explore(2)
    for file in tmp_path.glob("explored-*.safetensors"):
        file.unlink()
        file.with_suffix(".json").unlink()
    labels = trained_labels(monkeypatch)
    found = explore(3)
    assert len(labels) == 3
    fresh = Explorer(Workbench(problem, SETTINGS, seed=0), "some", warm_epochs=2)
    np.testing.assert_array_equal(found, [fresh.losses(each) for each in selections])
