import dataclasses
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from assent.settings import Settings
from assent.workbench import Workbench
from assent.worth.settings import Source, ValueSettings
from scipy import stats

from assent.data.problem import Problem, Protocol
from assent.data.simulate import simulate
from assent.data.split import make_problem
from assent.evaluation.evaluate import HeldOut, candidate_scores, validation_losses
from assent.evaluation.metrics import RewardForm
from assent.game.estimates import Objective
from assent.influence.estimate import own_influence, predicted_losses, social_influence
from assent.influence.inverse import Estimator, InfluenceSettings
from assent.influence.linearised import Linearised
from assent.models import MFSettings, NeuMFSettings
from assent.models.losses import Loss
from assent.runs import lds
from assent.runs.lds import (
    AVERAGED,
    GRADIENT_DOT_AVERAGED,
    RETRAINED,
    SCORES,
    LdsPlan,
    Values,
    over_folds,
    predict_orders,
    score_orders,
    with_own,
)
from assent.support.arrays import Bools, Floats
from assent.support.errors import AssentError
from assent.support.hashing import mixed
from assent.training import TrainingSettings

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
POOLED = SETTINGS.model_copy(update={"value": ValueSettings(source=Source.CROSS_FITTED)})
GROUPED = POOLED.model_copy(update={"model": "neumf", "model_settings": NeuMFSettings(dimension=4)})


@pytest.fixture(scope="module")
def problem() -> Problem:
    log = simulate(preference="learnable", users=60, items=40, seed=1)
    return make_problem(log, Protocol.PAPER_TABLES, negatives=10)


def score(problem: Problem, cache: Path | None, settings: Settings = SETTINGS) -> list[Record]:
    return predict_orders(problem, settings, PLAN, seed=SEED, cache=cache).records()


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lds")


@pytest.fixture
def no_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail where anything is trained."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("trained again")

    monkeypatch.setattr(Workbench, "_train", refuse)


@pytest.fixture(scope="module")
def records(problem: Problem, cache: Path) -> list[Record]:
    return score(problem, cache)


def test_there_is_one_record_per_estimator_and_level(problem: Problem, records: list[Record]) -> None:
    names = [RETRAINED, Source.CROSS_FITTED, Source.COMBINED, AVERAGED, GRADIENT_DOT_AVERAGED, *Estimator]
    expected = [(name, level) for name in names for level in ("own", "social")]
    assert [(each["estimator"], each["level"]) for each in records] == expected
    for each in records:
        assert list(each) == ["dataset", "model", "rows", "estimator", "level", *SCORES]
        assert (each["dataset"], each["model"], each["rows"]) == (problem.name, "mf", "validation")
        assert -1 <= each["low"] <= each["high"] <= 1
        assert -1 <= each["lds"] <= 1
        assert each["behind_low"] <= each["behind_high"]
        if each["estimator"] == AVERAGED:
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
    drawn = selections(problem)
    model = Workbench(problem, SETTINGS, SEED).linearise(0)
    expected = {
        RETRAINED: (yardstick, yardstick.sum(axis=1)),
        Estimator.TRUNCATED: predicted(model, SETTINGS.influence, drawn),
    }
    folds = Workbench(problem, POOLED, SEED)
    by_gradients = SETTINGS.influence.model_copy(update={"estimator": Estimator.GRADIENT_DOT})
    for name, settings in ((AVERAGED, SETTINGS.influence), (GRADIENT_DOT_AVERAGED, by_gradients)):
        parts = [predicted(folds.linearise(t), settings, drawn) for t in range(4)]
        losses, totals = (np.mean(each, axis=0) for each in zip(*parts, strict=True))
        expected[name] = losses, totals
    measured = measured_own(folds)
    for source in (Source.CROSS_FITTED, Source.COMBINED):
        bench = Workbench(problem, SETTINGS.model_copy(update={"value": ValueSettings(source=source)}), SEED)
        own = bench.estimates(1, Objective.NASH).own[0]
        social = bench.estimates(1, Objective.WELFARE).social[0]
        valued = expected[AVERAGED][0].copy()
        for r, k in np.ndindex(len(drawn), len(problem.train)):
            if drawn[r][k]:
                valued[r, problem.train.users[k]] -= own[k] - measured[k]
        expected[source] = valued, -(np.array(drawn) @ social)

    found = {(each["estimator"], each["level"]): each["lds"] for each in records}
    users = np.unique(problem.valid.users)
    for name, (losses, total) in expected.items():
        own = [stats.spearmanr(losses[:, user], truth[:, user]).statistic for user in users]
        assert found[name, "own"] == pytest.approx(np.mean(own))
        assert found[name, "social"] == pytest.approx(stats.spearmanr(total, truth.sum(axis=1)).statistic)


def predicted(model: Linearised, settings: InfluenceSettings, drawn: list[Bools]) -> tuple[Floats, Floats]:
    """Losses, [R, users], and what social influence says of their sum up to a constant, [R]."""
    losses = np.array([predicted_losses(model, each[None], settings, SEED)[0] for each in drawn])
    social = social_influence(model, settings, SEED)[0].double().numpy()
    return losses, -(np.array(drawn) @ social)


