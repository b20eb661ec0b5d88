"""Measuring methods: each chooses, a model is trained on its choice, and the model is tested.

A *cell* is one such measurement, and a task of the lab; its result is a flat record. Cells of the same model
and seed form a group, which one worker computes in order, because they share anchors. Groups run beside each
other.
"""

import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

from assent.data.problem import Problem
from assent.evaluation.evaluate import HeldOut, by_person, evaluate, ranked_metrics, validation_losses
from assent.evaluation.metrics import RewardForm
from assent.game.certificate import wishes_broken, with_truth
from assent.game.players import players_of
from assent.lab.anchors import loss_weights
from assent.lab.executor import SERIAL, Executor
from assent.lab.lab import Lab, Task, Training, compute, everything
from assent.lab.store import Found, Key, Store
from assent.lab.tuning import tuned
from assent.methods import Choice, GameMethod, Method, influence_settings
from assent.results.records import REFERENCES, Record, check_price
from assent.support.arrays import Floats
from assent.support.errors import AssentError
from assent.support.progress import SILENT, Advance, Left, Progress, timed_task
from assent.training import Settings, Trained


def record(
    lab: Lab,
    method: Method,
    choice: Choice,
    trained: Trained,
    *,
    price: float,
    k: Sequence[int] = (5,),
    point: float | None = None,
    ranked: Mapping[str, Floats] | None = None,
    rewards_on: HeldOut = HeldOut.VALIDATION,
) -> dict[str, Any]:
    """Evaluate a method's model: dataset, model, method, objective, price, seed, then the `FIGURES`.

    `seconds` and `trainings` are those of all that the choice rests on and of the final training, whoever
    computed them. `price` is that of the rewards; `decision_price` the one at which the method decided, where
    it knows one; `point` the budget as a share of All's violation, where it had one. `ranked` are the model's
    `ranked_metrics` where they are known; `rewards_on` the rows whose losses rewards count. All records have
    all keys.
    """
    cost = choice.cost + trained.cost
    figures = evaluate(
        lab.problem,
        trained,
        choice.selection,
        price=price,
        k=k,
        ranked=ranked,
        rewards_on=rewards_on,
        progress=lab.progress,
    )
    about = {
        "dataset": lab.problem.name,
        "model": lab.settings.model,
        "method": method.name,
        "objective": method.plays_for,
        "price": price,
        "seed": lab.seed,
        "k": k[0],
        "seconds": cost.seconds,
        "trainings": cost.trainings,
        "decision_price": choice.price if method.plays_for else None,
        "point": point,
        "settings": ", ".join(f"{name} {value}" for name, value in trained.model.settings),
    }
    return Record.from_flat({**about, **figures}).flat()


def certificate_of(
    lab: Lab, method: Method, choice: Choice, trained: Trained, price: float
) -> dict[str, Any]:
    """Return a choice's certificate with the true reward of its model and how many wishes it breaks.

    The reward is in the loss and form that the method plays for (`reward_loss`, `reward_form`). It counts the
    price of the decision where there is one, else `price`.
    """
    model, form = lab.settings.model, getattr(method, "reward", RewardForm.SUM)
    influence = method.influence_for(model) if isinstance(method, GameMethod) else influence_settings(model)
    players = players_of(lab.problem)
    costs = lab.problem.wishes.cost(players.paid(choice.selection))
    losses = validation_losses(lab.problem, trained, influence.loss) * loss_weights(lab, form)
    at = price if choice.price is None else choice.price
    certificate = with_truth(choice.certificate, losses, costs, at)
    certificate |= {"reward_loss": influence.loss.value, "reward_form": form.value}
    return certificate | wishes_broken(players, choice.selection)


