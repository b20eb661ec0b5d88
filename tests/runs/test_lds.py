"""LDS: predictions put together once more, truth by retraining, what is kept and what is said."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from scipy import stats

from assent.data.problem import Problem, Protocol, make_problem
from assent.data.simulate import simulate
from assent.evaluation.evaluate import HeldOut, candidate_scores, validation_losses
from assent.evaluation.metrics import RewardForm
from assent.game.estimates import Objective
from assent.influence.estimate import own_influence, predicted_losses, social_influence
from assent.influence.inverse import Estimator, InfluenceSettings
from assent.influence.linearised import Linearised
from assent.lab import Lab, Processes, Store, Training
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
    Orders,
    predict_orders,
    with_own,
)
from assent.support.arrays import Bools, Floats, mixed
from assent.support.draws import Purpose, lots
from assent.support.errors import AssentError
from assent.training import Settings, TrainingSettings, Tune
from assent.worth.estimate import Source, fold_trainings, model_of_everything
from tests.small import entries, trained_in

Record = dict[str, Any]

SEED = 6
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
SETTINGS = Settings(
    model="mf",
    tune=Tune.NONE,
    model_settings=MFSettings(dimension=8, strength=0.65),
    training=TrainingSettings(epochs=4, evaluate_every=4, negatives=1),
)
GROUPED = SETTINGS.model_copy(update={"model": "neumf", "model_settings": NeuMFSettings(dimension=4)})


@pytest.fixture(scope="module")
def problem() -> Problem:
    log = simulate(preference="learnable", users=60, items=40, seed=1)
    return make_problem(log, Protocol.PAPER_TABLES, negatives=10)


def orders_of(
    problem: Problem, store: Store | None = None, settings: Settings = SETTINGS, **changes: Any
) -> Orders:
    plan = dataclasses.replace(PLAN, **changes)
    return predict_orders(problem, settings, plan, seed=SEED, store=store)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("lds"))


@pytest.fixture(scope="module")
def orders(problem: Problem, store: Store) -> Orders:
    return orders_of(problem, store)


@pytest.fixture(scope="module")
def records(orders: Orders) -> list[Record]:
    return orders.records()


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
    """The selections that the score is documented to draw: from the seed and the ids of rows."""
    numbers = range(PLAN.selections)
    return [lots(problem.row_keys, SEED, Purpose.LDS, number) < PLAN.rate for number in numbers]


def retrained(problem: Problem, seed: int) -> Floats:
    """Losses of every selection, [R, users]."""
    models = Lab(problem, SETTINGS, seed).train([Training(selection) for selection in selections(problem)])
    return np.array([validation_losses(problem, model, Loss.PAIRWISE) for model in models])


def predicted(model: Linearised, settings: InfluenceSettings, drawn: list[Bools]) -> tuple[Floats, Floats]:
    """Losses, [R, users], and what social influence says of their sum up to a constant, [R]."""
    losses = np.array([predicted_losses(model, each[None], settings, SEED)[0] for each in drawn])
    social = social_influence(model, settings, SEED)[0].double().numpy()
    return losses, -(np.array(drawn) @ social)


def over_folds(lab: Lab) -> list[Linearised]:
    """The models without each fold, and that of everything."""
    settings = METHOD.model_copy(update={"source": Source.CROSS_FITTED}).settings_for(lab.settings.model)
    anchors = [*fold_trainings(lab, settings), model_of_everything(lab, settings)]
    return [
        linearised(lab, anchor, trained, INFLUENCE)
        for anchor, trained in zip(anchors, lab.train(anchors), strict=True)
    ]


def measured_own(models: list[Linearised]) -> Floats:
    """Own influence on the validation rows, the mean over the anchors of all folds and everything: [Z]."""
    solved = [own_influence(model, INFLUENCE, mixed(SEED, t)) for t, model in enumerate(models)]
    found: Floats = np.mean([own.double().numpy() for own, _ in solved], axis=0)
    return found


@pytest.mark.parametrize("settings", [SETTINGS, GROUPED], ids=lambda settings: settings.model)
def test_predictions_are_those_of_single_anchors_and_of_averages(
    settings: Settings, problem: Problem, orders: Orders
) -> None:
    """Values take the place of what was measured with all groups, though values make do with fewer."""
    found = orders if settings is SETTINGS else orders_of(problem, settings=settings, estimators=())
    lab, drawn = Lab(problem, settings, SEED), selections(problem)
    expected = {}
    if settings is SETTINGS:
        [anchor] = random_anchors(lab, 1, rate=0.9)
        [trained] = lab.train([anchor])
        model = linearised(lab, anchor, trained, INFLUENCE)
        expected[Estimator.TRUNCATED.value] = predicted(model, INFLUENCE, drawn)
    folds = over_folds(lab)
    by_gradients = INFLUENCE.model_copy(update={"estimator": Estimator.GRADIENT_DOT})
    for name, how in ((AVERAGED, INFLUENCE), (GRADIENT_DOT_AVERAGED, by_gradients)):
        parts = [predicted(model, how, drawn) for model in folds]
        losses, totals = (np.mean(each, axis=0) for each in zip(*parts, strict=True))
        expected[name] = losses, totals
    measured = measured_own(folds)
    for source in (Source.CROSS_FITTED, Source.COMBINED):
        method = METHOD.model_copy(update={"source": source})
        own = method.model_copy(update={"objective": Objective.NASH}).estimate(lab).own
        social = method.model_copy(update={"objective": Objective.WELFARE}).estimate(lab).social
        valued = expected[AVERAGED][0].copy()
        for r, k in np.ndindex(len(drawn), len(problem.train)):
            if drawn[r][k]:
                valued[r, problem.train.users[k]] -= own[k] - measured[k]
        expected[source.value] = valued, -(np.array(drawn) @ social)
    for name, (losses, totals) in expected.items():
        np.testing.assert_allclose(found.predicted[name].losses, losses, rtol=1e-4, atol=1e-5, err_msg=name)
        np.testing.assert_allclose(found.predicted[name].total, totals, rtol=1e-4, atol=1e-5, err_msg=name)


def test_the_scores_are_rank_correlations_with_retraining(
    problem: Problem, orders: Orders, records: list[Record]
) -> None:
    truth, yardstick = retrained(problem, SEED + 1), retrained(problem, SEED + 2)
    np.testing.assert_allclose(orders.truth.losses, truth, rtol=1e-6)
    np.testing.assert_allclose(orders.predicted[RETRAINED].losses, yardstick, rtol=1e-6)
    scores = {(each["estimator"], each["level"]): each["lds"] for each in records}
    for name, each in orders.predicted.items():
        own = [stats.spearmanr(each.losses[:, user], truth[:, user]).statistic for user in orders.users]
        assert scores[name, "own"] == pytest.approx(np.mean(own))
        total = stats.spearmanr(each.total, truth.sum(axis=1)).statistic
        assert scores[name, "social"] == pytest.approx(total)
    np.testing.assert_array_equal(orders.users, np.unique(problem.valid.users))


def test_any_of_them_can_be_what_others_are_compared_with(orders: Orders, records: list[Record]) -> None:
    for each in orders.records(RETRAINED):
        scores = {one["estimator"]: one["lds"] for one in records if one["level"] == each["level"]}
        assert each["behind"] == pytest.approx(scores[RETRAINED] - each["lds"])
        assert each["lds"] == scores[each["estimator"]]


def test_it_is_said_where_the_default_stands(problem: Problem, store: Store, orders: Orders) -> None:
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
            assert f"{side}" in sentence
            assert f"{rival} ({row['behind']:+.3f}, " in sentence
    assert orders_of(problem, store, estimators=()).verdicts() == []


def test_rows_to_come_can_be_ordered_in_place_of_those_that_estimates_rest_on(
    problem: Problem, store: Store, orders: Orders
) -> None:
    """The predictions are the same, the truth is another; what was retrained serves both."""
    files = sorted(store.folder.iterdir())
    to_come = orders_of(problem, store, rows=HeldOut.TEST)
    assert sorted(store.folder.iterdir()) == files
    for name, each in orders.predicted.items():
        if name != RETRAINED:
            np.testing.assert_array_equal(to_come.predicted[name].losses, each.losses)
            np.testing.assert_array_equal(to_come.predicted[name].total, each.total)
    assert not np.allclose(to_come.truth.losses, orders.truth.losses)
    assert {each["rows"] for each in to_come.records()} == {"test"}
    assert all("test rows" in sentence for sentence in to_come.verdicts())


def test_the_truth_of_rows_to_come_is_the_loss_of_test_rows(problem: Problem, store: Store) -> None:
    orders = orders_of(problem, store, rows=HeldOut.TEST)
    assert problem.test_candidates is not None
    models = Lab(problem, SETTINGS, SEED + 1).train([Training(each) for each in selections(problem)])
    for model, found in zip(models, orders.truth.losses, strict=True):
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
    users = orders_of(fewer, rows=HeldOut.TEST, estimators=()).users
    assert set(users) == set(problem.test.users[problem.test.users % 2 == 1])


def test_rows_to_come_need_sampled_negatives() -> None:
    log = simulate(preference="learnable", users=60, items=40, seed=1)
    ranked = make_problem(log, Protocol.FULL, negatives=10)
    with pytest.raises(AssentError, match=r"losses of test rows.*accepted: paper-tables"):
        orders_of(ranked, rows=HeldOut.TEST)


def test_some_estimators_can_be_left_out(problem: Problem, store: Store, records: list[Record]) -> None:
    part = orders_of(problem, store, estimators=(Estimator.LISSA,)).records()
    left_out = {each.value for each in Estimator} - {Estimator.LISSA.value}
    assert [each for each in records if each["estimator"] not in left_out] == part


def test_own_effects_have_the_sign_of_predicted_losses(problem: Problem) -> None:
    """What `with_own` takes out of the losses is what adding single rows puts into them."""
    lab = Lab(problem, SETTINGS, SEED)
    [anchor] = random_anchors(lab, 1, rate=0.9)
    model = linearised(lab, anchor, lab.train([anchor])[0], INFLUENCE)
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


MEAN = METHOD.model_copy(update={"reward": RewardForm.MEAN})


def test_the_reward_says_what_losses_of_rows_to_come_count(problem: Problem) -> None:
    assert problem.test_candidates is not None
    rows = np.concatenate([np.arange(len(problem.test)), np.flatnonzero(problem.test.users % 2)])
    uneven = dataclasses.replace(
        problem, test=problem.test[rows], test_candidates=problem.test_candidates[rows]
    )
    truth = orders_of(uneven, rows=HeldOut.TEST, estimators=(), method=MEAN).truth
    often = np.where(np.arange(problem.n_users) % 2, 2, 1) * problem.test_candidates.shape[1]
    np.testing.assert_allclose(truth.total, truth.losses @ (1 / often))


def test_the_reward_says_what_losses_count_everywhere(problem: Problem) -> None:
    rows = np.concatenate([np.arange(len(problem.valid)), np.flatnonzero(problem.valid.users % 2)])
    uneven = dataclasses.replace(
        problem, valid=problem.valid[rows], valid_candidates=problem.valid_candidates[rows]
    )
    orders = orders_of(uneven, estimators=(Estimator.GRADIENT_DOT,), method=MEAN)
    weights = loss_weights(Lab(uneven, SETTINGS, SEED), RewardForm.MEAN)
    assert len(np.unique(weights[orders.users])) == 2
    np.testing.assert_allclose(orders.truth.total, orders.truth.losses @ weights)
    for name in (RETRAINED, Estimator.GRADIENT_DOT.value, GRADIENT_DOT_AVERAGED):  # linear in the losses
        added: Floats = orders.predicted[name].losses @ weights
        total = orders.predicted[name].total
        np.testing.assert_allclose(total - total[0], added - added[0], atol=1e-4)


def test_a_second_call_computes_nothing(problem: Problem, store: Store, records: list[Record]) -> None:
    assert len(entries(store, "retrained")) == PLAN.selections * (PLAN.seeds + 1)
    assert len(entries(store, "predicting")) == 2 * (3 + 1) + len(Estimator)
    trials = len(entries(store, "training")) - (3 + 1) - 1  # folds and everything, and the one anchor
    assert 2 <= trials <= 10
    assert trained_in(store) == PLAN.selections * (PLAN.seeds + 1) + 3 + 1 + 1 + trials
    files = {file: file.stat().st_mtime_ns for file in store.folder.iterdir()}
    assert orders_of(problem, store).records() == records
    assert {file: file.stat().st_mtime_ns for file in store.folder.iterdir()} == files


def test_scores_are_the_same_on_two_workers(problem: Problem, records: list[Record]) -> None:
    with Processes(2) as processes:
        orders = predict_orders(problem, SETTINGS, PLAN, seed=SEED, executor=processes)
    assert orders.records() == records


@pytest.mark.parametrize(
    ("settings", "method"),
    [
        (SETTINGS.model_copy(update={"training": TrainingSettings(epochs=5)}), METHOD),
        (SETTINGS.model_copy(update={"model_settings": MFSettings(dimension=4, strength=0.65)}), METHOD),
        (SETTINGS, WorthMethod(influence=INFLUENCE.model_copy(update={"loss": Loss.BCE}))),
    ],
    ids=["training", "model", "loss"],
)
def test_what_changes_the_losses_is_not_taken_from_the_store(
    problem: Problem, store: Store, orders: Orders, settings: Settings, method: WorthMethod
) -> None:
    before = len(entries(store, "retrained"))
    orders_of(problem, store, settings, method=method, estimators=())
    assert len(entries(store, "retrained")) == before + PLAN.selections * (PLAN.seeds + 1)
