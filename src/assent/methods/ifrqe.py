"""IFRQE and IFRQE++, the paper's methods: influence at T anchors, the nearest of which predicts, and a game.

IFRQE has one anchor, IFRQE++ several. The game is solved in closed form with factored strategies, or by the
paper's own algorithms on tables.
"""

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from typing import ClassVar

import numpy as np
from pydantic import Field

from assent.data.problem import Problem
from assent.game.estimates import Estimates, Objective
from assent.game.paper import Strategy, TableSettings, check_table, solve_table
from assent.game.players import players_of
from assent.game.published import play_published
from assent.game.solve import Equilibrium, decide_within, solve
from assent.lab.anchors import InfluenceAt, anchor_at, effects_in, loss_weights, random_anchors, residuals
from assent.lab.lab import Lab, Task, Training
from assent.lab.store import Entry
from assent.methods.base import Choice, Decide, GameMethod
from assent.models import MF
from assent.support.arrays import mix
from assent.support.cost import Clock, Cost
from assent.support.draws import Purpose, by_lot


class Signal(StrEnum):
    """The influence that is played with. A null shows what influence adds: nothing, if it does as well."""

    MEASURED = "measured"
    """As measured at the anchors."""
    ZERO = "zero"
    """0 for every interaction: a null."""
    PERMUTED = "permuted"
    """That of another interaction, drawn by lot: a null."""


