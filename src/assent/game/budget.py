"""Budgets that hold whoever is left out, so that nobody can raise what is disclosed of others.

With V_u the unwillingness of all of u's interactions and d_u that of those that are disclosed, a selection
is within the budget b if

    Σ_{u≠w} d_u ≤ b · Σ_{u≠w} V_u  for every person w,     and     Σ_u d_u ≤ b · Σ_u V_u

The first condition has nothing of w in it: whatever they add or say, at most the share b of what the others
mind is disclosed of the others. The second alone would let the others use what w leaves.

What is left of each person's allowance is their *spare*, s_u = b V_u − d_u. The conditions say that

    Σ_u s_u ≥ max(0, max_u s_u)

One more interaction of unwillingness β takes β off the left side and at most β off the right side. So if the
first n interactions of a list do not fit, the first n + 1 do not fit either.
"""

from dataclasses import dataclass
from functools import cached_property
from heapq import heapify, heapreplace
from typing import TypeVar

import numpy as np

from assent.data.problem import Problem
from assent.support.arrays import Bools, Floats, Ints, sum_by

_ROUNDING = 1e-12
Amount = TypeVar("Amount", float, Floats)


def up_to_rounding(budget: Amount) -> Amount:
    """The largest sum that counts as at most `budget`."""
    return budget * (1 + _ROUNDING)


@dataclass(frozen=True)
class Budget:
    """The share of what people mind that may be disclosed, of Z interactions of N people."""

    share: float
    owners: Ints
    """[Z]"""
    unwillingness: Floats
    """[Z]"""
    n_users: int

    @classmethod
    def of(cls, problem: Problem, share: float) -> "Budget":
        """The budget for a problem's training interactions."""
        return cls(share, problem.train.users, problem.unwillingness, problem.n_users)

    @cached_property
    def minded(self) -> Floats:
        """V_u, the unwillingness of all interactions of each person: [N]."""
        return sum_by(self.owners, self.unwillingness, self.n_users)

    @cached_property
    def allowances(self) -> Floats:
        """b V_u, up to rounding: [N]."""
        return up_to_rounding(self.share) * self.minded

    def paid(self, selection: Bools) -> Floats:
        """d_u, the unwillingness that `selection[Z]` discloses of each person: [N]."""
        return sum_by(self.owners, self.unwillingness * selection, self.n_users)

    def allows(self, selection: Bools) -> bool:
        """Whether `selection[Z]` is within the budget."""
        return self._allows(self.paid(selection))

    def fitting(self, order: Ints) -> int:
        """How many interactions from the start of `order` can be disclosed together: the largest number."""
        owners, unwillingness = self.owners, self.unwillingness
        return fitting(self.allowances, order, owners, unwillingness, np.zeros(self.n_users))

    def least_share(self, selection: Bools) -> float:
        """The smallest share of a budget that would allow `selection[Z]`."""
        paid = self.paid(selection)
        disclosed = np.append(paid.sum() - paid, paid.sum())
        minded = np.append(self.minded.sum() - self.minded, self.minded.sum())
        counts = minded > 0
        return min(1.0, float((disclosed[counts] / minded[counts]).max(initial=0.0)))

    def _allows(self, paid: Floats) -> bool:
        return within(self.allowances, paid)


def within(allowances: Floats, paid: Floats) -> bool:
    """Whether people with these `allowances[N]` can disclose `paid[N]` unwillingness."""
    spare = allowances - paid
    first = spare.argmax()
    largest = float(spare[first])
    # Left out of the sum, not subtracted from it: one person's spare may be far above that of all others.
    spare[first] = 0
    return float(spare.sum()) + min(0.0, largest) >= 0


def fitting(allowances: Floats, order: Ints, owners: Ints, unwillingness: Floats, paid: Floats) -> int:
    """How many interactions from the start of `order` can be disclosed on top of `paid[N]`: the most.

    By bisection. Each step adds only the interactions between the last start that fits and the next one
    tried, so that all steps together look at each interaction about once.
    """
    low, high = 0, len(order)
    while low < high:
        middle = (low + high + 1) // 2
        more = order[low:middle]
        tried = paid + sum_by(owners[more], unwillingness[more], len(paid))
        if within(allowances, tried):
            low, paid = middle, tried
        else:
            high = middle - 1
    return low


class Spending:
    """What is left of a budget while interactions are disclosed one by one, each in O(log N).

    `first` has the largest spare and `rest` is the sum of the others' spares. Spares only fall, so another
    person can come first only when `first` pays.
    """

    def __init__(self, budget: Budget, paid: Floats) -> None:
        """Begin where `paid[N]` is disclosed of each person."""
        spare = budget.allowances - paid
        self.spare: list[float] = spare.tolist()
        self.first = int(spare.argmax())
        spare[self.first] = 0
        self.rest = float(spare.sum())
        self._others = [(-each, user) for user, each in enumerate(self.spare) if user != self.first]
        heapify(self._others)

    def pay(self, user: int, cost: float) -> bool:
        """Disclose `cost` more unwillingness of `user`; whether that is still within the budget."""
        self.spare[user] -= cost
        if user == self.first:
            self._find_first()
        else:
            self.rest -= cost
        return self.rest + min(0.0, self.spare[self.first]) >= 0

    def _find_first(self) -> None:
        """Put a person with the largest spare first; the heap of others has spares as large or too large."""
        others, spare = self._others, self.spare
        while others and -others[0][0] > spare[self.first]:
            known, user = others[0]
            if spare[user] < -known:
                heapreplace(others, (-spare[user], user))
            else:
                heapreplace(others, (-spare[self.first], self.first))
                self.rest += spare[self.first] - spare[user]
                self.first = user
