"""The linear datamodeling score: does influence order selections as retraining does?

Over R random selections, the rank correlation between predicted and retrained validation loss: per user and
averaged over users (level `own`), and of the sum over users (level `social`). Truth is the mean over several
training seeds. Beside the estimators stands what a retraining with another seed scores: no estimate can be
expected to do much better than that.
"""

from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from assent.arrays import Bools, Floats
from assent.data.problem import Problem
from assent.evaluation import validation_losses
from assent.experiments.store import digest
from assent.files import write_with
from assent.influence.estimate import social_influence
from assent.influence.predict import predicted_losses
from assent.influence.settings import Estimator
from assent.models import code_of
from assent.progress import SILENT, Progress
from assent.settings import Settings
from assent.statistics import bootstrap_interval
from assent.value.settings import Source
from assent.workbench import Workbench

RETRAINED = "another seed"
"""Stands where an estimator's name would, for the retraining that serves as a yardstick."""

SCORES = ("lds", "low", "high", "behind", "behind_low", "behind_high")
_RESAMPLED = 2000
"""Bootstrap draws of selections."""


@dataclass(frozen=True)
class LdsPlan:
    """How much is retrained."""

    selections: int = 32
    """R."""
    rate: float = 0.8
    """Share of the interactions that each selection discloses."""
    seeds: int = 3
    """Trainings of each selection whose mean loss is the truth; one more is the yardstick."""


def linear_datamodeling_score(
    problem: Problem,
    settings: Settings,
    plan: LdsPlan,
    *,
    seed: int,
    cache: Path | None = None,
    progress: Progress = SILENT,
) -> list[dict[str, Any]]:
    """One record per estimator and level: dataset, model, estimator, level, lds, low, high, behind …

    `low` and `high` bound the 95 % bootstrap interval, over users for `own` and over selections for `social`.
    `behind` is by how much the estimator falls short of the default one, `combined`, with `behind_low` and
    `behind_high` of the paired difference. With `cache`, the losses of each training are kept in that folder
    and found again by a later call.
    """
    drawn = [
        np.random.default_rng((seed, 2, r)).random(len(problem.train)) < plan.rate
        for r in range(plan.selections)
    ]
    retrained = _retrain(problem, settings, drawn, plan, seed=seed, cache=cache, progress=progress)
    truth = retrained[:, :-1].mean(axis=1)
    predictions = {RETRAINED: (retrained[:, -1], retrained[:, -1].sum(axis=1))}
    single = Workbench(problem, _valued_by(settings, Source.INFLUENCE), seed, progress)
    pooled = Workbench(problem, _valued_by(settings, Source.COMBINED), seed, progress)
    with progress.task("predicting", len(Estimator) + 1) as advance:
        predictions[Source.COMBINED.value] = _predict_pooled(pooled, np.array(drawn))
        advance()
        for estimator in Estimator:
            predictions[estimator.value] = _predict(single, estimator, np.array(drawn))
            advance()
    judged = np.unique(problem.valid.users)
    own = {
        name: rank_correlations(per_user[:, judged], truth[:, judged])
        for name, (per_user, _) in predictions.items()
    }
    again = np.random.default_rng(seed).integers(len(drawn), size=(len(drawn), _RESAMPLED))
    sums = truth.sum(axis=1)
    social = {
        name: rank_correlations(np.column_stack([total, total[again]]), np.column_stack([sums, sums[again]]))
        for name, (_, total) in predictions.items()
    }
    records = []
    for name in predictions:
        about = {"dataset": problem.name, "model": settings.model, "estimator": name}
        records.append(about | {"level": "own"} | _score_users(own[name], own[Source.COMBINED], seed))
        records.append(about | {"level": "social"} | _score_sums(social[name], social[Source.COMBINED]))
    return records


def _valued_by(settings: Settings, source: Source) -> Settings:
    return settings.model_copy(update={"value": settings.value.model_copy(update={"source": source})})


