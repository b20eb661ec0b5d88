"""What is predicted of selections that nobody has trained on yet, by every estimator of influence.

The linear datamodeling score: does influence order selections as retraining does?

Over R random selections, the rank correlation between predicted and retrained validation loss: per user and
averaged over users (level `own`), and of the sum over users (level `social`). Truth is the mean over several
training seeds. Beside the estimators stands what a retraining with another seed scores: no estimate can be
expected to do much better than that. The losses of test rows, which no estimator has seen, can stand in the
place of those of validation rows: does what is true of these carry over? docs/influence.md says what each
estimator is.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from assent.data.problem import Problem
from assent.evaluation.evaluate import HeldOut
from assent.game.estimates import Objective
from assent.influence.autodiff import knows
from assent.influence.estimate import own_influence, predicted_losses, social_influence
from assent.influence.linearised import Linearised
from assent.influence.settings import Estimator, InfluenceSettings
from assent.models import code_of, model_class
from assent.results.words import listed
from assent.runs.rank_scores import Scored, score_orders
from assent.runs.store import code_state, digest
from assent.settings import Settings
from assent.support.arrays import Bools, Floats, Ints, sum_by
from assent.support.files import write_with
from assent.support.hashing import mixed, short_name
from assent.support.progress import SILENT, Advance, Progress
from assent.workbench import Workbench
from assent.worth.settings import Source

AVERAGED = "averaged"
"""The estimator of the workbench, averaged over the anchors of its folds and that of everything."""
GRADIENT_DOT_AVERAGED = f"{Estimator.GRADIENT_DOT} {AVERAGED}"
"""Gradient-dot at the same anchors: what averaging alone gives."""


@dataclass(frozen=True)
class Predicted:
    """The losses under R selections."""

    losses: Floats
    """[R, n_users], of each user."""
    total: Floats
    """[R], their sum as the reward weighs it, up to a constant."""


@dataclass(frozen=True)
class Values:
    """What Z interactions are worth, in units of the loss as the reward weighs it."""

    own: Floats
    social: Floats


def at_one_anchor(bench: Workbench, estimator: Estimator, drawn: Bools) -> Predicted:
    """By `estimator` at the first anchor alone, as in the paper, under selections `drawn[R, Z]`."""
    settings = bench.settings.influence.model_copy(update={"estimator": estimator})
    return _Anchor(bench, 0, settings).predict(settings, drawn)


def over_folds(
    bench: Workbench, drawn: Bools, valued: Mapping[str, Values], advance: Advance
) -> dict[str, Predicted]:
    """By the values `valued`, each under its name, and by the averages that they rest on.

    The averages leave the effect of her own interactions on a user's loss as it was measured on her
    validation rows; the values put theirs in its place (`with_own`).
    """
    owners, plain = bench.problem.train.users, bench.settings.linearisation
    by_gradients = plain.model_copy(update={"estimator": Estimator.GRADIENT_DOT})
    averaged, own = [], []
    for t in bench.resting_on(1):
        anchor = _Anchor(bench, t, plain)
        averaged.append([anchor.predict(settings, drawn) for settings in (plain, by_gradients)])
        own.append(anchor.own(plain))
        advance()
    mean, of_gradients = (_mean(each) for each in zip(*averaged, strict=True))
    measured = np.mean(own, axis=0)

    def predicted(values: Values) -> Predicted:
        more = (values.own - measured) / bench.weights[owners]
        return Predicted(with_own(mean.losses, drawn, owners, more), -(drawn @ values.social))

    found = {name: predicted(values) for name, values in valued.items()}
    return {**found, AVERAGED: mean, GRADIENT_DOT_AVERAGED: of_gradients}


def with_own(losses: Floats, drawn: Bools, owners: Ints, more: Floats) -> Floats:
    """Predicted `losses[R, n_users]`, if each interaction lowered its owner's by `more[Z]` than they hold.

        L_ru − Σ_{k of u} o_rk more_k

    `drawn[R, Z]` are the selections o, `owners[Z]` the users of the interactions.
    """
    lowered = [sum_by(owners, more * selection, losses.shape[1]) for selection in drawn]
    return losses - np.array(lowered)


@dataclass(frozen=True)
class _Anchor:
    """One anchor of a bench: what is computed there is kept in the bench's folder."""

    bench: Workbench
    number: int
    settings: InfluenceSettings
    """How the model is linearised: its loss, and whether by Gauss-Newton."""

    @cached_property
    def _model(self) -> Linearised:
        return self.bench.linearise(self.number, self.settings)

    @property
    def _weights(self) -> Floats:
        """Of the validation rows: [n]."""
        found: Floats = self.bench.weights[self._model.valid.owners.numpy()]
        return found

    def predict(self, settings: InfluenceSettings, drawn: Bools) -> Predicted:
        """Under selections `drawn[R, Z]`, with what `settings` say for the inverse Hessian.

        The total is that of the social influence that the game is played with: a truncated inverse is not
        linear in its right-hand side, so adding up the users' predictions would judge another estimate.
        """

        def compute() -> dict[str, Floats]:
            social, _ = social_influence(self._model, settings, self.bench.seed, self._weights)
            losses = predicted_losses(self._model, drawn, settings, self.bench.seed)
            return {"losses": losses, "total": -(drawn @ social.double().numpy())}

        return Predicted(**self._kept("predicted", settings, compute, drawn=short_name(drawn.tobytes())))

    def own(self, settings: InfluenceSettings) -> Floats:
        """What each interaction does to its owner's loss, as it counts in her reward: [Z]."""

        def compute() -> dict[str, Floats]:
            seed = mixed(self.bench.seed, self.number)
            own, _ = own_influence(self._model, settings, seed, self._weights)
            return {"own": own.double().numpy()}

        return self._kept("own", settings, compute)["own"]

    def _kept(
        self, name: str, settings: InfluenceSettings, compute: Callable[[], dict[str, Floats]], **more: str
    ) -> dict[str, Floats]:
        """What `compute` gives, from the folder if it is there."""
        about = {
            "anchor": [self.bench.mark, self.number],
            "influence": settings.model_dump(mode="json"),
            "reward": self.bench.settings.reward,
            "code": code_state(),
            **more,
        }
        file = self.bench.folder and self.bench.folder / f"{name}-{digest(about)}.npz"
        if file and file.exists():
            with np.load(file, allow_pickle=False) as kept:
                return dict(kept)
        found: dict[str, Any] = compute()
        if file:
            write_with(file, lambda path: np.savez(path, **found))
        return found


