"""All: use everything that is not "never", as recommenders do today."""

from typing import ClassVar

import numpy as np

from assent.methods.base import VALUING, Choice, Method
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
