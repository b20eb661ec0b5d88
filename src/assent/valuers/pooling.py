"""Anchors that withhold a fold each, and one value for each interaction from all of them."""

import time
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from assent.arrays import Bools, Floats, Ints
from assent.errors import AssentError
from assent.evaluation import validation_losses
from assent.game.estimates import Estimates
from assent.game.objective import Objective
from assent.hashing import mixed
from assent.value.crossfit import Measured, deal, measure, targets
from assent.value.pooled import Pooled, pooled
from assent.valuers.base import AtPlace, game, residuals

if TYPE_CHECKING:
    from assent.workbench import Workbench


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
        return game(
            self._bench,
            anchors=self.place(self._folds)[None],
            own=values.own.values[None],
            social=values.social.values[None],
            losses=self._everything[None],
        )

    def at(self, selection: Bools, *, effects: bool) -> AtPlace:
        """Refused: a pooled value has no place."""
        raise AssentError("anchors at the solution belong to single anchors: ask for --value influence")

    def errors(self, estimates: Estimates, objective: Objective) -> Floats | None:
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
        return {**residuals(self._measured), **reliable}

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
