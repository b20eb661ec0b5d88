"""What people ask for beyond their unwillingness: limits, floors, decisions by category, a prior."""

from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Final

import numpy as np

from assent.support.arrays import Bools, Floats, Ints, sum_by
from assent.support.errors import AssentError

USUAL_PRIOR: Final = 0.9
"""Probability of disclosing unless somebody says otherwise: the mean of the paper's binomial prior."""
_STEEPEST: Final = 10.0
"""Largest power of a utility, so that rewards stay finite."""


@dataclass(frozen=True)
class Units:
    """The U units of decision: single interactions, or groups that are disclosed or withheld together.

    `of[Z]` is the unit of each interaction. Per unit, `first[U]` is one of its interactions, `owners[U]` its
    user, `unwillingness[U]` the sum of its unwillingness, `sizes[U]` its number of interactions, and
    `never[U]` whether one of them has an unwillingness of 1.
    """

    of: Ints
    first: Ints
    owners: Ints
    unwillingness: Floats
    sizes: Ints
    never: Bools

    def sums(self, values: Floats) -> Floats:
        """Sum `values[Z]` over each unit: [U]."""
        return sum_by(self.of, values, len(self.first))


@dataclass(frozen=True)
class Wishes:
    """What a selection of Z training interactions of N users has to respect; None asks for nothing.

    With x_u the sum of unwillingness that a selection discloses of user u:
        groups[Z]  interactions of one user with the same number are disclosed or withheld together
        budget[N]  upper limit of x_u; inf is no limit
        floor[N]   least number of interactions of u to disclose, as far as "never" and the budget allow
        prior[Z]   probability of disclosing from which the game starts
        power      the reward counts price · x_u^power: 1 is the paper's, 2 makes every further unit dearer
    """

    groups: Ints | None = None
    budget: Floats | None = None
    floor: Ints | None = None
    prior: Floats | None = None
    power: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.power <= _STEEPEST:
            accepted = f"a number above 0, at most {_STEEPEST:g}"
            raise AssentError(f"utility: power {self.power:g}; accepted: {accepted}")
        if self.budget is not None and not (self.budget >= 0).all():
            raise AssentError("budget: negative or missing for somebody; accepted: numbers from 0 on")
        if self.floor is not None and not ((self.floor >= 0) & (self.floor % 1 == 0)).all():
            raise AssentError("floor: not a whole number for somebody; accepted: whole numbers from 0 on")
        if self.prior is not None and not ((self.prior >= 0) & (self.prior <= 1)).all():
            raise AssentError("prior: not a probability for some interaction; accepted: numbers from 0 to 1")

    @cached_property
    def are_plain(self) -> bool:
        """Whether every interaction can be decided by itself: nothing but a prior is asked for."""
        return self.groups is None and self.budget is None and self.floor is None and self.power == 1

    def check(self, owners: Ints, n_users: int) -> None:
        """Raise if the wishes do not fit interactions of `owners[Z]` among `n_users` users."""
        lengths = {"groups": len(owners), "prior": len(owners), "budget": n_users, "floor": n_users}
        for name, length in lengths.items():
            given = getattr(self, name)
            if given is not None and given.shape != (length,):
                raise AssentError(f"wishes: {name} has the shape {given.shape}; accepted: ({length},)")
        if self.groups is not None:
            first = np.unique(self.groups, return_index=True, return_inverse=True)
            if (owners[first[1]][first[2]] != owners).any():
                raise AssentError("wishes: a group has interactions of several users; accepted: of one user")

    def units(self, owners: Ints, unwillingness: Floats) -> Units:
        """The units of decision of interactions with these `owners[Z]` and this `unwillingness[Z]`."""
        groups = np.arange(len(owners)) if self.groups is None else self.groups
        _, first, of = np.unique(groups, return_index=True, return_inverse=True)
        return Units(
            of=of,
            first=first,
            owners=owners[first],
            unwillingness=sum_by(of, unwillingness, len(first)),
            sizes=np.bincount(of, minlength=len(first)),
            never=sum_by(of, (unwillingness >= 1).astype(np.float64), len(first)) > 0,
        )

    def cost(self, disclosed: Floats) -> Floats:
        """Cost of disclosing this much unwillingness, in units of the price: the shape of `disclosed`."""
        return disclosed if self.power == 1 else disclosed**self.power

    def summary(self) -> dict[str, float | int | None]:
        """What is asked for, without ids: numbers of groups and of people with limits, means."""
        limited = None if self.budget is None else self.budget[np.isfinite(self.budget)]
        return {
            "groups": None if self.groups is None else len(np.unique(self.groups)),
            "users_with_budget": None if limited is None else len(limited),
            "mean_user_budget": None if limited is None or not len(limited) else float(limited.mean()),
            "users_with_floor": None if self.floor is None else int((self.floor > 0).sum()),
            "mean_user_floor": None if self.floor is None else float(self.floor.mean()),
            "mean_prior": None if self.prior is None else float(self.prior.mean()),
            "utility_power": self.power,
        }

    def mark(self) -> bytes:
        """Bytes that differ between different wishes; empty for wishes that ask for nothing."""
        arrays = {name: value for name, value in vars(self).items() if isinstance(value, np.ndarray)}
        if not arrays and self.power == 1:
            return b""
        asked = b"".join(name.encode() + value.tobytes() for name, value in arrays.items())
        return blake2b(asked + str(self.power).encode(), digest_size=16).digest()


PLAIN = Wishes()
"""Wishes that ask for nothing."""
