"""Occurrence: disclose what many others have too, and its owner minds little."""

from typing import ClassVar

import numpy as np

from assent.arrays import Floats
from assent.game.fill import cheapest_first
from assent.methods.base import VALUING, Choice, Method, scoring_at_least
from assent.workbench import Workbench


class Occurrence(Method):
    """Score (occurrences of the item in the training rows − 1) / unwillingness: the engineer's first idea.

    An item that nobody else has teaches nothing about anybody else.
    """

    name: ClassVar[str] = "occurrence"
    ignores: ClassVar[frozenset[str]] = Method.ignores | VALUING

    def at_price(self, bench: Workbench, price: float) -> Choice:
        """A score of at least 1: somebody else has the item. The price, in other units, does not matter."""
        return Choice(scoring_at_least(self._scores(bench), 1, bench.problem), price)

    def within(self, bench: Workbench, budget: float) -> Choice:
        """By falling score until the budget is used up."""
        return Choice(cheapest_first(self._scores(bench), bench.problem, budget), None)

    def _scores(self, bench: Workbench) -> Floats:
        items, unwillingness = bench.problem.train.items, bench.problem.unwillingness
        others = np.bincount(items)[items] - 1.0
        free = unwillingness == 0
        return np.where(free, np.inf, others / np.where(free, 1.0, unwillingness))
