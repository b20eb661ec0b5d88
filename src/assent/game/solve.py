"""Equilibria in factored strategies: a probability per interaction, best responses in closed form.

With one anchor the solution is exact: disclose k iff g_k > price · β_k.

With several, a certain joint selection has one nearest anchor t, and unless a player alone can change that,
the best response is the one to g_t. So the best responses to g_t are an equilibrium iff t is the anchor
nearest to them: the cell of t *answers itself*.

`nash`: start from the best response to the prior (`nearest.response_values`) and go from cell to cell until
one answers itself. If none does, hold selections in their cells (`steering`), and from there let players who
could gain answer in turn (`turns`). Where turns settle, that is an equilibrium. Otherwise the selection with
the least regret is returned.

`welfare`: maximise the sum of rewards. The best response to g_t, wherever it lies, bounds what the cell of t
can have; cells are tried by falling bound until no other can be better.

With millions of interactions only the first few cells are held: it costs little reward and saves minutes.

`decide_within` finds the lowest price whose solution fits into a budget. With several anchors the values
themselves depend on the price, so it is found by bisection. What the budget leaves over goes to the
interactions with the highest break-even prices, and at price 0 to interactions without value, least
unwillingness first.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic, TypeVar

import numpy as np

from assent.data.wishes import USUAL_PRIOR
from assent.game.estimates import Estimates, Objective
from assent.game.nearest import only_just, regret_of, response_values, safe
from assent.game.players import by_score
from assent.game.prices import break_even_prices, price_path
from assent.game.steering import Held, Turns, hold
from assent.results.records import DEAREST
from assent.support.arrays import Bools, Floats, Ints

WORK = 3 * 10**7
"""Most entries of influence to read for holding cells; at least one cell is held in any case."""
_ENOUGH = 2e-3
"""If nobody could gain more than this share of the mean loss, no other cell is held."""
TURNS = 1000
"""Most turns of single players: a few seconds with long histories."""
_PRECISION = 1e-2
"""Relative width of the interval of prices at which bisection stops."""
_LEAST_PRICE = 1e-6
"""The first price above 0 if break-even prices suggest none."""
_DOUBLINGS = 20
"""Most doublings of the price. Tables that learn from few samples may not fit at any price."""

Found = TypeVar("Found")


@dataclass(frozen=True)
class Equilibrium:
    """A joint selection, and how it was found."""

    selection: Bools
    """[Z]"""
    values: Floats
    """[Z], v_k: what disclosing k is worth to the objective; compare with price · unwillingness. Includes
    payments that hold a cell. Where turns settled, it is what k alone adds to the payoff."""
    rounds: int
    """How many joint selections were played, without those within turns."""
    regret: Floats
    """[N], at most what each player could gain by deviating alone from `selection`."""
    nearest: Ints
    """[T], how many of the joint selections played had this nearest anchor (tables: of L draws from the
    final strategies)."""


def solve(estimates: Estimates, *, objective: Objective, price: float, rounds: int = 40) -> Equilibrium:
    """An equilibrium at a price, or the best selection found in `rounds` joint selections.

    `nash` starts from the prior of the wishes if there is one, else from the usual prior.
    """
    game = _Game(estimates, objective, price, rounds)
    if estimates.alike.max() == 0:
        return game.alone()
    if objective is Objective.WELFARE:
        return game.welfare()
    prior = estimates.wishes.prior
    return game.nash(np.full(len(estimates.owners), USUAL_PRIOR) if prior is None else prior)


class Search(Generic[Found]):
    """The search for an equilibrium at a price, wherever the interactions are.

    It counts how often each anchor was nearest to a selection that was played.
    """

    def __init__(self, price: float, rounds: int, alike: Ints, losses: Floats, interactions: int) -> None:
        self.price, self.rounds, self.alike = price, rounds, alike
        self.mean_loss, self.n_users = float(np.abs(losses).mean()), losses.shape[1]
        self.size = len(alike) * interactions
        self.nearest = np.zeros(len(alike), dtype=np.int64)

    @abstractmethod
    def _respond(self, strategy: Floats) -> tuple[Held, Floats]:
        """Everybody's best response to `strategy[Z]`, and the cells' probabilities, [T]."""

    @abstractmethod
    def _answer(self, t: int) -> Held:
        """Everybody's best response to anchor t, in whatever cell it lies."""

    @abstractmethod
    def _hold(self, t: int, *, safely: bool) -> list[Held]:
        """Best responses to anchor t, held in its cell if possible: a list of one or none.

        `safely`: by a margin that no single player can make up for.
        """

    @abstractmethod
    def _regret(self, held: Held) -> Floats:
        """At most what each player could gain by deviating alone: [N]."""

    @abstractmethod
    def _settled(self, starts: Sequence[tuple[Held, Floats | None]]) -> Found:
        """Where turns settle from one of the `starts`; if nowhere, the first start, whose regret is known."""

    @abstractmethod
    def equilibrium(self, held: Held, regret: Floats) -> Found:
        """The result for a selection that was found, with its regret."""

    def nash(self, strategy: Floats) -> Found:
        """A cell that answers itself, found from the response to `strategy[Z]`; else where turns settle.

        If they settle nowhere, the selection with the least regret.
        """
        first, probability = self._respond(strategy)
        found, lacking = list[tuple[Held, Floats]](), list[tuple[int, int, Held]]()
        for t, held in self._path(_cell(first), probability):
            if self._is_at_home(held, t):
                regret = self._regret(held)
                if not regret.any():
                    return self.equilibrium(held, regret)
                found.append((held, regret))
            else:
                lacking.append((int(held.distances[t] - held.distances.min()), t, held))
        lacking.sort(key=lambda each: each[:2])
        enough = _ENOUGH * self.mean_loss
        for held in self._holds([t for _, t, _ in lacking], has_one=bool(found)):
            found.append((held, self._regret(held)))
            if found[-1][1].max() <= enough:
                return self._settled(found[-1:])
        found.append((first, self._regret(first)))
        found.sort(key=lambda each: float(each[1].max()))
        # From a cell that does not answer itself nearly everybody moves: affordable in small games only.
        away = lacking if self.n_users <= TURNS else []
        return self._settled([*found, *((held, None) for *_, held in away)])

    def _holds(self, lacking: list[int], *, has_one: bool) -> Iterator[Held]:
        """Hold the `lacking` cells, first safely, then only just.

        In large games only the first cell is held, and only just if there is no other result yet.
        """
        most = max(1, WORK // self.size)
        for safely in (True, False):
            for t in lacking[:most]:
                for held in self._hold(t, safely=safely):
                    has_one = True
                    yield held
            if most == 1 and has_one:
                return

    def _path(self, start: int, probability: Floats) -> Iterator[tuple[int, Held]]:
        """Best responses: to the cell that the last response fell into, then to cells not visited yet."""
        left = [start, *np.argsort(-probability, kind="stable").tolist()]
        seen: set[int] = set()
        while left and self.nearest.sum() < self.rounds:
            t = left.pop(0)
            if t not in seen:
                seen.add(t)
                held = self._answer(t)
                left.insert(0, _cell(held))
                yield t, held

    def _seen(self, held: Held) -> Held:
        self.nearest[_cell(held)] += 1
        return held

    def _is_at_home(self, held: Held, t: int) -> bool:
        return bool(self.alike[_cell(held)] == self.alike[t])


class _Game(Search[Equilibrium]):
    """One game at a price, in memory."""

    def __init__(self, estimates: Estimates, objective: Objective, price: float, rounds: int) -> None:
        super().__init__(price, rounds, estimates.alike, estimates.losses, len(estimates.owners))
        self.estimates, self.objective = estimates, objective
        self.players = estimates.players(price)
        self.influence = estimates.values(objective)
        self.regret_of = partial(regret_of, estimates, objective=objective, price=price)

    def _settled(self, starts: Sequence[tuple[Held, Floats | None]]) -> Equilibrium:
        """Where turns settle from one of the `starts`; if nowhere, the first start, whose regret is known."""
        bounds = max(2, WORK // self.size)
        turns = Turns(self.estimates, self.price, turns_left=TURNS, bounds_left=bounds)
        best, regret = starts[0]
        assert regret is not None
        for held, known in starts:
            settled = turns.settle(held.selection, known)
            if settled is not None and settled[1].max() <= regret.max():
                selection, regret = settled
                distances = self.estimates.distances_of(selection)
                found = Held(selection, turns.values(selection), distances, np.zeros(len(distances)))
                return self.equilibrium(self._seen(found), regret)
        return self.equilibrium(best, regret)

    def welfare(self) -> Equilibrium:
        """The largest sum of rewards that the nearest anchors predict."""
        free = [self._play(self.influence[t]) for t in range(min(self.estimates.n_anchors, self.rounds))]
        bounds = [self._total(held, t) for t, held in enumerate(free)]
        best, most, left = free[0], -np.inf, max(2, WORK // self.size)
        for t in np.argsort(bounds)[::-1].tolist():
            if most >= bounds[t] or not left:
                break
            tried = [free[t]]
            if not self._is_at_home(free[t], t):
                tried, left = self._hold(t, safely=False) or tried, left - 1
            for held in tried:
                if (total := self._total(held)) > most:
                    best, most = held, total
        return self.equilibrium(best, self._regret(best))

    def alone(self) -> Equilibrium:
        """The closed form for one anchor, or several that coincide."""
        held = self._play(self.influence[0])
        return self.equilibrium(held, self._regret(held))

    def equilibrium(self, held: Held, regret: Floats) -> Equilibrium:
        """The result for a selection that was found, with its regret."""
        return Equilibrium(held.selection, held.values, int(self.nearest.sum()), regret, self.nearest)

    def _respond(self, strategy: Floats) -> tuple[Held, Floats]:
        """Everybody's best response to `strategy[Z]`, and the cells' probabilities, [T]."""
        values, probability = response_values(self.estimates, strategy, self.objective)
        return self._play(values), probability

    def _answer(self, t: int) -> Held:
        """Everybody's best response to anchor t, in whatever cell it lies."""
        return self._play(self.influence[t])

    def _play(self, values: Floats) -> Held:
        """Everybody's best response to `values[Z]`, in whatever cell it lies."""
        selection = self.players.best(values)
        nothing_paid = np.zeros(self.estimates.n_anchors)
        return self._seen(Held(selection, values, self.estimates.distances_of(selection), nothing_paid))

    def _hold(self, t: int, *, safely: bool) -> list[Held]:
        """Best responses to anchor t, held in its cell if possible: a list of one or none.

        `safely`: by a margin that no single player can make up for.
        """
        estimates, players, values = self.estimates, self.players, self.influence[t]
        margins = safe(estimates, t, players.best(values)) if safely else only_just(estimates, t)
        evenly = self.objective is Objective.NASH
        held = hold(estimates.anchors, players, values, t, margins, evenly=evenly)
        return [] if held is None else [self._seen(held)]

    def _total(self, held: Held, t: int | None = None) -> float:
        return self.estimates.predicted_total(held.selection, self.price, t)

    def _regret(self, held: Held) -> Floats:
        return self.regret_of(held.selection, payments=held.payments)


def _cell(held: Held) -> int:
    """The anchor nearest to a selection; of equally near ones the first."""
    return int(held.distances.argmin())


def decide_within(
    estimates: Estimates, play: Callable[[float], Equilibrium], share: float, objective: Objective
) -> tuple[Equilibrium, float]:
    """The solution within the budget of `share`, and its price, at least 0.

    `play` solves the game of `estimates` at a price. The result is the solution at the lowest price that
    fits, filled up until the next unit would not. If no price fits, the values found last only order the
    interactions. Raises AssentError if the budget does not suffice for everybody's floor.
    """
    budget = estimates.players(0.0).shared_budget(share)

    def fits(found: Equilibrium) -> bool:
        return budget.allows(found.selection)

    low, high = 0.0, 0.0
    found = play(high)
    for _ in range(_DOUBLINGS):
        if fits(found) or high == DEAREST:
            break
        next_price = price_path(found.values, estimates.unwillingness).price_within(budget)
        low, high = high, min(max(2 * high, next_price, _LEAST_PRICE), DEAREST)
        found = play(high)
    while fits(found) and high - low > _PRECISION * high:
        middle = (low + high) / 2
        trial = play(middle)
        if fits(trial):
            high, found = middle, trial
        else:
            low = middle
    if estimates.wishes.are_plain:
        path = price_path(found.values, estimates.unwillingness)
        selection, price = path.within(budget), path.price_within(budget)
    else:
        # Under wishes a solution that fits is filled up, by units. If none does, the price is the highest at
        # which something that is left out would pay.
        players, start = estimates.players(high), found.selection if fits(found) else None
        worth = players.units.sums(found.values)
        prices = break_even_prices(worth, players.units.unwillingness)[players.units.of]
        selection = by_score(players, prices, budget=share, start=start)
        price = high if start is not None else min(float(prices[~selection].max(initial=0.0)), DEAREST)
    regret = regret_of(estimates, selection, objective=objective, price=price)
    return replace(found, selection=selection, regret=regret), price
