"""Trains a model on what each source of values would select, so that they can be judged (`value.trial`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from assent.evaluation.evaluate import validation_ndcg
from assent.game.players import by_score, cheapest_first, floors_alone, players_of
from assent.game.prices import break_even_prices
from assent.support.arrays import Bools, Floats, sum_by
from assent.worth.trial import BUDGETS, Kind, Opinion, Trial, judge
from assent.worth.withdrawal import withdrawn

if TYPE_CHECKING:
    from assent.workbench import Workbench


@dataclass(frozen=True)
class Tried:
    """What came of it."""

    trials: Sequence[Trial]
    """One for each budget."""
    numbers: Sequence[int]
    """Of the models, among the workbench's anchors."""


class Trying:
    """Tries sources out; what two of them would select is trained on once."""

    def __init__(self, bench: "Workbench") -> None:
        self._bench = bench
        self._known: dict[bytes, tuple[int, Floats]] = {}

    def judge(self, opinions: Mapping[Kind, Opinion]) -> Tried:
        """Let each opinion select by itself, as far as it is known without the rows that judge it."""
        unwillingness = self._bench.problem.unwillingness
        scores = {
            kind: break_even_prices(withdrawn(each.untold(), unwillingness), unwillingness)
            for kind, each in opinions.items()
        }
        trials, numbers = [], set()
        for budget in BUDGETS:
            found = {
                kind: self._try(self._selected(each, budget), f"trial: {budget:.0%} by {kind}")
                for kind, each in scores.items()
            }
            trials.append(judge(budget, {kind: qualities for kind, (_, qualities) in found.items()}))
            numbers |= {number for number, _ in found.values()}
        return Tried(trials, sorted(numbers))

    def _selected(self, scores: Floats, budget: float) -> Bools:
        """What `scores[Z]` select within a budget: [Z]."""
        problem = self._bench.problem
        if problem.wishes.are_plain:
            return cheapest_first(scores, problem, budget)
        players, allowed = players_of(problem), budget * float(problem.unwillingness.sum())
        return by_score(players, scores, allowed=allowed, start=floors_alone(players))

    def _try(self, selection: Bools, label: str) -> tuple[int, Floats]:
        """The number of a model of `selection[Z]`, and its NDCG@5 for everybody with validation rows."""
        if selection.tobytes() not in self._known:
            problem, trained = self._bench.problem, self._bench.try_out(selection, label)
            rows = np.bincount(problem.valid.users, minlength=problem.n_users)
            sums = sum_by(problem.valid.users, validation_ndcg(problem, trained), problem.n_users)
            number = len(self._bench.anchor_seconds) - 1
            self._known[selection.tobytes()] = number, sums[rows > 0] / rows[rows > 0]
        return self._known[selection.tobytes()]
