"""assent's own estimate of what every interaction is worth, in the order of docs/value.md:

1. train on everything;
2. train on everything but each fold, and measure influence there, on rows not seen (`folds`);
3. shrink what was measured towards what counts lead to expect (`shrinkage`);
4. count the paths between people that lead over each interaction (`paths`);
5. let each source select alone, train on that, and weigh the sources by validation rows (`trial`);
6. combine them, while others withdraw (`trial.withdrawn`).
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field

from assent.data.problem import Problem
from assent.evaluation.evaluate import validation_losses, validation_quality
from assent.evaluation.metrics import RewardForm
from assent.game.estimates import Objective
from assent.game.players import by_score, cheapest_first, floors_alone, players_of
from assent.game.prices import break_even_prices
from assent.influence.inverse import InfluenceSettings
from assent.lab.anchors import anchor_at, linearised, loss_weights, residuals
from assent.lab.lab import Lab, Training, everything
from assent.lab.store import Found, Key, digest
from assent.models.losses import Loss
from assent.support.arrays import Bools, Floats, Ints, mixed, sum_by
from assent.support.cost import Clock, Cost
from assent.support.errors import AssentError
from assent.support.runtime import cores, threads_for_rows
from assent.worth import trial
from assent.worth.folds import Measured, deal, measure, pooled, targets
from assent.worth.paths import Paths, find_paths

_LEAST = 1e-12
"""What an interaction is worth at least, in units of the loss, where only the order is known."""

_SHORTER = 3
"""Trials train for this part of the epochs, as tuning does: that tells which source selects better."""


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
    trials: tuple[trial.Trial, ...] = Field(
        (), description="what trials found before; none: sources are tried"
    )
    folds: int = Field(3, ge=2, description="parts that the training rows are dealt into")
    influence: InfluenceSettings = Field(InfluenceSettings(), description="how influence is computed")
    reward: RewardForm = Field(RewardForm.SUM, description="validation loss that counts: sum or mean")
    untold: bool = Field(False, description="leave out what validation rows say, so that they can judge")

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
    error_own: Floats
    """[Z], how far the truth may be from `own` (a standard deviation)."""
    error_social: Floats
    """[Z], the same of `social`."""
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
    problem, rows, source = lab.problem, lab.problem.train, settings.source
    weights, clock, facts = loss_weights(lab, settings.reward), Clock(), dict[str, Any]()

    # 1. and 2. Train on everything, and on everything but each fold, and measure influence there.
    *entries, _ = lab.run(groundwork(lab, settings), "training and influence without each fold")
    [whole] = lab.train([model_of_everything(lab, settings)])
    with clock:
        losses, cost = validation_losses(problem, whole, settings.influence.loss), whole.cost

    if source is not Source.STRUCTURE:
        cost = sum((entry.cost for entry in entries), cost)
        # 3. Shrink it.
        with clock:
            by_fold = [Measured(**entry.arrays) for entry in entries]
            behind = sum(float(np.dot(each.losses - losses, weights)) for each in by_fold)
            fold = folds_of(lab, settings)
            levels = pooled(by_fold, fold, rows, cost=behind / max(1, len(rows)))
            measured = dict(zip((Objective.NASH, Objective.WELFARE), levels, strict=True))
        facts |= residuals([entry.facts for entry in entries])
        facts |= {"value_own": levels[0].facts(), "value_social": levels[1].facts()}
        del entries, by_fold, levels  # the largest arrays of all

    structure: dict[Objective, trial.Opinion] = {}
    if source is not Source.CROSS_FITTED and trial.may_hear(trial.Kind.STRUCTURE, settings.trials):
        # 4. Count paths.
        with clock:
            paths = _paths_of(lab)
            structure = {
                Objective.NASH: trial.by_paths(paths, Paths.own, Paths.own_variance),
                Objective.WELFARE: trial.by_paths(paths, Paths.social, Paths.social_variance),
            }
            units = _units(problem, paths, settings.influence.loss, losses, weights)
        facts["value_paths"] = paths.facts()
        del paths  # opinions hold them as long as they are heard

    if source is Source.COMBINED:
        # 5. Try each source.
        with clock:
            said = {level: trial.opinions(measured[level], structure.pop(level, None)) for level in Objective}
            means = {level: measured.pop(level).mean for level in Objective}
        trials, cost = _tried(lab, settings, said[objective], clock, cost)
        said = {level: trial.heard(each, trials) for level, each in said.items()}
        facts["value_trials"] = [each.facts() for each in trials]

    # 6. Combine, while others withdraw.
    with clock:
        match source:
            case Source.CROSS_FITTED:
                values = {
                    level: each.held_values if settings.untold else each.values
                    for level, each in measured.items()
                }
                errors = {level: each.errors for level, each in measured.items()}
            case Source.STRUCTURE:
                values = {level: _scaled(problem, each, units[level]) for level, each in structure.items()}
                errors = {level: units[level] * each.errors for level, each in structure.items()}
            case Source.COMBINED:
                as_told = trial.untold if settings.untold else dict
                values = {
                    level: trial.combine(as_told(each), trials, problem.unwillingness, mean=means[level])
                    for level, each in said.items()
                }
                errors = {level: trial.errors(each, trials, values[level]) for level, each in said.items()}
    arrays = {"own": values[Objective.NASH], "social": values[Objective.WELFARE]}
    arrays |= {"error_own": errors[Objective.NASH], "error_social": errors[Objective.WELFARE]}
    return Found(arrays | {"losses": losses * weights}, facts, rests_on=cost), clock


def _paths_of(lab: Lab) -> Paths:
    """Return the paths among the training rows; the lab's workers are threads meanwhile."""
    problem = lab.problem
    with threads_for_rows(min(lab.executor.workers, cores())):
        return find_paths(problem.train, problem.user_keys, problem.item_keys, seed=lab.seed)


