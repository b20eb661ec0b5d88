"""Break-even prices: what each interaction is worth per unit of unwillingness, and the path that they give.

Interaction k is disclosed at every price below λ*_k = v_k / β_k. Sorted once, the break-even prices give the
selection for every price and so the whole frontier of quality against violation.
"""

from dataclasses import dataclass
from typing import overload

import numpy as np

from assent.support.arrays import Bools, Floats, Ints

_ROUNDING = 1e-12


@overload
def fits_into(paid: float, budget: float) -> bool: ...


@overload
def fits_into(paid: Floats, budget: float | Floats) -> Bools: ...


def fits_into(paid: float | Floats, budget: float | Floats) -> bool | Bools:
    """Whether `paid` is within `budget`, but for the rounding of sums."""
    fits: bool | Bools = paid <= budget * (1 + _ROUNDING)
    return fits


def worth_disclosing(values: Floats, unwillingness: Floats, price: float) -> Bools:
    """Disclose k iff its value exceeds its price: v_k > price · β_k."""
    return values > price * unwillingness


def break_even_prices(values: Floats, unwillingness: Floats) -> Floats:
    """λ*_k = v_k / β_k, at least 0: the price up to which disclosing k pays; inf where it costs nothing: [Z].

    Interactions without positive value have 0: they are not disclosed at any price.
    """
    free = unwillingness == 0
    ratio = values / np.where(free, 1.0, unwillingness)
    return np.where(values > 0, np.where(free, np.inf, ratio), 0.0)


@dataclass(frozen=True)
class PricePath:
    """Selections for falling prices.

    `order[Z]` lists the interactions by falling break-even price and, where that is equal, by rising
    unwillingness; so those that no price would disclose come last, what is minded least first.
    `prices[Z]` are their break-even prices, `unwillingness[Z]` is theirs, both in that order.
    """

    order: Ints
    prices: Floats
    unwillingness: Floats

    @property
    def paid(self) -> Floats:
        """The unwillingness that the first, the first two, … of them disclose: [Z]."""
        return np.cumsum(self.unwillingness)

    def at_price(self, price: float) -> Bools:
        """The interactions whose break-even price exceeds `price`: [Z]."""
        return first(self.order, int((self.prices > price).sum()))

    def within(self, budget: float) -> Bools:
        """As many of the first as fit into `budget`, the total unwillingness that may be disclosed: [Z]."""
        return first(self.order, fitting(self.unwillingness, budget))

    def price_within(self, budget: float) -> float:
        """The lowest price, at least 0, at which no more than `budget` is disclosed."""
        count = fitting(self.unwillingness, budget)
        return float(self.prices[count]) if count < len(self.prices) else 0.0


def fitting(unwillingness: Floats, budget: float) -> int:
    """How many of the first interactions, of this `unwillingness[Z]`, fit into a total of `budget`."""
    return int(np.searchsorted(np.cumsum(unwillingness), budget * (1 + _ROUNDING), side="right"))


def first(order: Ints, count: int) -> Bools:
    """The selection of the first `count` interactions of `order[Z]`: [Z]."""
    chosen = np.zeros(len(order), dtype=np.bool_)
    chosen[order[:count]] = True
    return chosen


def price_path(values: Floats, unwillingness: Floats) -> PricePath:
    """Sort the interactions by their break-even prices."""
    prices = break_even_prices(values, unwillingness)
    order = np.lexsort((unwillingness, -prices))
    return PricePath(order=order, prices=prices[order], unwillingness=unwillingness[order])