def merged(
    records: Sequence[Mapping[str, Any]], compared: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return the records of a run and of its frontier, each model once.

    Where the frontier has measured the same for a seed, its record replaces the run's. All and Nothing decide
    the same with and without a budget.
    """

    def model(of: Mapping[str, Any]) -> tuple[Any, ...]:
        point = None if of["method"] in REFERENCES else of["point"]
        return of["method"], of["objective"], of["seed"], point, of["price"]

    measured = {model(each) for each in compared if each["method"] in REFERENCES or each["point"] is not None}
    return [dict(each) for each in records if model(each) not in measured] + [dict(each) for each in compared]


@dataclass(frozen=True)
class Cell:
    """A task: the record of a method at a price, or within a budget."""

    method: Method
    price: float
    """Of the decision; within a budget, of the rewards alone."""
    point: float | None = None
    """The budget, as a share of All's violation."""
    k: tuple[int, ...] = (5,)
    """Lengths of the lists that metrics are taken of."""
    rewards_on: HeldOut = HeldOut.VALIDATION
    """Rows whose losses rewards count."""

    @property
    def label(self) -> str:
        """What progress bars and errors call it."""
        return f"{self.method.name} at {f'{self.price:g}' if self.point is None else f'{self.point:.0%}'}"

    def key(self, lab: Lab) -> Key:
        """Return what determines the record."""
        about = lab.key | {"kind": "record", "method": self.method.key, "price": self.price}
        about |= {"point": self.point} | ({} if self.k == (5,) else {"k": list(self.k)})
        about |= {} if self.rewards_on is HeldOut.VALIDATION else {"rewards_on": self.rewards_on.value}
        return about

    def check(self, problem: Problem) -> None:
        """Refuse a price, a budget or wishes at which the method cannot decide."""
        check_price(self.price)
        self.method.check(problem, self.point)

    def choose(self, lab: Lab) -> Choice:
        """Let the method decide."""
        if self.point is None:
            return self.method.at_price(lab, self.price)
        return self.method.within(lab, self.point)

    def run(self, lab: Lab) -> Found:
        """Choose, train and test; the facts are the record, `ndcg` that of everybody with test rows."""
        self.check(lab.problem)
        at_all = tuned(lab, everything(lab.problem))
        choice = self.choose(lab.with_settings(at_all.settings))
        final = tuned(lab, choice.selection)
        training = Training(choice.selection, label=self.label, settings=final.settings)
        [trained] = lab.train([training])
        cost = choice.cost + final.cost
        if self.method.name not in REFERENCES:  # which decide without
            cost += at_all.cost
        choice = replace(choice, cost=cost)
        ranked = ranked_metrics(lab.problem, trained, k=self.k, progress=lab.progress)
        found = record(
            lab,
            self.method,
            choice,
            trained,
            price=self.price,
            k=self.k,
            point=self.point,
            ranked=ranked,
            rewards_on=self.rewards_on,
        )
        arrays = {"ndcg": quality_by_person(lab.problem, ranked["ndcg"])}
        return Found(arrays, found, rests_on=cost + trained.cost)


def quality_by_person(problem: Problem, ranked: Floats) -> Floats:
    """The mean of a metric over each person's test rows, for everybody who has some: [n]."""
    # Where all items are ranked, that was done once for each person, not for each row.
    return by_person(problem.test, ranked) if len(ranked) == len(problem.test) else ranked


S_contra = TypeVar("S_contra", contravariant=True)


class Group(Protocol[S_contra]):
    """Tasks of one lab, which one worker computes in order."""

    @property
    def label(self) -> str:
        """What errors call them."""

    @property
    def tasks(self) -> Sequence[Task]:
        """The tasks."""

    def lab(self, shared: S_contra) -> Lab:
        """Return the lab of the tasks, from what all groups share."""


def run_groups(
    groups: Sequence[Group[Any]],
    shared: Any,
    *,
    executor: Executor = SERIAL,
    label: str,
    go_on: bool = False,
    left: Left | None = None,
    progress: Progress = SILENT,
) -> list[str]:
    """Compute what the stores of all groups lack; returns what went wrong, in sentences.

    An error ends everything; with `go_on` it is a sentence, and the other tasks are computed still. A file
    system that fails ends everything even so: it would fail the others too, after hours of work. Several
    processes may call this at once: tasks that another process works on come last.
    """
    steps = sum(len(group.tasks) for group in groups)
    wrong: list[str] = []
    with timed_task(progress, label, steps, left) as advance:
        for wait in (False, True):
            done = executor.map(partial(_run_group, go_on, wait), groups, shared, advance)
            wrong += [sentence for sentences, _ in done for sentence in sentences]
            groups = [group for group, (_, busy) in zip(groups, done, strict=True) if busy]
    return wrong


def _run_group(
    go_on: bool, wait: bool, shared: Any, group: Group[Any], tell: Advance
) -> tuple[list[str], bool]:
    """Compute a group's tasks: what went wrong, and whether another process is at one of them."""
    lab, wrong, busy = group.lab(shared), list[str](), False
    for task in group.tasks:
        is_there = lab.store.get(task.key(lab)) is not None
        try:
            is_done = is_there or compute(lab, task, wait=wait)
        except Exception as error:
            if not go_on or isinstance(error, OSError):
                raise
            wrong.append(f"{task.label}: {_in_words(error)}")
            is_done = True
        busy = busy or not is_done
        if is_done and not (is_there and wait):  # what was there after the first pass has been told
            tell()
    return wrong, busy


def _in_words(error: Exception) -> str:
    """Return what went wrong; of an unforeseen error, also its kind and where it comes from."""
    if isinstance(error, AssentError):
        return str(error)
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(last.filename).name}, line {last.lineno})"


@dataclass(frozen=True)
class ModelCells:
    """The cells of one model and seed."""

    settings: Settings
    seed: int
    tasks: tuple[Cell, ...]

    @property
    def label(self) -> str:
        """The model and the seed."""
        return f"{self.settings.model}, seed {self.seed}"

    def lab(self, shared: tuple[Problem, Store]) -> Lab:
        """Return the lab of these cells."""
        problem, store = shared
        return Lab(problem, self.settings, self.seed, store)


def measured(
    problem: Problem,
    groups: Sequence[ModelCells],
    *,
    store: Store | None,
    executor: Executor,
    label: str,
    progress: Progress,
) -> list[dict[str, Any]]:
    """Return the records of all cells, in order.

    With `store`, finished cells are kept there: a killed measurement goes on where it was, and another
    process may work on it at the same time. What a cell cannot decide on (`Cell.check`) is refused before
    anything is computed.
    """
    for cell in dict.fromkeys(cell for group in groups for cell in group.tasks):
        cell.check(problem)
    shared = problem, store or Store.temporary()
    labs = [group.lab(shared) for group in groups]
    missing = [
        group
        for group, lab in zip(groups, labs, strict=True)
        if any(lab.store.get(cell.key(lab)) is None for cell in group.tasks)
    ]
    run_groups(missing, shared, executor=executor, label=label, progress=progress)
    found = [lab.run([cell])[0] for group, lab in zip(groups, labs, strict=True) for cell in group.tasks]
    return [dict(entry.facts) for entry in found]
