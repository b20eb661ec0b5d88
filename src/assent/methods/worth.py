"""worth: assent's own method, and the default.

It estimates what every interaction is worth (`assent.worth`) and discloses k where its worth exceeds
price · unwillingness. With a budget, the price is the lowest that keeps within it.
"""

from dataclasses import asdict
from functools import partial
from typing import ClassVar

from pydantic import Field

from assent.game.certificate import certify
from assent.game.decide import decide_within
from assent.game.estimates import Estimates
from assent.game.nearest import unsure
from assent.game.players import check_floors, players_of
from assent.game.solve import Equilibrium, solve
from assent.lab.lab import Lab, everything
from assent.methods.base import Choice, GameMethod
from assent.support.cost import Clock, Cost
from assent.worth.estimate import Source, Worth, WorthSettings, estimate


class WorthMethod(GameMethod):
    """Disclose what is worth more than it costs, by assent's own estimate."""

    name: ClassVar[str] = "worth"

    source: Source = Field(
        Source.COMBINED, description="where worth comes from: combined, cross-fitted or structure"
    )
    folds: int = Field(3, ge=2, description="parts that the training rows are dealt into")

    def at_price(self, lab: Lab, price: float) -> Choice:
        """Disclose what is worth more than price · unwillingness."""
        known = self.estimate(lab)
        with Clock() as clock:
            estimates = game_of(lab, known)
            found = solve(estimates, objective=self.objective, price=price)
        return self._choice(estimates, known, found, price, clock, is_solved=True)

    def within(self, lab: Lab, budget: float) -> Choice:
        """Disclose what is worth most per unwillingness until the budget is used up."""
        allowed = budget * float(lab.problem.unwillingness.sum())
        check_floors(players_of(lab.problem), allowed)
        known = self.estimate(lab)
        with Clock() as clock:
            estimates = game_of(lab, known)
            play = partial(_play, estimates, self)
            found, price = decide_within(estimates, play, allowed, self.objective)
        return self._choice(estimates, known, found, price, clock, is_solved=False)

    def estimate(self, lab: Lab) -> Worth:
        """Return what every interaction is worth; trains what that rests on."""
        return estimate(lab, self.settings_for(lab.settings.model), self.objective)

    def settings_for(self, model: str) -> WorthSettings:
        """Return how worth is estimated for a model."""
        return WorthSettings(
            source=self.source, folds=self.folds, influence=self.influence_for(model), reward=self.reward
        )

    def _choice(
        self,
        estimates: Estimates,
        known: Worth,
        found: Equilibrium,
        price: float,
        clock: Clock,
        *,
        is_solved: bool,
    ) -> Choice:
        with clock:
            certificate = certify(
                estimates, found, objective=self.objective, price=price, rounds=1, is_solved=is_solved
            )
            gains_estimated = int(unsure(estimates, found.selection, self.objective).sum())
        facts = {**known.facts, "anchors_at_solution": 0, **asdict(certificate)}
        return Choice(
            found.selection,
            price,
            facts | {"gains_estimated": gains_estimated},
            values=found.values,
            errors=known.error,
            cost=known.cost + Cost.of("deciding", clock.seconds),
        )


def game_of(lab: Lab, known: Worth) -> Estimates:
    """Return the game that is played with these values: one anchor, everything."""
    problem = lab.problem
    return Estimates(
        owners=problem.train.users,
        n_users=problem.n_users,
        unwillingness=problem.unwillingness,
        anchors=everything(problem)[None],
        own=known.own[None],
        social=known.social[None],
        losses=known.losses[None],
        wishes=problem.wishes,
    )


def _play(estimates: Estimates, method: WorthMethod, price: float) -> Equilibrium:
    return solve(estimates, objective=method.objective, price=price)
