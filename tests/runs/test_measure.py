"""Cells, groups of them, and the records and certificates that they end in."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assent.data.problem import Problem
from assent.evaluation.evaluate import evaluate, validation_losses
from assent.evaluation.metrics import RewardForm
from assent.lab import SERIAL, Executor, Found, Lab, Processes, Store, Training
from assent.lab.store import Key, digest
from assent.methods import make_method
from assent.models.losses import Loss
from assent.results.records import FIGURES
from assent.runs.measure import Cell, certificate_of, merged, record, run_groups
from assent.support.errors import AssentError
from tests.small import QUICK, Listener, entries, small_problem, trained_in


@pytest.fixture(scope="module")
def problem() -> Problem:
    return small_problem()


@pytest.fixture(scope="module")
def lab(problem: Problem) -> Lab:
    return Lab(problem, QUICK)


def test_a_cell_is_the_record_of_a_choice_and_its_model(lab: Lab) -> None:
    method = make_method("ifrqe++", anchors=2)
    for cell in (Cell(method, 0.2), Cell(method, 0.2, 0.4), Cell(method, 0.2, k=(3, 8))):
        choice = cell.choose(lab)
        expected = method.at_price(lab, 0.2) if cell.point is None else method.within(lab, 0.4)
        np.testing.assert_array_equal(choice.selection, expected.selection)
        [trained] = lab.train([Training(choice.selection)])
        [entry] = lab.run([cell])
        found = dict(entry.facts)
        figures = evaluate(lab.problem, trained, choice.selection, price=0.2, k=cell.k)
        assert {key: found[key] for key in figures} == pytest.approx(figures)
        assert found["trainings"] == 3
        assert found["seconds"] == pytest.approx(choice.cost.seconds + trained.cost.seconds, abs=0.5)
        assert (found["point"], found["price"], found["decision_price"]) == (cell.point, 0.2, choice.price)
        assert set(FIGURES) < set(found)


def test_a_record_counts_what_the_choice_and_the_model_share_once(lab: Lab) -> None:
    """The final model of a trial's winner is the trial's: All's model is one that was trained before."""
    method = make_method("all")
    choice = method.at_price(lab, 0.1)
    [trained] = lab.train([Training(choice.selection)])
    shared = replace(choice, cost=trained.cost)
    found = record(lab, method, shared, trained, price=0.1)
    assert found["trainings"] == 1
    assert found["seconds"] == trained.cost.seconds


def test_a_cell_is_found_by_all_that_determines_it(lab: Lab) -> None:
    method = make_method("random")
    cells = [
        Cell(method, 0.1),
        Cell(method, 0.2),
        Cell(method, 0.1, 0.5),
        Cell(method, 0.1, 0.4),
        Cell(method, 0.1, k=(5, 10)),
        Cell(method, 0.1, k=(10, 5)),
        Cell(make_method("random", rate=0.5), 0.1),
        Cell(make_method("threshold"), 0.1),
    ]
    labs = [lab, replace(lab, seed=1), replace(lab, problem=small_problem(seed=5))]
    assert len({digest(cell.key(each)) for cell in cells for each in labs}) == len(cells) * len(labs)
    assert cells[0].key(lab) == Cell(make_method("random"), 0.1, None, (5,)).key(lab)
    assert [cell.label for cell in cells[:3]] == ["random at 0.1", "random at 0.2", "random at 50%"]


@pytest.mark.parametrize("form", list(RewardForm))
def test_a_certificate_has_the_true_reward_in_the_methods_own_loss_and_form(
    form: RewardForm, lab: Lab
) -> None:
    problem = lab.problem
    method = make_method("ifrqe", reward=form, influence={"loss": "bce"})
    choice = method.at_price(lab, 0.2)
    [trained] = lab.train([Training(choice.selection)])
    found = certificate_of(lab, method, choice, trained, price=9.0)
    losses = validation_losses(problem, trained, Loss.BCE) / (1 if form is RewardForm.SUM else 10)
    paid = np.bincount(problem.train.users, problem.unwillingness * choice.selection, problem.n_users)
    # The price is that of the decision.
    assert found["true_reward"] == pytest.approx(-(losses + 0.2 * paid).mean())
    assert (found["reward_loss"], found["reward_form"]) == ("bce", form.value)
    assert found.items() >= dict(choice.certificate).items()


def test_a_runs_records_and_its_frontiers_have_each_model_once() -> None:
    names, about = ("worth", "all", "nothing"), {"objective": "", "price": 0.1}
    own = [{"method": name, "seed": 0, "point": None, **about} for name in names]
    frontier = [{"method": name, "seed": seed, "point": 0.5, **about} for seed in (0, 1) for name in names]
    assert merged(own, frontier) == [own[0], *frontier]
    assert merged(own, []) == own
    assert merged(own, frontier[3:]) == [*own, *frontier[3:]]
    within = [each | {"point": 0.5} for each in own]
    assert merged(within, frontier) == frontier
    elsewhere = [each | {"point": 0.4} for each in own]
    assert merged(elsewhere, frontier) == [elsewhere[0], *frontier]


