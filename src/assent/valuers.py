"""Where the anchors of a workbench are, and what interactions are worth there: the input of the game."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING, Protocol

import numpy as np

from assent.arrays import Bools, Floats, Ints
from assent.errors import AssentError
from assent.evaluation import validation_losses
from assent.game.anchors import draw_anchors
from assent.game.estimates import Estimates
from assent.game.objective import Objective
from assent.hashing import mixed
from assent.influence.estimate import Influence, influence
from assent.influence.linearised import Linearised
from assent.influence.mf.curvature import Curvature
from assent.influence.mf.effects import effect_matrix
from assent.metrics import RewardForm
from assent.sparse import SparseMatrix
from assent.value.crossfit import Measured, deal, measure, targets
from assent.value.pooled import Pooled, pooled

if TYPE_CHECKING:
    from assent.workbench import Workbench


@dataclass(frozen=True)
class AtPlace:
    """What is known around one anchor that was placed on purpose."""

    estimates: Estimates
    """With that anchor alone."""
    influence: Influence
    owed: float
    """Seconds of its training that were spent in killed processes."""


class Valuer(Protocol):
    """Places anchors and values interactions at them."""

    def place(self, t: int) -> Bools:
        """The selection of the t-th anchor: [Z]."""

    def seed_of(self, t: int) -> int:
        """What the t-th anchor is trained with."""

    def estimates(self, anchors: int, *, effects: bool) -> Estimates:
        """The game's input at the first `anchors` anchors."""

    def at(self, selection: Bools, *, effects: bool) -> AtPlace:
        """The game's input at one more anchor, which discloses `selection[Z]`."""

    def errors(self, anchors: int, objective: Objective) -> Floats | None:
        """How far the truth may be from each value, as a standard deviation: [Z]; None where unknown."""

    def resting_on(self, anchors: int) -> int:
        """How many anchors that input rests on."""

    def trust(self, anchors: int, placed: Sequence[AtPlace]) -> dict[str, object]:
        """How far it can be trusted, with further anchors that were `placed`, for the certificate."""


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

    def seed_of(self, t: int) -> int:
        """The same for all: they start from the same parameters, and differ by their selections alone."""
        return self._bench.seed

    def estimates(self, anchors: int, *, effects: bool) -> Estimates:
        """Influence at each of the anchors."""
        bench = self._bench
        while len(self._influences) < anchors:
            start, t = time.perf_counter(), len(self._influences)
            self._influences.append(self._value(bench.linearise(t), f"anchor {t + 1}"))
            bench.anchor_seconds.append(time.perf_counter() - start)
        while effects and len(self._effects) < anchors:
            t = len(self._effects)
            others = self._value_others(bench.linearise(t), self._influences[t].own, f"anchor {t + 1}")
            self._effects.append(others)
        return self._known(
            [bench.anchor(t)[0] for t in range(anchors)],
            self._influences[:anchors],
            tuple(self._effects[:anchors]) if effects else (),
        )

    def at(self, selection: Bools, *, effects: bool) -> AtPlace:
        """Trained from the parameters that all anchors start from."""
        bench, label = self._bench, "anchor at the solution"
        name = f"anchor-{blake2b(selection.tobytes(), digest_size=6).hexdigest()}"
        trained, owed, _ = bench.train_anchor(selection, name, label, seed=bench.seed)
        linearised = bench.linearise_at(selection, trained, seed=bench.seed)
        found = self._value(linearised, label)
        others = (self._value_others(linearised, found.own, label),) if effects else ()
        return AtPlace(self._known([selection], [found], others), found, owed)

    def errors(self, anchors: int, objective: Objective) -> Floats | None:
        """How far the anchors are from each other, which says nothing of what they all get wrong."""
        if anchors < 2:
            return None
        spread: Floats = self.estimates(anchors, effects=False).values(objective).std(axis=0, ddof=1)
        return spread

    def resting_on(self, anchors: int) -> int:
        """Those anchors alone."""
        return anchors

    def trust(self, anchors: int, placed: Sequence[AtPlace]) -> dict[str, object]:
        """The largest residuals."""
        return _residuals([*self._influences[:anchors], *(each.influence for each in placed)])

    def _known(
        self,
        anchors: Sequence[Bools],
        known: Sequence[Influence],
        effects: tuple[SparseMatrix, ...],
    ) -> Estimates:
        bench = self._bench
        return _game(
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


class Pooling:
    """One value from anchors that withhold a fold each (`assent.value`), around a model of everything."""

    def __init__(self, bench: "Workbench") -> None:
        self._bench = bench
        rows = len(bench.problem.train)
        self._folds = bench.settings.value.folds_for(rows)
        self._fold: Ints = deal(rows, self._folds, seed=bench.seed)

    def place(self, t: int) -> Bools:
        """Everything but fold t; after the last fold, everything."""
        disclosed: Bools = self._fold != t
        return disclosed

    def seed_of(self, t: int) -> int:
        """Another for each: what two anchors agree on is then no accident of where training set out."""
        return mixed(self._bench.seed, t)

    def estimates(self, anchors: int, *, effects: bool) -> Estimates:
        """A game with one anchor, everything, however many are asked for: values do not depend on it."""
        if effects:
            raise AssentError("effects on single others belong to single anchors: ask for --value influence")
        values = self._values
        return _game(
            self._bench,
            anchors=self.place(self._folds)[None],
            own=values.own.values[None],
            social=values.social.values[None],
            losses=self._everything[None],
        )

    def at(self, selection: Bools, *, effects: bool) -> AtPlace:
        """Refused: a pooled value has no place."""
        raise AssentError("anchors at the solution belong to single anchors: ask for --value influence")

    def errors(self, anchors: int, objective: Objective) -> Floats | None:
        """Of empirical Bayes."""
        level = self._values.own if objective is Objective.NASH else self._values.social
        return level.errors

    def resting_on(self, anchors: int) -> int:
        """The anchors of all folds, and everything."""
        return self._folds + 1

    def trust(self, anchors: int, placed: Sequence[AtPlace]) -> dict[str, object]:
        """The largest residuals, and how reliable the values are."""
        values = self._values
        reliable = {"value_own": values.own.facts(), "value_social": values.social.facts()}
        return {**_residuals(self._measured), **reliable}

    @cached_property
    def _measured(self) -> list[Measured]:
        """At the anchor of each fold."""
        return [self._measure(t) for t in range(self._folds)]

    def _measure(self, t: int) -> Measured:
        bench, start = self._bench, time.perf_counter()
        n_valid = len(bench.problem.valid)
        judged = targets(self._fold, t, max(n_valid, 1), seed=bench.seed)
        linearised = bench.linearise(t, targets=judged)
        with bench.progress.task(f"influence at anchor {t + 1}", 1):
            settings = bench.settings.per_fold(self._folds)
            found = measure(linearised, n_valid, bench.weights, settings, seed=bench.seed, fold=t)
        bench.anchor_seconds.append(time.perf_counter() - start)
        return found

    @cached_property
    def _everything(self) -> Floats:
        """L_u of a model that is trained on everything: [n_users]."""
        start = time.perf_counter()
        _, trained = self._bench.uncounted_anchor(self._folds)
        losses = validation_losses(self._bench.problem, trained, self._bench.settings.influence.loss)
        self._bench.anchor_seconds.append(time.perf_counter() - start)
        return losses

    @cached_property
    def _values(self) -> Pooled:
        bench, measured = self._bench, self._measured
        cost = sum(float(np.dot(each.losses - self._everything, bench.weights)) for each in measured)
        rows = bench.problem.train
        return pooled(measured, self._fold, rows, bench.settings.value.source, cost=cost / max(1, len(rows)))


def _game(
    bench: "Workbench",
    *,
    anchors: Bools,
    own: Floats,
    social: Floats,
    losses: Floats,
    effects: tuple[SparseMatrix, ...] = (),
) -> Estimates:
    return Estimates(
        owners=bench.problem.train.users,
        n_users=bench.problem.n_users,
        unwillingness=bench.problem.unwillingness,
        anchors=anchors,
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
