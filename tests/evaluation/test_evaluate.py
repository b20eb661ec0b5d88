import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from assent.data.problem import Problem, Protocol, make_problem
from assent.data.simulate import simulate
from assent.evaluation.evaluate import candidate_scores, evaluate, ranked_metrics, validation_losses
from assent.models import MF, Draws, MFSettings, Sizes
from assent.models.losses import Loss
from assent.support.arrays import Bools, Floats, positions
from assent.support.errors import AssentError
from assent.support.progress import Advance
from assent.training import Trained

K = 5
METRICS = {"precision", "recall", "f1", "ndcg", "mrr", "hit"}


def problem_of(protocol: str) -> Problem:
    log = simulate(preference="learnable", users=40, items=50, seed=1)
    return make_problem(log, protocol, seed=3, negatives=9)


@pytest.fixture(scope="module", params=list(Protocol))
def problem(request: pytest.FixtureRequest) -> Problem:
    return problem_of(request.param)


def model_of(user_ids: list[str], item_ids: list[str], seed: int = 0) -> Trained:
    """A model with random parameters that knows these ids."""
    model = MF(Sizes(len(user_ids), len(item_ids), 9, 1), MFSettings(dimension=4, initial_scale=1.0))
    model.initialise(Draws.numbered(model.sizes, seed))
    model.finish()
    return Trained(model, np.array(user_ids), np.array(item_ids), seed=0, epochs=1, monitor=None)


def partly_known(problem: Problem) -> Trained:
    """A model that has never heard of a third of the users and items, and has of some others."""
    users = sorted({"a stranger", *problem.user_ids[np.arange(problem.n_users) % 3 != 0].tolist()})
    items = sorted({"", "something else", *problem.item_ids[np.arange(problem.n_items) % 3 != 1].tolist()})
    return model_of(users, items)


def naive_scores(problem: Problem, trained: Trained) -> Floats:
    """The score of each user for each item of the problem, looked up one by one by their ids."""
    parameters = trained.model.state_dict()
    p, q = (parameters[name].double().numpy() for name in ("user_table", "item_table"))
    user_rows = dict(zip(trained.user_ids.tolist(), p, strict=False))
    item_rows = dict(zip(trained.item_ids.tolist(), q, strict=False))
    table = np.empty((problem.n_users, problem.n_items))
    for u, user in enumerate(problem.user_ids.tolist()):
        for i, item in enumerate(problem.item_ids.tolist()):
            table[u, i] = user_rows.get(user, p[-1]) @ item_rows.get(item, q[-1])
    return table


@given(st.sets(st.text("ab", max_size=3)), st.lists(st.text("ab", max_size=3)))
def test_places_are_those_of_a_sorted_list(known: set[str], ids: list[str]) -> None:
    ordered = sorted(known)
    found = positions(np.array(ordered, dtype=np.str_), np.array(ids, dtype=np.str_))
    assert found.tolist() == [ordered.index(each) if each in known else len(ordered) for each in ids]


@pytest.mark.parametrize("rows", [7, 10_000])
def test_candidate_scores_agree_with_a_plain_loop(problem: Problem, rows: int) -> None:
    trained = partly_known(problem)
    some = np.random.default_rng(0).integers(len(problem.valid), size=rows)
    users, candidates = problem.valid.users[some], problem.valid_candidates[some]
    found = candidate_scores(problem, trained, users, candidates)
    np.testing.assert_allclose(found, naive_scores(problem, trained)[users[:, None], candidates], atol=1e-5)


def test_no_rows_have_no_scores(problem: Problem) -> None:
    none = problem.valid_candidates[:0]
    found = candidate_scores(problem, partly_known(problem), problem.valid.users[:0], none)
    assert found.shape == none.shape


@pytest.mark.parametrize("loss", list(Loss))
def test_validation_losses_agree_with_a_plain_loop(problem: Problem, loss: Loss) -> None:
    trained = partly_known(problem)
    # Half of the users have no validation row.
    kept = problem.valid.users % 2 == 0
    problem = replace(problem, valid=problem.valid[kept], valid_candidates=problem.valid_candidates[kept])
    scores = naive_scores(problem, trained)
    if loss is Loss.CALIBRATED:
        known = scores[problem.valid.users[:, None], problem.valid_candidates]
        scores = scores * loss.scale(torch.from_numpy(known))
    expected = np.zeros(problem.n_users)
    for user, candidates in zip(problem.valid.users, problem.valid_candidates, strict=True):
        own, *others = (scores[user, item] for item in candidates)
        if loss is Loss.BCE:
            expected[user] -= math.log(1 / (1 + math.exp(-own)))
            expected[user] -= sum(math.log(1 - 1 / (1 + math.exp(-other))) for other in others)
        else:
            expected[user] += sum(math.log(1 + math.exp(other - own)) for other in others)
    np.testing.assert_allclose(validation_losses(problem, trained, loss), expected, rtol=1e-4)
    assert not expected[1::2].any()


