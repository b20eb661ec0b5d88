"""Proactive and SCR: what they learn, what they train, that a killed one goes on."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assent.data.problem import Problem
from assent.data.wishes import Wishes
from assent.evaluation.evaluate import validation_losses
from assent.evaluation.metrics import RewardForm
from assent.lab import Lab, Store, Training
from assent.methods import Choice, make_method
from assent.methods.exploring import Explorer, ExploringMethod
from assent.methods.proactive import Proactive, has_converged, learn
from assent.methods.scratch import Learns, Scratch, own_values, play
from assent.support.arrays import Bools, Floats, sum_by
from assent.support.errors import AssentError
from assent.support.progress import Advance
from tests.methods.cases import Pretending, lab_of
from tests.small import QUICK, Listener, entries, small_problem, some_of, trained_in

SIX: dict[str, dict[str, Any]] = {
    "proactive": {"rounds": 6, "window": 3},
    "scratch": {"selections": 6, "rounds": 2},
}
"""Methods that explore six selections."""


@pytest.fixture(scope="module")
def problem() -> Problem:
    return small_problem()


def pretend(problem: Problem, losses: Callable[[Bools], Floats]) -> Lab:
    """A lab in which trainings lead to `losses` of a selection, at no cost."""
    return Pretending(problem, QUICK, losses=losses)


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


def test_proactive_learns_to_disclose_what_pays(problem: Problem, worth: Floats) -> None:
    lab = pretend(problem, linear(problem, worth, noise=0.1))
    choice = Proactive(rounds=400, tolerance=0.0).at_price(lab, 1.0)
    gain = worth - problem.unwillingness
    clear = np.abs(gain) > 0.3
    assert (choice.selection == (gain > 0))[clear].mean() > 0.9
    everything = gain.sum()
    assert gain[choice.selection].sum() > 0.95 * gain[gain > 0].sum() > everything


def test_proactive_learns_from_the_price_alone_where_nothing_helps(problem: Problem) -> None:
    lab = pretend(problem, linear(problem, np.zeros(len(problem.train))))
    method = Proactive(rounds=200, tolerance=0.0)
    assert method.at_price(lab, 1.0).selection.mean() < 0.25
    assert method.at_price(lab, 0.0).selection.all()


def test_proactive_moves_its_price_towards_a_budget(problem: Problem, worth: Floats) -> None:
    lab = pretend(problem, linear(problem, np.abs(worth)))
    method = Proactive(rounds=200, window=200)
    found = {budget: learn(lab, method, price=1.0, budget=budget) for budget in (0.2, 0.8)}
    assert found[0.2].price > found[0.8].price
    low, high = (float(found[budget].probabilities @ problem.unwillingness) for budget in (0.2, 0.8))
    assert low < 0.6 * high
    assert high / problem.unwillingness.sum() == pytest.approx(0.8, abs=0.1)


def test_proactive_keeps_a_budget_that_nobody_minds(problem: Problem, worth: Floats) -> None:
    free = replace(problem, unwillingness=np.zeros(len(problem.train)))
    found = learn(pretend(free, linear(free, worth)), Proactive(rounds=6), price=1.0, budget=0.5)
    assert found.price == 1.0
    assert np.isfinite(found.probabilities).all()


def test_convergence_is_told_from_two_windows_of_rounds() -> None:
    settings = Proactive(window=2, tolerance=0.1, patience=1)
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


def test_scratch_plays_the_game_of_true_rewards(problem: Problem, worth: Floats) -> None:
    lab = pretend(problem, linear(problem, worth, noise=0.05))
    choice = Scratch(selections=200).at_price(lab, 1.0)
    clear = np.abs(worth - problem.unwillingness) > 0.1
    np.testing.assert_array_equal(choice.selection[clear], (worth > problem.unwillingness)[clear])
    assert choice.certificate["explored"] == 200


def test_tables_of_scratch_come_to_disclose_what_pays(problem: Problem, worth: Floats) -> None:
    """Rewards far apart: a player's best selection is among the likely ones and gains from every sample."""
    lab = pretend(problem, linear(problem, 3 * worth))
    learnt = Scratch(learns=Learns.TABLES, selections=300, rounds=2, step=0.05)
    selection = learnt.at_price(lab, 1.0).selection
    gain = sum_by(problem.train.users, (3 * worth - problem.unwillingness) * selection, problem.n_users)
    prior = sum_by(problem.train.users, 0.9 * (3 * worth - problem.unwillingness), problem.n_users)
    assert gain.mean() > prior.mean() + 0.1
    np.testing.assert_array_equal(learnt.at_price(lab, 1.0).selection, selection)
    one = Scratch(learns=Learns.TABLES, selections=7, rounds=2)
    assert one.at_price(lab, 1.0).certificate["explored"] == 14
    with pytest.raises(AssentError, match=r"^scratch: learns=tables knows no budget; accepted with one: "):
        one.within(lab, 0.5)


