"""Threshold: disclose what its owner minds least."""

from typing import ClassVar

from assent.game.fill import cheapest_first
from assent.methods.base import VALUING, Choice, Method, scoring_at_least
from assent.workbench import Workbench

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
