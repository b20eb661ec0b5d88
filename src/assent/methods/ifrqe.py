"""IFRQE: influence at one anchor, and the solution of its game: in closed form, or by the paper's tables."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import ClassVar

from assent.game.certificate import Certificate, certify
from assent.game.estimates import Estimates, Objective
from assent.game.nearest import regret_of, unsure
from assent.game.paper.algorithms import check_table, solve_table
from assent.game.paper.tables import Strategy
from assent.game.players import by_score, check_floors, players_of
from assent.game.prices import break_even_prices, fits_into, price_path
from assent.game.solve import Equilibrium, solve
from assent.methods.base import Choice, Method
from assent.models import MF
from assent.support.arrays import Bools
from assent.valuers import AtPlace
from assent.workbench import Workbench


class IFRQE(Method):
    """Disclose k iff its influence at one anchor exceeds price · unwillingness (section 3.1 of the paper)."""

    name: ClassVar[str] = "ifrqe"
    objectives: ClassVar[tuple[Objective, ...]] = tuple(Objective)
    ignores: ClassVar[frozenset[str]] = Method.ignores | {"anchors", "adaptive"}

    def at_price(self, bench: Workbench, price: float) -> Choice:
        """The equilibrium at a price."""
        is_solved = bench.settings.strategy is Strategy.FACTORED
        return self._adapted(
            bench,
            lambda estimates: (self._play(bench, estimates, price), price),
            is_solved=is_solved,
        )

    def within(self, bench: Workbench, budget: float) -> Choice:
        """The equilibrium at the lowest price, at least 0, that keeps within the budget, filled up to it.

        The price is found by bisection, because with several anchors the values themselves depend on it. What
        the budget leaves over at price 0 goes to the interactions without value that are minded least.
        """
        allowed = budget * float(bench.problem.unwillingness.sum())
        check_floors(players_of(bench.problem), allowed)
        return self._adapted(bench, lambda estimates: self._fitted(bench, estimates, allowed))

    def _adapted(
        self,
        bench: Workbench,
        decide: Callable[[Estimates], tuple[Equilibrium, float]],
        *,
        is_solved: bool = False,
    ) -> Choice:
        """Decide, as often as settings ask for once more with an anchor where the last decision lies.

        `decide` returns a solution and its price; it `is_solved` if it is what `solve` returns. Where
        the solution is an anchor already, nothing is left to be learnt about it.
        """
        estimates, placed = self._estimates(bench), list[AtPlace]()
        found, price = decide(estimates)
        while len(placed) < self._adaptive(bench) and estimates.distances_of(found.selection).min() > 0:
            placed.append(bench.estimates_at(found.selection, effects=bool(estimates.effects)))
            estimates = estimates.joined(placed[-1].estimates)
            found, price = decide(estimates)
        certificate = certify(
            estimates,
            found,
            objective=self.objective,
            price=price,
            rounds=bench.settings.rounds,
            is_solved=is_solved,
        )
        return self._choice(bench, estimates, found, placed, price=price, certified=certificate)

    def _fitted(self, bench: Workbench, estimates: Estimates, allowed: float) -> tuple[Equilibrium, float]:
        """The solution that keeps within `allowed` violation, and its price."""
        unwillingness = estimates.unwillingness

        def fits(found: Equilibrium) -> bool:
            return fits_into(float(unwillingness[found.selection].sum()), allowed)

        low, high = 0.0, 0.0
        found = self._play(bench, estimates, high)
        for _ in range(_DOUBLINGS):
            if fits(found):
                break
            next_price = price_path(found.values, unwillingness).price_within(allowed)
            low, high = high, max(2 * high, next_price, _LEAST)
            found = self._play(bench, estimates, high)
        while fits(found) and high - low > _PRECISION * high:
            middle = (low + high) / 2
            trial = self._play(bench, estimates, middle)
            if fits(trial):
                high, found = middle, trial
            else:
                low = middle
        return self._filled(estimates, found, high, allowed, start=found.selection if fits(found) else None)

    def _filled(
        self, estimates: Estimates, found: Equilibrium, price: float, allowed: float, *, start: Bools | None
    ) -> tuple[Equilibrium, float]:
        """What was found, filled up with what pays at the highest prices, and the price of that.

        Under wishes, `start[Z]` is filled up. It is None where no price led to a solution that fits, which is
        so with some tables; the price is then the highest at which anything that is left out would pay.
        """
        path = price_path(found.values, estimates.unwillingness)
        if estimates.wishes.are_plain:
            selection, price = path.within(allowed), path.price_within(allowed)
        else:
            players = estimates.players(price)
            worth = players.units.sums(found.values)
            prices = break_even_prices(worth, players.units.unwillingness)[players.units.of]
            selection = by_score(players, prices, allowed=allowed, start=start)
            if start is None:
                price = float(prices[~selection].max(initial=0.0))
        regret = regret_of(estimates, selection, objective=self.objective, price=price)
        return replace(found, selection=selection, regret=regret), price

    def _choice(
        self,
        bench: Workbench,
        estimates: Estimates,
        found: Equilibrium,
        placed: Sequence[AtPlace],
        *,
        price: float,
        certified: Certificate,
    ) -> Choice:
        anchors = self._anchors(bench)
        certificate = {
            **bench.trust(anchors, self.objective, placed),
            "anchors_at_solution": len(placed),
            **asdict(certified),
            "gains_estimated": int(unsure(estimates, found.selection, self.objective).sum()),
        }
        return Choice(
            found.selection,
            price,
            certificate,
            anchors=bench.resting_on(anchors, self.objective),
            values=found.values,
            errors=bench.errors(estimates, self.objective),
            drawn=bench.settings.strategy is Strategy.TABLE and estimates.n_anchors > 1,
            explored=len(placed),
            owed=sum(each.owed for each in placed),
        )

    def _anchors(self, bench: Workbench) -> int:
        return 1

    def _adaptive(self, bench: Workbench) -> int:
        return 0

    def _play(self, bench: Workbench, estimates: Estimates, price: float) -> Equilibrium:
        settings = bench.settings
        if settings.strategy is Strategy.FACTORED:
            return solve(estimates, objective=self.objective, price=price, rounds=settings.rounds)
        return solve_table(
            estimates, objective=self.objective, price=price, settings=settings.table, seed=bench.seed
        )

    def _estimates(self, bench: Workbench) -> Estimates:
        """Tables learn from the rewards of eq. (8), to which belongs what others do to a player, if known."""
        anchors = self._anchors(bench)
        if bench.settings.strategy is Strategy.FACTORED:
            return bench.estimates(anchors, self.objective)
        several = anchors + self._adaptive(bench) > 1
        check_table(players_of(bench.problem), several=several)
        effects = several and bench.settings.model == MF.name
        return bench.estimates(anchors, self.objective, effects=effects)


_PRECISION = 1e-2
_LEAST = 1e-6
"""The price to go on from where even the path finds none above 0."""
_DOUBLINGS = 20
"""Of the price, at most. A table that learns from few samples may withhold too little at any price; then what
it found alone orders the interactions."""