def test_any_of_them_can_be_what_others_are_compared_with(problem: Problem, records: list[Record]) -> None:
    orders = predict_orders(problem, SETTINGS, PLAN, seed=SEED)
    assert orders.records() == records
    for each in orders.records(RETRAINED):
        scores = {one["estimator"]: one["lds"] for one in records if one["level"] == each["level"]}
        assert each["behind"] == pytest.approx(scores[RETRAINED] - each["lds"])
        assert each["lds"] == scores[each["estimator"]]


def test_it_is_said_where_the_default_stands(problem: Problem, cache: Path) -> None:
    orders = predict_orders(problem, SETTINGS, PLAN, seed=SEED, cache=cache)
    said = orders.verdicts()
    assert [each.partition(", what")[0] for each in said] == [
        "own, validation rows: averaged",
        "social, validation rows: averaged",
        "own, validation rows: combined",
        "social, validation rows: combined",
    ]
    for ours, sentence in zip((AVERAGED, Source.COMBINED), (said[0], said[2]), strict=True):
        for rival in (Estimator.GRADIENT_DOT, Estimator.LISSA):
            (row,) = (
                each
                for each in orders.records(ours)
                if (each["estimator"], each["level"]) == (rival, "own") and each["lds"] is not None
            )
            side = "above" if row["behind"] > 0 else "below"
            sure = row["behind_low"] > 0 or row["behind_high"] < 0
            assert f"{side}{'' if sure else ', not for certain,'} {rival} ({row['behind']:+.3f}, " in sentence
    only = dataclasses.replace(PLAN, estimators=())
    assert predict_orders(problem, SETTINGS, only, seed=SEED, cache=cache).verdicts() == []


def test_rows_to_come_can_be_ordered_in_place_of_those_that_estimates_rest_on(
    problem: Problem, cache: Path, records: list[Record], no_training: None
) -> None:
    """The predictions are the same, the truth is another; what was retrained serves both."""
    plan = dataclasses.replace(PLAN, rows=HeldOut.TEST)
    orders = predict_orders(problem, SETTINGS, plan, seed=SEED, cache=cache)
    before = predict_orders(problem, SETTINGS, PLAN, seed=SEED, cache=cache)
    assert before.records() == records
    for name, each in before.predicted.items():
        if name != RETRAINED:
            np.testing.assert_array_equal(orders.predicted[name].losses, each.losses)
            np.testing.assert_array_equal(orders.predicted[name].total, each.total)
    assert not np.allclose(orders.truth.losses, before.truth.losses)
    assert {each["rows"] for each in orders.records()} == {"test"}
    assert all("test rows" in sentence for sentence in orders.verdicts())


def test_the_truth_of_rows_to_come_is_the_loss_of_test_rows(problem: Problem, cache: Path) -> None:
    plan = dataclasses.replace(PLAN, rows=HeldOut.TEST)
    orders = predict_orders(problem, SETTINGS, plan, seed=SEED, cache=cache)
    assert problem.test_candidates is not None
    for selection, found in zip(selections(problem), orders.truth.losses, strict=True):
        model = Workbench(problem, SETTINGS, SEED + 1).final(selection)
        own, *rivals = candidate_scores(problem, model, problem.test.users, problem.test_candidates).T
        losses = np.logaddexp(0, np.array(rivals) - own).sum(axis=0)
        np.testing.assert_allclose(found[problem.test.users], losses, rtol=1e-6)
    np.testing.assert_allclose(orders.truth.total, orders.truth.losses.sum(axis=1))


def test_who_has_no_validation_rows_is_not_judged_by_rows_to_come(problem: Problem) -> None:
    """Nothing can be predicted of her."""
    half = np.flatnonzero(problem.valid.users % 2)
    fewer = dataclasses.replace(
        problem, valid=problem.valid[half], valid_candidates=problem.valid_candidates[half]
    )
    plan = dataclasses.replace(PLAN, rows=HeldOut.TEST, estimators=())
    users = predict_orders(fewer, SETTINGS, plan, seed=SEED).users
    assert set(users) == set(problem.test.users[problem.test.users % 2 == 1])


def test_rows_to_come_need_sampled_negatives() -> None:
    log = simulate(preference="learnable", users=60, items=40, seed=1)
    ranked = make_problem(log, Protocol.FULL, negatives=10)
    plan = dataclasses.replace(PLAN, rows=HeldOut.TEST)
    with pytest.raises(AssentError, match=r"losses of test rows.*accepted: paper-tables"):
        predict_orders(ranked, SETTINGS, plan, seed=SEED)


def test_some_estimators_can_be_left_out(problem: Problem) -> None:
    few = dataclasses.replace(PLAN, estimators=(Estimator.LISSA,))
    whole, part = (predict_orders(problem, SETTINGS, each, seed=SEED).records() for each in (PLAN, few))
    left_out = {each.value for each in Estimator} - {Estimator.LISSA.value}
    assert [each for each in whole if each["estimator"] not in left_out] == part


