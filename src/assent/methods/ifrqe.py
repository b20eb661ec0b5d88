"""IFRQE and IFRQE++, the paper's methods: influence at T anchors, the nearest of which predicts, and a game.

IFRQE has one anchor, IFRQE++ several. The game is solved in closed form with factored strategies, or by the
paper's own algorithms on tables.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import ClassVar

import numpy as np
from pydantic import Field

from assent.game.certificate import certify
from assent.game.decide import decide_within
from assent.game.estimates import Estimates
from assent.game.paper.algorithms import check_table, solve_table
from assent.game.paper.tables import Strategy, TableSettings
from assent.game.players import check_floors, players_of
from assent.game.regret import unsure
from assent.game.solve import Equilibrium, solve
from assent.lab.anchors import InfluenceAt, anchor_at, effects_in, loss_weights, random_anchors, residuals
from assent.lab.lab import Lab, Training
from assent.lab.store import Entry
from assent.methods.base import Choice, GameMethod
from assent.models import MF
from assent.support.arrays import Floats
from assent.support.cost import Clock, Cost

Decide = Callable[[Estimates], tuple[Equilibrium, float]]
"""Solves a game: the solution, and the price at which it was decided."""


class IFRQE(GameMethod):
    """Disclose k iff its influence at one anchor exceeds price · unwillingness (section 3.1 of the paper)."""

    name: ClassVar[str] = "ifrqe"

    anchor_rate: float = Field(0.9, gt=0, le=1, description="share of the rows that an anchor discloses")
    rounds: int = Field(40, ge=1, description="largest number of rounds of the game")
    strategy: Strategy = Field(Strategy.FACTORED, description="factored, or the paper's table")
    table: TableSettings = Field(TableSettings(), description="how tables are learnt")

    def at_price(self, lab: Lab, price: float) -> Choice:
        """Return the equilibrium at a price."""
        is_solved = self.strategy is Strategy.FACTORED
        return self._decide(
            lab, lambda estimates: (self._play(lab, estimates, price), price), is_solved=is_solved
        )

    def within(self, lab: Lab, budget: float) -> Choice:
        """Return the equilibrium at the lowest price, at least 0, that keeps within the budget, filled up.

        The price is found by bisection, because with several anchors the values themselves depend on it. What
        the budget leaves over at price 0 goes to the interactions without value that are minded least.
        """
        allowed = budget * float(lab.problem.unwillingness.sum())
        check_floors(players_of(lab.problem), allowed)

        def decide(estimates: Estimates) -> tuple[Equilibrium, float]:
            return decide_within(
                estimates, lambda price: self._play(lab, estimates, price), allowed, self.objective
            )

        return self._decide(lab, decide, is_solved=False)

    @property
    def n_anchors(self) -> int:
        """T."""
        return 1

    @property
    def n_adaptive(self) -> int:
        """How many anchors are added where the solution lies."""
        return 0

    def estimates(self, lab: Lab, *, effects: bool = False) -> Estimates:
        """Return what is known around the T random anchors; trains them.

        With `effects`, also what every interaction does to every single user (MF alone).
        """
        anchors = random_anchors(lab, self.n_anchors, rate=self.anchor_rate)
        return self._influence(lab, anchors, effects=effects).estimates()

    def _decide(self, lab: Lab, decide: Decide, *, is_solved: bool) -> Choice:
        """Decide; with adaptive anchors, again with an anchor where the last decision lies.

        Where the solution is an anchor already, a further one would tell nothing new.
        """
        clock = Clock()
        with_effects = self._needs_effects(lab)
        anchors = random_anchors(lab, self.n_anchors, rate=self.anchor_rate)
        known = self._influence(lab, anchors, effects=with_effects)
        with clock:
            estimates = known.estimates()
            found, price = decide(estimates)
        while len(anchors) < self.n_anchors + self.n_adaptive:
            if estimates.distances_of(found.selection).min() == 0:
                break
            anchors.append(anchor_at(lab, found.selection, "anchor at the solution"))
            known = self._influence(lab, anchors, effects=with_effects)
            with clock:
                estimates = known.estimates()
                found, price = decide(estimates)
        with clock:
            certificate = certify(
                estimates,
                found,
                objective=self.objective,
                price=price,
                rounds=self.rounds,
                is_solved=is_solved,
            )
            gains_estimated = int(unsure(estimates, found.selection, self.objective).sum())
        facts = {
            **residuals([entry.facts for entry in known.influences]),
            "anchors_at_solution": len(anchors) - self.n_anchors,
            **asdict(certificate),
            "gains_estimated": gains_estimated,
        }
        return Choice(
            found.selection,
            price,
            facts,
            values=found.values,
            errors=_spread(estimates.values(self.objective)),
            drawn=self.strategy is Strategy.TABLE and estimates.n_anchors > 1,
            cost=known.cost + Cost.of("deciding", clock.seconds),
        )

    def _influence(self, lab: Lab, anchors: Sequence[Training], *, effects: bool) -> "_Known":
        settings = self.influence_for(lab.settings.model)
        lab.train(anchors, "training anchors")
        tasks = [InfluenceAt(anchor, settings, self.reward) for anchor in anchors]
        influences = lab.run(tasks, "influence at anchors")
        of_others = [InfluenceAt(anchor, settings, self.reward, effects=True) for anchor in anchors]
        return _Known(
            lab, anchors, influences, lab.run(of_others, "effects on others") if effects else [], self
        )

    def _needs_effects(self, lab: Lab) -> bool:
        """Tables learn from the rewards of eq. (8), which count what others do to a player, where known."""
        if self.strategy is Strategy.FACTORED:
            return False
        several = self.n_anchors + self.n_adaptive > 1
        check_table(players_of(lab.problem), several=several)
        return several and lab.settings.model == MF.name

    def _play(self, lab: Lab, estimates: Estimates, price: float) -> Equilibrium:
        if self.strategy is Strategy.FACTORED:
            return solve(estimates, objective=self.objective, price=price, rounds=self.rounds)
        return solve_table(
            estimates, objective=self.objective, price=price, settings=self.table, seed=lab.seed
        )


class IFRQEpp(IFRQE):
    """The game of IFRQE with T anchors (section 3.2 of the paper)."""

    name: ClassVar[str] = "ifrqe++"

    anchors: int = Field(3, ge=1, description="T, selections that a model is trained on")
    adaptive: int = Field(0, ge=0, description="anchors that are added where the solution lies")

    @property
    def n_anchors(self) -> int:
        """T."""
        return self.anchors

    @property
    def n_adaptive(self) -> int:
        """How many anchors are added where the solution lies."""
        return self.adaptive


class _Known:
    """What is known around anchors."""

    def __init__(
        self,
        lab: Lab,
        anchors: Sequence[Training],
        influences: Sequence[Entry],
        effects: Sequence[Entry],
        method: IFRQE,
    ) -> None:
        self.lab, self.anchors, self.influences, self.effects = lab, anchors, influences, effects
        self.weights = loss_weights(lab, method.reward)
        self.cost = sum((entry.cost for entry in (*influences, *effects)), Cost())

    def estimates(self) -> Estimates:
        """Return the game that is played with it."""
        problem, arrays = self.lab.problem, [entry.arrays for entry in self.influences]
        return Estimates(
            owners=problem.train.users,
            n_users=problem.n_users,
            unwillingness=problem.unwillingness,
            anchors=np.array([anchor.selection for anchor in self.anchors]),
            own=np.array([each["own"] for each in arrays]) * self.weights[problem.train.users],
            social=np.array([each["social"] for each in arrays]),
            losses=np.array([each["losses"] for each in arrays]) * self.weights,
            effects=tuple(effects_in(entry) for entry in self.effects),
            wishes=problem.wishes,
        )


def _spread(values: Floats) -> Floats | None:
    """Return how far the anchors' `values[T, Z]` are from each other, as a standard deviation: [Z]."""
    if len(values) < 2:
        return None
    spread: Floats = values.std(axis=0, ddof=1)
    return spread