def _mean(parts: Sequence[Predicted]) -> Predicted:
    return Predicted(
        np.mean([each.losses for each in parts], axis=0), np.mean([each.total for each in parts], axis=0)
    )


RETRAINED = "another seed"
"""Stands where an estimator's name would, for the retraining that serves as a yardstick."""
RIVALS = (Estimator.GRADIENT_DOT, Estimator.LISSA)
"""What the paper has at one anchor, or nearly: who knows more is above them."""
LEVELS = ("own", "social")
_FORMAT = 2
"""Of the files of losses: [held-out rows, n_users]."""


@dataclass(frozen=True)
class LdsPlan:
    """How much is retrained."""

    selections: int = 32
    """R."""
    rate: float = 0.8
    """Share of the interactions that each selection discloses."""
    seeds: int = 3
    """Trainings of each selection whose mean loss is the truth; one more is the yardstick."""
    estimators: tuple[Estimator, ...] = tuple(Estimator)
    """Those that are judged at one anchor, if the model has them."""
    rows: HeldOut = HeldOut.VALIDATION
    """Whose losses are to be ordered."""


@dataclass(frozen=True)
class Orders:
    """What each estimator predicts of the drawn selections, and what is true of them."""

    dataset: str
    model: str
    seed: int
    rows: HeldOut
    """Whose losses are true."""
    predicted: Mapping[str, Predicted]
    truth: Predicted
    users: Ints
    """Those who have validation rows, which estimates rest on, and rows to be judged by."""

    def records(self, reference: str = AVERAGED) -> list[dict[str, Any]]:
        """One per estimator and level: dataset, model, rows, estimator, level, lds, low, high, behind …

        `low` and `high` bound the 95 % bootstrap interval, over selections and, for `own`, over users.
        `behind` is by how much the estimator falls short of `reference`, by default what values rest on,
        with `behind_low` and `behind_high` of the paired difference.
        """
        found = {level: scored.against(reference) for level, scored in self._scored.items()}
        about = {"dataset": self.dataset, "model": self.model, "rows": self.rows.value}
        return [
            about | {"estimator": name, "level": level} | scores[name]
            for name in self.predicted
            for level, scores in found.items()
        ]

    def verdicts(self) -> list[str]:
        """How what is measured, and what decides by default, stand against the `RIVALS`, in sentences."""
        return [
            f"{level}, {self.rows} rows: {ours}, {what}, is {listed(against)}."
            for ours, what in ((AVERAGED, "what is measured"), (Source.COMBINED, "what decides by default"))
            for level, against in _standings(self.records(ours)).items()
            if against
        ]

    @cached_property
    def _scored(self) -> dict[str, Scored]:
        """At each level."""
        losses = {name: each.losses[:, self.users] for name, each in self.predicted.items()}
        totals = {name: each.total[:, None] for name, each in self.predicted.items()}
        true = self.truth.losses[:, self.users], self.truth.total[:, None]
        return {
            level: score_orders(each, truth, seed=self.seed)
            for level, each, truth in zip(LEVELS, (losses, totals), true, strict=True)
        }


