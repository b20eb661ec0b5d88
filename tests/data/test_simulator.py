import hashlib
import tracemalloc
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from assent.data import simulate as simulator
from assent.data.door import assign
from assent.data.draws import draw_features
from assent.data.interactions import Interactions
from assent.data.problem import Problem, make_problem
from assent.data.simulate import Preference, simulate
from assent.support.arrays import Floats, Ints
from assent.support.errors import AssentError

BOTH = pytest.mark.parametrize("preference", ["paper", "learnable"])
PAPER_COUNTS = {0.1: 11296, 0.2: 10068, 0.3: 8828, 0.4: 7507, 0.5: 6184}


def liking(log: Interactions, seed: int, features: int = 4) -> Floats:
    """σ(e_u · e_v) of each row."""
    users = draw_features(log.table["user"], "user", seed, features)
    items = draw_features(log.table["item"], "item", seed, features)
    return np.asarray(expit((users * items).sum(axis=1)))


@pytest.mark.parametrize(("eta", "count"), PAPER_COUNTS.items())
def test_paper_has_as_many_interactions_as_the_paper(eta: float, count: int) -> None:
    counts = [len(simulate(preference="paper", eta=eta, seed=seed)) for seed in range(5)]
    assert np.mean(counts) == pytest.approx(count, rel=0.03)


def per(log: Interactions, column: str) -> Ints:
    """The number of interactions of each user or item."""
    return log.table.group_by(column).len()["len"].cast(pl.Int64).to_numpy()


def test_paper_keeps_what_is_shown_and_liked() -> None:
    shown = simulate(preference="paper", eta=0, seed=1)
    assert np.bincount(per(shown, "user"))[:5].max() == 0
    assert np.bincount(per(shown, "user"))[5:].min() > 35
    assert per(shown, "user").max() == 20
    assert per(shown, "item").max() < 35
    kept = simulate(preference="paper", eta=0.3, seed=1)
    expected = shown.table.filter(liking(shown, 1) >= 0.3)
    assert kept.table.drop("time").equals(expected.drop("time"))


def test_learnable_is_taste_but_for_accidents() -> None:
    clean, noisy, chance = (simulate(preference="learnable", noise=noise, seed=1) for noise in (0, 0.2, 1))
    for log in (clean, noisy, chance):
        assert set(per(log, "user")) == set(range(5, 21))
    assert liking(clean, 1).min() >= 0.5
    # Half of the accidents fall on items that the user likes.
    assert (liking(noisy, 1) < 0.5).mean() == pytest.approx(0.1, abs=0.01)
    assert (liking(chance, 1) < 0.5).mean() == pytest.approx(0.5, abs=0.02)


def test_learnable_takes_other_items_where_too_few_are_liked() -> None:
    log = simulate(preference="learnable", users=50, items=20, eta=0.9, noise=0)
    assert per(log, "user").min() >= 5


def ndcg_at_5(problem: Problem, scores: Floats) -> float:
    """Mean NDCG@5 of the test rows; `scores` [users, items]."""
    assert problem.test_candidates is not None
    candidates = scores[problem.test.users[:, None], problem.test_candidates]
    own, others = candidates[:, :1], candidates[:, 1:]
    rank = (others > own).sum(axis=1) + (others == own).sum(axis=1) / 2
    return float(np.where(rank < 5, 1 / np.log2(rank + 2), 0).mean())


def qualities(log: Interactions) -> tuple[float, float]:
    """NDCG@5 of popularity, and of what users with the same items have."""
    problem = make_problem(log, "paper-tables")
    popularity = np.bincount(problem.train.items, minlength=problem.n_items).astype(np.float64)
    history = np.zeros((problem.n_users, problem.n_items))
    history[problem.train.users, problem.train.items] = 1 / np.sqrt(popularity[problem.train.items])
    by_popularity = np.broadcast_to(popularity, history.shape)
    return ndcg_at_5(problem, by_popularity), ndcg_at_5(problem, history @ history.T @ history)


def test_learnable_rewards_collaborative_filtering_and_paper_does_not() -> None:
    popularity, neighbours = qualities(simulate(preference="learnable"))
    assert neighbours > 1.5 * popularity
    popularity, neighbours = qualities(simulate(preference="paper", eta=0.1))
    assert max(popularity, neighbours) < 0.06


@BOTH
def test_logs_without_rows_keep_their_bytes(preference: Preference) -> None:
    """Figures of the documentation rest on these logs."""
    table = simulate(preference=preference, users=100, items=200, seed=1).table
    text = table.select("user", "item", "time", "unwillingness").write_csv()
    known = {"paper": "2be73c16baa0", "learnable": "b543b5e0f799"}
    assert hashlib.sha1(text.encode()).hexdigest()[:12] == known[preference]


def test_rows_are_exact_and_heavy_tailed() -> None:
    log = simulate(users=3000, items=1000, rows=60_000)
    assert len(log) == 60_000
    assert not log.table.select("user", "item").is_duplicated().any()
    of_user, of_item = per(log, "user"), per(log, "item")
    assert len(of_user) == 3000
    assert of_user.min() >= 5
    assert of_user.max() > 10 * of_user.mean() > 10 * np.median(of_user)
    assert np.sort(of_item)[-100:].sum() > 0.25 * of_item.sum()  # a tenth of the items