def measured_own(folds: Workbench) -> Floats:
    """Own influence on the validation rows, the mean over the anchors of all folds and everything: [Z]."""
    settings = folds.settings.influence
    solved = [own_influence(folds.linearise(t), settings, mixed(SEED, t)) for t in range(4)]
    found: Floats = np.mean([own.double().numpy() for own, _ in solved], axis=0)
    return found


@pytest.mark.parametrize("settings", [POOLED, GROUPED], ids=lambda settings: settings.model)
def test_values_like_those_measured_give_the_average_back(settings: Settings, problem: Problem) -> None:
    """What is put in the values' place is measured with all groups, though values make do with fewer."""
    folds, drawn = Workbench(problem, settings, SEED), np.array(selections(problem))
    measured = measured_own(folds)

    def predict(own: Floats) -> tuple[Floats, Floats]:
        found = over_folds(folds, drawn, {"mine": Values(own, own)}, lambda: None)
        return found["mine"].losses, found[AVERAGED].losses

    values, average = predict(measured)
    np.testing.assert_allclose(values, average, atol=1e-5)

    k = int(np.flatnonzero(drawn[0] & ~drawn[1])[0])
    more = measured.copy()
    more[k] += 1
    values, average = predict(more)
    lowered = np.zeros_like(average)
    lowered[drawn[:, k], problem.train.users[k]] = 1
    np.testing.assert_allclose(values, average - lowered, atol=1e-5)


def test_own_effects_have_the_sign_of_predicted_losses(problem: Problem) -> None:
    """What `with_own` takes out of the losses is what adding single rows puts into them."""
    model = Workbench(problem, SETTINGS, SEED).linearise(0)
    own = own_influence(model, SETTINGS.influence, SEED)[0].double().numpy()
    rows, owners = np.arange(0, len(own), 12), problem.train.users
    nothing = np.zeros((1, len(own)), dtype=np.bool_)
    before = predicted_losses(model, nothing, SETTINGS.influence, SEED)
    changes = np.zeros((2, len(rows)))
    for place, k in enumerate(rows):
        alone = nothing.copy()
        alone[0, k] = True
        after = predicted_losses(model, alone, SETTINGS.influence, SEED)
        found = after - before, with_own(before, alone, owners, own) - before
        changes[:, place] = [each[0, owners[k]] for each in found]
    assert stats.pearsonr(*changes).statistic > 0.8


def test_the_reward_says_what_losses_of_rows_to_come_count(problem: Problem) -> None:
    assert problem.test_candidates is not None
    rows = np.concatenate([np.arange(len(problem.test)), np.flatnonzero(problem.test.users % 2)])
    uneven = dataclasses.replace(
        problem, test=problem.test[rows], test_candidates=problem.test_candidates[rows]
    )
    settings = SETTINGS.model_copy(update={"reward": RewardForm.MEAN})
    plan = dataclasses.replace(PLAN, rows=HeldOut.TEST, estimators=())
    truth = predict_orders(uneven, settings, plan, seed=SEED).truth
    often = np.where(np.arange(problem.n_users) % 2, 2, 1) * problem.test_candidates.shape[1]
    np.testing.assert_allclose(truth.total, truth.losses @ (1 / often))


def test_the_reward_says_what_losses_count_everywhere(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = np.concatenate([np.arange(len(problem.valid)), np.flatnonzero(problem.valid.users % 2)])
    uneven = dataclasses.replace(
        problem, valid=problem.valid[rows], valid_candidates=problem.valid_candidates[rows]
    )
    settings = SETTINGS.model_copy(update={"reward": RewardForm.MEAN})
    calls: list[tuple[dict[str, Floats], Floats]] = []

    def watch(given: dict[str, Floats], truth: Floats, **more: Any) -> Any:
        calls.append((given, truth))
        return score_orders(given, truth, **more)

    monkeypatch.setattr(lds, "score_orders", watch)
    score(uneven, None, settings)
    (own, truth), (totals, sums) = calls
    weights: Floats = Workbench(uneven, settings, SEED).weights[np.unique(uneven.valid.users)]
    assert len(np.unique(weights)) == 2
    np.testing.assert_allclose(sums[:, 0], truth @ weights)
    for name in (RETRAINED, Estimator.GRADIENT_DOT, GRADIENT_DOT_AVERAGED):  # linear in the losses
        added: Floats = own[name] @ weights
        np.testing.assert_allclose(totals[name][:, 0] - totals[name][0, 0], added - added[0], atol=1e-4)


def test_a_second_call_trains_nothing(
    problem: Problem, cache: Path, records: list[Record], no_training: None
) -> None:
    files = sorted(cache.iterdir())
    kinds = Counter(file.suffix for file in files)
    trials = len([file for file in files if file.name.startswith("trial-") and file.suffix == ".seconds"])
    assert 2 <= trials <= 10
    models = (3 + 1) + 1 + trials  # folds and everything, shared by both, and the anchor of single estimators
    trained = dict.fromkeys((".safetensors", ".json", ".seconds"), models)
    predictions = 3 * (3 + 1) + len(Estimator)  # two averages and own influence
    assert kinds == {".npy": PLAN.selections * (PLAN.seeds + 1), ".npz": predictions, **trained}

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
