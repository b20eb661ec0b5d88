"""IFRQE: influence at one anchor, and the closed form of its game."""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from assent.game.estimates import Estimates
from assent.game.objective import Objective
from assent.game.prices import fits_into, price_path
from assent.game.solve import Equilibrium, regret_of, solve
from assent.methods.base import Choice, Method
from assent.workbench import Workbench


class IFRQE(Method):
    """Disclose k iff its influence at one anchor exceeds price · unwillingness (section 3.1 of the paper)."""

    name: ClassVar[str] = "ifrqe"
    objectives: ClassVar[tuple[Objective, ...]] = tuple(Objective)
    ignores: ClassVar[frozenset[str]] = Method.ignores | {"anchors"}

    def at_price(self, bench: Workbench, price: float) -> Choice:
        """The equilibrium at a price."""
        found = self._play(bench, price)
        return self._choice(bench, price, found)

    def within(self, bench: Workbench, budget: float) -> Choice:
        """The equilibrium at the lowest price, at least 0, that keeps within the budget, filled up to it.

        The price is found by bisection, because with several anchors the values themselves depend on it. What
        the budget leaves over at price 0 goes to the interactions without value that are minded least.
        """
        unwillingness = bench.problem.unwillingness
        allowed = budget * float(unwillingness.sum())

        def fits(found: Equilibrium) -> bool:
            return fits_into(float(unwillingness[found.selection].sum()), allowed)

        low, high = 0.0, 0.0
        while not fits(found := self._play(bench, high)):
            low, high = high, max(2 * high, price_path(found.values, unwillingness).price_within(allowed))
        while high - low > _PRECISION * high:
            middle = (low + high) / 2
            trial = self._play(bench, middle)
            if fits(trial):
                high, found = middle, trial
            else:
                low = middle
        path = price_path(found.values, unwillingness)
        selection, price = path.within(allowed), path.price_within(allowed)
        regret = regret_of(self._estimates(bench), selection, objective=self.objective, price=price)
        return self._choice(bench, price, replace(found, selection=selection, regret=regret))

    def _choice(self, bench: Workbench, price: float, found: Equilibrium) -> Choice:
        certificate = self._certificate(bench, found)
        return Choice(found.selection, price, certificate, self._anchors(bench), found.values)

    def _certificate(self, bench: Workbench, found: Equilibrium) -> dict[str, float]:
        """Worst residuals of the influence solves, rounds played, and what deviating could still gain."""
        used = bench.influences()[: self._anchors(bench)]
        return {
            **_largest("residual_own", [each.residual_own for each in used]),
            **_largest("residual_social", [each.residual_social for each in used]),
            "rounds": found.rounds,
            "nearest_anchor_probability": float(found.cell_probability.max()),
            "largest_regret": float(found.regret.max()),
            "mean_regret": float(found.regret.mean()),
        }

    def _anchors(self, bench: Workbench) -> int:
        return 1

    def _play(self, bench: Workbench, price: float) -> Equilibrium:
        estimates = self._estimates(bench)
        return solve(estimates, objective=self.objective, price=price, rounds=bench.settings.rounds)

    def _estimates(self, bench: Workbench) -> Estimates:
        return bench.estimates(self._anchors(bench))


def _largest(name: str, residuals: Sequence[float | None]) -> dict[str, float]:
    """An entry with the largest residual, if any system was solved."""
    solved = [each for each in residuals if each is not None]
    return {name: max(solved)} if solved else {}


_PRECISION = 1e-2
