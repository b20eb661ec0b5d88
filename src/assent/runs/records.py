"""The flat records that figures are reported in: one per trained model."""

import time
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import torch

from assent.evaluation.evaluate import evaluate, validation_losses
from assent.game.certificate import wishes_broken, with_truth
from assent.game.players import players_of
from assent.methods import Choice, Method
from assent.support.errors import AssentError
from assent.training import Trained
from assent.workbench import Workbench

FIGURES = (
    "violation",
    "violation_share",
    "reward_sum",
    "reward_mean",
    "precision",
    "recall",
    "f1",
    "ndcg",
    "mrr",
    "hit",
    "seconds",
    "trainings",
)
"""The keys of a record that are measured; the others say what was measured."""
REFERENCES = ("all", "nothing")
"""Methods that have no budget: they stand at the ends of the frontier."""
DEAREST = 1e100
"""The largest price: rewards stay finite."""


def check_price(price: float) -> None:
    """Refuse a price at which nothing can be decided or written down."""
    if not 0 <= price <= DEAREST:
        raise AssentError(f"price {price:g}: accepted: a number from 0 to {DEAREST:g}")


@cache
def _load_optimizers() -> None:
    """Make an optimizer: for the first of a process torch loads much of itself, which is no method's cost."""
    torch.optim.Adam([torch.zeros(1, requires_grad=True)])


class Stopwatch:
    """What a decision and its training cost by the wall clock, whoever paid for the anchors.

    Methods share a workbench's anchors. Each is charged all that it rests on, and none that it found there or
    left for others.
    """

    def __init__(self, bench: Workbench) -> None:
        _load_optimizers()
        self._bench = bench
        self._start = time.perf_counter() - sum(bench.anchor_seconds)

    def seconds(self, choice: Choice) -> float:
        """Seconds so far without those of anchors, plus all that `choice` rests on and found done."""
        spent, owed = self._bench.anchor_seconds, self._bench.anchor_owed
        here = time.perf_counter() - self._start - sum(spent) + sum(spent[t] for t in choice.anchors)
        return float(here + sum(owed[t] for t in choice.anchors) + choice.owed)


def record(
    bench: Workbench,
    method: Method,
    choice: Choice,
    trained: Trained,
    *,
    price: float,
    watch: Stopwatch,
    point: float | None = None,
) -> dict[str, Any]:
    """Evaluate a method's model: dataset, model, method, objective, price, seed, then the `FIGURES`.

    `trainings` counts every model that the choice rests on, whoever trained it, and the final one.
    `price` is that of the rewards; `decision_price` the one at which the method decided, where it knows one;
    `point` the budget as a share of All's violation, where it had one. All records have all keys.
    """
    figures = evaluate(bench.problem, trained, choice.selection, price=price, progress=bench.progress)
    return {
        "dataset": bench.problem.name,
        "model": bench.settings.model,
        "method": method.name,
        "objective": method.objective.value if method.objectives else "",
        "price": price,
        "seed": bench.seed,
        **figures,
        "seconds": watch.seconds(choice),
        "trainings": len(choice.anchors) + choice.explored + 1,
        "decision_price": choice.price if method.objectives else None,
        "point": point,
    }


def certificate_of(bench: Workbench, choice: Choice, trained: Trained, price: float) -> dict[str, Any]:
    """A choice's certificate with the true reward of its model and how many wishes it breaks.

    The reward is in the loss and form that values have (`reward_loss`, `reward_form`). It counts the price of
    the decision where there is one, else `price`.
    """
    players, loss = players_of(bench.problem), bench.settings.influence.loss
    costs = bench.problem.wishes.cost(players.paid(choice.selection))
    losses = validation_losses(bench.problem, trained, loss) * bench.weights
    at = price if choice.price is None else choice.price
    certificate = with_truth(choice.certificate, losses, costs, at)
    certificate |= {"reward_loss": loss.value, "reward_form": bench.settings.reward.value}
    return certificate | wishes_broken(players, choice.selection)


def merged(
    records: Sequence[Mapping[str, Any]], compared: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """The records of a run and of its frontier, each model once.

    All and Nothing decide the same with and without a budget: where the frontier has measured them for a
    seed, its record, which has a point, stands for the run's.
    """

    def model(of: Mapping[str, Any]) -> tuple[Any, Any]:
        return of["method"], of["seed"]

    measured = {model(each) for each in compared if each["method"] in REFERENCES}
    return [dict(each) for each in records if model(each) not in measured] + [dict(each) for each in compared]