def groundwork(lab: Lab, settings: WorthSettings) -> list["Measuring | Training"]:
    """Return the tasks of steps 1 and 2: the folds, unless structure alone decides, and last everything."""
    folds = 0 if settings.source is Source.STRUCTURE else settings.folds
    return [*(Measuring(t, settings) for t in range(folds)), model_of_everything(lab, settings)]


def check_folds(folds: int, problem: Problem) -> None:
    """Raise if there are fewer training rows than folds."""
    if (rows := int(problem.measurable.sum())) < folds:
        raise AssentError(f"folds={folds}: accepted: no more than the training rows, {rows}")


def fold_trainings(lab: Lab, settings: WorthSettings) -> list[Training]:
    """Return the trainings on everything but each fold; none where structure alone decides.

    Each has another seed, so that what two models agree on is no accident of their initial parameters.
    """
    if settings.source is Source.STRUCTURE:
        return []
    check_folds(settings.folds, lab.problem)
    fold = folds_of(lab, settings)
    return [anchor_at(lab, fold != t, f"fold {t + 1}", mixed(lab.seed, t)) for t in range(settings.folds)]


def folds_of(lab: Lab, settings: WorthSettings) -> Ints:
    """Return the fold of each training row, or `NO_FOLD`: [Z]."""
    problem = lab.problem
    return deal(problem.row_keys, settings.folds, seed=lab.seed, dealt=problem.measurable)


def model_of_everything(lab: Lab, settings: WorthSettings) -> Training:
    """Return the training on all rows, but those that judge, that folds are compared with."""
    number = 0 if settings.source is Source.STRUCTURE else settings.folds
    return anchor_at(lab, everything(lab.problem), "everything", mixed(lab.seed, number))


