import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
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
from assent.lab import Lab, Store, Training
from assent.lab.anchors import linearised, loss_weights, random_anchors
from assent.methods.worth import WorthMethod
from assent.models import MFSettings, NeuMFSettings
from assent.models.losses import Loss
from assent.runs.lds import (
    AVERAGED,
    GRADIENT_DOT_AVERAGED,
    RETRAINED,
    SCORES,
    LdsPlan,
    predict_orders,
    with_own,
)
from assent.support.arrays import Bools, Floats
from assent.support.errors import AssentError
from assent.support.hashing import mixed
from assent.training import Settings, TrainingSettings
from assent.worth.estimate import Source, fold_trainings, model_of_everything

from ..small import entries

Record = dict[str, Any]

SEED = 5
SETTINGS = Settings(
    model_settings=MFSettings(dimension=8, strength=0.65),
    training=TrainingSettings(epochs=4, evaluate_every=4, negatives=1),
)
INFLUENCE = InfluenceSettings(
    estimator=Estimator.TRUNCATED,
    loss=Loss.PAIRWISE,
    damping=0.1,
    draws=2,
    truncation=3,
    tolerance=1e-3,
    iterations=20,
    lissa_steps=5,
)
METHOD = WorthMethod(influence=INFLUENCE)
PLAN = LdsPlan(selections=4, rate=0.7, seeds=1, method=METHOD)
GROUPED = Settings(model="neumf", model_settings=NeuMFSettings(dimension=4), training=SETTINGS.training)


@pytest.fixture(scope="module")
def problem() -> Problem:
    log = simulate(preference="learnable", users=60, items=40, seed=1)
    return make_problem(log, Protocol.PAPER_TABLES, negatives=10)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("lds"))


@pytest.fixture(scope="module")
def records(problem: Problem, store: Store) -> list[Record]:
    return predict_orders(problem, SETTINGS, PLAN, seed=SEED, store=store).records()


def anchors_of(lab: Lab) -> list[Training]:
    """The models without each fold, and the model of everything."""
    settings = METHOD.model_copy(update={"source": Source.CROSS_FITTED}).settings_for(lab.settings.model)
    return [*fold_trainings(lab, settings), model_of_everything(lab, settings)]


def linear(lab: Lab, anchor: Training) -> Linearised:
    [trained] = lab.train([anchor])
    return linearised(lab, anchor, trained, INFLUENCE)


def first_anchor(lab: Lab) -> Training:
    return random_anchors(lab, 1, rate=PLAN.anchor_rate)[0]


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
    models = Lab(problem, SETTINGS, seed).train([Training(each) for each in selections(problem)])
    return np.array([validation_losses(problem, model, Loss.PAIRWISE) for model in models])


def test_the_scores_are_rank_correlations_with_retraining(problem: Problem, records: list[Record]) -> None:
    truth, yardstick = retrained(problem, SEED + 1), retrained(problem, SEED + 2)
    drawn, lab = selections(problem), Lab(problem, SETTINGS, SEED)
    expected = {
        RETRAINED: (yardstick, yardstick.sum(axis=1)),
        Estimator.TRUNCATED: predicted(linear(lab, first_anchor(lab)), INFLUENCE, drawn),
    }
    folds = [linear(lab, anchor) for anchor in anchors_of(lab)]
    by_gradients = INFLUENCE.model_copy(update={"estimator": Estimator.GRADIENT_DOT})
    for name, settings in ((AVERAGED, INFLUENCE), (GRADIENT_DOT_AVERAGED, by_gradients)):
        parts = [predicted(model, settings, drawn) for model in folds]
        losses, totals = (np.mean(each, axis=0) for each in zip(*parts, strict=True))
        expected[name] = losses, totals
    measured = measured_own(folds)
    for source in (Source.CROSS_FITTED, Source.COMBINED):
        own, social = (
            METHOD.model_copy(update={"source": source, "objective": objective}).estimate(lab)
            for objective in (Objective.NASH, Objective.WELFARE)
        )
        valued = expected[AVERAGED][0].copy()
        for r, k in np.ndindex(len(drawn), len(problem.train)):
            if drawn[r][k]:
                valued[r, problem.train.users[k]] -= own.own[k] - measured[k]
        expected[source] = valued, -(np.array(drawn) @ social.social)

    found = {(each["estimator"], each["level"]): each["lds"] for each in records}
    users = np.unique(problem.valid.users)
    for name, (losses, total) in expected.items():
        each_user = [stats.spearmanr(losses[:, user], truth[:, user]).statistic for user in users]
        assert found[name, "own"] == pytest.approx(np.mean(each_user))
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


