"""One person's best selection under her limits: exact, whatever her budget, floor and utility.

She chooses units with values v, unwillingness b and sizes n to maximise

    Σ v o − price · (Σ b o)^power     subject to     Σ b o ≤ budget,  Σ n o ≥ floor

and where no selection within the budget has `floor` interactions, the most that one has take its place.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np

from assent.arrays import Bools, Floats, Ints, slices
from assent.game.prices import fits_into

ENUMERATED = 10
"""Up to so many units, all selections are looked at."""
_STATES = 4096
"""Partial selections kept at most; where there are more, the result may fall short, by at most the gap."""
_LEAST = 1e-12
"""Unwillingness that is divided by, at least."""


@dataclass(frozen=True)
class Limits:
    """The terms of a choice: `price`, `power` of the utility, and `budget[m]` and `floor[m]` of m people."""

    price: float
    power: float
    budget: Floats
    floor: Ints

    def of(self, some: slice) -> "Limits":
        """Those of some of the people."""
        return Limits(self.price, self.power, self.budget[some], self.floor[some])

    def costs(self, paid: Floats) -> Floats:
        """What disclosing an unwillingness of `paid` costs, in units of the loss."""
        return self.price * (paid if self.power == 1 else np.maximum(paid, 0) ** self.power)


def choose_all(values: Floats, weights: Floats, sizes: Ints, limits: Limits) -> Bools:
    """The best of all 2^U selections for m people at once, of `values[m, U]` and alike: [m, U]."""
    count = values.shape[1]
    bits = all_choices(count).astype(np.float64)
    chosen = np.empty(values.shape, dtype=np.bool_)
    for here in slices(len(values), max(1, 2**22 >> count)):
        paid = weights[here] @ bits.T
        payoff = values[here] @ bits.T - limits.costs(paid)
        payoff[~allowed(paid, sizes[here] @ bits.T, limits.of(here))] = -np.inf
        chosen[here] = bits[payoff.argmax(axis=1)] > 0
    return chosen


@cache
def all_choices(count: int) -> Bools:
    """All selections of `count` units, by their number in binary: [2^count, count]."""
    bits: Ints = (np.arange(2**count)[:, None] >> np.arange(count)) & 1
    return bits > 0


def allowed(paid: Floats, number: Floats | Ints, limits: Limits) -> Bools:
    """Which of C selections, of `number[m, C]` interactions minded `paid[m, C]`, keep limits: [m, C]."""
    enough = np.minimum(number, limits.floor[:, None])
    enough[~fits_into(paid, limits.budget[:, None])] = -1
    most: Bools = enough == enough.max(axis=1, keepdims=True)
    return most


def choose_one(values: Floats, weights: Floats, sizes: Ints, limits: Limits) -> tuple[Bools, float]:
    """The best selection of one person with `values[U]`, and by how much it may fall short of the optimum.

    Partial selections over the first units that another beats in every respect (not dearer, not worth less,
    no smaller, as far as the floor asks) are dropped: what is left stays small unless units are many.
    """
    budget, floor = float(limits.budget[0]), int(limits.floor[0])
    order = np.argsort(-values / np.maximum(weights, _LEAST), kind="stable")
    paid, worth, number = np.zeros(1), np.zeros(1), np.zeros(1, dtype=np.int64)
    steps: list[tuple[Ints, Bools]] = []
    thinned = False
    for k in order:
        with_k = np.flatnonzero(fits_into(paid + weights[k], budget))
        parents = np.concatenate([np.arange(len(paid)), with_k])
        taken = np.arange(len(parents)) >= len(paid)
        paid = np.concatenate([paid, paid[with_k] + weights[k]])
        worth = np.concatenate([worth, worth[with_k] + values[k]])
        number = np.concatenate([number, np.minimum(number[with_k] + sizes[k], floor)])
        kept = _undominated(paid, worth, number)
        if len(kept) > _STATES:
            # The cheapest of each number stays, so that the floor is met wherever it can be.
            cheapest = np.flatnonzero(np.diff(number[kept], prepend=-1))
            spread = np.linspace(0, len(kept) - 1, _STATES).astype(np.int64)
            kept, thinned = kept[np.union1d(cheapest, spread)], True
        paid, worth, number = paid[kept], worth[kept], number[kept]
        steps.append((parents[kept], taken[kept]))
    payoff = np.where(number == number.max(), worth - limits.costs(paid), -np.inf)
    state = int(payoff.argmax())
    gap = max(0.0, _fractional(values, weights, limits) - float(payoff[state])) if thinned else 0.0
    chosen = np.zeros(len(values), dtype=np.bool_)
    for k, (parents, taken) in zip(order[::-1], reversed(steps), strict=True):
        chosen[k] = taken[state]
        state = int(parents[state])
    return chosen, gap


def _undominated(paid: Floats, worth: Floats, number: Ints) -> Ints:
    """The states that no other of the same or a larger `number` beats in both `paid` and `worth`."""
    found = []
    better = np.zeros(0, dtype=np.int64)
    for count in np.unique(number)[::-1]:
        here = np.concatenate([np.flatnonzero(number == count), better])
        here = here[np.lexsort((-worth[here], paid[here]))]
        best = np.maximum.accumulate(np.concatenate([[-np.inf], worth[here]]))[:-1]
        better = here[worth[here] > best]
        found.append(better[number[better] == count])
    return np.concatenate(found)


def _fractional(values: Floats, weights: Floats, limits: Limits) -> float:
    """An upper bound: the best if units could be divided, by falling worth per unwillingness; no floor."""
    order = np.argsort(-values / np.maximum(weights, _LEAST))
    order = order[values[order] > 0]
    ends = np.concatenate([[0.0], np.cumsum(weights[order])])
    worth = np.concatenate([[0.0], np.cumsum(values[order])])
    most = min(float(limits.budget[0]), float(ends[-1]))
    points = [ends, np.array([most])]
    if limits.power > 1 and limits.price > 0:
        slopes = values[order] / np.maximum(weights[order], _LEAST)
        still = (slopes / (limits.price * limits.power)) ** (1 / (limits.power - 1))
        points.append(np.clip(still, ends[:-1], ends[1:]))
    at = np.minimum(np.concatenate(points), most)
    return float((np.interp(at, ends, worth) - limits.costs(at)).max())
