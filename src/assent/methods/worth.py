"""worth: assent's own method, and the default.

It estimates what every interaction is worth (`assent.worth`) and discloses k where its worth exceeds
price · unwillingness. With a budget, the price is the lowest that keeps within it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, cast

from pydantic import Field

from assent.data.problem import Problem
from assent.game.estimates import Estimates, Objective
from assent.game.solve import Equilibrium, decide_within, solve
from assent.lab.lab import Lab, Task, everything
from assent.methods.base import Choice, Decide, GameMethod
from assent.support.arrays import Bools
from assent.support.cost import Clock
from assent.worth.estimate import Source, Worth, WorthSettings, check_folds, estimate, groundwork
from assent.worth.trial import Trial


class WorthMethod(GameMethod):
    """Disclose what is worth more than it costs, by assent's own estimate."""

    name: ClassVar[str] = "worth"

    source: Source = Field(
        Source.COMBINED, description="where worth comes from: combined, cross-fitted or structure"
    )
    folds: int = Field(3, ge=2, description="parts that the training rows are dealt into")
    trials: tuple[Trial, ...] = Field((), description="what trials found before; none: sources are tried")

    def check(self, problem: Problem, budget: float | None = None) -> None:
        """Refuse floors beyond the budget, and more folds than rows."""
        super().check(problem, budget)
        if self.source is not Source.STRUCTURE:
            check_folds(self.folds, problem)

    @property
    def least_rows(self) -> int:
        """Training rows without which it cannot decide: one for each fold."""
        return 1 if self.source is Source.STRUCTURE else self.folds

    def at_price(self, lab: Lab, price: float) -> Choice:
        """Disclose what is worth more than price · unwillingness."""
        return self._decide(lab, lambda game: (self._solve(game, price), price), is_solved=True)

    def within(self, lab: Lab, budget: float) -> Choice:
        """Disclose what is worth most per unwillingness until the budget is used up."""
        self.check(lab.problem, budget)
        return self._decide(
            lab,
            lambda game: decide_within(game, partial(self._solve, game), budget, self.objective),
            is_solved=False,
        )

    def untold_within(self, lab: Lab, budget: float) -> Bools:
        """Return the selection by what is measured without the validation rows: [Z]."""
        known = self._estimate(lab, untold=True)
        game = self._game(lab.problem, known)
        solution, _ = decide_within(game, partial(self._solve, game), budget, self.objective)
        return solution.selection

    def as_found(self, choice: Choice) -> "WorthMethod":
        """Return the method with the weights of its sources that the trials of a choice found."""
        found = choice.certificate.get("value_trials", ())
        trials = tuple(Trial.from_facts(each) for each in cast(Sequence[Mapping[str, Any]], found))
        return self.model_copy(update={"trials": trials})

    def groundwork(self, lab: Lab) -> Sequence[Task]:
        """Return the models of everything and without each fold, with their influence."""
        return groundwork(lab, self.settings_for(lab.settings.model))

    def estimate(self, lab: Lab) -> Worth:
        """Return what every interaction is worth; trains what that rests on."""
        return self._estimate(lab, untold=False)

    def _estimate(self, lab: Lab, *, untold: bool) -> Worth:
        settings = self.settings_for(lab.settings.model).model_copy(update={"untold": untold})
        return estimate(lab, settings, self.objective)

    def settings_for(self, model: str) -> WorthSettings:
        """Return how worth is estimated for a model."""
        return WorthSettings(
            source=self.source,
            folds=self.folds,
            trials=self.trials,
            influence=self.influence_for(model),
            reward=self.reward,
        )

    def _decide(self, lab: Lab, decide: Decide, *, is_solved: bool) -> Choice:
        known = self.estimate(lab)
        with Clock() as clock:
            game = self._game(lab.problem, known)
            solution = decide(game)
        found = self.choice(game, solution, clock, known.cost, rounds=1, is_solved=is_solved)
        facts = {**known.facts, "anchors_at_solution": 0, **found.certificate}
        errors = {Objective.NASH: known.error_own, Objective.WELFARE: known.error_social}
        return replace(
            found,
            certificate=facts,
            errors=errors[self.objective],
            error_owner=known.error_own,
            error_everybody=known.error_social,
        )

    def _game(self, problem: Problem, known: Worth) -> Estimates:
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

    def _solve(self, game: Estimates, price: float) -> Equilibrium:
        return solve(game, objective=self.objective, price=price)
