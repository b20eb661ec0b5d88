"""Break-even prices, and the path of selections that they give.

Interaction k is disclosed at every price below its break-even price λ*_k = v_k / β_k. Sorted once, the
break-even prices give the selection at every price and so the whole frontier of quality against violation.
"""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from assent.support.arrays import Bools, Floats, Ints

_ROUNDING = 1e-12
Amount = TypeVar("Amount", float, Floats)


def up_to_rounding(budget: Amount) -> Amount:
    """The largest sum that counts as at most `budget`."""
    return budget * (1 + _ROUNDING)


def worth_disclosing(values: Floats, unwillingness: Floats, price: float) -> Bools:
    """Disclose k iff v_k > price · β_k: [Z]."""
    return values > price * unwillingness


def break_even_prices(values: Floats, unwillingness: Floats) -> Floats:
    """λ*_k = v_k / β_k: [Z]; inf where a positive value costs nothing, 0 where the value is not positive."""
    free = unwillingness == 0
    ratio = values / np.where(free, 1.0, unwillingness)
    return np.where(values > 0, np.where(free, np.inf, ratio), 0.0)


@dataclass(frozen=True)
class PricePath:
    """The interactions in the order in which a falling price discloses them."""

    order: Ints
    """[Z], row numbers by falling break-even price; among equal prices by rising unwillingness."""
    prices: Floats
    """[Z], break-even prices in that order."""
    unwillingness: Floats
    """[Z], unwillingness in that order."""

    @property
    def paid(self) -> Floats:
        """The total unwillingness of the first 1, 2, … interactions of the path: [Z]."""
        return np.cumsum(self.unwillingness)

    def at_price(self, price: float) -> Bools:
        """The interactions whose break-even price exceeds `price`: [Z]."""
        return first(self.order, int((self.prices > price).sum()))

    def within(self, budget: float) -> Bools:
        """The longest start of the path whose total unwillingness is at most `budget`: [Z]."""
        return first(self.order, fitting(self.unwillingness, budget))

    def price_within(self, budget: float) -> float:
        """The lowest price, at least 0, at which at most `budget` unwillingness is disclosed."""
        count = fitting(self.unwillingness, budget)
        return float(self.prices[count]) if count < len(self.prices) else 0.0


def price_path(values: Floats, unwillingness: Floats) -> PricePath:
    """Sort Z interactions by their break-even prices."""
    prices = break_even_prices(values, unwillingness)
    order = np.lexsort((unwillingness, -prices))
    return PricePath(order=order, prices=prices[order], unwillingness=unwillingness[order])


def fitting(unwillingness: Floats, budget: float) -> int:
    """How many of the first entries of `unwillingness[Z]` sum to at most `budget`."""
    return int(np.searchsorted(np.cumsum(unwillingness), up_to_rounding(budget), side="right"))


def first(order: Ints, count: int) -> Bools:
    """The selection of the first `count` interactions of `order[Z]`: [Z]."""
    chosen = np.zeros(len(order), dtype=np.bool_)
    chosen[order[:count]] = True
    return chosen