@dataclass(frozen=True)
class Noted:
    """A task that notes its run in a file, and fails if it is told to."""

    number: int
    fails: str = ""

    @property
    def label(self) -> str:
        return f"task {self.number}"

    def key(self, lab: Lab) -> Key:
        return {"kind": "noted", "number": self.number, "seed": lab.seed}

    def run(self, lab: Lab) -> Found:
        with (lab.store.folder.parent / "log").open("a") as file:
            file.write(f"{self.number} ")
        match self.fails:
            case "refused":
                raise AssentError(f"number {self.number}: accepted: others")
            case "bug":
                raise ZeroDivisionError("unforeseen")
            case "disk":
                raise OSError(28, "No space left on device")
        return Found(facts={"number": self.number})


@dataclass(frozen=True)
class Notes:
    """A group of such tasks."""

    tasks: Sequence[Noted]
    seed: int = 0
    label: str = "notes"

    def lab(self, shared: tuple[Problem, Path]) -> Lab:
        problem, folder = shared
        return Lab(problem, QUICK, self.seed, Store(folder / "store"))


def log_of(folder: Path) -> list[int]:
    return [int(number) for number in (folder / "log").read_text().split()]


@pytest.fixture(scope="module")
def processes() -> Any:
    with Processes(2) as processes:
        yield processes


@pytest.fixture(params=["serial", "processes"])
def executor(request: pytest.FixtureRequest) -> Executor:
    return SERIAL if request.param == "serial" else request.getfixturevalue("processes")


def groups_of(fails: str = "") -> list[Notes]:
    return [Notes([Noted(1), Noted(2, fails), Noted(3)]), Notes([Noted(4), Noted(5)], seed=1)]


def test_groups_compute_what_is_missing(executor: Executor, problem: Problem, tmp_path: Path) -> None:
    listener, shared = Listener(), (problem, tmp_path)
    assert run_groups(groups_of(), shared, executor=executor, label="notes", progress=listener) == []
    assert sorted(log_of(tmp_path)) == [1, 2, 3, 4, 5]
    assert listener.told == [("notes", 5)]
    assert len(entries(Store(tmp_path / "store"))) == 5
    more = [*groups_of(), Notes([Noted(6)])]
    assert run_groups(more, shared, executor=executor, label="notes", progress=listener) == []
    assert sorted(log_of(tmp_path)) == [1, 2, 3, 4, 5, 6]
    assert listener.told[1:] == [("notes", 6)]
    assert run_groups([], shared, executor=executor, label="notes") == []


def test_an_error_ends_everything_unless_it_is_to_go_on(
    executor: Executor, problem: Problem, tmp_path: Path
) -> None:
    shared = problem, tmp_path
    with pytest.raises(AssentError, match=r"^number 2: accepted: others$"):
        run_groups(groups_of("refused"), shared, executor=executor, label="notes")
    assert 3 not in log_of(tmp_path)
    listener = Listener()
    wrong = run_groups(
        groups_of("refused"), shared, executor=executor, label="notes", go_on=True, progress=listener
    )
    assert wrong == ["task 2: number 2: accepted: others"]
    assert set(log_of(tmp_path)) == {1, 2, 3, 4, 5}
    assert listener.told == [("notes", 5)]


def test_an_unforeseen_error_says_where_it_comes_from_and_a_full_disk_ends_everything(
    executor: Executor, problem: Problem, tmp_path: Path
) -> None:
    shared = problem, tmp_path
    [wrong] = run_groups(groups_of("bug"), shared, executor=executor, label="notes", go_on=True)
    assert wrong.startswith("task 2: ZeroDivisionError: unforeseen (test_measure.py, line ")
    Store(tmp_path / "store").clear()
    with pytest.raises(OSError, match="No space left"):
        run_groups(groups_of("disk"), shared, executor=executor, label="notes", go_on=True)


def test_what_another_process_works_on_comes_last(problem: Problem, tmp_path: Path) -> None:
    """Its lock is released while the other tasks are computed, by one of them."""
    groups = [Notes([Noted(1), Noted(2), Releasing(3)])]
    lab = groups[0].lab((problem, tmp_path))
    held = lab.store.held(Noted(1).key(lab))
    held.__enter__()
    HELD.append(held)
    listener = Listener()
    assert run_groups(groups, (problem, tmp_path), label="notes", progress=listener) == []
    assert log_of(tmp_path) == [2, 3, 1]
    assert listener.told == [("notes", 3)]


HELD: list[Any] = []


class Releasing(Noted):
    """Lets go of what the test holds."""

    def run(self, lab: Lab) -> Found:
        HELD.pop().__exit__(None, None, None)
        return super().run(lab)


def test_a_cell_of_a_method_without_trainings_trains_one_model(problem: Problem) -> None:
    lab = Lab(problem, QUICK)
    [entry] = lab.run([Cell(make_method("threshold"), 0.1)])
    assert (entry.facts["trainings"], trained_in(lab.store)) == (1, 1)