@pytest.mark.parametrize(
    ("users", "items", "rows"), [(50, 20, 250), (50, 20, 500), (1, 40, 19), (40, 60, 1100)]
)
def test_the_fewest_and_the_most_rows_are_possible(users: int, items: int, rows: int) -> None:
    log = simulate(users=users, items=items, rows=rows, eta=0.9)
    assert len(log) == rows
    assert not log.table.select("user", "item").is_duplicated().any()
    assert per(log, "user").min() >= 5
    assert per(log, "user").max() <= items // 2


def test_rows_are_liked_but_for_accidents() -> None:
    clean, noisy, chance = (simulate(users=1000, rows=20_000, noise=noise, seed=1) for noise in (0, 0.2, 1))
    assert (liking(clean, 1) < 0.5).mean() < 0.02  # people with very many run out of what they like
    assert (liking(noisy, 1) < 0.5).mean() == pytest.approx(0.1, abs=0.02)
    assert (liking(chance, 1) < 0.5).mean() == pytest.approx(0.5, abs=0.02)


def test_rows_are_learnable() -> None:
    log = simulate(users=2000, rows=40_000)
    popularity, neighbours = qualities(log)
    assert neighbours > 1.5 * popularity
    # People share far more with those of the same taste than popularity explains.
    users = draw_features(log.table["user"].unique().sort(), "user", 0, 4)
    users /= np.linalg.norm(users, axis=1)[:, None]
    has = np.zeros((2000, 1000))
    has[tuple((log.table[column].rank("dense") - 1).to_numpy() for column in ("user", "item"))] = 1
    alike, shared = users @ users.T, has @ has.T
    is_other = ~np.eye(2000, dtype=np.bool_)
    assert shared[(alike > 0.8) & is_other].mean() > 3 * shared[is_other].mean()
    assert shared[alike < 0].mean() < shared[is_other].mean() / 2


@pytest.mark.parametrize("block", [1, 2**12])
def test_rows_do_not_depend_on_the_block_size(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = simulate(users=200, items=100, rows=2000, seed=5)
    monkeypatch.setattr(simulator, "BLOCK", block)
    parts = simulate(users=200, items=100, rows=2000, seed=5)
    assert whole.table.equals(parts.table)
    assert not whole.table.equals(simulate(users=200, items=100, rows=2000, seed=6).table)


def test_memory_is_linear_in_rows() -> None:
    """Scores of all pairs would take 1.6 GB."""
    tracemalloc.start()
    assert len(simulate(users=20_000, items=10_000, rows=150_000)) == 150_000
    assert tracemalloc.get_traced_memory()[1] < 3e8
    tracemalloc.stop()


@pytest.mark.parametrize(("preference", "rows"), [("paper", None), ("learnable", None), ("learnable", 300)])
def test_a_log_is_as_the_readers_would_give_it(preference: Preference, rows: int | None) -> None:
    log = simulate(preference=preference, users=30, items=40, features=3, rows=rows, seed=4)
    assert log.name == f"simulated-{preference}"
    assert log.table.schema == {
        "user": pl.String, "item": pl.String, "time": pl.Float64, "unwillingness": pl.Float64,
        "source": pl.String, "said": pl.String,
    }  # fmt: skip
    assert not log.table.select("user", "item").is_duplicated().any()
    assert log.table["unwillingness"].is_between(0, 1, closed="none").all()
    for _, times in log.table.group_by("user").agg("time").iter_rows():
        assert times == list(range(len(times)))
    assert log.items.schema == {"item": pl.String, "title": pl.String, "category": pl.List(pl.String)}
    assert log.items.row(16)[:2] == ("i17", "item 17")
    largest = draw_features(log.items["item"], "item", 4, 3).argmax(axis=1)
    assert log.items["category"].to_list() == [[f"genre-{feature + 1}"] for feature in largest]


@pytest.mark.parametrize(("preference", "rows"), [("paper", None), ("learnable", None), ("learnable", 300)])
def test_unwillingness_is_simulated_from_the_same_features(preference: Preference, rows: int | None) -> None:
    log = simulate(preference=preference, users=30, items=40, rows=rows, sensitivity=(1, 2, 0.5), seed=4)
    assert assign(log, "simulated:1,2,0.5", 4).table.equals(log.table)


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(["paper", "learnable"]), st.integers(0, 2**32))
def test_the_seed_decides_everything(preference: Preference, seed: int) -> None:
    one, same, other = (
        simulate(preference=preference, users=20, items=30, seed=number) for number in (seed, seed, seed + 1)
    )
    assert one.table.equals(same.table)
    assert one.items.equals(same.items)
    assert not one.table.equals(other.table)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"users": 0}, "0 users; accepted: 1 or more"),
        ({"items": 19}, "19 items; accepted: 20 or more"),
        ({"features": 0}, "0 features; accepted"),
        ({"eta": 1.0}, "eta 1; accepted"),
        ({"noise": float("nan")}, "noise nan; accepted"),
        ({"sensitivity": (2, 1, 1)}, "sensitivity 2,1,1: accepted"),
        ({"preference": "paper", "users": 1, "eta": 0.9999}, "eta 0.9999 has no interaction; accepted"),
        ({"users": 10, "rows": 49}, "49 rows of 10 users and 1000 items; accepted: from 50 to 5000"),
        (
            {"users": 10, "items": 20, "rows": 101},
            "101 rows of 10 users and 20 items; accepted: from 50 to",
        ),
        ({"preference": "paper", "rows": 9000}, "rows and preference 'paper'; accepted: learnable"),
        ({"preference": "papers"}, "preference 'papers'; accepted: paper or learnable"),
    ],
)
def test_impossible_settings_are_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(AssentError, match=message):
        simulate(**({"preference": "learnable"} | wrong))