def predict_orders(
    problem: Problem,
    settings: Settings,
    plan: LdsPlan,
    *,
    seed: int,
    cache: Path | None = None,
    progress: Progress = SILENT,
) -> Orders:
    """Draw selections, retrain on them, and predict what that gives by each estimator.

    With `cache`, the losses of each training, the anchors and what is predicted at them are kept in that
    folder and found again by a later call. They know withheld interactions.
    """
    judged = plan.rows.of(problem)
    drawn = np.array(
        [
            np.random.default_rng((seed, 2, r)).random(len(problem.train)) < plan.rate
            for r in range(plan.selections)
        ]
    )
    retrained = _retrain(problem, settings, drawn, plan, seed=seed, cache=cache, progress=progress)
    pooled, combined, single = (
        Workbench(problem, _valued_by(settings, source), seed, progress, cache)
        for source in (Source.CROSS_FITTED, Source.COMBINED, Source.INFLUENCE)
    )
    valued = {
        bench.settings.value.source.value: Values(
            bench.estimates(1, Objective.NASH).own[0], bench.estimates(1, Objective.WELFARE).social[0]
        )
        for bench in (pooled, combined)
    }
    weights = settings.reward.weights(judged.samples(problem.n_users))
    truth, other = (
        Predicted(losses, losses @ weights) for losses in (retrained[:, :-1].mean(axis=1), retrained[:, -1])
    )
    predicted = {RETRAINED: other}
    estimators = [each for each in plan.estimators if knows(model_class(settings.model), each)]
    with progress.task("predicting", len(pooled.resting_on(1)) + len(estimators)) as advance:
        predicted |= over_folds(pooled, drawn, valued, advance)
        for estimator in estimators:
            predicted[estimator.value] = at_one_anchor(single, estimator, drawn)
            advance()
    users = np.intersect1d(problem.valid.users, judged.rows.users)
    return Orders(problem.name, settings.model, seed, plan.rows, predicted, truth, users)


def _standings(records: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Per level, where the reference of `records` stands against each rival that was judged, in words."""
    found: dict[str, list[str]] = {level: [] for level in LEVELS}
    for each in records:
        if each["estimator"] in RIVALS and each["lds"] is not None:
            low, high = each["behind_low"], each["behind_high"]
            sure = "" if low > 0 or high < 0 else ", not for certain,"
            side = "above" if each["behind"] > 0 else "below"
            found[each["level"]].append(
                f"{side}{sure} {each['estimator']} ({each['behind']:+.3f}, {low:+.3f} to {high:+.3f})"
            )
    return found


def _valued_by(settings: Settings, source: Source) -> Settings:
    return settings.model_copy(update={"value": settings.value.model_copy(update={"source": source})})


def _retrain(
    problem: Problem,
    settings: Settings,
    drawn: Bools,
    plan: LdsPlan,
    *,
    seed: int,
    cache: Path | None,
    progress: Progress,
) -> Floats:
    """The losses to be ordered, of every selection and training seed: [R, seeds + 1, n_users].

    Those of the other held-out rows are kept, too.
    """
    losses = np.zeros((len(drawn), plan.seeds + 1, problem.n_users))
    known = [each for each in HeldOut if each is HeldOut.VALIDATION or problem.test_candidates is not None]
    judged, loss = [each.of(problem) for each in known], settings.influence.loss
    with progress.task("retraining on random selections", losses.shape[0] * losses.shape[1]) as advance:
        for r, selection in enumerate(drawn):
            for s in range(plan.seeds + 1):
                training_seed = seed + 1 + s
                file = cache and cache / f"{_mark(problem, settings, selection, training_seed)}.npy"
                if file and file.exists():
                    found = np.load(file, allow_pickle=False)
                else:
                    trained = Workbench(problem, settings, training_seed).final(selection)
                    found = np.array([each.losses(problem, trained, loss) for each in judged])
                    if file:
                        write_with(file, partial(np.save, arr=found, allow_pickle=False))
                losses[r, s] = found[known.index(plan.rows)]
                advance()
    return losses


def _mark(problem: Problem, settings: Settings, selection: Bools, seed: int) -> str:
    """A short name for all that determines a retraining's losses."""
    return digest(
        {
            "problem": problem.fingerprint(),
            "settings": settings.model_dump(mode="json", include={"model", "model_settings", "training"}),
            "code": code_of(settings.model),
            "loss": settings.influence.loss,
            "format": _FORMAT,
            "seed": seed,
            "selection": blake2b(selection.tobytes(), digest_size=16).hexdigest(),
        }
    )
