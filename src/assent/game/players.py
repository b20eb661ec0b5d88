"""Who plays, for what, and under which limits: the best response of everybody to given values."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from assent.arrays import Bools, Floats, Ints, sum_by
from assent.data.wishes import PLAIN, Units, Wishes
from assent.game.knapsack import ENUMERATED, Limits, choose_all, choose_one
from assent.game.prices import worth_disclosing


@dataclass(frozen=True)
class Players:
    """N users with Z interactions of `unwillingness[Z]`, at a price and with their wishes."""

    owners: Ints
    n_users: int
    unwillingness: Floats
    price: float
    wishes: Wishes = PLAIN

    @cached_property
    def units(self) -> Units:
        """What is decided on."""
        return self.wishes.units(self.owners, self.unwillingness)

    @cached_property
    def budget(self) -> Floats:
        """[N], inf where there is none."""
        given = self.wishes.budget
        return np.full(self.n_users, np.inf) if given is None else given

    @cached_property
    def floor(self) -> Ints:
        """[N]"""
        given = self.wishes.floor
        return np.zeros(self.n_users, dtype=np.int64) if given is None else given

    def best(self, values: Floats) -> Bools:
        """What everybody discloses if interactions are worth `values[Z]`: [Z]."""
        if self.wishes.are_plain:
            return worth_disclosing(values, self.unwillingness, self.price)
        return self.best_within(values)[0]

    def best_within(self, values: Floats) -> tuple[Bools, Floats]:
        """The same under wishes, and by how much each may fall short of her optimum: [Z], [N].

        Whose limits do not bind has the closed form; the others are solved one by one (`knapsack`).
        """
        units, gaps = self.units, np.zeros(self.n_users)
        worth = units.sums(values)
        chosen = (worth > self.price * units.unwillingness) & ~units.never
        open_users = np.ones(self.n_users, dtype=np.bool_)
        if self.wishes.power == 1:
            paid = sum_by(units.owners, units.unwillingness * chosen, self.n_users)
            number = sum_by(units.owners, units.sizes.astype(np.float64) * chosen, self.n_users)
            open_users = (paid > self.budget) | (number < self.floor)
        least = 0.0 if self.wishes.power != 1 else self.price * units.unwillingness
        useful = ~units.never & ((self.floor[units.owners] > 0) | (worth > least))
        chosen[open_users[units.owners]] = False
        rows = np.flatnonzero(useful & open_users[units.owners])
        rows = rows[np.argsort(units.owners[rows], kind="stable")]
        users, starts, counts = np.unique(units.owners[rows], return_index=True, return_counts=True)
        for count in np.unique(counts):
            some = counts == count
            table = rows[starts[some][:, None] + np.arange(count)]
            terms = worth[table], units.unwillingness[table], units.sizes[table]
            if count <= ENUMERATED:
                chosen[table] = choose_all(*terms, self.limits(users[some]))
                continue
            for at, user in enumerate(users[some]):
                values_of, weights, sizes = (term[at] for term in terms)
                chosen[table[at]], gaps[user] = choose_one(
                    values_of, weights, sizes, self.limits(users[some][[at]])
                )
        return chosen[units.of], gaps

    def paid(self, selection: Bools) -> Floats:
        """The unwillingness that each user discloses: [N]."""
        return sum_by(self.owners, self.unwillingness * selection, self.n_users)

    def payoffs(self, values: Floats, selection: Bools) -> Floats:
        """What each gets from her own part of `selection[Z]` if interactions are worth `values[Z]`: [N]."""
        gain = sum_by(self.owners, values * selection, self.n_users)
        return gain - self.price * self.wishes.cost(self.paid(selection))

    def gains(self, values: Floats, selection: Bools) -> Floats:
        """What each could gain by another part in `selection[Z]`, at least 0: [N]."""
        if self.wishes.are_plain:
            net = values - self.price * self.unwillingness
            return sum_by(
                self.owners, np.where(selection, np.maximum(-net, 0), np.maximum(net, 0)), self.n_users
            )
        answer, gaps = self.best_within(values)
        return np.maximum(0, self.payoffs(values, answer) + gaps - self.payoffs(values, selection))

    def limits(self, users: Ints) -> Limits:
        """Those of some users."""
        return Limits(self.price, self.wishes.power, self.budget[users], self.floor[users])
