"""Shards: people are dealt by their ids alone, and a shard's problem knows of nobody else."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import settings as example_settings
from hypothesis import strategies as st

from assent.data.interactions import Interactions
from assent.data.live import live_problem
from assent.data.problem import Problem, make_problem
from assent.data.shards import Part, dealt, shards_of
from assent.data.simulate import simulate
from assent.data.wishes import Wishes
from assent.support.arrays import string_keys
from assent.support.errors import AssentError

IDS = st.lists(st.text(min_size=1, max_size=6), min_size=1, max_size=20, unique=True)


@pytest.fixture(scope="module")
def log() -> Interactions:
    return simulate(preference="learnable", users=40, items=60, seed=1)


def problems(log: Interactions) -> tuple[Problem, Problem]:
    return make_problem(log, "paper-tables", negatives=9), live_problem(log, negatives=9)


@given(ids=IDS, others=IDS, shards=st.integers(1, 9), seed=st.integers(0, 3))
def test_a_persons_shard_is_a_function_of_their_id(
    ids: list[str], others: list[str], shards: int, seed: int
) -> None:
    of = dict(zip(ids, dealt(string_keys(ids), shards, seed), strict=True))
    assert all(0 <= each < shards for each in of.values())
    together = [*others, *ids[::-1]]
    again = dict(zip(together, dealt(string_keys(together), shards, seed), strict=True))
    assert of.items() <= again.items()


def test_people_are_dealt_evenly_and_anew_with_another_seed() -> None:
    keys = string_keys(f"person {n}" for n in range(8000))
    counts = np.bincount(dealt(keys, 8), minlength=8)
    assert abs(counts - 1000).max() < 4 * np.sqrt(1000)
    assert 0.1 < (dealt(keys, 8) == dealt(keys, 8, seed=1)).mean() < 0.15


@pytest.mark.parametrize("kind", [0, 1], ids=["split", "live"])
def test_the_part_of_everybody_is_the_whole(kind: int, log: Interactions) -> None:
    problem = problems(log)[kind]
    whole = Part(problem, np.ones(problem.n_users, dtype=np.bool_))
    assert whole.problem.fingerprint() == problem.fingerprint()
    decided_on = whole.decided_on
    np.testing.assert_array_equal(decided_on.row_keys, problem.row_keys)
    np.testing.assert_array_equal(decided_on.unwillingness, problem.unwillingness)


def test_shards_share_out_the_rows_in_their_order(log: Interactions) -> None:
    whole = problems(log)
    shards = shards_of(*whole, 3)
    for problem, parts, rows in (
        (whole[0], [each.split.problem for each in shards], [each.split.rows for each in shards]),
        (whole[1], [each.live.problem for each in shards], [each.live.rows for each in shards]),
    ):
        np.testing.assert_array_equal(np.sum(rows, axis=0), 1)
        for part, here in zip(parts, rows, strict=True):
            theirs = problem.train[here]
            assert part.user_ids[part.train.users].tolist() == problem.user_ids[theirs.users].tolist()
            assert part.item_ids[part.train.items].tolist() == problem.item_ids[theirs.items].tolist()
            np.testing.assert_array_equal(part.unwillingness, problem.unwillingness[here])
    assert sum(len(each.split.problem.test) for each in shards) == len(whole[0].test)


@example_settings(max_examples=25)
@given(gone=st.integers(0, 10**6))
def test_a_row_that_goes_touches_its_owners_shard_alone(gone: int, log: Interactions) -> None:
    row = gone % log.table.height
    left = replace(log, table=log.table.with_row_index().filter(pl.col("index") != row).drop("index"))
    [of] = dealt(string_keys([log.table["user"][row]]), 3)
    before, after = shards_of(*problems(log), 3), shards_of(*problems(left), 3)
    for number, (then, now) in enumerate(zip(before, after, strict=True)):
        for kind in ("split", "live"):
            one, other = getattr(then, kind), getattr(now, kind)
            assert (one.fingerprint == other.fingerprint) == (number != of)
            assert (one.problem.fingerprint() == other.problem.fingerprint()) == (number != of)


def test_a_part_has_the_wishes_of_its_people(log: Interactions) -> None:
    problem = problems(log)[1]
    people = np.arange(problem.n_users) % 2 == 1
    rows = people[problem.train.users]
    budget, floor = np.arange(problem.n_users) / 2, np.arange(problem.n_users) % 3
    prior = np.linspace(0, 1, len(problem.train))
    wishes = Wishes(100 + problem.train.users, budget, floor, prior, power=2.0)
    whole = Part(replace(problem, wishes=wishes), people)
    assert whole.fingerprint != Part(problem, people).fingerprint
    part = whole.problem
    assert whole.decided_on.wishes.mark() == part.wishes.mark()
    expected = Wishes(part.train.users, budget[people], floor[people], prior[rows], power=2.0)
    assert part.wishes.mark() == expected.mark()


def test_people_of_whom_too_little_is_known_join_others(log: Interactions) -> None:
    whole = problems(log)
    for least in (1, 40):
        shards = shards_of(*whole, 500, least=least)
        assert 1 < len(shards) <= log.table["user"].n_unique()
        assert all(
            len(each.split.problem.train) >= least and len(each.split.problem.valid) for each in shards
        )
        np.testing.assert_array_equal(np.sum([each.live.rows for each in shards], axis=0), 1)
        assert sorted(number for each in shards for number in each.numbers) == [*range(500)]
    of = dealt(string_keys(log.table["user"].to_list()), 3)
    left = [*shards_of(*problems(replace(log, table=log.table.filter(pl.Series(of != 2)))), 3)]
    before = shards_of(*whole, 3)
    assert [each.live.fingerprint for each in left] == [each.live.fingerprint for each in before[:2]]


def test_a_log_that_no_shard_can_be_made_of_is_refused(log: Interactions) -> None:
    with pytest.raises(AssentError, match="shards=2: fewer than 9999 rows to train on"):
        shards_of(*problems(log), 2, least=9999)
