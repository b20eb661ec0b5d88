"""Where the anchors of a workbench are, and what interactions are worth there: the input of the game."""

import time
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np

from assent.arrays import Bools, Floats, Ints
from assent.errors import AssentError
from assent.game.anchors import draw_anchors
from assent.game.estimates import Estimates
from assent.game.objective import Objective
from assent.influence.estimate import Influence, influence
from assent.influence.mf.curvature import Curvature
from assent.influence.mf.effects import effect_matrix
from assent.metrics import RewardForm
from assent.sparse import SparseMatrix
from assent.value.crossfit import Measured, deal, measure, targets
from assent.value.pooled import Pooled, pooled
from assent.value.structure import features

if TYPE_CHECKING:
    from assent.workbench import Workbench


class Valuer(Protocol):
    """Places anchors and values interactions at them."""

    def place(self, t: int) -> Bools:
        """The selection of the t-th anchor: [Z]."""

    def estimates(self, anchors: int, *, effects: bool) -> Estimates:
        """The game's input at the first `anchors` anchors."""

    def errors(self, anchors: int, objective: Objective) -> Floats | None:
        """How far the truth may be from each value, as a standard deviation: [Z]; None where unknown."""

    def resting_on(self, anchors: int) -> int:
        """How many anchors that input rests on."""

    def trust(self, anchors: int) -> dict[str, object]:
        """How far it can be trusted, for the certificate."""


class AtEachAnchor:
    """Random anchors, and influence at each for itself, as in the paper."""

    def __init__(self, bench: "Workbench") -> None:
        self._bench = bench
        self._influences: list[Influence] = []
        self._effects: list[SparseMatrix] = []

    def place(self, t: int) -> Bools:
        """A lot for each interaction; the first anchors do not depend on how many follow."""
        rate, seed = self._bench.settings.anchor_rate, self._bench.seed
        drawn: Bools = draw_anchors(len(self._bench.problem.train), t + 1, rate=rate, seed=seed)[t]
        return drawn

    def estimates(self, anchors: int, *, effects: bool) -> Estimates:
        """Influence at each of the anchors."""
        bench = self._bench
        while len(self._influences) < anchors:
            start = time.perf_counter()
            linearised = bench.linearise(len(self._influences))
            with bench.progress.task(f"influence at anchor {len(self._influences) + 1}", 1):
                found = influence(linearised, bench.settings.linearisation, bench.seed, bench.weights)
            self._influences.append(found)
            bench.anchor_seconds.append(time.perf_counter() - start)
        while effects and len(self._effects) < anchors:
            with bench.progress.task(f"effects on others at anchor {len(self._effects) + 1}", 1):
                self._effects.append(self._value_others(len(self._effects)))
        known = self._influences[:anchors]
        return _game(
            bench,
            own=np.array([each.own for each in known]) * bench.weights[bench.problem.train.users],
            social=np.array([each.social for each in known]),
            losses=np.array([each.losses for each in known]),
            effects=tuple(self._effects[:anchors]) if effects else (),
        )

    def errors(self, anchors: int, objective: Objective) -> Floats | None:
        """How far the anchors are from each other, which says nothing of what they all get wrong."""
        if anchors < 2:
            return None
        spread: Floats = self.estimates(anchors, effects=False).values(objective).std(axis=0, ddof=1)
        return spread

    def resting_on(self, anchors: int) -> int:
        """Those anchors alone."""
        return anchors

    def trust(self, anchors: int) -> dict[str, object]:
        """The largest residuals."""
        return _residuals(self._influences[:anchors])

    def _value_others(self, t: int) -> SparseMatrix:
        bench = self._bench
        curvature = bench.linearise(t)
        if not isinstance(curvature, Curvature):
            raise AssentError(
                f"effects on single others: not available for model {bench.settings.model}; accepted: mf"
            )
        own, settings = self._influences[t].own, bench.settings.linearisation
        effects = effect_matrix(bench.problem, curvature, own, settings)
        return effects if bench.settings.reward is RewardForm.SUM else effects.scaled(bench.weights)


class Pooling:
    """Anchors that withhold a fold each, and one value for all of them (`assent.value`)."""

    def __init__(self, bench: "Workbench") -> None:
        self._bench = bench
        rows = len(bench.problem.train)
        self._folds = bench.settings.value.folds_for(rows, bench.settings.anchors)
        self._fold: Ints = deal(rows, self._folds, seed=bench.seed)
        self._measured: list[Measured] = []

    def place(self, t: int) -> Bools:
        """Everything but fold t."""
        disclosed: Bools = self._fold != t
        return disclosed

    def estimates(self, anchors: int, *, effects: bool) -> Estimates:
        """The same values at every anchor, from the anchors of all folds; the losses are the anchors' own."""
        if effects:
            raise AssentError("effects on single others belong to single anchors: ask for --value influence")
        while len(self._measured) < self._folds:
            self._measured.append(self._measure(len(self._measured)))
        values = self._values
        return _game(
            self._bench,
            own=np.tile(values.of(values.own), (anchors, 1)),
            social=np.tile(values.of(values.social), (anchors, 1)),
            losses=np.array([each.losses for each in self._measured[:anchors]]),
        )

    def errors(self, anchors: int, objective: Objective) -> Floats | None:
        """Of empirical Bayes; the same for all anchors."""
        values = self._values
        return values.errors(values.own if objective is Objective.NASH else values.social)

    def resting_on(self, anchors: int) -> int:
        """The anchors of all folds."""
        return self._folds

    def trust(self, anchors: int) -> dict[str, object]:
        """The largest residuals, and how reliable the values are."""
        return {**_residuals(self._measured), **self._values.facts()}

    def _measure(self, t: int) -> Measured:
        bench, start = self._bench, time.perf_counter()
        n_valid = len(bench.problem.valid)
        judged = targets(self._fold, t, max(n_valid, 1), seed=bench.seed)
        linearised = bench.linearise(t, targets=judged)
        with bench.progress.task(f"influence at anchor {t + 1}", 1):
            settings = bench.settings.per_fold(self._folds)
            found = measure(linearised, n_valid, bench.weights, settings, bench.seed)
        bench.anchor_seconds.append(time.perf_counter() - start)
        return found

    @cached_property
    def _values(self) -> Pooled:
        rows, source = self._bench.problem.train, self._bench.settings.value.source
        return pooled(self._measured, self._fold, features(rows.users, rows.items), source)


def _game(
    bench: "Workbench",
    *,
    own: Floats,
    social: Floats,
    losses: Floats,
    effects: tuple[SparseMatrix, ...] = (),
) -> Estimates:
    return Estimates(
        owners=bench.problem.train.users,
        n_users=bench.problem.n_users,
        unwillingness=bench.problem.unwillingness,
        anchors=np.array([bench.anchor(t)[0] for t in range(len(own))]),
        own=own,
        social=social,
        losses=losses * bench.weights,
        effects=effects,
        wishes=bench.problem.wishes,
    )


def _residuals(known: Sequence[Influence | Measured]) -> dict[str, object]:
    """The largest residual of each kind of system, if any was solved."""
    solved = {
        "residual_own": [each.residual_own for each in known if each.residual_own is not None],
        "residual_social": [each.residual_social for each in known if each.residual_social is not None],
    }
    return {name: max(residuals) for name, residuals in solved.items() if residuals}
