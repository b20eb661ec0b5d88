"""The linear datamodeling score (LDS): do estimates order selections as retraining does?

Over R random selections, the rank correlation between predicted and retrained validation loss: per user and
averaged over users (level `own`), and of the sum over users (level `social`). Truth is the mean over several
training seeds. Beside the estimators stands what a retraining with another seed scores: no estimate can be
expected to do much better than that. The losses of test rows, which no estimator has seen, can take the
place of those of validation rows. docs/influence.md says what each estimator is.

Intervals come from a bootstrap that draws selections and users together: other selections, and other users,
would have been possible. A rank is that among all selections; one that is drawn twice counts twice.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from assent.data.problem import Problem
from assent.evaluation.evaluate import HeldOut
from assent.game.estimates import Objective
from assent.influence.autodiff import knows
from assent.influence.estimate import first_order_own, predicted_losses, social_influence
from assent.influence.inverse import Estimator, InfluenceSettings
from assent.lab.anchors import linearised, loss_weights, random_anchors
from assent.lab.executor import SERIAL, Executor
from assent.lab.lab import Lab, Training, everything, hash_of
from assent.lab.store import Entry, Found, Key, Store, digest
from assent.lab.tuning import tuned
from assent.methods.worth import WorthMethod
from assent.models import model_class
from assent.models.losses import Loss
from assent.results.words import listed
from assent.support.arrays import Bools, Floats, Ints, mixed, slices, sum_by
from assent.support.draws import Purpose, lots
from assent.support.progress import SILENT, Phase, Progress, phases
from assent.training import Settings
from assent.worth.estimate import Source, fold_trainings, model_of_everything

SCORES = ("lds", "low", "high", "behind", "behind_low", "behind_high")
_RESAMPLED = 2000
"""Draws of the bootstrap."""
_AT_ONCE = 2**21
"""Correlations held in memory by it: 16 MB for each of a handful of arrays."""


def rank_correlations(a: Floats, b: Floats) -> Floats:
    """Spearman's correlation of each column of `a[n, m]` with that of `b[n, m]`, 0 for constants: [m]."""
    found: Floats = _correlations(_ranks(a), _ranks(b), np.ones((1, len(a))))[0]
    return found


@dataclass(frozen=True)
class Scored:
    """How well each of several predictions orders what is true, as it is and in every draw."""

    drawn: Mapping[str, Floats]
    """The mean correlation of each, [1 + draws]; [0] where the truth does not vary."""

    def against(self, reference: str) -> dict[str, dict[str, float | None]]:
        """The `SCORES` of each.

        `lds` is the mean over columns of the rank correlation, between `low` and `high` with 95 % confidence.
        `behind` is by how much it falls short of that of `reference`, with the interval of the paired
        difference. Where the truth does not vary, all are None.
        """
        found: dict[str, dict[str, float | None]] = {}
        for name, values in self.drawn.items():
            behind = self.drawn[reference] - values
            scores = (
                [*_with_interval(values, 1), *_with_interval(behind, 2)]
                if len(values)
                else [None] * len(SCORES)
            )
            found[name] = dict(zip(SCORES, scores, strict=True))
        return found


def score_orders(predicted: Mapping[str, Floats], truth: Floats, *, seed: int) -> Scored:
    """Score each of `predicted`, all `[R, U]`, against `truth[R, U]`.

    A prediction that does not vary orders nothing and counts as 0. Columns of which the truth does not vary
    have no order and are left out.
    """
    varies: Bools = np.ptp(truth, axis=0) > 0
    if not varies.any():
        return Scored(dict.fromkeys(predicted, np.empty(0)))
    y = _ranks(truth[:, varies])
    as_it_is = np.ones((1, len(y))), np.ones((1, y.shape[1]))
    lots = [as_it_is, *_resampled(np.random.default_rng(seed), *y.shape)]
    drawn = {}
    for name, values in predicted.items():
        x = _ranks(values[:, varies])
        means = [np.average(_correlations(x, y, rows), axis=1, weights=columns) for rows, columns in lots]
        drawn[name] = np.concatenate(means)
    return Scored(drawn)