def naive_metrics(ranking: list[int], relevant: set[int]) -> dict[str, float]:
    """Every metric of one user's best items."""
    hits = [item in relevant for item in ranking]
    gain = sum(1 / math.log2(place + 2) for place, hit in enumerate(hits) if hit)
    ideal = sum(1 / math.log2(place + 2) for place in range(min(K, len(relevant))))
    precision, recall = sum(hits) / K, sum(hits) / len(relevant)
    return {
        "precision": precision,
        "recall": recall,
        "f1": 2 * precision * recall / (precision + recall) if any(hits) else 0.0,
        "ndcg": gain / ideal,
        "mrr": 1 / (hits.index(True) + 1) if any(hits) else 0.0,
        "hit": float(any(hits)),
    }


def naive_ranked(problem: Problem, trained: Trained) -> dict[str, list[float]]:
    """Rank for each user with test rows what the protocol recommends from."""
    scores = naive_scores(problem, trained)
    found: dict[str, list[float]] = {name: [] for name in METRICS}
    for user in sorted(set(problem.test.users.tolist())):
        relevant = set(problem.test.items[problem.test.users == user].tolist())
        if problem.test_candidates is not None:
            (candidates,) = problem.test_candidates[problem.test.users == user].tolist()
        else:
            known = {
                item
                for part in (problem.train, problem.valid)
                for item in part.items[part.users == user].tolist()
            }
            candidates = [item for item in range(problem.n_items) if item not in known]
        ranking = sorted(candidates, key=lambda item: -scores[user, item])[:K]
        for name, value in naive_metrics(ranking, relevant).items():
            found[name].append(value)
    return found


@pytest.mark.parametrize("scores_at_once", [130, 2**23])
def test_rankings_agree_with_a_plain_loop(problem: Problem, scores_at_once: int) -> None:
    # One item is unknown to the model. Several would tie, and ties are for the tests of metrics.
    users = problem.user_ids[np.arange(problem.n_users) % 3 != 0]
    items = {"something else", *problem.item_ids.tolist()} - {str(problem.item_ids[problem.test.items[0]])}
    trained = model_of(users.tolist(), sorted(items))
    found = ranked_metrics(problem, trained, k=K, scores_at_once=scores_at_once)
    expected = naive_ranked(problem, trained)
    assert found.keys() == expected.keys()
    for name, values in found.items():
        np.testing.assert_allclose(values, expected[name], err_msg=name)
        assert 0 < values.mean() < 1


def test_users_without_test_rows_are_left_out(problem: Problem) -> None:
    kept = problem.test.users % 2 == 0
    candidates = problem.test_candidates
    some = replace(
        problem,
        test=problem.test[kept],
        test_candidates=None if candidates is None else candidates[kept],
    )
    trained = partly_known(problem)
    whole, part = ranked_metrics(problem, trained)["ndcg"], ranked_metrics(some, trained)["ndcg"]
    users = np.unique(problem.test.users)
    np.testing.assert_array_equal(part, whole[users % 2 == 0])


def favourites(problem: Problem, items_of: list[set[int]]) -> Trained:
    """A model that scores a user's `items_of` 1 and all others 0."""
    model = MF(Sizes(problem.n_users, problem.n_items, 9, 1), MFSettings(dimension=problem.n_items))
    with torch.no_grad():
        model.item_table[:-1] = torch.eye(problem.n_items)
        for user, items in enumerate(items_of):
            model.user_table[user, sorted(items)] = 1
    return Trained(model, problem.user_ids, problem.item_ids, seed=0, epochs=1, monitor=None)


@pytest.mark.parametrize("protocol", ["full", "paper-text"])
def test_known_items_are_never_recommended(protocol: str) -> None:
    """Users who like best what is in their training and validation rows still get their test item."""
    problem = problem_of(protocol)
    first = problem.test[np.unique(problem.test.users, return_index=True)[1]]
    favoured: list[set[int]] = [set() for _ in range(problem.n_users)]
    for user, item in zip(first.users.tolist(), first.items.tolist(), strict=True):
        favoured[user] = {item}
        for part in (problem.train, problem.valid):
            favoured[user] |= set(part.items[part.users == user].tolist())
    metrics = ranked_metrics(problem, favourites(problem, favoured), k=1)
    np.testing.assert_array_equal(metrics["precision"], 1)


def some_rows(problem: Problem) -> Bools:
    return np.random.default_rng(0).random(len(problem.train)) < 0.5


