"""Tasks are run once, whoever asks for them; trainings have the same bytes wherever they are run."""

import multiprocessing
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from assent.data.problem import Problem, Rows
from assent.evaluation.metrics import RewardForm
from assent.influence.inverse import InfluenceSettings
from assent.lab import SERIAL, Entry, Found, Lab, Processes, Store, Training, everything
from assent.lab.anchors import InfluenceAt, anchor_at, effects_in, loss_weights, random_anchors
from assent.lab.lab import Elsewhere, compute
from assent.lab.store import Key, digest
from assent.methods import make_method
from assent.models import MFSettings
from assent.runs.measure import Cell
from assent.runs.plan import RunPlan, describe
from assent.support.arrays import Bools
from assent.support.cost import NO_COST, Cost
from assent.support.draws import Purpose, lots
from assent.support.errors import AssentError
from assent.support.progress import Advance
from assent.training import Settings, Trained, TrainingSettings, disclose, train
from tests.small import QUICK, Listener, Recorded, entries, small_problem, some_of


@dataclass(frozen=True)
class Squared:
    """A task that counts its runs in a file."""

    number: int
    log: Path
    on: tuple["Squared", ...] = ()

    label = "squared"

    def key(self, lab: Lab) -> Key:
        return {"kind": "squared", "number": self.number, "seed": lab.seed, "on": [o.number for o in self.on]}

    def run(self, lab: Lab) -> Found:
        with self.log.open("a") as file:
            file.write(f"{self.number}\n")
        if self.number < 0:
            raise AssentError(f"number {self.number}: accepted: numbers from 0 on")
        parts = lab.run(self.on)
        cost = sum((part.cost for part in parts), NO_COST)
        array = np.array([self.number**2, *(part.arrays["value"][0] for part in parts)])
        return Found({"value": array}, rests_on=cost, trainings=1)


@pytest.fixture(scope="module")
def problem() -> Problem:
    return small_problem()


@pytest.fixture
def lab(problem: Problem, tmp_path: Path) -> Lab:
    return Lab(problem, QUICK, seed=2, store=Store(tmp_path / "store"))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def values(found: list[Entry]) -> list[int]:
    return [int(each.arrays["value"][0]) for each in found]


def lines(log: Path) -> list[int]:
    return [int(line) for line in log.read_text().split()]


def test_tasks_are_run_once_and_shared_by_equal_keys(lab: Lab, log: Path) -> None:
    assert values(lab.run([Squared(n, log) for n in (3, 1, 3, 2, 1)])) == [9, 1, 9, 4, 1]
    assert lines(log) == [3, 1, 2]
    assert values(lab.run([Squared(n, log) for n in (2, 4)])) == [4, 16]
    assert lines(log) == [3, 1, 2, 4]
    assert values(replace(lab).run([Squared(3, log)])) == [9]
    other = replace(lab, seed=3)
    assert values(other.run([Squared(3, log)])) == [9]
    assert lines(log) == [3, 1, 2, 4, 3]
    assert lab.run([]) == []


def test_tasks_beside_each_other_are_run_once_too(lab: Lab, log: Path) -> None:
    with Processes(2) as processes:
        beside = replace(lab, executor=processes)
        assert values(beside.run([Squared(n, log) for n in (3, 1, 3, 2)])) == [9, 1, 9, 4]
        assert sorted(lines(log)) == [1, 2, 3]
        assert values(beside.run([Squared(1, log), Squared(5, log)])) == [1, 25]
    assert lines(log)[3:] == [5]


def test_workers_get_a_problem_once_whatever_the_settings_and_the_seed(lab: Lab, log: Path) -> None:
    executor = Recorded()
    one = replace(lab, executor=executor)
    other = one.with_seed(5).with_settings(Settings.model_validate({"model": "mf"}))
    for each in (one, other, one.with_seed(6)):
        assert values(each.run([Squared(1, log), Squared(2, log)])) == [1, 4]
    assert len(executor.lists) == 3
    assert len({id(shared) for shared in executor.shared}) == 1
    assert {entry["key"]["seed"] for entry in entries(lab.store).values()} == {2, 5, 6}


def test_a_task_of_another_lab_is_found_there(lab: Lab, tmp_path: Path) -> None:
    problem = small_problem(seed=5)
    training = Training(some_of(problem))
    with Processes(2) as processes:
        here = replace(lab, executor=processes)
        there = replace(here, problem=problem, seed=7)
        here.run([Training(some_of(lab.problem)), Elsewhere.of(there, training)])
        written = entries(lab.store)
        [found] = there.train([training])
        assert entries(lab.store) == written
    [again] = Lab(problem, QUICK, 7, Store(tmp_path / "again")).train([training])
    for name, value in again.model.state_dict().items():
        assert torch.equal(value, found.model.state_dict()[name])


