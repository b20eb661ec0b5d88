"""The interface of all methods: a lab in, a selection out, at a price or within a budget.

A method is a frozen object that carries its own settings. What it decides is a function of the lab's problem,
base model and seed, and of the method's key, which is made of all that it holds.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from assent.data.problem import Problem
from assent.evaluation.metrics import RewardForm
from assent.game.certificate import certify
from assent.game.estimates import Estimates, Objective
from assent.game.nearest import unsure
from assent.game.players import by_score, check_floors, players_of
from assent.game.solve import Equilibrium
from assent.influence.inverse import InfluenceSettings
from assent.lab.lab import Lab, Task
from assent.results.records import Way
from assent.support.arrays import Bools, Floats
from assent.support.cost import NO_COST, Clock, Cost
from assent.training import defaults_of

Decide = Callable[[Estimates], tuple[Equilibrium, float]]
"""Solves a game: the solution, and the price at which it was decided."""


@dataclass(frozen=True)
class Choice:
    """What a method decided."""

    selection: Bools
    """[Z]"""
    price: float | None
    """The price at which it decided; None for methods that know none."""
    certificate: Mapping[str, object] = field(default_factory=dict)
    """How far the decision can be trusted (`game.certificate`); empty where nothing is solved."""
    values: Floats | None = None
    """[Z], what disclosing each interaction is worth in units of the loss; None where none is estimated."""
    worth_owner: Floats | None = None
    """[Z], what it is worth to its owner; None where that is not told apart."""
    worth_everybody: Floats | None = None
    """[Z], what it is worth to everybody; None where that is not told apart."""
    errors: Floats | None = None
    """[Z], how far the truth may be from `values`, as a standard deviation; None where that is unknown."""
    error_owner: Floats | None = None
    """[Z], the same of `worth_owner`."""
    error_everybody: Floats | None = None
    """[Z], the same of `worth_everybody`."""
    drawn: bool = False
    """Whether the selection is a sample of strategies that are not certain."""
    cost: Cost = NO_COST
    """What it took, with everything that it rests on."""


class Method(BaseModel, ABC):
    """A way to choose what is disclosed; a new one is a file and an entry of the registry."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: ClassVar[str]
    """What the command line calls it."""
    objectives: ClassVar[tuple[Objective, ...]] = ()
    """The objectives that it can play for; empty for methods that weigh nobody's reward."""
    retrains: ClassVar[bool] = False
    """Whether it trains a model for everything that it tries: such methods run only where they are named."""

    def check(self, problem: Problem, budget: float | None = None) -> None:
        """Refuse what it cannot decide on, here or within a budget, before anything is computed."""
        if budget is not None and problem.wishes.floor is not None:
            check_floors(players_of(problem), budget)

    @abstractmethod
    def at_price(self, lab: Lab, price: float) -> Choice:
        """Decide when one unit of unwillingness costs `price` units of the loss."""

    @abstractmethod
    def within(self, lab: Lab, budget: float) -> Choice:
        """Decide within a budget: at most the share `budget` of All's violation, whoever is left out."""

    def untold_within(self, lab: Lab, budget: float) -> Bools:
        """Return a selection within a budget that validation rows can judge: [Z].

        A method that learns from validation rows leaves out here what they say, as far as it can: they would
        flatter it. By default nothing is left out.
        """
        return self.within(lab, budget).selection

    def as_found(self, choice: Choice) -> "Method":
        """Return the method with what it found out for a choice, to decide alike on a problem like that one.

        By default there is nothing of the kind.
        """
        return self

    def groundwork(self, lab: Lab) -> Sequence[Task]:
        """Return the tasks that any decision in this lab rests on, to compute beside other work.

        Deciding computes what is missing of them.
        """
        return ()

    @property
    def least_rows(self) -> int:
        """Training rows without which it cannot decide."""
        return 1

    @property
    def plays_for(self) -> str:
        """The objective; empty for methods that weigh nobody's reward."""
        return self.objectives[0].value if self.objectives else ""

    @property
    def way(self) -> Way:
        """The name and what it plays for, as records have them."""
        return self.name, self.plays_for

    @property
    def key(self) -> dict[str, Any]:
        """All that its decisions depend on besides the lab."""
        return {"method": self.name, **self.model_dump(mode="json")}


class GameMethod(Method):
    """A method that estimates what interactions are worth and solves the game."""

    objectives: ClassVar[tuple[Objective, ...]] = tuple(Objective)

    objective: Objective = Field(
        Objective.WELFARE, description="nash: everybody's own reward; welfare: the sum of all rewards"
    )
    influence: InfluenceSettings | None = Field(
        None, description="how influence is computed; by default as suits the model"
    )
    reward: RewardForm = Field(
        RewardForm.SUM, description="validation loss that is played for: a user's sum (eq. 1) or mean"
    )

    @property
    def plays_for(self) -> str:
        """The objective."""
        return self.objective.value

    def influence_for(self, model: str) -> InfluenceSettings:
        """Return how influence is computed for a model."""
        return self.influence or influence_settings(model)

    def choice(
        self,
        estimates: Estimates,
        solution: tuple[Equilibrium, float],
        clock: Clock,
        cost: Cost,
        **certain: Any,
    ) -> Choice:
        """Return a solution and its price as a choice with a certificate; `certain` goes to `certify`.

        `clock` has the seconds spent on the game so far, `cost` is that of what the game is played with.
        """
        found, price = solution
        with clock:
            certificate = certify(estimates, found, objective=self.objective, price=price, **certain)
            guessed = int(unsure(estimates, found.selection, self.objective).sum())
        at = certificate.nearest_anchor - 1
        worth = {Objective.NASH: estimates.own[at], Objective.WELFARE: estimates.social[at]}
        worth[self.objective] = found.values
        return Choice(
            found.selection,
            price,
            {**asdict(certificate), "gains_estimated": guessed},
            values=found.values,
            worth_owner=worth[Objective.NASH],
            worth_everybody=worth[Objective.WELFARE],
            cost=cost + Cost.of("deciding", clock.seconds),
        )


def influence_settings(model: str, given: Mapping[str, Any] | None = None) -> InfluenceSettings:
    """Return the settings of influence that suit a model, with those that are `given` instead."""
    return InfluenceSettings.model_validate({**defaults_of(model, "influence"), **(given or {})})


def scoring_at_least(scores: Floats, least: float, problem: Problem) -> Bools:
    """Disclose what has a score of at least `least`, as far as wishes allow: [Z]."""
    if problem.wishes.are_plain:
        return scores >= least
    return by_score(players_of(problem), scores, least=least)