@dataclass(frozen=True)
class Measuring:
    """A task: influence of all rows at the model without fold t, on validation rows and on the fold.

    It trains that model, so that training and measuring are one job: folds are few, and jobs of equal size
    keep all workers busy.
    """

    t: int
    settings: WorthSettings

    @property
    def label(self) -> str:
        """What progress bars call it."""
        return f"influence without fold {self.t + 1}"

    def key(self, lab: Lab) -> Key:
        """Return the fold model's key and the settings of influence and reward."""
        anchor = fold_trainings(lab, self.settings)[self.t]
        return lab.rows_key | {
            "kind": "measured",
            "anchor": digest(anchor.key(lab)),
            "influence": self.settings.per_fold.model_dump(mode="json"),
            "reward": self.settings.reward.value,
            "seed": lab.seed,
            "fold": self.t,
        }

    def run(self, lab: Lab) -> Found:
        """Train the fold's model, which is an entry of its own, and differentiate it."""
        anchor, n_valid = fold_trainings(lab, self.settings)[self.t], len(lab.problem.valid)
        fold = folds_of(lab, self.settings)
        judged = targets(lab.problem.row_keys, fold, self.t, max(n_valid, 1), seed=lab.seed)
        [trained] = lab.train([anchor])
        with lab.progress.task(self.label, 1), Clock() as clock:
            model = linearised(lab, anchor, trained, self.settings.influence, judged)
            weights, per_fold = loss_weights(lab, self.settings.reward), self.settings.per_fold
            found, facts = measure(model, n_valid, weights, per_fold, seed=lab.seed, fold=self.t)
        return Found(asdict(found), facts, rests_on=trained.cost, seconds=clock.seconds)


def _tried(
    lab: Lab, settings: WorthSettings, said: Mapping[trial.Kind, trial.Opinion], clock: Clock, cost: Cost
) -> tuple[list[trial.Trial], Cost]:
    """Train on what each source selects within each budget; the trials, and `cost` with the trainings.

    Sources select by what they say without the validation rows, which trial.judge them. Nothing is trained
    where the trials are known before.
    """
    if settings.trials:
        return list(settings.trials), cost
    problem, minded = lab.problem, lab.problem.unwillingness
    with clock:
        scores = {
            kind: break_even_prices(trial.withdrawn(each.untold, minded, depends=each.depends), minded)
            for kind, each in said.items()
        }
        tries = [(budget, kind) for budget in trial.BUDGETS for kind in scores]
        trainings = [
            Training(
                _within(problem, scores[kind], budget) & problem.measurable,
                label=f"trial: {budget:.0%} by {kind}",
                epochs=max(1, lab.settings.training.epochs // _SHORTER),
            )
            for budget, kind in tries
        ]
    trained = lab.train(trainings, "trials")
    with clock:
        ndcgs = {each: validation_quality(problem, model) for each, model in zip(tries, trained, strict=True)}
        trials = [
            trial.judge(budget, {kind: ndcgs[budget, kind] for kind in trial.Kind})
            for budget in trial.BUDGETS
        ]
    return trials, sum((each.cost for each in trained), cost)


def _within(problem: Problem, scores: Floats, budget: float) -> Bools:
    """What `scores[Z]` select within a budget, as far as wishes allow: [Z]."""
    if problem.wishes.are_plain:
        return cheapest_first(scores, problem, budget)
    players = players_of(problem)
    return by_score(players, scores, budget=budget, start=floors_alone(players))


def _units(
    problem: Problem, paths: Paths, loss: Loss, losses: Floats, weights: Floats
) -> dict[Objective, float]:
    """The mean worth of an interaction by paths alone, in units of the loss.

    To everybody: by how much `losses[n_users]` are below those of scores that are all 0, per interaction. To
    its owner: the share of that which its own paths have.
    """
    blank = loss.of(torch.zeros(problem.valid_candidates.shape, dtype=torch.float64)).numpy()
    untrained = sum_by(problem.valid.users, blank, problem.n_users)
    gained = max(float(np.dot(untrained - losses, weights)) / max(1, len(problem.train)), _LEAST)
    own, everybody = float(paths.own().mean()), float(paths.social().mean())
    return {Objective.NASH: gained * (own / everybody if everybody else 1.0), Objective.WELFARE: gained}


def _scaled(problem: Problem, structure: trial.Opinion, unit: float) -> Floats:
    """The worth by paths alone, `unit` times what they say, while others withdraw: [Z]."""
    return trial.withdrawn(lambda kept: unit * structure.values(kept), problem.unwillingness)