def test_what_went_before_an_error_is_kept(lab: Lab, log: Path) -> None:
    with pytest.raises(AssentError, match="number -1: accepted"):
        lab.run([Squared(n, log) for n in (1, -1, 2)])
    assert values(lab.run([Squared(1, log), Squared(2, log)])) == [1, 4]
    assert lines(log) == [1, -1, 2]


def test_an_entry_that_is_deleted_or_damaged_is_computed_again(lab: Lab, log: Path) -> None:
    tasks = [Squared(n, log) for n in (1, 2, 3)]
    lab.run(tasks)
    lab.store.remove(tasks[0].key(lab))
    (lab.store.folder / f"{digest(tasks[1].key(lab))}.safetensors").unlink()
    assert values(lab.run(tasks)) == [1, 4, 9]
    assert lines(log) == [1, 2, 3, 1, 2]


def test_costs_are_sums_over_distinct_parts(lab: Lab, log: Path) -> None:
    """Two tasks that rest on a third one each cost that, and both together cost it once."""
    shared, own = Squared(1, log), Squared(2, log)
    lab.run([shared, own])  # first, so that the clock of the next ones does not count them
    one, other = lab.run([Squared(3, log, (shared,)), Squared(4, log, (shared, own))])
    [part, lone] = lab.run([shared, own])
    assert (part.cost.trainings, one.cost.trainings, other.cost.trainings) == (1, 2, 3)
    assert one.cost.seconds == pytest.approx(one.seconds + part.seconds)
    assert other.cost.seconds == pytest.approx(other.seconds + part.seconds + lone.seconds)
    together = one.cost + other.cost
    assert together.trainings == 4
    seconds = (each.seconds for each in (one, other, part, lone))
    assert together.seconds == pytest.approx(sum(seconds))
    assert (together + one.cost, NO_COST + one.cost) == (together, one.cost)


def test_a_cost_counts_equal_parts_once() -> None:
    a, b = Cost.of("a", 1.0, 1), Cost.of("b", 2.0)
    assert (a + a).seconds == 1.0
    assert ((a + b).seconds, (a + b).trainings) == (3.0, 1)
    assert (a + b) + (b + Cost.of("c", 4.0, 2)) == a + (b + Cost.of("c", 4.0, 2))
    assert (NO_COST.seconds, NO_COST.trainings) == (0, 0)


def test_work_that_another_process_has_is_left_or_waited_for(lab: Lab, log: Path) -> None:
    task = Squared(1, log)
    with lab.store.held(task.key(lab)):
        assert not compute(lab, task, wait=False)
    assert not log.exists()
    assert compute(lab, task, wait=False)
    assert compute(lab, task)
    assert lines(log) == [1]


def _run(lab: Lab, log: Path, barrier: Any) -> None:
    barrier.wait(60)
    lab.run([Slowly(number, log) for number in range(8)])


class Slowly(Squared):
    """Takes long enough for another process to come by."""

    def run(self, lab: Lab) -> Found:
        time.sleep(0.02)
        return super().run(lab)


def test_two_processes_that_ask_for_the_same_compute_it_once(lab: Lab, log: Path) -> None:
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(2)
    both = [context.Process(target=_run, args=(lab, log, barrier)) for _ in range(2)]
    for each in both:
        each.start()
    for each in both:
        each.join(60)
    assert [each.exitcode for each in both] == [0, 0]
    assert sorted(lines(log)) == list(range(8))


def trainings_of(problem: Problem) -> list[Training]:
    some, others = (some_of(problem, seed=seed) for seed in (0, 1))
    return [
        Training(some, label="some"),
        Training(others, everything(problem), label="others"),
        Training(some, seed=9, label="seeded"),
        Training(some, everything(problem), epochs=2, label="short"),
    ]


