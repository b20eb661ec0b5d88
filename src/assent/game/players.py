"""One person's best selection under her limits: exact, whatever her budget, floor and utility.

She chooses units with values v, unwillingness b and sizes n to maximise

    Σ v o − price · (Σ b o)^power     subject to     Σ b o ≤ budget,  Σ n o ≥ floor

and where no selection within the budget has `floor` interactions, the most that one has take its place.

Who plays, for what, and under which limits: the best response of everybody to given values.

Selections by a score, as far as budgets and wishes allow: what methods without a game do under wishes.
"""

from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from assent.data.problem import Problem
from assent.data.wishes import PLAIN, Units, Wishes
from assent.game.prices import first, fits_into, fitting, worth_disclosing
from assent.support.arrays import Bools, Floats, Ints, slices, sum_by
from assent.support.errors import AssentError

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


def players_of(problem: Problem, price: float = 0.0) -> Players:
    """The users of a problem with their wishes."""
    return Players(problem.train.users, problem.n_users, problem.unwillingness, price, problem.wishes)


def cheapest_first(scores: Floats, problem: Problem, budget: float) -> Bools:
    """Disclose by falling `scores[Z]` (ties: less unwilling first) while the share `budget` lasts: [Z]."""
    unwillingness = problem.unwillingness
    allowed = budget * float(unwillingness.sum())
    if not problem.wishes.are_plain:
        return by_score(players_of(problem), scores, allowed=allowed)
    order = np.lexsort((unwillingness, -scores))
    return first(order, fitting(unwillingness[order], allowed))


def by_score(
    players: Players,
    scores: Floats,
    *,
    allowed: float = np.inf,
    least: float = -np.inf,
    start: Bools | None = None,
) -> Bools:
    """Disclose by falling `scores[Z]` what has at least the score `least`, while `allowed` lasts: [Z].

    `allowed` is the total unwillingness that may be disclosed. Everybody's floor comes first, met by what is
    minded least (or `start[Z]` where it is given); what exceeds somebody's own budget is left out. A unit has
    the mean score of its interactions, and of equal ones that which is minded less comes first.
    """
    units = players.units
    chosen = (floors_alone(players) if start is None else start)[units.first]
    paid = np.bincount(units.owners, units.unwillingness * chosen, players.n_users)
    total = float(paid.sum())
    if start is None:
        check_floors(players, allowed)
    worth = units.sums(scores) / units.sizes
    for unit in np.lexsort((units.unwillingness, -worth)).tolist():
        if worth[unit] < least:
            break
        user, cost = units.owners[unit], float(units.unwillingness[unit])
        if chosen[unit] or units.never[unit] or not fits_into(paid[user] + cost, players.budget[user]):
            continue
        if not fits_into(total + cost, allowed):
            break
        chosen[unit] = True
        paid[user] += cost
        total += cost
    return chosen[units.of]


def floors_alone(players: Players) -> Bools:
    """What meets everybody's floor at the least unwillingness: [Z]."""
    nothing = np.zeros(len(players.owners))
    minding = Players(players.owners, players.n_users, players.unwillingness, 1.0, players.wishes)
    return minding.best_within(nothing)[0]


def check_floors(players: Players, allowed: float) -> None:
    """Refuse a total of `allowed` unwillingness that does not suffice for everybody's floor."""
    if players.wishes.floor is None:
        return
    least = float(players.unwillingness[floors_alone(players)].sum())
    if not fits_into(least, allowed):
        everything = float(players.unwillingness.sum())
        raise AssentError(
            f"budget {allowed / everything:.3g}: everybody's floor alone discloses {least / everything:.3g} "
            "of All's violation; accepted: at least that, or lower floors"
        )
