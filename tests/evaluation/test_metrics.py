import multiprocessing
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from assent.evaluation.metrics import (
    checked_cutoffs,
    mean_metrics,
    metrics_at,
    ranking_metrics,
    rewards,
    top_candidates,
    top_hits,
)
from assent.support.arrays import Bools, Floats, Ints
from assent.support.errors import AssentError

RANX_NAMES = {
    "precision": "precision",
    "recall": "recall",
    "f1": "f1",
    "ndcg": "ndcg",
    "mrr": "mrr",
    "hit": "hit_rate",
}

tied_scores = arrays(
    np.float64,
    array_shapes(min_dims=2, max_dims=2, max_side=12),
    elements=st.sampled_from([-np.inf, 0.0, 1.0, 2.0]),
)
"""Few distinct values, so that ties and excluded candidates are everywhere."""
cutoffs = st.integers(1, 15)
seeds = st.integers(0, 2**31)


def distinct_scores(rng: np.random.Generator, rows: int, candidates: int) -> Floats:
    return rng.permuted(np.tile(np.arange(candidates, dtype=np.float64), (rows, 1)), axis=1)


def random_relevance(rng: np.random.Generator, rows: int, candidates: int, most: int) -> Bools:
    """Between 1 and `most` relevant candidates in every row."""
    n_relevant = rng.integers(1, most + 1, size=(rows, 1))
    return distinct_scores(rng, rows, candidates) < n_relevant