def test_trainings_have_the_same_bytes_for_one_and_two_workers(lab: Lab, tmp_path: Path) -> None:
    trainings = trainings_of(lab.problem)
    alone = lab.train(trainings)
    with Processes(2) as processes:
        two = replace(lab, store=Store(tmp_path / "two"), executor=processes)
        beside = two.train(trainings)
    for one, other in zip(alone, beside, strict=True):
        assert same(one, other)
        assert (one.epochs, one.monitor, one.seed) == (other.epochs, other.monitor, other.seed)
    for name, found in entries(lab.store).items():
        again = entries(two.store)[name]
        timed = {"seconds": 0, "cost": 0, "hash": ""}
        assert {**found, **timed} == {**again, **timed}
        arrays = f"{name}.safetensors"
        assert (lab.store.folder / arrays).read_bytes() == (two.store.folder / arrays).read_bytes()
    assert len(entries(two.store)) == 4


def same(one: Trained, other: Trained) -> bool:
    pairs = zip(one.model.state_dict().values(), other.model.state_dict().values(), strict=True)
    return all(torch.equal(ours, theirs) for ours, theirs in pairs)


def test_a_training_is_the_trainer_on_what_it_discloses(lab: Lab) -> None:
    selection = some_of(lab.problem, rate=0.2)
    final, anchor = lab.train([Training(selection), Training(selection, everything(lab.problem))])
    for trained, vocabulary in ((final, None), (anchor, everything(lab.problem))):
        data = disclose(lab.problem, selection, vocabulary=vocabulary)
        settings = QUICK.model_settings, QUICK.training
        by_hand = train(data, model="mf", model_settings=settings[0], settings=settings[1], seed=2)
        assert same(trained, by_hand)
        assert trained.user_ids.tolist() == data.user_ids.tolist()
        assert trained.item_ids.tolist() == data.item_ids.tolist()
        assert trained.cost.trainings == 1
        assert trained.cost.seconds > 0
    rows, ids = lab.problem.train, (lab.problem.user_ids, lab.problem.item_ids)
    assert final.user_ids.tolist() == sorted(set(ids[0][rows.users[selection]].tolist()))
    assert final.item_ids.tolist() == sorted(set(ids[1][rows.items[selection]].tolist()))
    assert len(final.user_ids) < len(anchor.user_ids)
    assert len(final.item_ids) < len(anchor.item_ids)


def changed_keys(lab: Lab, training: Training) -> list[Key]:
    """Of trainings that differ from `training` in one thing each, of the training or of the lab."""
    half, rows = Training(~training.selection), lab.problem.train
    trainings = [
        replace(training, selection=~training.selection),
        replace(training, vocabulary=everything(lab.problem)),
        replace(training, seed=lab.seed + 1),
        replace(training, epochs=2),
        replace(training, after=digest(half.key(lab))),
    ]
    labs = [
        replace(lab, problem=replace(lab.problem, train=Rows(rows.users, rows.items[::-1]))),
        replace(lab, settings=QUICK.model_copy(update={"model_settings": MFSettings(dimension=5)})),
        replace(lab, settings=QUICK.model_copy(update={"training": TrainingSettings()})),
        replace(lab, settings=Settings(model="neumf", training=QUICK.training)),
    ]
    return [each.key(lab) for each in trainings] + [training.key(each) for each in labs]


def test_a_training_is_found_by_all_that_determines_it_and_nothing_else(lab: Lab, tmp_path: Path) -> None:
    training = Training(some_of(lab.problem))
    before = digest(training.key(lab))
    assert len({before, *map(digest, changed_keys(lab, training))}) == 10
    elsewhere = replace(lab, store=Store(tmp_path / "other"), executor=Processes(2), progress=Listener())
    assert digest(training.key(elsewhere)) == before
    assert digest(replace(training, label="another", seed=lab.seed).key(lab)) == before
    assert digest(training.key(replace(lab, problem=milder(lab.problem)))) == before
    others, kept = without_withheld(lab.problem, training.selection)
    assert digest(Training(kept).key(replace(lab, problem=others))) == before


def milder(problem: Problem) -> Problem:
    """The problem of people who mind everything less."""
    return replace(problem, unwillingness=problem.unwillingness / 2)


def without_withheld(problem: Problem, selection: Bools) -> tuple[Problem, Bools]:
    """The problem without one of its withheld rows, and the selection of the same rows there."""
    others = np.arange(len(selection)) != np.flatnonzero(~selection)[0]
    rows = replace(problem, train=problem.train[others], unwillingness=problem.unwillingness[others])
    return rows, selection[others]


def test_influence_depends_on_all_rows_and_not_on_what_people_mind(lab: Lab) -> None:
    task = InfluenceAt(anchor_at(lab, some_of(lab.problem), "some"), InfluenceSettings(), RewardForm.SUM)
    before = task.key(lab)
    assert task.key(replace(lab, problem=milder(lab.problem))) == before
    others = replace(lab.problem, valid_candidates=lab.problem.valid_candidates[:, :-1])
    assert task.key(replace(lab, problem=others)) != before


