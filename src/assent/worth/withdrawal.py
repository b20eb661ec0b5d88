"""What interactions are worth while others withdraw.

Values depend on what else is disclosed: of a path over three interactions nothing is left when one is
withheld. So nobody is asked what a quarter of everything is worth while all the rest stays. Instead what
is worth least for its unwillingness is withheld first, a little at a time, and the rest is valued again. An
interaction's break-even price is that at which its turn came,

    λ*_k = max(v_k(o) / β_k, what was withheld before it),

and its value λ*_k β_k: what it adds at the price that it can bear. Ordered by these, budgets and prices give
what they would give step by step. Those whose turn comes at one price follow each other by a hair, what is
minded most and, of equals, what comes last in the log being withheld first.
"""

from collections.abc import Callable

import numpy as np

from assent.support.arrays import Bools, Floats, Ints

_STEP = 0.09
"""Share of the unwillingness still disclosed that is withheld at once."""
_END = 0.01
"""Share of all unwillingness below which nothing is valued again."""
_HAIR = 1e-12
"""What one is above the other of two prices that would be the same, as a share."""


def withdrawn(value_at: Callable[[Bools], Floats], unwillingness: Floats) -> Floats:
    """The values of Z interactions by their break-even prices: [Z].

    `value_at(kept[Z])` values all while `kept` are disclosed; what it says of others does not matter. It is
    asked for fewer and fewer. What nobody minds is never withheld, and is worth what it adds at the end.
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
    """Those of `among[Z]` by rising value for their unwillingness."""
    here = np.flatnonzero(among)[::-1]
    order: Ints = here[np.lexsort((-unwillingness[here], values[here] / unwillingness[here]))]
    return order


def _hairs(length: int) -> Floats:
    """Factors a little above 1, rising: [length]."""
    return 1 + _HAIR * np.arange(1, length + 1, dtype=np.float64)