@pytest.fixture(scope="module")
def oracle() -> Iterator[Executor]:
    """A process in which numba, which ranx needs, leaves Python as it is.

    Compiling ranx's loops takes a minute, running them milliseconds; what is compiled here stays compiled.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NUMBA_DISABLE_JIT", "1")
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
            yield process


def ranx_metrics(scores: Floats, relevant: Bools, k: int) -> dict[str, Floats]:
    import ranx

    users = [f"u{row:04}" for row in range(len(scores))]
    qrels = ranx.Qrels(
        {user: {f"i{i}": 1 for i in np.flatnonzero(row)} for user, row in zip(users, relevant, strict=True)}
    )
    run = ranx.Run(
        {
            user: {f"i{i}": float(row[i]) for i in np.flatnonzero(np.isfinite(row))}
            for user, row in zip(users, scores, strict=True)
        }
    )
    found = ranx.evaluate(qrels, run, [f"{name}@{k}" for name in RANX_NAMES.values()], return_mean=False)
    return {ours: found[f"{theirs}@{k}"] for ours, theirs in RANX_NAMES.items()}


@pytest.mark.parametrize("k", [1, 5, 10])
@pytest.mark.parametrize("most_relevant", [1, 8])
def test_metrics_agree_with_ranx(oracle: Executor, k: int, most_relevant: int) -> None:
    rng = np.random.default_rng(k)
    relevant = random_relevance(rng, 60, 30, most_relevant)
    scores = distinct_scores(rng, 60, 30)
    scores[rng.random(scores.shape) < 0.2] = -np.inf

    hits = top_hits(scores, relevant, np.arange(60), k=k, seed=0)
    ours = ranking_metrics(hits, relevant.sum(axis=1))
    theirs = oracle.submit(ranx_metrics, scores, relevant, k).result()

    assert ours.keys() == theirs.keys()
    for name in ours:
        np.testing.assert_allclose(ours[name], theirs[name], atol=1e-12, err_msg=name)
        assert 0 < ours[name].mean() < 1


def test_metrics_of_a_worked_example() -> None:
    hits = np.array([[False, True, False, True, False], [True, False, False, False, False], [False] * 5])
    metrics = ranking_metrics(hits, np.array([3, 1, 7]))

    ideal = 1 + 1 / np.log2(3) + 1 / 2
    np.testing.assert_allclose(metrics["precision"], [2 / 5, 1 / 5, 0])
    np.testing.assert_allclose(metrics["recall"], [2 / 3, 1, 0])
    np.testing.assert_allclose(metrics["f1"], [1 / 2, 1 / 3, 0])
    np.testing.assert_allclose(metrics["ndcg"], [(1 / np.log2(3) + 1 / np.log2(5)) / ideal, 1, 0])
    np.testing.assert_allclose(metrics["mrr"], [1 / 2, 1, 0])
    np.testing.assert_allclose(metrics["hit"], [1, 1, 0])
    assert mean_metrics(metrics)["f1"] == pytest.approx((1 / 2 + 1 / 3) / 3)


def test_a_perfect_ranking_has_ndcg_one_even_with_more_test_items_than_places() -> None:
    metrics = ranking_metrics(np.ones((1, 5), dtype=bool), np.array([9]))
    assert metrics["ndcg"] == pytest.approx([1])
    assert metrics["recall"] == pytest.approx([5 / 9])


@pytest.mark.parametrize("value", [0.0, -3.5])
def test_a_constant_scorer_is_at_chance(value: float) -> None:
    rows = 8000
    relevant = np.zeros((rows, 100), dtype=bool)
    relevant[:, 0] = True  # where the candidate lists keep the positive
    hits = top_hits(np.full((rows, 100), value), relevant, np.arange(rows), k=5, seed=3)
    metrics = mean_metrics(ranking_metrics(hits, np.ones(rows, dtype=np.int64)))

    spread = np.sqrt(0.05 * 0.95 / rows)
    assert abs(metrics["hit"] - 5 / 100) < 4 * spread
    assert abs(metrics["f1"] - 5 / 300) < 4 * spread / 3
    # Each place is as likely as the next.
    assert np.all(np.abs(hits.mean(axis=0) - 1 / 100) < 4 * np.sqrt(0.01 * 0.99 / rows))


def test_a_tie_at_the_cut_off_is_shared_out() -> None:
    rows = 8000
    scores = np.tile([3.0, 2.0, 2.0, 2.0, 1.0], (rows, 1))
    top = top_candidates(scores, np.arange(rows), k=2, seed=0)

    assert (top[:, 0] == 0).all()
    shares = np.bincount(top[:, 1], minlength=5) / rows
    np.testing.assert_allclose(shares, [0, 1 / 3, 1 / 3, 1 / 3, 0], atol=4 * np.sqrt(2 / 9 / rows))


@given(tied_scores, cutoffs, seeds)
def test_the_top_is_a_list_of_distinct_best_candidates(scores: Floats, k: int, seed: int) -> None:
    top = top_candidates(scores, np.arange(len(scores)), k=k, seed=seed)

    assert top.shape == (len(scores), k)
    for row, columns in zip(scores, top, strict=True):
        listed = columns[columns >= 0]
        allowed = row[row > -np.inf]
        assert len(set(listed)) == len(listed) == min(k, len(allowed))
        assert (columns[len(listed) :] == -1).all()
        np.testing.assert_array_equal(row[listed], np.sort(allowed)[::-1][:k])


@given(tied_scores, cutoffs, seeds, st.data())
def test_rows_do_not_depend_on_each_other(scores: Floats, k: int, seed: int, data: st.DataObject) -> None:
    users = np.arange(len(scores)) * 7
    some = np.array(data.draw(st.lists(st.integers(0, len(scores) - 1), unique=True)), dtype=np.int64)

    whole = top_candidates(scores, users, k=k, seed=seed)
    part = top_candidates(scores[some], users[some], k=k, seed=seed)
    np.testing.assert_array_equal(part, whole[some])


@given(st.integers(0, 2**32 - 1), cutoffs, st.integers(1, 20))
def test_metrics_do_not_depend_on_the_order_of_the_candidates(seed: int, k: int, candidates: int) -> None:
    rng = np.random.default_rng(seed)
    scores = distinct_scores(rng, 6, candidates)
    relevant = random_relevance(rng, 6, candidates, candidates)
    shuffled = rng.permutation(candidates)

    hits = top_hits(scores, relevant, np.arange(6), k=k, seed=0)
    again = top_hits(scores[:, shuffled], relevant[:, shuffled], np.arange(6), k=k, seed=0)
    np.testing.assert_array_equal(hits, again)


@given(tied_scores, st.lists(cutoffs, min_size=1, max_size=4, unique=True), seeds)
def test_one_ranking_serves_every_cut_off(scores: Floats, ks: list[int], seed: int) -> None:
    users, n_relevant = np.arange(len(scores)), np.maximum((scores >= 1).sum(axis=1), 1)
    hits = {k: top_hits(scores, scores >= 1, users, k=k, seed=seed) for k in ks}
    found = metrics_at(ks, hits[max(ks)], n_relevant)
    assert len(found) == 6 * len(ks)
    for k in ks:
        for name, values in ranking_metrics(hits[k], n_relevant).items():
            np.testing.assert_array_equal(found[name if k == ks[0] else f"{name}@{k}"], values)


def test_cut_offs_are_checked() -> None:
    assert checked_cutoffs(7) == (7,)
    assert checked_cutoffs([10, 5]) == (10, 5)
    for wrong in (0, -1, 2.5, True, "5", [], [5, 5], [5, 0], [5, "10"]):
        with pytest.raises(AssentError, match=r"^k=.*: accepted: one or more positive integers, each once$"):
            checked_cutoffs(wrong)  # type: ignore[arg-type]


@given(tied_scores, cutoffs, seeds)
def test_excluded_candidates_are_never_hits(scores: Floats, k: int, seed: int) -> None:
    hits = top_hits(scores, np.isneginf(scores), np.arange(len(scores)), k=k, seed=seed)
    assert hits.shape == (len(scores), k)
    assert not hits.any()


@given(tied_scores, cutoffs, seeds)
def test_metrics_are_fractions(scores: Floats, k: int, seed: int) -> None:
    hits = top_hits(scores, scores >= 1, np.arange(len(scores)), k=k, seed=seed)
    metrics = ranking_metrics(hits, np.maximum((scores >= 1).sum(axis=1), 1))
    for name, values in metrics.items():
        assert ((values >= 0) & (values <= 1 + 1e-12)).all(), name


def test_the_seed_and_the_user_decide_ties() -> None:
    scores = np.zeros((1, 1000))

    def top(user: int, seed: int) -> Ints:
        return top_candidates(scores, np.array([user]), k=10, seed=seed)

    np.testing.assert_array_equal(top(4, 1), top(4, 1))
    assert (top(4, 1) != top(4, 2)).any()
    assert (top(4, 1) != top(5, 1)).any()
    assert (top(1, 2) != top(2, 1)).any()


def test_single_precision_scores_are_ranked_as_they_are() -> None:
    scores = np.random.default_rng(0).random((20, 50), dtype=np.float32)
    users = np.arange(20)
    np.testing.assert_array_equal(
        top_candidates(scores, users, k=5, seed=0),
        top_candidates(scores.astype(np.float64), users, k=5, seed=0),
    )


def test_a_diverged_model_is_reported() -> None:
    scores = np.array([[0.0, 1.0], [np.nan, 1.0]])
    with pytest.raises(AssentError, match=r"diverged \(NaN\)"):
        top_candidates(scores, np.arange(2), k=1, seed=0)


def test_a_user_without_test_items_has_no_metrics() -> None:
    with pytest.raises(ValueError, match="n_relevant"):
        ranking_metrics(np.zeros((2, 5), dtype=bool), np.array([1, 0]))


def test_no_users_is_an_error_rather_than_a_nan() -> None:
    with pytest.raises(AssentError, match="precision: no user"):
        mean_metrics(ranking_metrics(np.zeros((0, 5), dtype=bool), np.zeros(0, dtype=np.int64)))


def test_rewards_follow_equation_1() -> None:
    rng = np.random.default_rng(0)
    n_users, price = 7, 0.3
    losses = [rng.random(n_samples) for n_samples in (100, 100, 200, 1, 0, 300, 100)]
    unwillingness = [rng.random(length) for length in (3, 18, 5, 1, 4, 9, 7)]
    selections = [rng.random(len(values)) < 0.5 for values in unwillingness]

    expected_sum, expected_mean = [], []
    for u in range(n_users):
        violation = 0.0
        for disclosed, beta in zip(selections[u], unwillingness[u], strict=True):
            violation += disclosed * beta
        expected_sum.append(-sum(losses[u]) - price * violation)
        expected_mean.append(-(sum(losses[u]) / len(losses[u]) if len(losses[u]) else 0) - price * violation)

    found = rewards(
        np.array([loss.sum() for loss in losses]),
        np.array([len(loss) for loss in losses]),
        np.array([beta[chosen].sum() for beta, chosen in zip(unwillingness, selections, strict=True)]),
        price=price,
    )
    np.testing.assert_allclose(found["reward_sum"], expected_sum)
    np.testing.assert_allclose(found["reward_mean"], expected_mean)
    assert mean_metrics(found) == {
        "reward_sum": pytest.approx(np.mean(expected_sum)),
        "reward_mean": pytest.approx(np.mean(expected_mean)),
    }