def test_the_question_is_the_same_for_every_selection(problem: Problem) -> None:
    """What is ranked does not depend on what is disclosed: only violation and reward do."""
    trained = partly_known(problem)
    nothing = np.zeros(len(problem.train), dtype=np.bool_)
    records = [
        evaluate(problem, trained, each, price=0.3) for each in (nothing, some_rows(problem), ~nothing)
    ]
    for name in METRICS:
        assert len({record[name] for record in records}) == 1
    violations = [record["violation"] for record in records]
    assert violations == sorted(set(violations))
    assert [record["violation_share"] for record in records[::2]] == [0, 1]


def test_a_record_agrees_with_a_plain_loop(problem: Problem) -> None:
    trained, selection = partly_known(problem), some_rows(problem)
    found = evaluate(problem, trained, selection, price=0.3, k=K)
    assert found.keys() == {"violation", "violation_share", "reward_sum", "reward_mean"} | METRICS

    disclosed, total = [0.0] * problem.n_users, 0.0
    for user, beta, chosen in zip(problem.train.users, problem.unwillingness, selection, strict=True):
        disclosed[user] += beta if chosen else 0
        total += beta
    assert found["violation"] == pytest.approx(np.mean(disclosed))
    assert found["violation_share"] == pytest.approx(sum(disclosed) / total)

    losses = validation_losses(problem, trained)
    samples = [(problem.valid.users == user).sum() * 10 for user in range(problem.n_users)]
    pairs: list[tuple[Any, ...]] = list(zip(losses, samples, disclosed, strict=True))
    assert found["reward_sum"] == pytest.approx(np.mean([-loss - 0.3 * paid for loss, _, paid in pairs]))
    assert found["reward_mean"] == pytest.approx(
        np.mean([-(loss / n if n else 0) - 0.3 * paid for loss, n, paid in pairs])
    )
    for name, values in ranked_metrics(problem, trained, k=K).items():
        assert found[name] == pytest.approx(values.mean())
    assert all(type(value) is float for value in found.values())


@pytest.mark.parametrize("ks", [(5, 10, 20), (10, 5)])
def test_several_cut_offs_are_those_of_each(problem: Problem, ks: tuple[int, ...]) -> None:
    trained, selection = partly_known(problem), some_rows(problem)
    found = evaluate(problem, trained, selection, price=0.3, k=ks)
    expected = evaluate(problem, trained, selection, price=0.3, k=ks[0])
    for k in ks[1:]:
        alone = evaluate(problem, trained, selection, price=0.3, k=k)
        expected |= {f"{name}@{k}": alone[name] for name in METRICS}
    assert found == expected
    assert list(found)[:4] == ["violation", "violation_share", "reward_sum", "reward_mean"]


def test_a_cut_off_that_is_none_is_refused(problem: Problem) -> None:
    with pytest.raises(AssentError, match=r"^k=\(5, 0\): accepted: "):
        evaluate(problem, partly_known(problem), some_rows(problem), price=0.3, k=(5, 0))


class Watcher:
    """Writes down the steps of each task."""

    def __init__(self) -> None:
        self.told: dict[str, list[int]] = {}

    @contextmanager
    def task(self, label: str, total: int) -> Iterator[Advance]:
        told = self.told[label] = [total, 0]

        def advance() -> None:
            told[1] += 1

        yield advance


def test_ranking_all_items_tells_of_its_blocks() -> None:
    problem, watcher = problem_of("full"), Watcher()
    ranked_metrics(problem, partly_known(problem), progress=watcher, scores_at_once=10 * problem.n_items)
    assert watcher.told == {"ranking all items": [4, 4]}  # 40 users, ten at once


def test_the_share_of_nothing_is_nothing(problem: Problem) -> None:
    free = replace(problem, unwillingness=np.zeros(len(problem.train)))
    record = evaluate(free, partly_known(problem), some_rows(problem), price=1.0)
    assert (record["violation"], record["violation_share"]) == (0, 0)


@pytest.mark.filterwarnings("ignore:.*negatives=")
def test_who_has_every_item_is_measured_alike_for_every_model_and_changes_nobody() -> None:
    log = simulate(preference="learnable", users=40, items=50, seed=1)
    items = log.table["item"].unique().sort()
    rows = pl.DataFrame({"item": items}).with_columns(
        user=pl.lit("zoe"), time=pl.int_range(len(items)).cast(pl.Float64), unwillingness=pl.lit(0.5)
    )
    more = replace(log, table=pl.concat([log.table, rows], how="diagonal"))
    without, beside = (make_problem(each, "paper-tables", seed=3, negatives=30) for each in (log, more))
    ndcgs = []
    for seed in range(3):
        trained = model_of(beside.user_ids.tolist(), beside.item_ids.tolist(), seed)
        found, alone = (ranked_metrics(each, trained)["ndcg"] for each in (beside, without))
        is_zoe = beside.user_ids[beside.test.users] == "zoe"
        np.testing.assert_array_equal(found[~is_zoe], alone)
        ndcgs.append(found[is_zoe].item())
        assert np.isfinite(validation_losses(beside, trained)).all()
    assert len(set(ndcgs)) == 1
