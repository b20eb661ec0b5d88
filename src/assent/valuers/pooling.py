"""One value for each interaction around everything, from all sources (`assent.value`)."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch

from assent.arrays import Bools, Floats, Ints, sum_by
from assent.errors import AssentError
from assent.evaluation import validation_losses, validation_ndcg
from assent.game.estimates import Estimates
from assent.game.fill import by_score, cheapest_first, floors_alone, players_of
from assent.game.objective import Objective
from assent.game.prices import break_even_prices
from assent.hashing import mixed
from assent.value.combined import combine, errors, relative, structural, structural_errors
from assent.value.crossfit import Measured, deal, measure, targets
from assent.value.paths import Paths, find_paths
from assent.value.pooled import Pooled, pooled
from assent.value.settings import Source
from assent.value.trial import BUDGETS, Kind, Trial, judge
from assent.value.withdrawal import withdrawn
from assent.valuers.base import AtPlace, game, residuals

if TYPE_CHECKING:
    from assent.workbench import Workbench


_LEAST = 1e-12
"""What an interaction is worth at least, in units of the loss, where only order is known."""


@dataclass(frozen=True)
class _Level:
    """Values of Z interactions, to their owners or to everybody."""

    values: Floats
    """[Z], in units of the loss."""
    errors: Floats
    """How far the truth may be from them, as a standard deviation: [Z]."""


class Pooling:
    """One value from anchors that withhold a fold each, and from structure, around a model of everything."""

    def __init__(self, bench: "Workbench") -> None:
        self._bench = bench
        rows, self._source = len(bench.problem.train), bench.settings.value.source
        self._folds = 0 if self._source is Source.STRUCTURE else bench.settings.value.folds
        if rows < self._folds:
            raise AssentError(f"value.folds={self._folds}; accepted: no more than training rows, {rows}")
        self._fold: Ints = deal(rows, max(1, self._folds), seed=bench.seed)
        self._tried: dict[bytes, Floats] = {}

    def place(self, t: int) -> Bools:
        """Everything but fold t; after the last fold, everything."""
        disclosed: Bools = (self._fold != t) | (t >= self._folds)
        return disclosed

    def seed_of(self, t: int) -> int:
        """Another for each: what two anchors agree on is then no accident of where training set out."""
        return mixed(self._bench.seed, t)

    def estimates(self, anchors: int, *, effects: bool) -> Estimates:
        """A game with one anchor, everything, however many are asked for: values do not depend on it."""
        if effects:
            raise AssentError("effects on single others belong to single anchors: ask for --value influence")
        return game(
            self._bench,
            anchors=self.place(self._folds)[None],
            own=self._own.values[None],
            social=self._social.values[None],
            losses=self._everything[None],
        )

    def at(self, selection: Bools, *, effects: bool) -> AtPlace:
        """Refused: a pooled value has no place."""
        raise AssentError("anchors at the solution belong to single anchors: ask for --value influence")

    def errors(self, estimates: Estimates, objective: Objective) -> Floats | None:
        """Of empirical Bayes, and how far the sources are apart."""
        return (self._own if objective is Objective.NASH else self._social).errors

    def resting_on(self, anchors: int) -> int:
        """The anchors of all folds, everything, and what was tried."""
        return self._folds + 1 + (len(self._tried) if self._source is Source.COMBINED else 0)

    def trust(self, anchors: int, placed: Sequence[AtPlace]) -> dict[str, object]:
        """The largest residuals, how reliable what was measured is, and what came of trying each source."""
        found: dict[str, object] = {}
        if self._source is not Source.STRUCTURE:
            found |= residuals(self._measured)
            found["value_own"] = self._pooled.own.facts()
            found["value_social"] = self._pooled.social.facts()
        if self._source is not Source.CROSS_FITTED:
            found["value_paths"] = self._paths.facts()
        if self._source is Source.COMBINED:
            found["value_trials"] = [each.facts() for each in self._trials]
        return found

    @cached_property
    def _own(self) -> _Level:
        with self._charged():
            return self._level(Objective.NASH)

    @cached_property
    def _social(self) -> _Level:
        with self._charged():
            return self._level(Objective.WELFARE)

    def _level(self, objective: Objective) -> _Level:
        selfish, unwillingness = objective is Objective.NASH, self._bench.problem.unwillingness
        of, variance = (Paths.own, Paths.own_variance) if selfish else (Paths.social, Paths.social_variance)
        if self._source is Source.STRUCTURE:
            paths, unit = self._paths, self._worth_of_everything
            everybody = float(paths.social().mean())
            unit *= float(of(paths).mean()) / everybody if everybody else 1.0
            worth = structural(paths, of)
            values = withdrawn(lambda kept: unit * worth(kept), unwillingness)
            return _Level(values, unit * structural_errors(paths, variance, of))
        measured = self._pooled.own if selfish else self._pooled.social
        if self._source is Source.CROSS_FITTED:
            return _Level(measured.values, measured.errors)
        values = combine(measured.values, self._paths, of, self._trials, unwillingness)
        return _Level(values, errors(measured, values, self._paths, of, self._trials))

    @contextmanager
    def _charged(self) -> Iterator[None]:
        """Add what is done here to the last anchor's seconds, but for what has its own."""
        spent = self._bench.anchor_seconds
        start = time.perf_counter() - sum(spent)
        yield
        spent[-1] += time.perf_counter() - start - sum(spent)

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

    @cached_property
    def _trials(self) -> list[Trial]:
        """What came of selecting by each source alone; the measured one without the rows that judge it."""
        unwillingness = self._bench.problem.unwillingness
        values = {
            Kind.UNWILLINGNESS: np.ones(len(unwillingness)),
            Kind.MEASURED: relative(self._pooled.social.held_values),
            Kind.STRUCTURE: withdrawn(structural(self._paths, Paths.social), unwillingness),
        }
        scores = {kind: break_even_prices(each, unwillingness) for kind, each in values.items()}
        return [
            judge(budget, {kind: self._try(kind, each, budget) for kind, each in scores.items()})
            for budget in BUDGETS
        ]

    def _try(self, kind: Kind, scores: Floats, budget: float) -> Floats:
        """NDCG@5 of everybody with validation rows, by a model of what `scores[Z]` select within a budget."""
        problem = self._bench.problem
        if problem.wishes.are_plain:
            selection = cheapest_first(scores, problem, budget)
        else:
            players, allowed = players_of(problem), budget * float(problem.unwillingness.sum())
            selection = by_score(players, scores, allowed=allowed, start=floors_alone(players))
        if selection.tobytes() not in self._tried:
            trained = self._bench.try_out(selection, f"trial: {budget:.0%} by {kind}")
            rows = np.bincount(problem.valid.users, minlength=problem.n_users)
            sums = sum_by(problem.valid.users, validation_ndcg(problem, trained), problem.n_users)
            self._tried[selection.tobytes()] = sums[rows > 0] / rows[rows > 0]
        return self._tried[selection.tobytes()]

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