def test_a_warm_training_begins_where_another_ended(lab: Lab) -> None:
    whole, listener = everything(lab.problem), Listener()
    lab = replace(lab, progress=listener)
    first = Training(some_of(lab.problem), whole)
    second = replace(first, selection=whole, after=digest(first.key(lab)), epochs=1)
    with pytest.raises(AssentError, match="no trained model"):
        lab.train([second])
    [cold] = lab.train([replace(second, after=None)])
    [start] = lab.train([first])
    listener.told.clear()
    [warm] = lab.train([second])
    assert listener.told == [("training", 1)]
    assert not same(warm, cold)
    assert not same(warm, start)
    by_hand = train(
        disclose(lab.problem, whole, vocabulary=whole),
        model="mf",
        model_settings=QUICK.model_settings,
        settings=QUICK.training.model_copy(update={"epochs": 1}),
        seed=lab.seed,
        start=start.model,
    )
    assert same(warm, by_hand)


class KilledError(Exception):
    """The process ended here."""


class Killer:
    """Lets a second pass after the first epoch, and ends the training after the thirtieth."""

    @contextmanager
    def task(self, label: str, total: int) -> Iterator[Advance]:
        done = iter(range(1, total + 1))

        def advance() -> None:
            number = next(done)
            if number == 1:
                time.sleep(1)
            if number == 30:
                raise KilledError

        yield advance


LONG = QUICK.model_copy(update={"training": TrainingSettings(epochs=40, evaluate_every=10)})


def test_a_killed_training_goes_on_from_its_checkpoint(lab: Lab, tmp_path: Path) -> None:
    """It gives the same model, and costs what both processes took."""
    lab = replace(lab, settings=LONG)
    training = Training(some_of(lab.problem))
    [whole] = replace(lab, store=Store(tmp_path / "whole")).train([training])
    assert whole.cost.seconds < 1
    checkpoint = lab.store.checkpoint(training.key(lab))
    with pytest.raises(KilledError):
        train(
            disclose(lab.problem, training.selection),
            model="mf",
            model_settings=LONG.model_settings,
            settings=LONG.training,
            seed=lab.seed,
            checkpoint=checkpoint,
            save_every=0,
            progress=Killer(),
        )
    kept = checkpoint.read_bytes()
    [resumed] = lab.train([training])
    assert same(resumed, whole)
    assert resumed.cost.seconds > 1
    assert not checkpoint.exists()
    checkpoint.write_bytes(kept[:-10])
    lab.store.remove(training.key(lab))
    [anew] = lab.train([training])
    assert same(anew, whole)
    assert anew.cost.seconds < 1


def test_a_diverging_training_leaves_the_last_good_state_where_the_store_keeps_it(lab: Lab) -> None:
    """The second call goes on from there, and fails at once."""
    settings = {"epochs": 5, "learning_rate": 1e30, "batch_size": 100_000}
    listener = Listener()
    lab = replace(
        lab, settings=Settings.model_validate({"model": "mf", "training": settings}), progress=listener
    )
    training = Training(everything(lab.problem))
    file = lab.store.checkpoint(training.key(lab))
    for _ in range(2):
        with pytest.raises(AssentError, match=rf"at epoch 2, batch 1.*after epoch 1 is kept in {file}"):
            lab.train([training])
        assert file.exists()
    assert listener.told == [("training", 1)] * 2
    assert entries(lab.store) == {}


