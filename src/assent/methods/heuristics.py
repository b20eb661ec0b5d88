"""All: use everything that is not "never", as recommenders do today.

Nothing: use no interaction at all.

Random: disclose by lot.

Threshold: disclose what its owner minds least.

Occurrence: disclose what many others have too, and its owner minds little.
"""

from typing import ClassVar

import numpy as np

from assent.data.wishes import USUAL_PRIOR
from assent.game.players import cheapest_first, players_of
from assent.methods.base import VALUING, Choice, Method, scoring_at_least
from assent.support.arrays import Floats
from assent.workbench import Workbench


class All(Method):
    """Disclose everything; a budget does not concern it."""

    name: ClassVar[str] = "all"
    ignores: ClassVar[frozenset[str]] = Method.ignores | VALUING

    def at_price(self, bench: Workbench, price: float) -> Choice:
        """Everything, at any price."""
        return Choice(np.ones(len(bench.problem.train), dtype=np.bool_), price)

    def within(self, bench: Workbench, budget: float) -> Choice:
        """Everything, whatever the budget: the reference that shares of violation refer to."""
        return Choice(np.ones(len(bench.problem.train), dtype=np.bool_), None)


class Nothing(Method):
    """Withhold everything: what honouring people fully costs."""

    name: ClassVar[str] = "nothing"
    ignores: ClassVar[frozenset[str]] = Method.ignores | VALUING

    def at_price(self, bench: Workbench, price: float) -> Choice:
        """Nothing, at any price."""
        return Choice(np.zeros(len(bench.problem.train), dtype=np.bool_), price)

    def within(self, bench: Workbench, budget: float) -> Choice:
        """Nothing, within any budget."""
        return Choice(np.zeros(len(bench.problem.train), dtype=np.bool_), None)


class Random(Method):
    """Disclose each interaction with the same probability, whatever it is worth and whoever minds."""

    name: ClassVar[str] = "random"
    ignores: ClassVar[frozenset[str]] = Method.ignores | VALUING

    def at_price(self, bench: Workbench, price: float) -> Choice:
        """Each with probability 0.9, the mean of the paper's prior; the price does not matter."""
        return Choice(scoring_at_least(-self._lots(bench), -USUAL_PRIOR, bench.problem), price)

    def within(self, bench: Workbench, budget: float) -> Choice:
        """In the order of the lots until the budget is used up."""
        return Choice(cheapest_first(-self._lots(bench), bench.problem, budget), None)

    def _lots(self, bench: Workbench) -> Floats:
        """One per interaction; what is decided together has one lot."""
        lots = np.random.default_rng((bench.seed, 1)).random(len(bench.problem.train))
        if bench.problem.wishes.groups is None:
            return lots
        units = players_of(bench.problem).units
        return lots[units.first][units.of]


LIMIT = 0.5
"""The paper withholds what is more unwilling than this."""


class Threshold(Method):
    """Disclose up to a limit of unwillingness, whatever an interaction is worth."""

    name: ClassVar[str] = "threshold"
    ignores: ClassVar[frozenset[str]] = Method.ignores | VALUING

    def at_price(self, bench: Workbench, price: float) -> Choice:
        """Unwillingness of at most 0.5, as in the paper; the price does not matter."""
        return Choice(scoring_at_least(-bench.problem.unwillingness, -LIMIT, bench.problem), price)

    def within(self, bench: Workbench, budget: float) -> Choice:
        """The limit at which the budget is used up."""
        return Choice(cheapest_first(-bench.problem.unwillingness, bench.problem, budget), None)


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
