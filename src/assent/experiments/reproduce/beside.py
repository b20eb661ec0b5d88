"""The paper's numbers beside ours, and why some of them cannot be compared."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from assent.experiments.reproduce import paper
from assent.experiments.reproduce.grid import Amount, Column
from assent.experiments.reproduce.plan import PAPER_METHODS, Plan
from assent.experiments.reproduce.sources import SIMULATION

_CLOSE = 0.05
"""Largest relative difference in size of data sets that count as the same."""
_UNTRAINED = 0.03
"""How near to ln 2 a loss is that of a model that has learnt nothing."""
_PRIOR = 0.85
"""Share of Base's violation from which a strategy is said to be near its prior of 0.9."""
RANKING = ("f1", "precision", "ndcg", "mrr")
"""Figures of the ranking, in percent."""


@dataclass(frozen=True)
class Beside:
    """One number of the paper."""

    labels: Mapping[str, str]
    """Its place, heading by heading."""
    figure: str
    """What it is."""
    paper: float
    paper_error: float | None
    ours: float | None
    """None where it was not measured."""
    error: float | None
    decimals: int
    why: Sequence[str] = ()
    """Why the two cannot be compared, in sentences; empty where they can."""

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's."""
        return None if self.ours is None else self.ours - self.paper


def beside(
    labels: Mapping[str, str],
    column: Column,
    theirs: tuple[float, float | None] | None,
    ours: Amount | None,
    why: Sequence[str],
) -> Iterator[Beside]:
    """The paper's number, if it has one, with ours in the same unit, if there is one."""
    if theirs is None:
        return
    mean, error = (None, None) if ours is None else (ours.mean, ours.error)
    yield Beside(
        labels,
        column.heading,
        *theirs,
        None if mean is None else column.factor * mean,
        None if error is None else column.factor * error,
        column.decimals,
        tuple(why),
    )


def reasons(
    plan: Plan, dataset: str, *, model: str, method: str, figure: str, price: float = 1.0
) -> Iterator[str]:
    """Why a number of the paper and ours cannot be held against each other, in sentences.

    `method` is a row of the paper's tables, `figure` a key of `paper.json`.
    """
    yield from data_reasons(plan, dataset)
    if dataset == SIMULATION and figure in RANKING:
        yield "The simulated data carry no preference: every model ranks at chance (F1 of 1.67 %)."
    if figure == "seconds":
        yield "Other machines and other programs: seconds show orders of magnitude only."
    if method == "Proactive":
        yield "No code of Proactive was published: ours is a re-implementation, with warm starts."
    yield from _odd(dataset, model, method, figure, price)


def data_reasons(plan: Plan, dataset: str) -> Iterator[str]:
    """What differs in the data themselves."""
    if plan.reduced:
        yield "This run is a smaller version of the paper's: compare the order, not the figures."
        return
    ours, theirs = plan.sizes.get(dataset), paper.sizes(dataset)
    if ours and any(abs(a - b) > _CLOSE * b for a, b in zip(ours, theirs, strict=True)):
        have, had = (f"{a:,} users, {b:,} items and {c:,} interactions" for a, b, c in (ours, theirs))
        yield f"Another cut of the data: ours has {have}, the paper's {had}."


def _odd(dataset: str, model: str, method: str, figure: str, price: float) -> Iterator[str]:
    """What the paper's own numbers say of each other."""
    place = paper.DATASETS[dataset]
    row = paper.look_up("overall", model, method, place, "wv")
    base = paper.look_up("overall", model, "Base", place, "wv")
    reward = paper.look_up("overall", model, method, place, "reward")
    if not (row and base and reward):
        return
    loss = -reward[0] - row[0]
    if figure == "reward" and price == 1.0 and loss < 0:
        yield "The paper's reward is above −λ · wv, which no loss allows."
    if figure == "reward" and price == 1.0 and abs(loss - math.log(2)) < _UNTRAINED:
        yield "The paper's loss here is ln 2, that of an untrained model."
    near = row[0] >= _PRIOR * base[0]
    if method in ("IFRQE", "IFRQE++") and figure in ("wv", "reward", *RANKING) and near:
        yield (
            "The paper's strategies stay near their prior of 0.9; ours are exact best responses, which "
            "withhold whatever does not pay at this price."
        )


def paper_row(way: tuple[str, str]) -> str | None:
    """What the paper calls a method, if it has it."""
    return next((name for name, each in PAPER_METHODS.items() if each == way), None)