@pytest.mark.parametrize("price", [0.1, 1.0])
def test_scratch_does_not_take_what_others_do_for_the_work_of_ones_own(
    price: float, problem: Problem
) -> None:
    """Everybody's loss falls with what all disclose together: one interaction of one's own hardly matters."""
    lab = pretend(problem, lambda selection: np.full(problem.n_users, 5 - 3 * selection.mean()))
    choice = Scratch(selections=200).at_price(lab, price)
    assert choice.values is not None
    assert choice.values.mean() == pytest.approx(3 / len(problem.train), abs=0.01)


def test_scratch_explores_around_what_everybody_responded(problem: Problem, worth: Floats) -> None:
    tried: list[Bools] = []

    def losses(selection: Bools) -> Floats:
        tried.append(selection)
        return linear(problem, worth)(selection)

    keep = worth > 0
    play(pretend(problem, losses), Scratch(selections=90, rounds=3), lambda values: keep)
    shares = [np.array(tried[30 * m : 30 * (m + 1)]) for m in range(3)]
    kept, dropped = ([part[:, rows].mean() for part in shares] for rows in (keep, ~keep))
    assert kept == pytest.approx([0.9, 0.95, 0.9 / 3 + 2 / 3], abs=0.02)
    assert dropped == pytest.approx([0.9, 0.45, 0.3], abs=0.03)


@pytest.mark.parametrize("warm", [None, 2], ids=["from scratch", "warm"])
@pytest.mark.parametrize("name", SIX)
def test_every_training_is_counted(name: str, warm: int | None, problem: Problem) -> None:
    listener = Listener()
    lab = lab_of(problem, progress=listener)
    method = make_method(name, **SIX[name], warm_epochs=warm)
    choice = method.at_price(lab, 0.5)
    explored = [label for label in listener.labels if label.startswith(f"{name}: selection")]
    assert choice.cost.trainings == len(explored) == trained_in(lab.store) == 6
    assert choice.cost.seconds > 0
    again = method.at_price(lab, 0.5)
    assert again.cost == choice.cost
    assert len([label for label in listener.labels if "selection" in label]) == 6


@pytest.mark.parametrize("form", list(RewardForm))
def test_what_is_explored_are_true_losses_of_the_form_of_the_reward(
    form: RewardForm, problem: Problem
) -> None:
    lab = lab_of(problem)
    selection = np.arange(len(problem.train)) % 3 > 0
    [trained] = lab.train([Training(selection)])
    truth = validation_losses(problem, trained)
    found = Explorer(lab, Scratch(reward=form)).losses(selection)
    np.testing.assert_allclose(found, truth if form is RewardForm.SUM else truth / 10)


@pytest.mark.parametrize("name", SIX)
def test_test_rows_do_not_matter(name: str, problem: Problem) -> None:
    assert problem.test_candidates is not None
    swapped = replace(
        problem,
        test=replace(problem.test, items=problem.test.items[::-1].copy()),
        test_candidates=problem.test_candidates[::-1].copy(),
    )
    choices = [make_method(name, **SIX[name]).at_price(lab_of(each), 0.05) for each in (problem, swapped)]
    np.testing.assert_array_equal(choices[0].selection, choices[1].selection)


