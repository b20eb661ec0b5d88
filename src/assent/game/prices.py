"""Break-even prices, and the path of selections that they give.

Interaction k is disclosed at every price below its break-even price λ*_k = v_k / β_k. Sorted once, the
break-even prices give the selection at every price and so the whole frontier of quality against violation.

A break-even price above `DEAREST`, the highest price there is, counts as infinite: no price withholds such an
interaction, as none withholds one that costs nothing. Only a budget can.
"""

from dataclasses import dataclass

import numpy as np

from assent.game.budget import Budget
from assent.results.records import DEAREST
from assent.support.arrays import Bools, Floats, Ints


def worth_disclosing(values: Floats, unwillingness: Floats, price: float) -> Bools:
    """Disclose k iff v_k > price · β_k: [Z]."""
    return values > price * unwillingness


def break_even_prices(values: Floats, unwillingness: Floats) -> Floats:
    """λ*_k = v_k / β_k: [Z]; 0 where the value is not positive.

    It is inf where a positive value costs nothing, or next to nothing: where no price exceeds the ratio.
    """
    has_one = (values > 0) & (values <= DEAREST * unwillingness)
    return np.divide(values, unwillingness, out=np.where(values > 0, np.inf, 0.0), where=has_one)


@dataclass(frozen=True)
class PricePath:
    """Z interactions in the order in which a falling price discloses them.

    `order[Z]` are row numbers by falling break-even price, among equal prices by rising unwillingness.
    `prices[Z]` and `unwillingness[Z]` are in that order.
    """

    order: Ints
    prices: Floats
    unwillingness: Floats

    @classmethod
    def of(cls, prices: Floats, unwillingness: Floats) -> "PricePath":
        """The path of interactions with these break-even `prices[Z]`."""
        order = np.lexsort((unwillingness, -prices))
        return cls(order, prices[order], unwillingness[order])

    @property
    def paid(self) -> Floats:
        """The total unwillingness of the first 1, 2, … interactions of the path: [Z]."""
        return np.cumsum(self.unwillingness)

    def at_price(self, price: float) -> Bools:
        """The interactions whose break-even price exceeds `price`: [Z]."""
        return self._first(int((self.prices > price).sum()))

    def within(self, budget: Budget) -> Bools:
        """The longest start of the path that `budget` allows: [Z]."""
        return self._first(budget.fitting(self.order))

    def price_within(self, budget: Budget) -> float:
        """The lowest price, from 0 to `DEAREST`, at which `budget` allows what is disclosed.

        If more is disclosed at every price, it is `DEAREST`.
        """
        count = budget.fitting(self.order)
        return min(float(self.prices[count]), DEAREST) if count < len(self.prices) else 0.0

    def _first(self, count: int) -> Bools:
        chosen = np.zeros(len(self.order), dtype=np.bool_)
        chosen[self.order[:count]] = True
        return chosen


def price_path(values: Floats, unwillingness: Floats) -> PricePath:
    """Sort Z interactions by their break-even prices."""
    return PricePath.of(break_even_prices(values, unwillingness), unwillingness)