def _predict(bench: Workbench, estimator: Estimator, drawn: Bools) -> tuple[Floats, Floats]:
    """Losses per user, [R, n_users], and up to a constant their sums, [R], under selections `drawn[R, Z]`.

    The sums are those of the social influence that the game is played with: a truncated inverse is not linear
    in its right-hand side, so adding up the users' predictions would judge another estimate.
    """
    settings = bench.settings.influence.model_copy(update={"estimator": estimator})
    model = bench.linearise(0, settings)
    social, _ = social_influence(model, settings, bench.seed)
    per_user = [predicted_losses(model, selection, settings, bench.seed) for selection in drawn]
    return np.array(per_user), -(drawn @ social.double().numpy())


def _predict_pooled(bench: Workbench, drawn: Bools) -> tuple[Floats, Floats]:
    """The same from the anchors of all folds: the mean of their predictions, and the combined values."""
    social = bench.estimates(1).social[0]
    total = np.zeros((len(drawn), bench.problem.n_users))
    folds = bench.resting_on(1)
    for t in range(folds):
        model = bench.linearise(t)
        total += [predicted_losses(model, each, bench.settings.linearisation, bench.seed) for each in drawn]
    return total / folds, -(drawn @ social)


def rank_correlations(a: Floats, b: Floats) -> Floats:
    """Spearman's correlation of each column of `a[n, m]` with that of `b[n, m]`, nan for constants: [m]."""
    ranks = [stats.rankdata(each, axis=0) for each in (a, b)]
    x, y = (each - each.mean(axis=0) for each in ranks)
    with np.errstate(invalid="ignore", divide="ignore"):
        correlation: Floats = (x * y).sum(axis=0) / np.sqrt((x**2).sum(axis=0) * (y**2).sum(axis=0))
    return correlation


def _score_users(per_user: Floats, default: Floats, seed: int) -> dict[str, float | None]:
    """The mean of `per_user[users]` correlations, its interval, and how far it is below `default[users]`."""

    def mean_of(values: Floats) -> tuple[float | None, float | None, float | None]:
        finite = values[np.isfinite(values)]
        if not len(finite):
            return None, None, None
        return float(finite.mean()), *(bootstrap_interval(finite, seed=seed) or (None, None))

    return dict(zip(SCORES, mean_of(per_user) + mean_of(default - per_user), strict=True))


def _score_sums(resampled: Floats, default: Floats) -> dict[str, float | None]:
    """The first of `resampled[1 + n]` correlations, the interval of the rest, how far below `default`."""

    def first_of(values: Floats) -> tuple[float | None, float | None, float | None]:
        if not np.isfinite(values[0]):
            return None, None, None
        low, high = np.nanquantile(values[1:], [0.025, 0.975])
        return float(values[0]), float(low), float(high)

    return dict(zip(SCORES, first_of(resampled) + first_of(default - resampled), strict=True))


def _retrain(
    problem: Problem,
    settings: Settings,
    drawn: list[Bools],
    plan: LdsPlan,
    *,
    seed: int,
    cache: Path | None,
    progress: Progress,
) -> Floats:
    """Validation losses of every selection and training seed: [R, seeds + 1, n_users]."""
    losses = np.zeros((len(drawn), plan.seeds + 1, problem.n_users))
    with progress.task("retraining on random selections", losses.shape[0] * losses.shape[1]) as advance:
        for r, selection in enumerate(drawn):
            for s in range(plan.seeds + 1):
                training_seed = seed + 1 + s
                file = cache and cache / f"{_mark(problem, settings, selection, training_seed)}.npy"
                if file and file.exists():
                    losses[r, s] = np.load(file, allow_pickle=False)
                else:
                    trained = Workbench(problem, settings, training_seed).final(selection)
                    losses[r, s] = validation_losses(problem, trained, settings.influence.loss)
                    if file:
                        write_with(file, partial(np.save, arr=losses[r, s], allow_pickle=False))
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
            "seed": seed,
            "selection": blake2b(selection.tobytes(), digest_size=16).hexdigest(),
        }
    )
