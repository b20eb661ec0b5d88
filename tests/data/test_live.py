"""Problems of a live run: every row is decided on; what is trained on follows from disclosed rows alone."""

from dataclasses import replace

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from assent.data.interactions import Interactions
from assent.data.live import disclosed_split, disclosed_whole, live_problem
from assent.data.problem import Problem, Rows
from assent.data.readers import from_frame
from assent.data.simulate import simulate
from assent.support.arrays import Bools

PEOPLE = ("ann", "bob", "cas", "dan")
HISTORIES = st.lists(st.permutations([f"i{n}" for n in range(9)]), min_size=4, max_size=4)


def log_of(histories: list[list[str]], lengths: list[int]) -> Interactions:
    rows = [
        {"user": user, "item": item, "time": time, "unwillingness": 0.1 * time}
        for user, items, length in zip(PEOPLE, histories, lengths, strict=True)
        for time, item in enumerate(items[:length])
    ]
    return from_frame(pl.DataFrame(rows[::-1]), name="small")


def pairs(problem: Problem, rows: Rows) -> list[tuple[str, str]]:
    users, items = problem.user_ids[rows.users], problem.item_ids[rows.items]
    return list(zip(users.tolist(), items.tolist(), strict=True))


@given(histories=HISTORIES, lengths=st.lists(st.integers(1, 6), min_size=4, max_size=4))
def test_every_row_is_decided_on_and_the_latest_of_several_judges(
    histories: list[list[str]], lengths: list[int]
) -> None:
    live = live_problem(log_of(histories, lengths), negatives=2)
    expected = [
        (user, item)
        for user, items, length in zip(PEOPLE, histories, lengths, strict=True)
        for item in items[:length]
    ]
    assert pairs(live, live.train) == expected
    assert live.judges is not None
    last = [(user, items[n - 1]) for user, items, n in zip(PEOPLE, histories, lengths, strict=True) if n > 1]
    assert pairs(live, live.train[live.judges]) == pairs(live, live.valid) == last
    np.testing.assert_array_equal(live.measurable, ~live.judges)
    np.testing.assert_allclose(live.unwillingness, [0.1 * n for length in lengths for n in range(length)])
    np.testing.assert_array_equal(live.valid_candidates[:, 0], live.valid.items)
    assert not len(live.test)


@given(histories=HISTORIES, lengths=st.lists(st.integers(1, 6), min_size=4, max_size=4), data=st.data())
def test_what_is_trained_on_is_what_a_log_of_disclosed_rows_gives(
    histories: list[list[str]], lengths: list[int], data: st.DataObject
) -> None:
    """Whether rows are withheld or were never there, everything but unwillingness is the same."""
    log = log_of(histories, lengths)
    live = live_problem(log, negatives=2)
    drawn = data.draw(st.lists(st.booleans(), min_size=len(live.train), max_size=len(live.train)))
    chosen: Bools = np.array(drawn)
    if chosen.sum() < 2:
        return
    shown = pl.DataFrame(pairs(live, live.train[chosen]), schema=["user", "item"], orient="row")
    alone = live_problem(
        replace(log, table=log.table.join(shown, on=["user", "item"], how="semi")), negatives=2
    )
    everything = np.ones(len(alone.train), dtype=np.bool_)
    for cut in (disclosed_split, disclosed_whole):
        assert cut(live, chosen).fingerprint() == cut(alone, everything).fingerprint()


def test_disclosed_rows_are_split_by_their_latest_or_not_at_all() -> None:
    live = live_problem(simulate(preference="learnable", users=30, items=40, seed=0))
    chosen = np.random.default_rng(0).random(len(live.train)) < 0.5
    split, whole = disclosed_split(live, chosen), disclosed_whole(live, chosen)
    shown = pairs(live, live.train[chosen])
    assert pairs(whole, whole.train) == shown
    assert not len(whole.valid)
    assert sorted(pairs(split, split.train) + pairs(split, split.valid)) == sorted(shown)
    latest = dict(shown)
    held = dict(pairs(split, split.valid))
    assert held == {user: latest[user] for user in held}
    assert len(held) == sum(sum(user == other for other, _ in shown) > 1 for user in latest)


def test_nothing_disclosed_leaves_nothing() -> None:
    live = live_problem(simulate(preference="learnable", users=10, items=20, seed=0), negatives=3)
    nothing = np.zeros(len(live.train), dtype=np.bool_)
    for problem in (disclosed_split(live, nothing), disclosed_whole(live, nothing)):
        assert (problem.n_users, problem.n_items, len(problem.train), len(problem.valid)) == (0, 0, 0, 0)
