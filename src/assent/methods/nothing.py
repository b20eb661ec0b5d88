"""Nothing: use no interaction at all."""

from typing import ClassVar

import numpy as np

from assent.methods.base import VALUING, Choice, Method
from assent.workbench import Workbench


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