def test_it_is_said_where_the_default_stands(problem: Problem, store: Store) -> None:
    orders = predict_orders(problem, SETTINGS, PLAN, seed=SEED, store=store)
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
    assert predict_orders(problem, SETTINGS, only, seed=SEED, store=store).verdicts() == []


def test_rows_to_come_can_be_ordered_in_place_of_those_that_estimates_rest_on(
    problem: Problem, store: Store, records: list[Record]
) -> None:
    """The predictions are the same, the truth is another; what was retrained serves both."""
    plan = dataclasses.replace(PLAN, rows=HeldOut.TEST)
    orders = predict_orders(problem, SETTINGS, plan, seed=SEED, store=store)
    before = predict_orders(problem, SETTINGS, PLAN, seed=SEED, store=store)
    assert before.records() == records
    for name, each in before.predicted.items():
        if name != RETRAINED:
            np.testing.assert_array_equal(orders.predicted[name].losses, each.losses)
            np.testing.assert_array_equal(orders.predicted[name].total, each.total)
    assert not np.allclose(orders.truth.losses, before.truth.losses)
    assert {each["rows"] for each in orders.records()} == {"test"}
    assert all("test rows" in sentence for sentence in orders.verdicts())


def test_the_truth_of_rows_to_come_is_the_loss_of_test_rows(problem: Problem, store: Store) -> None:
    plan = dataclasses.replace(PLAN, rows=HeldOut.TEST)
    orders = predict_orders(problem, SETTINGS, plan, seed=SEED, store=store)
    assert problem.test_candidates is not None
    for selection, found in zip(selections(problem), orders.truth.losses, strict=True):
        [model] = Lab(problem, SETTINGS, SEED + 1).train([Training(selection)])
        own, *rivals = candidate_scores(problem, model, problem.test.users, problem.test_candidates).T
        losses = np.logaddexp(0, np.array(rivals) - own).sum(axis=0)
        np.testing.assert_allclose(found[problem.test.users], losses, rtol=1e-6)
    np.testing.assert_allclose(orders.truth.total, orders.truth.losses.sum(axis=1))


def test_who_has_no_validation_rows_is_not_judged_by_rows_to_come(problem: Problem) -> None:
    """Nothing can be predicted of them."""
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


def measured_own(folds: Sequence[Linearised]) -> Floats:
    """Own influence on the validation rows, the mean over the models of all folds and everything: [Z]."""
    solved = [own_influence(model, INFLUENCE, mixed(SEED, t)) for t, model in enumerate(folds)]
    found: Floats = np.mean([own.double().numpy() for own, _ in solved], axis=0)
    return found


@pytest.mark.parametrize("settings", [SETTINGS, GROUPED], ids=lambda settings: settings.model)
def test_values_replace_own_effects_as_they_were_measured(settings: Settings, problem: Problem) -> None:
    """What is put in the values' place is measured with all groups, though values make do with fewer."""
    plan, lab = dataclasses.replace(PLAN, estimators=()), Lab(problem, settings, SEED)
    orders = predict_orders(problem, settings, plan, seed=SEED, store=lab.store)
    measured = measured_own([linear(lab, anchor) for anchor in anchors_of(lab)])
    own = METHOD.model_copy(update={"objective": Objective.NASH}).estimate(lab).own
    drawn, owners = np.array(selections(problem)), problem.train.users
    lowered = with_own(orders.predicted[AVERAGED].losses, drawn, owners, own - measured)
    np.testing.assert_allclose(orders.predicted[Source.COMBINED].losses, lowered, atol=1e-5)


