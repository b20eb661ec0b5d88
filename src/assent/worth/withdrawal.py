"""What interactions are worth while others are withheld.

Values depend on what else is disclosed: a path over three interactions is lost when one is withheld. So the
interactions with the least value per unwillingness are withheld first, a few at a time, and the rest is
valued again. The break-even price of an interaction is the price at which it was withheld,

    λ*_k = max(v_k(o) / β_k, the prices of all withheld before it),

and its value is λ*_k β_k. Ordered by these, budgets and prices select what withholding step by step would.
Interactions withheld at one price get prices that differ by a tiny factor: the higher unwillingness first,
then the later row.
"""

from collections.abc import Callable

import numpy as np

from assent.support.arrays import Bools, Floats, Ints

_STEP = 0.09
"""Share of the unwillingness still disclosed that is withheld per step."""
_END = 0.01
"""When less than this share of all unwillingness is left, nothing is valued again."""
_HAIR = 1e-12
"""Relative difference between prices that would be equal."""


def withdrawn(value_at: Callable[[Bools], Floats], unwillingness: Floats) -> Floats:
    """The values of Z interactions, λ*_k β_k: [Z].

    `value_at(kept[Z])` returns the values while `kept` are disclosed, [Z]; those of others are ignored. It is
    called with fewer and fewer kept. Interactions of unwillingness 0 are never withheld; they get the value
    of the last call.
    """
    minded = unwillingness > 0
    kept, prices, level = np.ones(len(minded), dtype=np.bool_), np.zeros(len(minded)), 0.0
    rest = total = float(unwillingness.sum())
    values = value_at(kept)
    while rest > _END * total:
        order = _first_to_go(values, unwillingness, kept & minded)
        paid = np.cumsum(unwillingness[order])
        gone = order[: int(np.searchsorted(paid, _STEP * rest)) + 1]
        prices[gone] = np.maximum(values[gone] / unwillingness[gone], level) * _hairs(len(gone))
        level = float(prices[gone[-1]])
        kept[gone] = False
        rest = float(unwillingness[kept].sum())
        values = value_at(kept)
    last = _first_to_go(values, unwillingness, kept & minded)
    prices[last] = np.maximum(values[last] / unwillingness[last], level) * _hairs(len(last))
    return np.where(minded, prices * unwillingness, values)


def _first_to_go(values: Floats, unwillingness: Floats, among: Bools) -> Ints:
    """The rows of `among[Z]` by rising value per unwillingness."""
    here = np.flatnonzero(among)[::-1]
    order: Ints = here[np.lexsort((-unwillingness[here], values[here] / unwillingness[here]))]
    return order


def _hairs(length: int) -> Floats:
    """Rising factors just above 1: [length]."""
    return 1 + _HAIR * np.arange(1, length + 1, dtype=np.float64)
