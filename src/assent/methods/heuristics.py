"""Methods that estimate nothing: All, Nothing, Random, Threshold, Occurrence."""

from typing import ClassVar

import numpy as np
from pydantic import Field

from assent.data.problem import Problem
from assent.data.wishes import USUAL_PRIOR
from assent.game.players import cheapest_first, players_of
from assent.game.prices import break_even_prices
from assent.lab.lab import Lab, everything
from assent.methods.base import Choice, Method, scoring_at_least
from assent.support.arrays import Floats
from assent.support.draws import Purpose, lots


class Reference(Method):
    """What all others are measured against; budgets and floors do not concern it."""

    def check(self, problem: Problem, budget: float | None = None) -> None:
        """Refuse nothing."""


class All(Reference):
    """Disclose everything that is not "never", as recommenders do today."""

    name: ClassVar[str] = "all"

    def at_price(self, lab: Lab, price: float) -> Choice:
        """Disclose everything, at any price."""
        return Choice(everything(lab.problem), price)

    def within(self, lab: Lab, budget: float) -> Choice:
        """Disclose everything, whatever the budget: shares of violation refer to this."""
        return Choice(everything(lab.problem), None)


class Nothing(Reference):
    """Withhold everything: what honouring people fully costs."""

    name: ClassVar[str] = "nothing"

    def at_price(self, lab: Lab, price: float) -> Choice:
        """Disclose nothing, at any price."""
        return Choice(~everything(lab.problem), price)

    def within(self, lab: Lab, budget: float) -> Choice:
        """Disclose nothing, within any budget."""
        return Choice(~everything(lab.problem), None)


class Random(Method):
    """Disclose each interaction with the same probability, whatever it is worth and whoever minds."""

    name: ClassVar[str] = "random"

    rate: float = Field(USUAL_PRIOR, ge=0, le=1, description="probability of disclosing, without a budget")

    def at_price(self, lab: Lab, price: float) -> Choice:
        """Disclose each with probability `rate`; the price does not matter."""
        return Choice(scoring_at_least(-self._lots(lab), -self.rate, lab.problem), price)

    def within(self, lab: Lab, budget: float) -> Choice:
        """Disclose in random order until the budget is used up."""
        return Choice(cheapest_first(-self._lots(lab), lab.problem, budget), None)

    def _lots(self, lab: Lab) -> Floats:
        """Draw one number per interaction; interactions that are decided together share one."""
        drawn = lots(lab.problem.row_keys, lab.seed, Purpose.LOTS)
        if lab.problem.wishes.groups is None:
            return drawn
        units = players_of(lab.problem).units
        return drawn[units.first][units.of]


class Threshold(Method):
    """Disclose up to a limit of unwillingness, whatever an interaction is worth."""

    name: ClassVar[str] = "threshold"

    limit: float = Field(0.5, ge=0, le=1, description="largest unwillingness disclosed, without a budget")

    def at_price(self, lab: Lab, price: float) -> Choice:
        """Disclose unwillingness of at most `limit`; the price does not matter."""
        return Choice(scoring_at_least(-lab.problem.unwillingness, -self.limit, lab.problem), price)

    def within(self, lab: Lab, budget: float) -> Choice:
        """Disclose what people mind least until the budget is used up."""
        return Choice(cheapest_first(-lab.problem.unwillingness, lab.problem, budget), None)


class Occurrence(Method):
    """Score (occurrences of the item in the training rows − 1) / unwillingness: the engineer's first idea.

    An item that nobody else has teaches nothing about anybody else.
    """

    name: ClassVar[str] = "occurrence"

    def at_price(self, lab: Lab, price: float) -> Choice:
        """Disclose where somebody else has the item (a score of at least 1); the price does not matter."""
        return Choice(scoring_at_least(self._scores(lab), 1, lab.problem), price)

    def within(self, lab: Lab, budget: float) -> Choice:
        """Disclose by falling score until the budget is used up."""
        return Choice(cheapest_first(self._scores(lab), lab.problem, budget), None)

    def _scores(self, lab: Lab) -> Floats:
        items, unwillingness = lab.problem.train.items, lab.problem.unwillingness
        others = (np.bincount(items)[items] - 1).astype(np.float64)
        return np.where(unwillingness == 0, np.inf, break_even_prices(others, unwillingness))