@pytest.mark.parametrize("name", SIX)
def test_wishes_are_refused_before_anything_is_trained(name: str, problem: Problem) -> None:
    lab = lab_of(replace(problem, wishes=Wishes(power=2.0)))
    with pytest.raises(AssentError, match=rf"^{name}: does not know wishes.*methods that do: .*worth"):
        make_method(name, **SIX[name]).at_price(lab, 0.1)
    assert trained_in(lab.store) == 0


class Interrupter:
    """Ends the process, as it were, when a task begins whose label ends so."""

    def __init__(self, end: str) -> None:
        self.end = end

    @contextmanager
    def task(self, label: str, total: int) -> Iterator[Advance]:
        if label.endswith(self.end):
            raise KeyboardInterrupt
        yield lambda: None


@pytest.mark.parametrize("warm", [None, 2], ids=["from scratch", "warm"])
@pytest.mark.parametrize("name", SIX)
def test_a_killed_exploration_goes_on_where_it_was(
    name: str, warm: int | None, problem: Problem, tmp_path: Path
) -> None:
    method = make_method(name, **SIX[name], warm_epochs=warm)
    whole = method.at_price(lab_of(problem), 0.3)
    for survived in (2, 4):
        killed = Interrupter(f"selection {survived + 1}")
        with pytest.raises(KeyboardInterrupt):
            method.at_price(lab_of(problem, folder=tmp_path, progress=killed), 0.3)
    listener = Listener()
    lab = lab_of(problem, folder=tmp_path, progress=listener)
    choice = method.at_price(lab, 0.3)
    trained = [label.rpartition(" ")[2] for label in listener.labels if "selection" in label]
    assert trained == ["5", "6"]
    np.testing.assert_array_equal(choice.selection, whole.selection)
    assert choice.cost.trainings == 6
    assert len(entries(lab.store, "training")) == (1 if warm else 0)
    lab.store.clear()
    assert not tmp_path.exists()


WARM = Scratch(warm_epochs=2)


def test_warm_trainings_go_on_from_the_one_before(problem: Problem) -> None:
    listener = Listener()
    explorer = Explorer(lab_of(problem, progress=listener), WARM)
    some, others = some_of(problem), some_of(problem, seed=1)
    first, _, again = (explorer.losses(each) for each in (some, others, some))
    assert [steps for label, steps in listener.told if "selection" in label] == [3, 2, 2]
    assert (first != again).any()
    assert explorer.tried == explorer.cost.trainings == 3


def test_a_path_whose_last_model_is_gone_is_walked_again(problem: Problem, tmp_path: Path) -> None:
    selections = [some_of(problem, seed=seed) for seed in range(3)]
    store = Store(tmp_path)

    def explore(count: int, listener: Listener) -> Floats:
        explorer = Explorer(lab_of(problem, folder=tmp_path, progress=listener), WARM)
        return np.array([explorer.losses(each) for each in selections[:count]])

    explore(2, Listener())
    for each in entries(store, "training").values():
        store.remove(each["key"])
    listener = Listener()
    found = explore(3, listener)
    assert len([label for label in listener.labels if "selection" in label]) == 3
    fresh = Explorer(lab_of(problem), WARM)
    np.testing.assert_array_equal(found, [fresh.losses(each) for each in selections])


def test_methods_that_explore_say_so() -> None:
    for name in SIX:
        method = make_method(name)
        assert isinstance(method, ExploringMethod)
        assert method.retrains
    assert not make_method("ifrqe++").retrains


@pytest.mark.parametrize("name", SIX)
def test_what_is_explored_is_the_same_with_a_start_of_ones_own(name: str, problem: Problem) -> None:
    """The first selection is drawn with the probability `start`."""
    tried: list[Bools] = []

    def losses(selection: Bools) -> Floats:
        tried.append(selection)
        return np.zeros(problem.n_users)

    choice: Choice = make_method(name, start=0.3, **SIX[name]).at_price(pretend(problem, losses), 0.0)
    assert tried[0].mean() == pytest.approx(0.3, abs=0.1)
    assert len(choice.selection) == len(problem.train)
