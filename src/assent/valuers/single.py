"""The paper's anchors: random selections, with influence at each for itself."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from assent.evaluation.metrics import RewardForm
from assent.game.estimates import Estimates, Objective, draw_anchors
from assent.influence.estimate import Influence, influence
from assent.influence.linearised import Linearised
from assent.influence.mf_curvature import Curvature
from assent.influence.mf_effects import effect_matrix
from assent.support.arrays import Bools, Floats
from assent.support.errors import AssentError
from assent.support.hashing import short_name
from assent.support.sparse import SparseMatrix
from assent.valuers.base import AtPlace, game, residuals

if TYPE_CHECKING:
    from assent.workbench import Workbench


class AtEachAnchor:
    """Random anchors, and influence at each for itself, as in the paper."""

    def __init__(self, bench: "Workbench") -> None:
        self._bench = bench
        self._influences: list[Influence] = []
        self._effects: list[SparseMatrix] = []

    @property
    def layout(self) -> dict[str, float]:
        """How many interactions each discloses."""
        return {"rate": self._bench.settings.anchor_rate}

    def place(self, t: int) -> Bools:
        """A lot for each interaction; the first anchors do not depend on how many follow."""
        rate, seed = self._bench.settings.anchor_rate, self._bench.seed
        drawn: Bools = draw_anchors(len(self._bench.problem.train), t + 1, rate=rate, seed=seed)[t]
        return drawn

    def seed_of(self, t: int) -> int:
        """The same for all: they start from the same parameters, and differ by their selections alone."""
        return self._bench.seed

    def estimates(self, anchors: int, objective: Objective, *, effects: bool) -> Estimates:
        """Influence at each of the anchors, whatever the objective."""
        bench = self._bench
        while len(self._influences) < anchors:
            start, t = time.perf_counter(), len(self._influences)
            self._influences.append(self._value(bench.linearise(t), f"anchor {t + 1}"))
            bench.anchor_seconds.append(time.perf_counter() - start)
        while effects and len(self._effects) < anchors:
            start, t = time.perf_counter(), len(self._effects)
            others = self._value_others(bench.linearise(t), self._influences[t].own, f"anchor {t + 1}")
            self._effects.append(others)
            bench.anchor_seconds[t] += time.perf_counter() - start
        return self._known(
            [bench.anchor(t)[0] for t in range(anchors)],
            self._influences[:anchors],
            tuple(self._effects[:anchors]) if effects else (),
        )

    def at(self, selection: Bools, *, effects: bool) -> AtPlace:
        """Trained from the parameters that all anchors start from."""
        bench, label = self._bench, "anchor at the solution"
        name = f"anchor-{short_name(selection.tobytes())}"
        trained, owed, _ = bench.train_anchor(selection, name, label, seed=bench.seed)
        linearised = bench.linearise_at(selection, trained, seed=bench.seed)
        found = self._value(linearised, label)
        others = (self._value_others(linearised, found.own, label),) if effects else ()
        return AtPlace(self._known([selection], [found], others), found, owed)

    def errors(self, estimates: Estimates, objective: Objective) -> Floats | None:
        """How far the anchors are from each other, which says nothing of what they all get wrong."""
        if estimates.n_anchors < 2:
            return None
        spread: Floats = estimates.values(objective).std(axis=0, ddof=1)
        return spread

    def resting_on(self, anchors: int, objective: Objective) -> Sequence[int]:
        """Those anchors alone."""
        return range(anchors)

    def trust(self, anchors: int, objective: Objective, placed: Sequence[AtPlace]) -> dict[str, object]:
        """The largest residuals."""
        return residuals([*self._influences[:anchors], *(each.influence for each in placed)])

    def _known(
        self,
        anchors: Sequence[Bools],
        known: Sequence[Influence],
        effects: tuple[SparseMatrix, ...],
    ) -> Estimates:
        bench = self._bench
        return game(
            bench,
            anchors=np.array(anchors),
            own=np.array([each.own for each in known]) * bench.weights[bench.problem.train.users],
            social=np.array([each.social for each in known]),
            losses=np.array([each.losses for each in known]),
            effects=effects,
        )

    def _value(self, linearised: Linearised, label: str) -> Influence:
        bench = self._bench
        with bench.progress.task(f"influence at {label}", 1):
            return influence(linearised, bench.settings.linearisation, bench.seed, bench.weights)

    def _value_others(self, curvature: Linearised, own: Floats, label: str) -> SparseMatrix:
        bench = self._bench
        if not isinstance(curvature, Curvature):
            raise AssentError(
                f"effects on single others: not available for model {bench.settings.model}; accepted: mf"
            )
        with bench.progress.task(f"effects on others at {label}", 1):
            effects = effect_matrix(bench.problem, curvature, own, bench.settings.linearisation)
        return effects if bench.settings.reward is RewardForm.SUM else effects.scaled(bench.weights)