def test_own_effects_have_the_sign_of_predicted_losses(problem: Problem) -> None:
    """What `with_own` takes out of the losses is what adding single rows puts into them."""
    lab = Lab(problem, SETTINGS, SEED)
    model = linear(lab, first_anchor(lab))
    own = own_influence(model, INFLUENCE, SEED)[0].double().numpy()
    rows, owners = np.arange(0, len(own), 12), problem.train.users
    nothing = np.zeros((1, len(own)), dtype=np.bool_)
    before = predicted_losses(model, nothing, INFLUENCE, SEED)
    changes = np.zeros((2, len(rows)))
    for place, k in enumerate(rows):
        alone = nothing.copy()
        alone[0, k] = True
        after = predicted_losses(model, alone, INFLUENCE, SEED)
        found = after - before, with_own(before, alone, owners, own) - before
        changes[:, place] = [each[0, owners[k]] for each in found]
    assert stats.pearsonr(*changes).statistic > 0.8


def test_the_reward_says_what_losses_of_rows_to_come_count(problem: Problem) -> None:
    assert problem.test_candidates is not None
    rows = np.concatenate([np.arange(len(problem.test)), np.flatnonzero(problem.test.users % 2)])
    uneven = dataclasses.replace(
        problem, test=problem.test[rows], test_candidates=problem.test_candidates[rows]
    )
    mean = METHOD.model_copy(update={"reward": RewardForm.MEAN})
    plan = dataclasses.replace(PLAN, rows=HeldOut.TEST, estimators=(), method=mean)
    truth = predict_orders(uneven, SETTINGS, plan, seed=SEED).truth
    often = np.where(np.arange(problem.n_users) % 2, 2, 1) * problem.test_candidates.shape[1]
    np.testing.assert_allclose(truth.total, truth.losses @ (1 / often))


def test_the_reward_says_what_losses_count_everywhere(problem: Problem) -> None:
    rows = np.concatenate([np.arange(len(problem.valid)), np.flatnonzero(problem.valid.users % 2)])
    uneven = dataclasses.replace(
        problem, valid=problem.valid[rows], valid_candidates=problem.valid_candidates[rows]
    )
    mean = METHOD.model_copy(update={"reward": RewardForm.MEAN})
    orders = predict_orders(uneven, SETTINGS, dataclasses.replace(PLAN, method=mean), seed=SEED)
    weights = loss_weights(Lab(uneven), RewardForm.MEAN)
    assert len(np.unique(weights[uneven.valid.users])) == 2
    np.testing.assert_allclose(orders.truth.total, orders.truth.losses @ weights)
    for name in (RETRAINED, Estimator.GRADIENT_DOT, GRADIENT_DOT_AVERAGED):  # linear in the losses
        found = orders.predicted[name]
        added: Floats = found.losses @ weights
        np.testing.assert_allclose(found.total - found.total[0], added - added[0], atol=1e-4)


def test_a_second_call_trains_nothing(problem: Problem, store: Store, records: list[Record]) -> None:
    kinds = Counter(each["key"]["kind"] for each in entries(store).values())
    trials = kinds["training"] - (3 + 1) - 1  # folds and everything, and the anchor of single estimators
    assert 2 <= trials <= 10
    assert kinds["retrained"] == PLAN.selections * (PLAN.seeds + 1)
    assert kinds["predicting"] == 2 * (3 + 1) + len(Estimator)
    files = sorted(store.folder.iterdir())
    assert predict_orders(problem, SETTINGS, PLAN, seed=SEED, store=store).records() == records
    assert sorted(store.folder.iterdir()) == files


@pytest.mark.parametrize(
    ("changes", "influence"),
    [
        ({"training": SETTINGS.training.model_copy(update={"learning_rate": 0.05})}, {}),
        ({"model_settings": MFSettings(dimension=4, strength=0.65)}, {}),
        ({}, {"loss": Loss.BCE}),
    ],
)
def test_what_changes_the_losses_is_computed_again(
    problem: Problem, store: Store, changes: dict[str, Any], influence: dict[str, Any]
) -> None:
    before = len(entries(store, "retrained"))
    other = INFLUENCE.model_copy(update=influence)
    plan = dataclasses.replace(PLAN, estimators=(), method=METHOD.model_copy(update={"influence": other}))
    predict_orders(problem, SETTINGS.model_copy(update=changes), plan, seed=SEED, store=store)
    assert len(entries(store, "retrained")) == before + PLAN.selections * (PLAN.seeds + 1)