def _ranks(values: Floats) -> Floats:
    """The rank of each row in its column, from the middle: [n, m]; halves at most, so that sums are exact."""
    from scipy.stats import rankdata

    ranks: Floats = rankdata(values, axis=0) - (len(values) + 1) / 2
    return ranks


def _correlations(x: Floats, y: Floats, rows: Floats) -> Floats:
    """Of the columns of `x[R, U]` and `y[R, U]`, each row as often as in `rows[draws, R]`: [draws, U]."""
    often = rows.sum(axis=1, keepdims=True)
    sum_x, sum_y = rows @ x, rows @ y
    spread = (often * (rows @ x**2) - sum_x**2) * (often * (rows @ y**2) - sum_y**2)
    together = often * (rows @ (x * y)) - sum_x * sum_y
    has_order = spread > 0
    found: Floats = np.where(has_order, together, 0) / np.sqrt(np.where(has_order, spread, 1))
    return found


def _resampled(rng: np.random.Generator, rows: int, columns: int) -> Iterator[tuple[Floats, Floats]]:
    """How often each row, [draws, rows], and column, [draws, columns], is drawn, a part at a time."""
    for lot in slices(_RESAMPLED, max(1, _AT_ONCE // columns)):
        draws = lot.stop - lot.start
        yield _counts(rng, rows, draws), _counts(rng, columns, draws)


def _counts(rng: np.random.Generator, n: int, draws: int) -> Floats:
    """How often each of `n` is drawn in n draws with replacement: [draws, n]."""
    drawn = rng.integers(n, size=(draws, n)) + n * np.arange(draws)[:, None]
    return np.bincount(drawn.ravel(), minlength=n * draws).reshape(draws, n).astype(np.float64)


def _with_interval(values: Floats, most: float) -> tuple[float, float, float]:
    """The first of `values[1 + draws]`, and the 95 % interval of the rest around it, within ± `most`.

    Correlations of rows that were drawn twice are a little smaller, by 1 % or so for 32 rows, which the mean
    over many columns brings out: the interval is moved by that.
    """
    first, rest = values[0], values[1:]
    low, high = np.clip(np.quantile(rest, [0.025, 0.975]) + first - rest.mean(), -most, most)
    return float(first), float(low), float(high)


RETRAINED = "another seed"
"""Stands where an estimator's name would, for the retraining that serves as a yardstick."""
AVERAGED = "averaged"
"""The method's estimator, averaged over the fold models and the model of everything."""
GRADIENT_DOT_AVERAGED = f"{Estimator.GRADIENT_DOT} {AVERAGED}"
"""Gradient-dot at the same models: what averaging alone gives."""
RIVALS = (Estimator.GRADIENT_DOT, Estimator.LISSA)
"""What the paper has at one anchor, or nearly."""
LEVELS = ("own", "social")


@dataclass(frozen=True)
class LdsPlan:
    """How much is retrained, and what is judged."""

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
    method: WorthMethod = field(default_factory=WorthMethod)
    """The method whose influence and values are judged."""
    anchor_rate: float = 0.9
    """Share of the rows that the one anchor discloses."""


@dataclass(frozen=True)
class Predicted:
    """The losses under R selections."""

    losses: Floats
    """[R, n_users], of each user."""
    total: Floats
    """[R], their sum as the reward weighs it, up to a constant."""


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


_WEIGHTS = {"tuning": 1, "retraining": 10, "one anchor": 4, "folds": 6}
"""The phases, and roughly how long each takes."""


def predict_orders(
    problem: Problem,
    settings: Settings,
    plan: LdsPlan,
    *,
    seed: int,
    store: Store | None = None,
    executor: Executor = SERIAL,
    progress: Progress = SILENT,
) -> Orders:
    """Draw selections, retrain on them, and predict what that gives by each estimator.

    With `store`, all results are kept there and found again by a later call. They know withheld interactions.
    """
    plan.method.check(problem)
    asked = Lab(problem, settings, seed, store or Store.temporary(), executor, progress)
    with phases(progress, _WEIGHTS) as phase:
        with phase("tuning"):
            lab = asked.with_settings(tuned(asked, everything(problem)).settings)
        return _predict_orders(lab, plan, phase)


def _predict_orders(lab: Lab, plan: LdsPlan, phase: Phase) -> Orders:
    """Retrain and predict with the settings of the lab."""
    problem, model, seed = lab.problem, lab.settings.model, lab.seed
    method, judged = plan.method, plan.rows.of(problem)
    influence = method.influence_for(model)
    drawn = np.array(
        [lots(problem.row_keys, seed, Purpose.LDS, number) < plan.rate for number in range(plan.selections)]
    )
    seeds = [seed + 1 + s for s in range(plan.seeds + 1)]
    trainings = [Retrained(selection, other, influence.loss) for selection in drawn for other in seeds]
    with phase("retraining"):
        entries = lab.run(trainings, "retraining on random selections")
    losses = np.array([entry.arrays[plan.rows.value] for entry in entries])
    by_seed = losses.reshape(len(drawn), len(seeds), -1)
    weights = method.reward.weights(judged.samples(problem.n_users))
    truth, yardstick = (
        Predicted(each, each @ weights) for each in (by_seed[:, :-1].mean(axis=1), by_seed[:, -1])
    )
    estimators = [each for each in plan.estimators if knows(model_class(model), each)]
    with phase("one anchor"):
        single = _at_one_anchor(lab, plan, influence, estimators, drawn)
    with phase("folds"):
        predicted = {RETRAINED: yardstick, **_over_folds(lab, method, influence, drawn), **single}
    users = np.intersect1d(problem.valid.users, judged.rows.users)
    return Orders(problem.name, model, seed, plan.rows, predicted, truth, users)


@dataclass(frozen=True, eq=False)
class Retrained:
    """A task: everybody's losses on held-out rows after training on a selection, by kind of row."""

    selection: Bools
    seed: int
    loss: Loss
    label: str = "retraining"

    def key(self, lab: Lab) -> Key:
        """Return the training's key and the loss."""
        about = {"kind": "retrained", "training": self._training.key(lab), "loss": self.loss.value}
        return lab.rows_key | about

    def run(self, lab: Lab) -> Found:
        """Train, take the losses, and throw the model away."""
        problem, trained = lab.problem, self._training.train(lab)
        known = [
            each for each in HeldOut if each is HeldOut.VALIDATION or problem.test_candidates is not None
        ]
        losses = {each.value: each.of(problem).losses(problem, trained, self.loss) for each in known}
        return Found(losses, trainings=1, seconds=trained.seconds)

    @property
    def _training(self) -> Training:
        return Training(self.selection, seed=self.seed, label=self.label)


@dataclass(frozen=True, eq=False)
class Predicting:
    """A task: what an estimator at one anchor predicts of selections, and own influence there.

    Arrays: `losses[R, n_users]`, `total[R]` and, with `own`, `own[Z]`, which counts as in the reward. The
    total is that of the social influence that the game is played with: a truncated inverse is not linear in
    its right-hand side, so adding up the users' predictions would judge another estimate.
    """

    anchor: Training
    drawn: Bools
    model: InfluenceSettings
    """How the model is linearised."""
    settings: InfluenceSettings
    """What stands for the inverse Hessian."""
    method: WorthMethod
    number: int | None = None
    """Of the anchor, if own influence is asked for."""

    @property
    def label(self) -> str:
        """What progress bars call it."""
        return f"predicting by {self.settings.estimator}"

    def key(self, lab: Lab) -> Key:
        """Return the anchor's key, the selections and the settings."""
        return lab.rows_key | {
            "kind": "predicting",
            "anchor": digest(self.anchor.key(lab)),
            "drawn": hash_of(self.drawn.ravel()),
            "model": self.model.model_dump(mode="json"),
            "influence": self.settings.model_dump(mode="json"),
            "reward": self.method.reward.value,
            "seed": lab.seed,
            "number": self.number,
        }

    def run(self, lab: Lab) -> Found:
        """Differentiate the anchor's model."""
        [trained] = lab.train([self.anchor])
        model = linearised(lab, self.anchor, trained, self.model)
        weights = loss_weights(lab, self.method.reward)[model.valid.owners.numpy()]
        social, _ = social_influence(model, self.settings, lab.seed, weights)
        found = {
            "losses": predicted_losses(model, self.drawn, self.settings, lab.seed),
            "total": -(self.drawn @ social.double().numpy()),
        }
        if self.number is not None:
            own, _ = first_order_own(model, self.settings, mixed(lab.seed, self.number), weights)
            found["own"] = own.double().numpy()
        return Found(found, rests_on=trained.cost)


def _at_one_anchor(
    lab: Lab, plan: LdsPlan, influence: InfluenceSettings, estimators: Sequence[Estimator], drawn: Bools
) -> dict[str, Predicted]:
    """Predict by each estimator at the paper's first anchor."""
    [anchor] = random_anchors(lab, 1, rate=plan.anchor_rate)
    lab.train([anchor])
    tasks = []
    for estimator in estimators:
        settings = influence.model_copy(update={"estimator": estimator})
        tasks.append(Predicting(anchor, drawn, settings, settings, plan.method))
    found = lab.run(tasks, "predicting at one anchor")
    return {each.value: _mean([entry]) for each, entry in zip(estimators, found, strict=True)}


def _over_folds(
    lab: Lab, method: WorthMethod, influence: InfluenceSettings, drawn: Bools
) -> dict[str, Predicted]:
    """Predict by the method's values, cross-fitted and combined, and by the averages that they rest on.

    The averages keep the effect of a user's own interactions as it was measured on the validation rows; the
    values replace it by theirs (`with_own`).
    """
    valued = {}
    for source in (Source.CROSS_FITTED, Source.COMBINED):
        own, social = (
            method.model_copy(update={"source": source, "objective": each}).estimate(lab)
            for each in (Objective.NASH, Objective.WELFARE)
        )
        valued[source.value] = own.own, social.social
    settings = method.model_copy(update={"source": Source.CROSS_FITTED}).settings_for(lab.settings.model)
    anchors = [*fold_trainings(lab, settings), model_of_everything(lab, settings)]
    by_gradients = influence.model_copy(update={"estimator": Estimator.GRADIENT_DOT})
    plain = [Predicting(anchor, drawn, influence, influence, method, t) for t, anchor in enumerate(anchors)]
    dots = [Predicting(anchor, drawn, influence, by_gradients, method) for anchor in anchors]
    found = lab.run([*plain, *dots], "predicting over folds")
    mean, of_gradients = (_mean(each) for each in (found[: len(anchors)], found[len(anchors) :]))
    measured = np.mean([entry.arrays["own"] for entry in found[: len(anchors)]], axis=0)
    owners, weights = lab.problem.train.users, loss_weights(lab, method.reward)
    predicted = {}
    for name, (own_values, social_values) in valued.items():
        more = (own_values - measured) / weights[owners]
        predicted[name] = Predicted(with_own(mean.losses, drawn, owners, more), -(drawn @ social_values))
    return {**predicted, AVERAGED: mean, GRADIENT_DOT_AVERAGED: of_gradients}


def with_own(losses: Floats, drawn: Bools, owners: Ints, more: Floats) -> Floats:
    """Predicted `losses[R, n_users]`, if each interaction lowered its owner's by `more[Z]` than they hold.

        L_ru − Σ_{k of u} o_rk more_k

    `drawn[R, Z]` are the selections o, `owners[Z]` the users of the interactions.
    """
    lowered = [sum_by(owners, more * selection, losses.shape[1]) for selection in drawn]
    return losses - np.array(lowered)


def _mean(entries: Sequence[Entry]) -> Predicted:
    losses, total = (np.mean([each.arrays[name] for each in entries], axis=0) for name in ("losses", "total"))
    return Predicted(losses, total)


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
