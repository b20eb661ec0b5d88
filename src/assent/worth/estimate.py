"""assent's own estimate of what every interaction is worth, in the order of docs/value.md:

1. train on everything, and on everything but each fold;
2. measure influence at the fold models, on rows that they have not seen (`folds`);
3. shrink what was measured towards what counts lead to expect (`shrinkage`);
4. count the paths between people that lead over each interaction (`paths`);
5. let each source select alone, train on that, and weigh the sources by validation rows (`trial`);
6. combine them, while others withdraw (`withdrawal`).
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field

from assent.data.problem import Problem
from assent.evaluation.evaluate import validation_losses, validation_ndcg
from assent.evaluation.metrics import RewardForm
from assent.game.estimates import Objective
from assent.game.players import by_score, cheapest_first, floors_alone, players_of
from assent.game.prices import break_even_prices
from assent.influence.inverse import InfluenceSettings
from assent.lab.anchors import anchor_at, linearised, loss_weights, residuals
from assent.lab.lab import Lab, Training, everything
from assent.lab.store import Found, Key, digest
from assent.models.losses import Loss
from assent.support.arrays import Bools, Floats, sum_by
from assent.support.cost import Clock, Cost
from assent.support.errors import AssentError
from assent.support.hashing import mixed
from assent.worth.folds import Level, Measured, Pooled, deal, measure, pooled, targets
from assent.worth.paths import Paths, find_paths
from assent.worth.trial import (
    BUDGETS,
    Alike,
    FromInfluence,
    FromPaths,
    Kind,
    Opinion,
    Trial,
    combine,
    errors,
    judge,
)
from assent.worth.withdrawal import withdrawn

_LEAST = 1e-12
"""What an interaction is worth at least, in units of the loss, where only the order is known."""


class Source(StrEnum):
    """Where worth comes from."""

    COMBINED = "combined"
    """Influence and structure, weighed by how well their selections rank validation rows."""
    CROSS_FITTED = "cross-fitted"
    """Influence alone, measured on rows that the models have not seen, and shrunk."""
    STRUCTURE = "structure"
    """The paths between people alone: no influence, no trial, one training."""


class WorthSettings(BaseModel):
    """How worth is estimated."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: Source = Field(Source.COMBINED, description="where worth comes from")
    folds: int = Field(3, ge=2, description="parts that the training rows are dealt into")
    influence: InfluenceSettings = Field(InfluenceSettings(), description="how influence is computed")
    reward: RewardForm = Field(RewardForm.SUM, description="validation loss that counts: sum or mean")

    @property
    def per_fold(self) -> InfluenceSettings:
        """The settings at one of several fold models, with fewer groups.

        The noise of groups averages out over folds and is shrunk by its reliability, so a quarter of the
        groups in all suffices (docs/value.md).
        """
        groups = max(1, self.influence.groups // (4 * self.folds))
        return self.influence.model_copy(update={"groups": groups})


@dataclass(frozen=True)
class Worth:
    """What every interaction is worth around a model of everything, in units of the loss."""

    own: Floats
    """[Z], to its owner."""
    social: Floats
    """[Z], to everybody."""
    error: Floats
    """[Z], how far the truth may be from the values that the objective counts (a standard deviation)."""
    losses: Floats
    """[n_users], validation losses of the model of everything, as they count in the reward."""
    facts: Mapping[str, Any]
    """How reliable it is, for the certificate."""
    cost: Cost


def estimate(lab: Lab, settings: WorthSettings, objective: Objective) -> Worth:
    """Return what every interaction is worth; sources are weighed for people who play for `objective`."""
    key = lab.key | {"kind": "worth", "worth": settings.model_dump(mode="json"), "objective": objective.value}
    entry = lab.store.get(key)
    if entry is None:
        found, clock = _estimate(lab, settings, objective)
        lab.store.put(key, found, seconds=clock.seconds)
        entry = lab.store.get(key)
    if entry is None:
        raise AssentError(f"{lab.store.folder}: what was estimated cannot be read back")
    return Worth(**entry.arrays, facts=entry.facts, cost=entry.cost)


def _estimate(lab: Lab, settings: WorthSettings, objective: Objective) -> tuple[Found, Clock]:
    """Take the steps; the clock has the seconds that no task accounts for."""
    problem, clock = lab.problem, Clock()
    weights, loss = loss_weights(lab, settings.reward), settings.influence.loss
    reference = model_of_everything(lab, settings)
    lab.run([*fold_trainings(lab, settings), reference], "training without each fold")
    [whole] = lab.train([reference])
    cost = whole.cost
    with clock:
        losses = validation_losses(problem, whole, loss)
        sources = _Sources(problem, _gained(problem, losses, weights, loss))
    facts: dict[str, Any] = {}
    if settings.source is not Source.STRUCTURE:
        tasks = [Measuring(t, settings) for t in range(settings.folds)]
        entries = lab.run(tasks, "influence without each fold")
        measured = [measured_in(entry.arrays, entry.facts) for entry in entries]
        cost = sum((entry.cost for entry in entries), cost)
        with clock:
            behind = sum(float(np.dot(each.losses - losses, weights)) for each in measured)
            fold = deal(len(problem.train), settings.folds, seed=lab.seed)
            sources.pooled = pooled(measured, fold, problem.train, cost=behind / max(1, len(problem.train)))
        facts |= residuals([entry.facts for entry in entries])
        facts |= {"value_own": sources.pooled.own.facts(), "value_social": sources.pooled.social.facts()}
    if settings.source is not Source.CROSS_FITTED:
        with clock:
            sources.paths = find_paths(
                problem.train.users,
                problem.train.items,
                n_users=problem.n_users,
                n_items=problem.n_items,
                seed=lab.seed,
            )
        facts["value_paths"] = sources.paths.facts()
    if settings.source is Source.COMBINED:
        with clock:
            chosen = _selections(problem, sources.opinions(objective))
        trainings = [
            Training(selection, label=f"trial: {budget:.0%} by {kind}") for budget, kind, selection in chosen
        ]
        tried = lab.train(trainings, "trials")
        cost = sum((each.cost for each in tried), cost)
        with clock:
            qualities = {
                (budget, kind): _ndcg_by_user(problem, each)
                for (budget, kind, _), each in zip(chosen, tried, strict=True)
            }
            sources.trials = [
                judge(budget, {kind: qualities[budget, kind] for kind in Kind}) for budget in BUDGETS
            ]
        facts["value_trials"] = [each.facts() for each in sources.trials]
    with clock:
        own, social = (
            sources.values(level, settings.source) for level in (Objective.NASH, Objective.WELFARE)
        )
        error = sources.errors(own if objective is Objective.NASH else social, objective, settings.source)
    arrays = {"own": own, "social": social, "error": error, "losses": losses * weights}
    return Found(arrays, facts, rests_on=cost), clock


def fold_trainings(lab: Lab, settings: WorthSettings) -> list[Training]:
    """Return the trainings on everything but each fold; none where structure alone decides.

    Each has another seed, so that what two models agree on is no accident of their initial parameters.
    """
    if settings.source is Source.STRUCTURE:
        return []
    rows = len(lab.problem.train)
    if rows < settings.folds:
        raise AssentError(f"folds={settings.folds}: accepted: no more than the training rows, {rows}")
    fold = deal(rows, settings.folds, seed=lab.seed)
    return [anchor_at(lab, fold != t, f"fold {t + 1}", mixed(lab.seed, t)) for t in range(settings.folds)]


def model_of_everything(lab: Lab, settings: WorthSettings) -> Training:
    """Return the training on all rows that folds are compared with."""
    number = 0 if settings.source is Source.STRUCTURE else settings.folds
    return anchor_at(lab, everything(lab.problem), "everything", mixed(lab.seed, number))


@dataclass(frozen=True)
class Measuring:
    """A task: influence of all rows at the model without fold t, on validation rows and on the fold."""

    t: int
    settings: WorthSettings

    @property
    def label(self) -> str:
        """What progress bars call it."""
        return f"influence without fold {self.t + 1}"

    def key(self, lab: Lab) -> Key:
        """Return the fold model's key and the settings of influence and reward."""
        anchor = fold_trainings(lab, self.settings)[self.t]
        return {
            "kind": "measured",
            "anchor": digest(anchor.key(lab)),
            "influence": self.settings.per_fold.model_dump(mode="json"),
            "reward": self.settings.reward.value,
            "seed": lab.seed,
            "fold": self.t,
        }

    def run(self, lab: Lab) -> Found:
        """Differentiate the fold's model."""
        anchor, n_valid = fold_trainings(lab, self.settings)[self.t], len(lab.problem.valid)
        fold = deal(len(lab.problem.train), self.settings.folds, seed=lab.seed)
        judged = targets(fold, self.t, max(n_valid, 1), seed=lab.seed)
        [trained] = lab.train([anchor])
        model = linearised(lab, anchor, trained, self.settings.influence, judged)
        weights = loss_weights(lab, self.settings.reward)
        with lab.progress.task(self.label, 1):
            found = measure(model, n_valid, weights, self.settings.per_fold, seed=lab.seed, fold=self.t)
        arrays = asdict(found)
        facts = {name: arrays.pop(name) for name in ("residual_own", "residual_social")}
        for level in ("own", "social"):
            arrays[f"{level}_valid"], arrays[f"{level}_held"] = arrays.pop(level)
        return Found(arrays, facts, rests_on=trained.cost)


def measured_in(arrays: Mapping[str, Floats], facts: Mapping[str, Any]) -> Measured:
    """Return what a `Measuring` task stored."""
    return Measured(
        own=(arrays["own_valid"], arrays["own_held"]),
        social=(arrays["social_valid"], arrays["social_held"]),
        losses=arrays["losses"],
        n_valid=arrays["n_valid"],
        n_held=arrays["n_held"],
        residual_own=facts["residual_own"],
        residual_social=facts["residual_social"],
    )


@dataclass
class _Sources:
    """What the sources say, as far as the steps have come."""

    problem: Problem
    gained: float
    """By how much a model of everything lowers the losses, per interaction."""
    pooled: Pooled | None = None
    paths: Paths | None = None
    trials: list[Trial] | None = None

    def values(self, level: Objective, source: Source) -> Floats:
        """Return the worth to owners (`nash`) or to everybody (`welfare`): [Z]."""
        unwillingness = self.problem.unwillingness
        match source:
            case Source.CROSS_FITTED:
                return self._level(level).values
            case Source.STRUCTURE:
                said, unit = self._from_paths(level).values(), self._unit(level)
                return withdrawn(lambda kept: unit * said(kept), unwillingness)
            case _:
                mean = FromInfluence(self._level(level)).worth
                return combine(self.opinions(level), self._trials, unwillingness, mean=mean)

    def errors(self, values: Floats, level: Objective, source: Source) -> Floats:
        """Return how far the truth may be from `values[Z]` of this level: [Z]."""
        match source:
            case Source.CROSS_FITTED:
                return self._level(level).errors
            case Source.STRUCTURE:
                return self._unit(level) * self._from_paths(level).errors()
            case _:
                return errors(self.opinions(level), self._trials, values)

    def opinions(self, level: Objective) -> dict[Kind, Opinion]:
        """Return what each source says of this level."""
        measured = FromInfluence(self._level(level))
        return {
            Kind.UNWILLINGNESS: Alike(measured.spread()),
            Kind.MEASURED: measured,
            Kind.STRUCTURE: self._from_paths(level),
        }

    @property
    def _trials(self) -> list[Trial]:
        assert self.trials is not None
        return self.trials

    def _level(self, level: Objective) -> Level:
        assert self.pooled is not None
        return self.pooled.own if level is Objective.NASH else self.pooled.social

    def _from_paths(self, level: Objective) -> FromPaths:
        assert self.paths is not None
        if level is Objective.NASH:
            return FromPaths(self.paths, Paths.own, Paths.own_variance)
        return FromPaths(self.paths, Paths.social, Paths.social_variance)

    def _unit(self, level: Objective) -> float:
        """Return the mean worth of an interaction by paths alone, in units of the loss."""
        everybody = self._from_paths(Objective.WELFARE).mean
        return self.gained * (self._from_paths(level).mean / everybody if everybody else 1.0)


def _gained(problem: Problem, losses: Floats, weights: Floats, loss: Loss) -> float:
    """Return by how much `losses[n_users]` are below those of scores that are all 0, per interaction."""
    blank = loss.of(torch.zeros(problem.valid_candidates.shape, dtype=torch.float64)).numpy()
    untrained = sum_by(problem.valid.users, blank, problem.n_users)
    gained = float(np.dot(untrained - losses, weights))
    return max(gained / max(1, len(problem.train)), _LEAST)


def _selections(problem: Problem, opinions: Mapping[Kind, Opinion]) -> list[tuple[float, Kind, Bools]]:
    """Return what each source would select within each budget: budget, source, selection [Z].

    Sources select by what they say without the validation rows, which judge them.
    """
    unwillingness = problem.unwillingness
    scores = {
        kind: break_even_prices(withdrawn(each.untold(), unwillingness), unwillingness)
        for kind, each in opinions.items()
    }
    return [
        (budget, kind, _within(problem, each, budget)) for budget in BUDGETS for kind, each in scores.items()
    ]


def _within(problem: Problem, scores: Floats, budget: float) -> Bools:
    """Return what `scores[Z]` select within a budget, as far as wishes allow: [Z]."""
    if problem.wishes.are_plain:
        return cheapest_first(scores, problem, budget)
    players, allowed = players_of(problem), budget * float(problem.unwillingness.sum())
    return by_score(players, scores, allowed=allowed, start=floors_alone(players))


def _ndcg_by_user(problem: Problem, trained: Any) -> Floats:
    """Return the mean validation NDCG@5 of everybody who has validation rows."""
    rows = np.bincount(problem.valid.users, minlength=problem.n_users)
    sums = sum_by(problem.valid.users, validation_ndcg(problem, trained), problem.n_users)
    return sums[rows > 0] / rows[rows > 0]
