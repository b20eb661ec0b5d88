"""Tuning: a small search for the base model's settings, on validation rows.

A model says which of its settings matter and by which factors to change them, in rounds
(`Recommender.search`). A round trains a model for every factor, for a third of the epochs. Of the values that
rank the validation rows within 0.2 % of the best, the round keeps the one nearest to that before. The next
round starts from there: between values that are as good, a single row would decide, and with the settings all
other decisions. What the user has set is not searched.

The search looks at the rows of one selection and at validation rows. A final model is tuned on what is
disclosed alone, so that a withheld interaction does not change its settings.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from assent.lab.lab import Lab, Training
from assent.lab.store import Found, Key, digest
from assent.models import ModelSettings, model_class
from assent.support.arrays import Bools
from assent.support.cost import NO_COST, Cost
from assent.support.errors import AssentError
from assent.training import Kept, Settings, Tune

_NEAR = 0.002
"""Share of the best score up to which another counts as good."""
_FEWEST = 50
"""Rows below which nothing is searched."""


@dataclass(frozen=True)
class Tuned:
    """The settings that were found for a selection, and how."""

    settings: Settings
    attempts: tuple[Mapping[str, Any], ...] = ()
    """The settings that were tried, each with the validation NDCG@5 that it reached."""
    cost: Cost = NO_COST

    def facts(self) -> dict[str, Any]:
        """The settings found and everything tried, as JSON."""
        return {
            "found": self.settings.model_settings.model_dump(mode="json"),
            "attempts": list(self.attempts),
            "seconds": self.cost.seconds,
        }


@dataclass(frozen=True, eq=False)
class Attempt:
    """A task: the quality that a training reaches on validation rows; the model is thrown away."""

    training: Training

    @property
    def label(self) -> str:
        """What progress bars call it."""
        return self.training.label

    def key(self, lab: Lab) -> Key:
        """Return the training's key."""
        return {"kind": "attempt", "training": digest(self.training.key(lab))}

    def run(self, lab: Lab) -> Found:
        """Train; the facts are validation NDCG@5 and the epoch that reached it.

        Settings with which the training diverges reach nothing.
        """
        try:
            trained = self.training.train(lab)
        except AssentError as error:
            return Found(facts={"ndcg": 0.0, "epochs": 0, "error": str(error)}, trainings=1)
        facts = {"ndcg": trained.monitor, "epochs": trained.epochs}
        return Found(facts=facts, trainings=1, seconds=trained.seconds)


def tuned(lab: Lab, selection: Bools) -> Tuned:
    """Return the best settings found for a model that is trained on `selection[Z]`.

    The same settings are found for all seeds of a problem: the search has the problem's own seed.
    """
    asked = lab.settings
    plain = asked.model_copy(update={"tune": Tune.NONE})
    rounds = [each for each in _rounds(asked) if each[0] not in asked.fixed]
    if not rounds or selection.sum() < _FEWEST or not len(lab.problem.valid):
        return Tuned(plain)
    judge = replace(lab, seed=lab.problem.seed)
    best, score, told, cost = plain, 0.0, list[dict[str, Any]](), NO_COST
    for number, (name, others) in enumerate(rounds):
        factors = (1.0, *others) if number == 0 else others
        tried = {f: each for f in factors if (each := _changed(best, name, f)) is not None}
        label = f"tuning {name}"
        trainings = [Training(selection, settings=_shorter(each), label=label) for each in tried.values()]
        entries = judge.run([Attempt(each) for each in trainings], label)
        for settings, entry in zip(tried.values(), entries, strict=True):
            told.append({"settings": settings.model_settings.model_dump(mode="json"), **entry.facts})
            cost += entry.cost
        known = [] if number == 0 else [(1.0, score, best)]
        scores = [entry.facts["ndcg"] for entry in entries]
        _, score, best = _nearest([*known, *zip(tried, scores, tried.values(), strict=True)])
    return Tuned(best, tuple(told), cost)


def _nearest(tried: Sequence[tuple[float, float, Settings]]) -> tuple[float, float, Settings]:
    """Of (factor, score, settings) with about the best score, the one whose factor is nearest to 1."""
    enough = (1 - _NEAR) * max(score for _, score, _ in tried)
    good = [each for each in tried if each[1] >= enough]
    return min(good, key=lambda each: (abs(math.log(each[0])), -each[1]))


def _rounds(settings: Settings) -> Sequence[tuple[str, Sequence[float]]]:
    """The rounds of the search that the settings ask for."""
    search = model_class(settings.model).search
    return {Tune.NONE: (), Tune.QUICK: search[:2], Tune.THOROUGH: search}[settings.tune]


def _changed(settings: Settings, name: str, factor: float) -> Settings | None:
    """The settings with one of the model's multiplied by a factor; None where the model refuses the value."""
    model: ModelSettings = settings.model_settings
    value = factor * getattr(model, name)
    value = round(value) if isinstance(getattr(model, name), int) else value
    try:
        changed = type(model).model_validate({**model.model_dump(), name: value})
    except ValidationError:
        return None
    return settings.model_copy(update={"model_settings": changed})


def _shorter(settings: Settings) -> Settings:
    """The settings with a third of the epochs, enough to tell which are better; the best NDCG counts."""
    training = settings.training
    update = {"epochs": max(1, training.epochs // 3), "keep": Kept.NDCG}
    return settings.model_copy(update={"training": training.model_copy(update=update)})