def test_without_a_store_nothing_is_left(
    problem: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lab = Lab(problem, QUICK)
    folder = lab.store.folder
    lab.train([Training(everything(problem))])
    assert not list(tmp_path.iterdir())
    assert folder.exists()
    del lab
    assert not folder.exists()


def test_random_anchors_differ_by_their_selections_alone(lab: Lab) -> None:
    few, many = random_anchors(lab, 1, rate=0.9), random_anchors(lab, 3, rate=0.9)
    keys = [digest(anchor.key(lab)) for anchor in (*few, *many)]
    assert keys[0] == keys[1]
    assert len(set(keys)) == 3
    for t, anchor in enumerate(many):
        expected = lots(lab.problem.row_keys, 2, Purpose.ANCHORS, t) < 0.9
        np.testing.assert_array_equal(anchor.selection, expected)
    # Where every anchor discloses all, they are one model: they start alike and see rows in one order.
    whole = random_anchors(lab, 2, rate=1.0)
    assert all(anchor.selection.all() for anchor in whole)
    assert digest(whole[0].key(lab)) == digest(whole[1].key(lab))
    other = random_anchors(replace(lab, seed=3), 1, rate=0.9)
    assert not np.array_equal(other[0].selection, few[0].selection)


SETTINGS = InfluenceSettings()


def test_influence_at_an_anchor_is_stored_with_the_cost_of_its_training(lab: Lab) -> None:
    rows, users = len(lab.problem.train), lab.problem.n_users
    anchors = random_anchors(lab, 2, rate=0.9)
    lab.train(anchors)
    found = lab.run([InfluenceAt(anchor, SETTINGS, RewardForm.SUM) for anchor in anchors])
    for each in found:
        assert {name: array.shape for name, array in each.arrays.items()} == {
            "own": (rows,),
            "social": (rows,),
            "losses": (users,),
        }
        assert all(np.isfinite(array).all() for array in each.arrays.values())
        assert each.cost.trainings == 1
        assert each.facts.keys() == {"residual_own", "residual_social"}
    for name in ("own", "social", "losses"):
        assert (found[0].arrays[name] != found[1].arrays[name]).any()
    assert (found[0].cost + found[1].cost).trainings == 2


def test_influence_is_kept_apart_by_settings_reward_and_anchor(lab: Lab) -> None:
    one, other = random_anchors(lab, 2, rate=0.9)
    tasks = [
        InfluenceAt(one, SETTINGS, RewardForm.SUM),
        InfluenceAt(other, SETTINGS, RewardForm.SUM),
        InfluenceAt(one, SETTINGS, RewardForm.MEAN),
        InfluenceAt(one, SETTINGS, RewardForm.SUM, effects=True),
        *(
            InfluenceAt(one, InfluenceSettings.model_validate(given), RewardForm.SUM)
            for given in ({"damping": 2.0}, {"estimator": "lissa"}, {"loss": "bce"})
        ),
    ]
    assert len({digest(task.key(lab)) for task in tasks}) == len(tasks)


@pytest.mark.parametrize("reward", list(RewardForm))
def test_effects_on_everybody_come_when_asked_for(reward: RewardForm, lab: Lab) -> None:
    problem = lab.problem
    [anchor] = random_anchors(lab, 1, rate=0.9)
    [plain] = lab.run([InfluenceAt(anchor, SETTINGS, reward)])
    [entry] = lab.run([InfluenceAt(anchor, SETTINGS, reward, effects=True)])
    effects = effects_in(entry)
    assert effects.shape == (problem.n_users, len(problem.train))
    own = effects.toarray()[problem.train.users, np.arange(len(problem.train))]
    weights = loss_weights(lab, reward)[problem.train.users]
    np.testing.assert_allclose(own, plain.arrays["own"] * weights, rtol=1e-6)
    assert entry.cost.trainings == 1


def test_effects_on_single_others_are_refused_for_models_without_them(lab: Lab) -> None:
    lab = replace(lab, settings=Settings(model="neumf", training=QUICK.training))
    anchor = anchor_at(lab, everything(lab.problem), "all")
    with pytest.raises(AssentError, match=r"not available for model neumf; accepted: mf$"):
        lab.run([InfluenceAt(anchor, SETTINGS, RewardForm.SUM, effects=True)])


def test_the_code_of_a_recommender_of_ones_own_is_part_of_keys(
    problem: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trainings, records and runs of a changed recommender are not those of the old one."""
    file = tmp_path / "changing.py"
    own = "from assent.models.mf import MF\nclass Mine(MF):\n    name = 'mine'\n"
    file.write_text(own)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])

    def known() -> list[object]:
        lab = Lab(problem, Settings(model="changing:Mine"))
        return [
            lab.key,
            Training(everything(problem)).key(lab),
            Cell(make_method("random"), 0.1).key(lab),
            describe(problem, RunPlan(), lab.settings),
        ]

    before = known()
    assert known() == before
    file.write_text(own + "    kind = 2\n")
    assert [a == b for a, b in zip(known(), before, strict=True)] == [False] * 4
    assert Lab(problem).key["code"] == ""


def test_a_lab_runs_here_unless_it_is_told_otherwise(problem: Problem) -> None:
    lab = Lab(problem)
    assert lab.executor is SERIAL
    assert (lab.settings, lab.seed) == (Settings(), 0)
