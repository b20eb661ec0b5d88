"""The one interface of all methods: a problem in, a selection out, at a price or within a budget."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from assent.data.problem import Problem
from assent.game.estimates import Objective
from assent.game.players import by_score, players_of
from assent.support.arrays import Bools, Floats
from assent.workbench import Workbench


@dataclass(frozen=True)
class Choice:
    """What a method decided."""

    selection: Bools
    """[Z]"""
    price: float | None
    """The price at which it decided; None for methods that know none."""
    certificate: Mapping[str, object] = field(default_factory=dict)
    """How far the decision can be trusted (`game.certificate`); empty where nothing is solved."""
    anchors: Sequence[int] = ()
    """The workbench's anchors that it rests on, by their numbers."""
    values: Floats | None = None
    """[Z], what disclosing each interaction is worth in units of the loss; None where none is estimated."""
    errors: Floats | None = None
    """[Z], how far the truth may be from `values`, as a standard deviation; None where that is unknown."""
    drawn: bool = False
    """Whether the selection is a sample of strategies that are not certain."""
    explored: int = 0
    """How many models were trained on selections that were tried out, or as anchors of its own."""
    owed: float = 0.0
    """Seconds of trainings that it found done, but for the workbench's anchors, by the wall clock."""


VALUING = frozenset(
    {"influence", "anchors", "anchor_rate", "adaptive", "rounds", "reward", "strategy", "table", "value"}
)
"""Settings of the game and of what interactions are worth."""


class Method(ABC):
    """A way to choose what is disclosed; a subclass is a file of its own and an entry of the registry."""

    name: ClassVar[str]
    """What the command line calls it."""
    objectives: ClassVar[tuple[Objective, ...]] = ()
    """The objectives that it distinguishes; empty for methods that weigh nobody's reward."""
    retrains: ClassVar[bool] = False
    """Whether it trains a model for everything that it tries: such methods run only where they are named."""
    ignores: ClassVar[frozenset[str]] = frozenset({"proactive", "scratch"})
    """Settings that cannot change its choice; figures that are kept outlive a change of these."""

    def __init__(self, objective: Objective = Objective.WELFARE) -> None:
        """Play for `objective`, or for the only one that the method knows."""
        known = self.objectives or tuple(Objective)
        self.objective = objective if objective in known else known[0]

    @abstractmethod
    def at_price(self, bench: Workbench, price: float) -> Choice:
        """Decide when one unit of unwillingness costs `price` units of the loss."""

    @abstractmethod
    def within(self, bench: Workbench, budget: float) -> Choice:
        """Decide so that at most the share `budget` of All's violation is disclosed."""


def scoring_at_least(scores: Floats, least: float, problem: Problem) -> Bools:
    """Disclose what has a score of at least `least`, as far as wishes allow: [Z]."""
    if problem.wishes.are_plain:
        return scores >= least
    return by_score(players_of(problem), scores, least=least)
