"""Who plays, under which limits, and their best responses to given values.

A person chooses units (single interactions, or groups that are decided together) with values v, unwillingness
b and sizes n to maximise

    Σ v o − price · (Σ b o)^power     subject to     Σ b o ≤ budget,  Σ n o ≥ floor

If no selection within the budget reaches the floor, those with the most interactions are allowed instead.
Without wishes the answer is in closed form; with them it is exact up to a bound that is returned.

`by_score` and `cheapest_first` select by a score alone, for methods that play no game.
"""

from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np

from assent.data.problem import Problem
from assent.data.wishes import PLAIN, Units, Wishes
from assent.game.budget import Budget, Spending, up_to_rounding
from assent.game.prices import PricePath, worth_disclosing
from assent.results.records import check_price
from assent.support.arrays import Bools, Floats, Ints, slices, sum_by
from assent.support.errors import AssentError

ENUMERATED = 10
"""People with at most so many units have all their selections compared."""
_STATES = 4096
_LEAST = 1e-12
"""Smallest unwillingness to divide by."""


@dataclass(frozen=True)
class Players:
    """N users with Z interactions of `unwillingness[Z]`, at a price and with their wishes."""

    owners: Ints
    n_users: int
    unwillingness: Floats
    price: float
    wishes: Wishes = PLAIN

    def __post_init__(self) -> None:
        check_price(self.price)

    @cached_property
    def units(self) -> Units:
        """What is decided on."""
        return self.wishes.units(self.owners, self.unwillingness)

    @cached_property
    def budget(self) -> Floats:
        """[N], inf where there is none."""
        return np.full(self.n_users, np.inf) if self.wishes.budget is None else self.wishes.budget

    @cached_property
    def floor(self) -> Ints:
        """[N], 0 where there is none."""
        return np.zeros(self.n_users, dtype=np.int64) if self.wishes.floor is None else self.wishes.floor

    def shared_budget(self, share: float) -> Budget:
        """The budget for all that discloses at most this share of what they mind."""
        return Budget(share, self.owners, self.unwillingness, self.n_users)

    def costs(self, paid: Floats) -> Floats:
        """What disclosing an unwillingness of `paid` costs, in loss units."""
        return self.price * (paid if self.wishes.power == 1 else np.maximum(paid, 0) ** self.wishes.power)

    def allow(self, users: Ints, paid: Floats, number: Floats | Ints) -> Bools:
        """Which of C selections with `number[m, C]` interactions and unwillingness `paid[m, C]`: [m, C]."""
        enough = np.minimum(number, self.floor[users, None])
        enough[paid > up_to_rounding(self.budget[users, None])] = -1
        most: Bools = enough == enough.max(axis=1, keepdims=True)
        return most

    def best(self, values: Floats) -> Bools:
        """What everybody discloses if interactions are worth `values[Z]`: [Z]."""
        if self.wishes.are_plain:
            return worth_disclosing(values, self.unwillingness, self.price)
        return self.best_within(values)[0]

    def best_within(self, values: Floats) -> tuple[Bools, Floats]:
        """Best responses to `values[Z]` under wishes, [Z], and how far each may be from the optimum, [N].

        People whose limits do not bind get the closed form; the others are solved person by person.
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
                for here in slices(len(table), max(1, 2**22 >> count)):
                    chosen[table[here]] = choose_all(self, users[some][here], *(term[here] for term in terms))
                continue
            for at, user in enumerate(users[some].tolist()):
                chosen[table[at]], gaps[user] = choose_one(self, user, *(term[at] for term in terms))
        return chosen[units.of], gaps

    def paid(self, selection: Bools) -> Floats:
        """The unwillingness that each user discloses: [N]."""
        return sum_by(self.owners, self.unwillingness * selection, self.n_users)

    def payoffs(self, values: Floats, selection: Bools) -> Floats:
        """What each user gets from their own part of `selection[Z]` if rows are worth `values[Z]`: [N]."""
        gain = sum_by(self.owners, values * selection, self.n_users)
        return gain - self.costs(self.paid(selection))

    def gains(self, values: Floats, selection: Bools) -> Floats:
        """At most what each user could gain by another part in `selection[Z]`, at least 0: [N]."""
        if self.wishes.are_plain:
            net = values - self.price * self.unwillingness
            missed = np.where(selection, np.maximum(-net, 0), np.maximum(net, 0))
            return sum_by(self.owners, missed, self.n_users)
        answer, gaps = self.best_within(values)
        return np.maximum(0, self.payoffs(values, answer) + gaps - self.payoffs(values, selection))


def players_of(problem: Problem, price: float = 0.0) -> Players:
    """The users of a problem with their wishes."""
    return Players(problem.train.users, problem.n_users, problem.unwillingness, price, problem.wishes)


def choose_all(players: Players, users: Ints, values: Floats, weights: Floats, sizes: Ints) -> Bools:
    """The best of all 2^U selections for each of `users[m]`; other arguments [m, U]: [m, U]."""
    choices = all_choices(values.shape[1])
    bits = choices.astype(np.float64).T
    paid = weights @ bits
    payoff = values @ bits - players.costs(paid)
    payoff[~players.allow(users, paid, sizes @ bits)] = -np.inf
    best: Bools = choices[payoff.argmax(axis=1)]
    return best


@cache
def all_choices(count: int) -> Bools:
    """All selections of `count` units, by their number in binary: [2^count, count]."""
    bits: Ints = (np.arange(2**count)[:, None] >> np.arange(count)) & 1
    return bits > 0


def choose_one(
    players: Players, user: int, values: Floats, weights: Floats, sizes: Ints, *, states: int = _STATES
) -> tuple[Bools, float]:
    """The best selection of one user, [U], and by how much its payoff may be below the optimum.

    Dynamic programming over the U units. A partial selection is dropped if another one pays no more, is worth
    no less and counts no less towards the floor. If more than `states` are left, some of these are dropped
    too; then the second result is a bound, else it is 0.
    """
    budget, floor = float(players.budget[user]), int(players.floor[user])
    order = np.argsort(-values / np.maximum(weights, _LEAST), kind="stable")
    paid, worth, number = np.zeros(1), np.zeros(1), np.zeros(1, dtype=np.int64)
    steps: list[tuple[Ints, Bools]] = []
    thinned = False
    for k in order:
        with_k = np.flatnonzero(paid + weights[k] <= up_to_rounding(budget))
        parents = np.concatenate([np.arange(len(paid)), with_k])
        taken = np.arange(len(parents)) >= len(paid)
        paid = np.concatenate([paid, paid[with_k] + weights[k]])
        worth = np.concatenate([worth, worth[with_k] + values[k]])
        number = np.concatenate([number, np.minimum(number[with_k] + sizes[k], floor)])
        kept = _undominated(paid, worth, number)
        if len(kept) > states:
            # Keep the cheapest of each number, so that the floor is met wherever it can be.
            cheapest = np.flatnonzero(np.diff(number[kept], prepend=-1))
            spread = np.linspace(0, len(kept) - 1, states).astype(np.int64)
            kept, thinned = kept[np.union1d(cheapest, spread)], True
        paid, worth, number = paid[kept], worth[kept], number[kept]
        steps.append((parents[kept], taken[kept]))
    payoff = np.where(number == number.max(), worth - players.costs(paid), -np.inf)
    state = int(payoff.argmax())
    gap = max(0.0, _fractional(players, budget, values, weights) - float(payoff[state])) if thinned else 0.0
    chosen = np.zeros(len(values), dtype=np.bool_)
    for k, (parents, taken) in zip(order[::-1], reversed(steps), strict=True):
        chosen[k] = taken[state]
        state = int(parents[state])
    return chosen, gap


def _undominated(paid: Floats, worth: Floats, number: Ints) -> Ints:
    """The states that no other state with the same or a larger `number` beats in both `paid` and `worth`."""
    found = []
    better = np.zeros(0, dtype=np.int64)
    for count in np.unique(number)[::-1]:
        here = np.concatenate([np.flatnonzero(number == count), better])
        here = here[np.lexsort((-worth[here], paid[here]))]
        best = np.maximum.accumulate(np.concatenate([[-np.inf], worth[here]]))[:-1]
        better = here[worth[here] > best]
        found.append(better[number[better] == count])
    return np.concatenate(found)


def _fractional(players: Players, budget: float, values: Floats, weights: Floats) -> float:
    """An upper bound of the payoff: the optimum if units could be divided and there were no floor."""
    order = np.argsort(-values / np.maximum(weights, _LEAST))
    order = order[values[order] > 0]
    ends = np.concatenate([[0.0], np.cumsum(weights[order])])
    worth = np.concatenate([[0.0], np.cumsum(values[order])])
    most, power = min(budget, float(ends[-1])), players.wishes.power
    points = [ends, np.array([most])]
    if power > 1 and players.price > 0:
        slopes = values[order] / np.maximum(weights[order], _LEAST)
        still = (slopes / (players.price * power)) ** (1 / (power - 1))
        points.append(np.clip(still, ends[:-1], ends[1:]))
    at = np.minimum(np.concatenate(points), most)
    return float((np.interp(at, ends, worth) - players.costs(at)).max())


def cheapest_first(scores: Floats, problem: Problem, budget: float) -> Bools:
    """Disclose by falling `scores[Z]` within a budget, the share `budget` of what people mind: [Z].

    Among equal scores, less unwillingness comes first.
    """
    if problem.wishes.are_plain:
        return PricePath.of(scores, problem.unwillingness).within(Budget.of(problem, budget))
    return by_score(players_of(problem), scores, budget=budget)


def by_score(
    players: Players,
    scores: Floats,
    *,
    budget: float | None = None,
    least: float = -np.inf,
    start: Bools | None = None,
) -> Bools:
    """Disclose by falling `scores[Z]`, down to the score `least`, within everybody's wishes: [Z].

    It ends with the first unit that `budget`, the share of a `Budget` for all, does not allow. `start[Z]` is
    disclosed first; by default what meets everybody's floor at the least unwillingness. What would exceed
    somebody's own budget is skipped. A unit has the mean score of its interactions; among equal scores, less
    unwillingness comes first.
    """
    units = players.units
    chosen = (check_floors(players, budget) if start is None else start)[units.first]
    paid = sum_by(units.owners, units.unwillingness * chosen, players.n_users)
    left = None if budget is None else Spending(players.shared_budget(budget), paid)
    worth, most = units.sums(scores) / units.sizes, up_to_rounding(players.budget)
    for unit in np.lexsort((units.unwillingness, -worth)).tolist():
        if worth[unit] < least:
            break
        user, cost = int(units.owners[unit]), float(units.unwillingness[unit])
        if chosen[unit] or units.never[unit] or paid[user] + cost > most[user]:
            continue
        if left is not None and not left.pay(user, cost):
            break
        chosen[unit] = True
        paid[user] += cost
    return chosen[units.of]


def floors_alone(players: Players) -> Bools:
    """What meets everybody's floor at the least unwillingness: [Z]."""
    if players.wishes.floor is None:
        return np.zeros(len(players.owners), dtype=np.bool_)
    return replace(players, price=1.0).best_within(np.zeros(len(players.owners)))[0]


def check_floors(players: Players, budget: float | None) -> Bools:
    """`floors_alone`, [Z]; raise if `budget`, the share of a budget for all, is too little for it."""
    floors = floors_alone(players)
    if budget is None or (shared := players.shared_budget(budget)).allows(floors):
        return floors
    # Rounded up, so that the budget that is named suffices.
    least = np.ceil(1000 * shared.least_share(floors)) / 1000
    raise AssentError(
        f"budget {budget:g}: everybody's floor alone takes a budget of {least:g}; "
        "accepted: at least that, or lower floors"
    )
