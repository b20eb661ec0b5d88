from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from scipy import stats

from assent.arrays import Bools, Floats
from assent.data.problem import Problem, Protocol
from assent.data.simulator import simulate
from assent.data.split import make_problem
from assent.evaluation import validation_losses
from assent.experiments.lds import RETRAINED, SCORES, LdsPlan, linear_datamodeling_score, rank_correlations
from assent.influence.predict import predicted_losses
from assent.influence.settings import Estimator, InfluenceSettings
from assent.losses import Loss
from assent.models import MFSettings
from assent.settings import Settings
from assent.training import TrainingSettings
from assent.value.settings import Source, ValueSettings
from assent.workbench import Workbench

Record = dict[str, Any]

SEED = 5
PLAN = LdsPlan(selections=4, rate=0.7, seeds=1)
SETTINGS = Settings(
    model_settings=MFSettings(dimension=8, strength=0.65),
    training=TrainingSettings(epochs=4, evaluate_every=4, negatives=1),
    influence=InfluenceSettings(
        estimator=Estimator.TRUNCATED,
        loss=Loss.PAIRWISE,
        damping=0.1,
        draws=2,
        truncation=3,
        tolerance=1e-3,
        iterations=20,
        lissa_steps=5,
    ),
    anchor_rate=0.9,
    value=ValueSettings(source=Source.INFLUENCE),
)


@pytest.fixture(scope="module")
def problem() -> Problem:
    log = simulate(preference="learnable", users=60, items=40, seed=1)
    return make_problem(log, Protocol.PAPER_TABLES, negatives=10)


def score(problem: Problem, cache: Path | None, settings: Settings = SETTINGS) -> list[Record]:
    return linear_datamodeling_score(problem, settings, PLAN, seed=SEED, cache=cache)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lds")


@pytest.fixture
def no_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail where a selection is retrained on."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("trained again")

    monkeypatch.setattr(Workbench, "final", refuse)


@pytest.fixture(scope="module")
def records(problem: Problem, cache: Path) -> list[Record]:
    return score(problem, cache)


def test_there_is_one_record_per_estimator_and_level(problem: Problem, records: list[Record]) -> None:
    expected = [
        (name, level) for name in [RETRAINED, Source.COMBINED, *Estimator] for level in ("own", "social")
    ]
    assert [(each["estimator"], each["level"]) for each in records] == expected
    for each in records:
        assert list(each) == ["dataset", "model", "estimator", "level", *SCORES]
        assert (each["dataset"], each["model"]) == (problem.name, "mf")
        assert -1 <= each["low"] <= each["high"] <= 1
        assert -1 <= each["lds"] <= 1
        assert each["behind_low"] <= each["behind"] + 1e-9
        assert each["behind"] <= each["behind_high"] + 1e-9
        if each["estimator"] == Source.COMBINED:
            assert each["behind"] == each["behind_low"] == each["behind_high"] == 0


def selections(problem: Problem) -> list[Bools]:
    """The selections that the score is documented to draw: from the seed, one generator each."""
    draws = [np.random.default_rng((SEED, 2, r)).random(len(problem.train)) for r in range(PLAN.selections)]
    return [draw < PLAN.rate for draw in draws]


def retrained(problem: Problem, seed: int) -> Floats:
    """Losses of every selection, [R, users]."""
    models = [Workbench(problem, SETTINGS, seed).final(selection) for selection in selections(problem)]
    return np.array([validation_losses(problem, model, Loss.PAIRWISE) for model in models])


def test_the_scores_are_rank_correlations_with_retraining(problem: Problem, records: list[Record]) -> None:
    truth, yardstick = retrained(problem, SEED + 1), retrained(problem, SEED + 2)
    model = Workbench(problem, SETTINGS, SEED).linearise(0)
    drawn = selections(problem)
    predicted = np.array([predicted_losses(model, each, SETTINGS.influence, SEED) for each in drawn])
    folds = Workbench(problem, SETTINGS.model_copy(update={"value": ValueSettings()}), SEED)
    pooled = np.zeros_like(predicted)
    for model in map(folds.linearise, range(5)):
        pooled += [predicted_losses(model, each, SETTINGS.influence, SEED) / 5 for each in drawn]
    found = {(each["estimator"], each["level"]): each["lds"] for each in records}
    for name, losses in ((RETRAINED, yardstick), (Estimator.TRUNCATED, predicted)):
        users = np.unique(problem.valid.users)
        own = [stats.spearmanr(losses[:, user], truth[:, user]).statistic for user in users]
        social = stats.spearmanr(losses.sum(axis=1), truth.sum(axis=1)).statistic
        assert found[name, "own"] == pytest.approx(np.nanmean(own))
        assert found[name, "social"] == pytest.approx(social)
    own = [stats.spearmanr(pooled[:, user], truth[:, user]).statistic for user in users]
    assert found[Source.COMBINED, "own"] == pytest.approx(np.nanmean(own))
    values = folds.estimates(1).social[0]
    social = stats.spearmanr(-(np.array(drawn) @ values), truth.sum(axis=1)).statistic
    assert found[Source.COMBINED, "social"] == pytest.approx(social)


def test_a_second_call_trains_nothing_again(
    problem: Problem, cache: Path, records: list[Record], no_training: None
) -> None:
    files = sorted(cache.iterdir())
    assert len(files) == PLAN.selections * (PLAN.seeds + 1)
    assert {file.suffix for file in files} == {".npy"}

    assert score(problem, cache) == records
    assert sorted(cache.iterdir()) == files


@pytest.mark.parametrize(
    "changes",
    [
        {"training": SETTINGS.training.model_copy(update={"learning_rate": 0.05})},
        {"model_settings": MFSettings(dimension=4, strength=0.65)},
        {"influence": SETTINGS.influence.model_copy(update={"loss": Loss.BCE})},
    ],
)
def test_what_changes_the_losses_is_not_taken_from_the_cache(
    problem: Problem,
    cache: Path,
    records: list[Record],
    changes: dict[str, object],
    no_training: None,
) -> None:
    with pytest.raises(AssertionError, match="trained again"):
        score(problem, cache, SETTINGS.model_copy(update=changes))


@given(st.data(), array_shapes(min_dims=2, max_dims=2, min_side=2, max_side=8))
def test_rank_correlations_are_those_of_scipy(data: st.DataObject, shape: tuple[int, ...]) -> None:
    few_values = arrays(np.float64, shape, elements=st.sampled_from([-1.0, 0.0, 0.5, 2.0]))
    a, b = data.draw(few_values), data.draw(few_values)
    found = rank_correlations(a, b)
    for column, correlation in enumerate(found):
        x, y = a[:, column], b[:, column]
        if np.ptp(x) == 0 or np.ptp(y) == 0:
            assert np.isnan(correlation)
        else:
            assert correlation == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-12)
