"""One value for each interaction around everything, from all sources (`assent.value`)."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch

from assent.evaluation.evaluate import validation_losses
from assent.game.estimates import Estimates, Objective
from assent.support.arrays import Bools, Floats, Ints, sum_by
from assent.support.errors import AssentError
from assent.support.hashing import mixed
from assent.valuers.base import AtPlace, game, residuals
from assent.valuers.trying import Tried, Trying
from assent.worth.folds import Level, Measured, Pooled, deal, measure, pooled, targets
from assent.worth.paths import Paths, find_paths
from assent.worth.settings import Source
from assent.worth.trial import Alike, FromInfluence, FromPaths, Kind, Opinion, combine, errors
from assent.worth.withdrawal import withdrawn

if TYPE_CHECKING:
    from assent.workbench import Workbench


_LEAST = 1e-12
"""What an interaction is worth at least, in units of the loss, where only order is known."""


class Pooling:
    """One value from anchors that withhold a fold each, and from structure, around a model of everything."""

    def __init__(self, bench: "Workbench") -> None:
        self._bench = bench
        rows, self._source = len(bench.problem.train), bench.settings.value.source
        self._folds = 0 if self._source is Source.STRUCTURE else bench.settings.value.folds
        if rows < self._folds:
            raise AssentError(f"value.folds={self._folds}; accepted: no more than training rows, {rows}")
        self._fold: Ints = deal(rows, max(1, self._folds), seed=bench.seed)
        self._trying = Trying(bench)
        self._judged: dict[Objective, Tried] = {}
        self._known: dict[Objective, Estimates] = {}
        self._off: dict[Objective, Floats] = {}

    @property
    def layout(self) -> dict[str, float]:
        """How many folds there are."""
        return {"folds": self._folds}

    def place(self, t: int) -> Bools:
        """Everything but fold t; after the last fold, everything."""
        disclosed: Bools = (self._fold != t) | (t >= self._folds)
        return disclosed

    def seed_of(self, t: int) -> int:
        """Another for each: what two anchors agree on is then no accident of where training set out."""
        return mixed(self._bench.seed, t)

    def estimates(self, anchors: int, objective: Objective, *, effects: bool) -> Estimates:
        """A game with one anchor, everything, however many are asked for: values do not depend on it.

        Sources are weighed by trials of what people would disclose who play for `objective`.
        """
        if effects:
            raise AssentError("effects on single others belong to single anchors: ask for --value influence")
        if objective not in self._known:
            with self._charged(lambda: self.resting_on(anchors, objective)[-1]):
                own = self._values(Objective.NASH, objective)
                social = self._values(Objective.WELFARE, objective)
            self._known[objective] = game(
                self._bench,
                anchors=self.place(self._folds)[None],
                own=own[None],
                social=social[None],
                losses=self._everything[None],
            )
        return self._known[objective]

    def at(self, selection: Bools, *, effects: bool) -> AtPlace:
        """Refused: a pooled value has no place."""
        raise AssentError("anchors at the solution belong to single anchors: ask for --value influence")

    def errors(self, estimates: Estimates, objective: Objective) -> Floats | None:
        """Of empirical Bayes, of paths, and how far the sources are apart."""
        if objective not in self._off:
            self._off[objective] = self._errors(estimates.values(objective)[0], objective)
        return self._off[objective]

    def resting_on(self, anchors: int, objective: Objective) -> Sequence[int]:
        """The anchors of all folds, everything, and what was tried."""
        tried = self._tried(objective).numbers if self._source is Source.COMBINED else ()
        return [*range(self._folds + 1), *tried]

    def trust(self, anchors: int, objective: Objective, placed: Sequence[AtPlace]) -> dict[str, object]:
        """The largest residuals, how reliable what was measured is, and what came of trying each source."""
        found: dict[str, object] = {}
        if self._source is not Source.STRUCTURE:
            found |= residuals(self._measured)
            found["value_own"] = self._pooled.own.facts()
            found["value_social"] = self._pooled.social.facts()
        if self._source is not Source.CROSS_FITTED:
            found["value_paths"] = self._paths.facts()
        if self._source is Source.COMBINED:
            found["value_trials"] = [each.facts() for each in self._tried(objective).trials]
        return found

    def _errors(self, values: Floats, objective: Objective) -> Floats:
        match self._source:
            case Source.CROSS_FITTED:
                return self._level(objective).errors
            case Source.STRUCTURE:
                return self._unit(objective) * self._from_paths(objective).errors()
            case _:
                return errors(self._opinions(objective), self._tried(objective).trials, values)

    def _values(self, level: Objective, objective: Objective) -> Floats:
        """To owners (`nash`) or to everybody (`welfare`), weighed for who plays for `objective`: [Z]."""
        unwillingness = self._bench.problem.unwillingness
        match self._source:
            case Source.CROSS_FITTED:
                return self._level(level).values
            case Source.STRUCTURE:
                said, unit = self._from_paths(level).values(), self._unit(level)
                return withdrawn(lambda kept: unit * said(kept), unwillingness)
            case _:
                trials, worth = self._tried(objective).trials, FromInfluence(self._level(level)).worth
                return combine(self._opinions(level), trials, unwillingness, mean=worth)

    def _opinions(self, level: Objective) -> dict[Kind, Opinion]:
        """All sources."""
        measured = FromInfluence(self._level(level))
        return {
            Kind.UNWILLINGNESS: Alike(measured.spread()),
            Kind.MEASURED: measured,
            Kind.STRUCTURE: self._from_paths(level),
        }

    def _level(self, level: Objective) -> Level:
        return self._pooled.own if level is Objective.NASH else self._pooled.social

    def _from_paths(self, level: Objective) -> FromPaths:
        if level is Objective.NASH:
            return FromPaths(self._paths, Paths.own, Paths.own_variance)
        return FromPaths(self._paths, Paths.social, Paths.social_variance)

    def _unit(self, level: Objective) -> float:
        """What the mean interaction is worth by paths alone, in units of the loss."""
        everybody = self._from_paths(Objective.WELFARE).mean
        share = self._from_paths(level).mean / everybody if everybody else 1.0
        return self._worth_of_everything * share

    @contextmanager
    def _charged(self, number: Callable[[], int]) -> Iterator[None]:
        """Add what is done here to the seconds of the anchor `number()`, but for what has its own."""
        spent = self._bench.anchor_seconds
        start = time.perf_counter() - sum(spent)
        yield
        took = time.perf_counter() - start - sum(spent)
        spent[number()] += took

    @property
    def _worth_of_everything(self) -> float:
        """By how much the losses are below those of scores that are all 0, for each interaction.

        Where they are not, order alone is left.
        """
        loss, candidates = self._bench.settings.influence.loss, self._bench.problem.valid_candidates
        blank = loss.of(torch.zeros(candidates.shape, dtype=torch.float64)).numpy()
        losses = sum_by(self._bench.problem.valid.users, blank, self._bench.problem.n_users)
        gained = float(np.dot(losses - self._everything, self._bench.weights))
        return max(gained / max(1, len(self._fold)), _LEAST)

    @cached_property
    def _paths(self) -> Paths:
        problem = self._bench.problem
        return find_paths(
            problem.train.users,
            problem.train.items,
            n_users=problem.n_users,
            n_items=problem.n_items,
            seed=self._bench.seed,
        )

    def _tried(self, objective: Objective) -> Tried:
        """What came of selecting by each source alone, as people would who play for `objective`."""
        if objective not in self._judged:
            with self._charged(lambda: self._folds):
                opinions = self._opinions(objective)
            self._judged[objective] = self._trying.judge(opinions)
        return self._judged[objective]

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
    def _pooled(self) -> Pooled:
        bench, measured = self._bench, self._measured
        cost = sum(float(np.dot(each.losses - self._everything, bench.weights)) for each in measured)
        rows = bench.problem.train
        return pooled(measured, self._fold, rows, cost=cost / max(1, len(rows)))
