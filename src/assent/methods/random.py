"""Random: disclose by lot."""

from typing import ClassVar

import numpy as np

from assent.arrays import Floats
from assent.data.wishes import USUAL_PRIOR
from assent.game.fill import cheapest_first, players_of
from assent.methods.base import VALUING, Choice, Method, scoring_at_least
from assent.workbench import Workbench


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