class IFRQE(GameMethod):
    """Disclose k iff its influence at one anchor exceeds price · unwillingness (section 3.1 of the paper)."""

    name: ClassVar[str] = "ifrqe"

    anchor_rate: float = Field(0.9, gt=0, le=1, description="share of the rows that an anchor discloses")
    rounds: int = Field(40, ge=1, description="largest number of rounds of the game")
    strategy: Strategy = Field(
        Strategy.FACTORED, description="factored, the paper's table, or its form in the authors' code"
    )
    table: TableSettings = Field(TableSettings(), description="how tables are learnt")
    signal: Signal = Field(Signal.MEASURED, description="influence as measured, or a null in its place")

    def check(self, problem: Problem, budget: float | None = None) -> None:
        """Refuse floors beyond the budget, and what tables do not support."""
        super().check(problem, budget)
        if self.strategy is not Strategy.FACTORED:
            check_table(players_of(problem), learnt=not self._is_listed)

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
        self.check(lab.problem, budget)

        def decide(estimates: Estimates) -> tuple[Equilibrium, float]:
            return decide_within(
                estimates, lambda price: self._play(lab, estimates, price), budget, self.objective
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

    @property
    def _is_listed(self) -> bool:
        return self.strategy is Strategy.TABLE and self.table.lists(self.n_anchors + self.n_adaptive)

    def groundwork(self, lab: Lab) -> Sequence[Task]:
        """Return influence at the T random anchors."""
        return self._tasks(lab, random_anchors(lab, self.n_anchors, rate=self.anchor_rate))

    def estimates(self, lab: Lab, *, effects: bool = False) -> Estimates:
        """Return what is known around the T random anchors; trains them.

        With `effects`, also what every interaction does to every single user (MF alone).
        """
        anchors = random_anchors(lab, self.n_anchors, rate=self.anchor_rate)
        return self._game(lab, anchors, *self._influence(lab, anchors, effects=effects))

    def _decide(self, lab: Lab, decide: Decide, *, is_solved: bool) -> Choice:
        """Decide; with adaptive anchors, again with an anchor where the last decision lies.

        Where the solution is an anchor already, a further one would tell nothing new.
        """
        clock, effects = Clock(), self._needs_effects(lab)
        anchors = random_anchors(lab, self.n_anchors, rate=self.anchor_rate)
        while True:
            known, others = self._influence(lab, anchors, effects=effects)
            with clock:
                game = self._game(lab, anchors, known, others)
                solution = decide(game)
            selection, placed = solution[0].selection, len(anchors) - self.n_anchors
            if placed == self.n_adaptive or game.distances_of(selection).min() == 0:
                break
            anchors.append(anchor_at(lab, selection, "anchor at the solution"))
        cost = sum((entry.cost for entry in (*known, *others)), Cost())
        found = self.choice(game, solution, clock, cost, rounds=self.rounds, is_solved=is_solved)
        solved = residuals([entry.facts for entry in known])
        errors = {
            level: game.values(level).std(axis=0, ddof=1) if game.n_anchors > 1 else None
            for level in Objective
        }
        return replace(
            found,
            certificate={**solved, "anchors_at_solution": placed, **found.certificate},
            errors=errors[self.objective],
            error_owner=errors[Objective.NASH],
            error_everybody=errors[Objective.WELFARE],
            drawn=self.strategy is Strategy.TABLE and not self.table.lists(game.n_anchors),
        )

    def _tasks(self, lab: Lab, anchors: Sequence[Training]) -> list[InfluenceAt]:
        settings = self.influence_for(lab.settings.model)
        return [InfluenceAt(anchor, settings, self.reward) for anchor in anchors]

    def _influence(
        self, lab: Lab, anchors: Sequence[Training], *, effects: bool
    ) -> tuple[list[Entry], list[Entry]]:
        """Return influence at each anchor and, with `effects`, the effects on every single user."""
        tasks = self._tasks(lab, anchors)
        known = lab.run(tasks, "training anchors, and influence there")
        more = [replace(task, effects=True) for task in tasks] if effects else []
        return known, lab.run(more, "effects on others")

    def _game(
        self, lab: Lab, anchors: Sequence[Training], known: Sequence[Entry], others: Sequence[Entry]
    ) -> Estimates:
        problem, weights = lab.problem, loss_weights(lab, self.reward)
        arrays = [entry.arrays for entry in known]
        found = Estimates(
            owners=problem.train.users,
            n_users=problem.n_users,
            unwillingness=problem.unwillingness,
            anchors=np.array([anchor.selection for anchor in anchors]),
            own=np.array([each["own"] for each in arrays]) * weights[problem.train.users],
            social=np.array([each["social"] for each in arrays]),
            losses=np.array([each["losses"] for each in arrays]) * weights,
            effects=tuple(effects_in(entry) for entry in others),
            wishes=problem.wishes,
        )
        if self.signal is Signal.ZERO:
            found = found.without_influence()
        elif self.signal is Signal.PERMUTED:
            found = found.permuted(by_lot(problem.row_keys, lab.seed, Purpose.NULL))
        is_printed = self.strategy is not Strategy.PUBLISHED  # which has its own form of eq. (7)
        centred = self.influence_for(lab.settings.model).centred
        return found.uncentred() if is_printed and not centred else found

    def _needs_effects(self, lab: Lab) -> bool:
        """Tables learn from the rewards of eq. (8), which count what others do to a player, where known."""
        if self.strategy is not Strategy.TABLE:
            return False
        self.check(lab.problem)
        return not self._is_listed and lab.settings.model == MF.name

    def _play(self, lab: Lab, estimates: Estimates, price: float) -> Equilibrium:
        if self.strategy is Strategy.FACTORED:
            return solve(estimates, objective=self.objective, price=price, rounds=self.rounds)
        keys = mix(lab.seed, Purpose.TABLES, lab.problem.user_keys)
        play = play_published if self.strategy is Strategy.PUBLISHED else solve_table
        return play(estimates, objective=self.objective, price=price, settings=self.table, keys=keys)


class IFRQEpp(IFRQE):
    """The game of IFRQE with T anchors (section 3.2 of the paper)."""

    name: ClassVar[str] = "ifrqe++"

    anchors: int = Field(3, ge=1, description="T, selections that a model is trained on")
    adaptive: int = Field(0, ge=0, description="anchors that are added where the solution lies")

    @property
    def starts_from_prior(self) -> bool:
        """Whether it plays from people's priors: factored strategies for `welfare` need no start."""
        return self.objective is Objective.NASH or self.strategy is Strategy.TABLE

    @property
    def n_anchors(self) -> int:
        """T."""
        return self.anchors

    @property
    def n_adaptive(self) -> int:
        """How many anchors are added where the solution lies."""
        return self.adaptive
