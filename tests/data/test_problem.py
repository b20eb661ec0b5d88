import os
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare
from tests.small import small_problem

from assent.data.door import assign
from assent.data.interactions import NO_ITEMS, Interactions
from assent.data.problem import (
    Problem,
    Protocol,
    Rows,
    make_problem,
    make_problem_from_parts,
    parts_of,
    sample_unseen,
    too_short,
)
from assent.data.readers import read_interactions
from assent.data.simulate import simulate
from assent.data.wishes import Wishes
from assent.support.arrays import Ints, mix, string_keys
from assent.support.errors import AssentError

DATA = Path(os.environ.get("ASSENT_DATA") or Path(__file__).parents[2] / "../shared/data")
SCHEMA = {"user": pl.String, "item": pl.String, "time": pl.Float64, "unwillingness": pl.Float64}

Row = tuple[str, str, float | None, float]


def log(rows: list[Row]) -> Interactions:
    return Interactions("log", pl.DataFrame(rows, schema=SCHEMA, orient="row"), NO_ITEMS)


def history(user: str, items: str, unwillingness: float = 0.5) -> list[Row]:
    """Rows of one user: a letter per item, in order of time."""
    return [(user, item, float(time), unwillingness) for time, item in enumerate(items)]


def pairs(problem: Problem, rows: Rows) -> list[tuple[str, str]]:
    users, items = problem.user_ids[rows.users].tolist(), problem.item_ids[rows.items].tolist()
    return list(zip(users, items, strict=True))


@st.composite
def logs(draw: st.DrawFn) -> Interactions:
    """Logs in any order, with ties in time and "never" rows; all users have at least 3 unseen items."""
    cells = draw(st.sets(st.tuples(st.integers(0, 5), st.integers(0, 11)), max_size=40))
    cells |= {(6, item) for item in range(3)}
    rows = [
        (
            f"u{user}",
            f"i{item:02}",
            float(draw(st.integers(0, 3))),
            0.5 if user == 6 else draw(st.sampled_from([0.0, 0.3, 1.0])),
        )
        for user, item in draw(st.permutations(sorted(cells)))
    ]
    return log(rows + history("filler", "wxyz"))


protocols = st.sampled_from(list(Protocol))


@settings(deadline=None)
@given(logs(), protocols)
def test_parts_hold_each_row_once_but_never_rows(interactions: Interactions, protocol: Protocol) -> None:
    problem = make_problem(interactions, protocol, negatives=1)
    found = [pair for rows in (problem.train, problem.valid, problem.test) for pair in pairs(problem, rows)]
    willing = interactions.table.filter(pl.col("unwillingness") < 1)
    assert sorted(found) == sorted(willing.select("user", "item").iter_rows())
    assert problem.user_ids.tolist() == sorted(set(willing["user"]))
    assert problem.item_ids.tolist() == sorted(set(willing["item"]))
    by_pair = {(user, item): value for user, item, _, value in willing.iter_rows()}
    assert problem.unwillingness.tolist() == [by_pair[pair] for pair in pairs(problem, problem.train)]


def equal(one: Problem, other: Problem) -> bool:
    def flat(problem: Problem) -> list[Any]:
        values = [getattr(problem, field.name) for field in fields(problem)]
        return [
            part
            for value in values
            for part in ((value.users, value.items) if isinstance(value, Rows) else (value,))
        ]

    return all(np.array_equal(a, b) for a, b in zip(flat(one), flat(other), strict=True))


@settings(deadline=None)
@given(logs(), protocols)
def test_never_rows_leave_no_trace(interactions: Interactions, protocol: Protocol) -> None:
    willing = replace(interactions, table=interactions.table.filter(pl.col("unwillingness") < 1))
    elsewhere = log([("ghost", "nowhere", 9.0, 1.0), ("u6", "i11x", 9.0, 1.0)])
    more = replace(interactions, table=pl.concat([elsewhere.table, interactions.table]))
    expected = make_problem(willing, protocol, negatives=2)
    assert equal(make_problem(interactions, protocol, negatives=2), expected)
    assert equal(make_problem(more, protocol, negatives=2), expected)


@settings(deadline=None)
@given(logs(), protocols)
def test_rows_are_in_order_of_user_and_time_then_file(interactions: Interactions, protocol: Protocol) -> None:
    problem = make_problem(interactions, protocol, negatives=1)
    place = {
        (user, item): (time, row) for row, (user, item, time, _) in enumerate(interactions.table.iter_rows())
    }
    by_user: dict[str, list[tuple[int, tuple[float, int]]]] = {}
    for part, rows in enumerate((problem.train, problem.valid, problem.test)):
        assert np.all(np.diff(rows.users) >= 0)
        for pair in pairs(problem, rows):
            by_user.setdefault(pair[0], []).append((part, place[pair]))
    for found in by_user.values():
        assert [when for _, when in found] == sorted(when for _, when in found)
        counts = tuple(sum(part == number for part, _ in found) for number in range(3))
        assert counts == expected_counts(len(found), protocol)


def expected_counts(length: int, protocol: Protocol) -> tuple[int, int, int]:
    if length == 1:
        return 1, 0, 0
    test = max(1, int(0.2 * length + 0.5)) if protocol is Protocol.PAPER_TEXT else 1
    valid = max(1, int(0.1 * length + 0.5)) if protocol is Protocol.PAPER_TEXT else 1
    return length - test - valid, valid, test


@pytest.mark.parametrize(
    ("length", "counts"), [(3, (1, 1, 1)), (7, (5, 1, 1)), (8, (5, 1, 2)), (15, (10, 2, 3)), (20, (14, 2, 4))]
)
def test_paper_text_is_70_10_20(length: int, counts: tuple[int, int, int]) -> None:
    items = "abcdefghijklmnopqrst"[:length]
    problem = make_problem(log(history("ann", items) + history("bob", "xyz")), "paper-text", negatives=1)
    assert expected_counts(length, Protocol.PAPER_TEXT) == counts
    assert tuple((rows.users == 0).sum() for rows in (problem.train, problem.valid, problem.test)) == counts
    assert [item for user, item in pairs(problem, problem.test) if user == "ann"] == list(items[-counts[2] :])


@pytest.mark.parametrize("protocol", list(Protocol))
def test_two_rows_are_held_out_and_a_single_one_is_in_training(protocol: Protocol) -> None:
    rows = history("ann", "abcd") + history("bob", "ab") + history("eve", "e") + history("zoe", "xyz", 1.0)
    assert too_short(log(rows)) == (1, 1)
    problem = make_problem(log(rows), protocol, negatives=1)
    assert pairs(problem, problem.train) == [("ann", "a"), ("ann", "b"), ("eve", "e")]
    assert pairs(problem, problem.valid) == [("ann", "c"), ("bob", "a")]
    assert pairs(problem, problem.test) == [("ann", "d"), ("bob", "b")]


@settings(deadline=None)
@given(logs(), st.sampled_from(["paper-tables", "full"]), st.data())
def test_a_training_row_that_goes_moves_no_other_row(
    interactions: Interactions, protocol: str, data: st.DataObject
) -> None:
    problem = make_problem(interactions, protocol, negatives=1)
    k = data.draw(st.integers(0, len(problem.train) - 1))
    (gone,) = pairs(problem, problem.train[k : k + 1])
    left = interactions.table.filter((pl.col("user") != gone[0]) | (pl.col("item") != gone[1]))
    after = make_problem(replace(interactions, table=left), protocol, negatives=1)
    assert pairs(after, after.train) == [pair for pair in pairs(problem, problem.train) if pair != gone]
    assert pairs(after, after.valid) == pairs(problem, problem.valid)
    assert pairs(after, after.test) == pairs(problem, problem.test)


def named_candidates(problem: Problem) -> dict[tuple[str, str, str], list[str]]:
    """The ids of the candidates of each held-out row, own item first."""
    assert problem.test_candidates is not None
    parts = (
        ("valid", problem.valid, problem.valid_candidates),
        ("test", problem.test, problem.test_candidates),
    )
    return {
        (part, *pair): problem.item_ids[sampled].tolist()
        for part, rows, candidates in parts
        for pair, sampled in zip(pairs(problem, rows), candidates, strict=True)
    }


def test_a_training_row_that_goes_changes_no_candidates_but_those_that_it_is_among() -> None:
    interactions = simulate(preference="learnable", users=60, items=200, rows=900, seed=0)
    problem = make_problem(interactions, "paper-tables", negatives=9)
    before, changed, single = named_candidates(problem), 0, np.bincount(problem.train.items)
    alone = [k for k in range(len(problem.train)) if single[problem.train.items[k]] == 1]
    for k in [0, 10, 100, *alone[:20]]:
        (gone,) = pairs(problem, problem.train[k : k + 1])
        left = interactions.table.filter((pl.col("user") != gone[0]) | (pl.col("item") != gone[1]))
        after = named_candidates(make_problem(replace(interactions, table=left), "paper-tables", negatives=9))
        assert after.keys() == before.keys()
        for row, sampled in after.items():
            if row[1] != gone[0] and gone[1] not in before[row]:
                changed += sampled != before[row]
    # An item that is nowhere else may leave its place to another, whose draws change.
    assert changed <= 0.02 * 23 * len(before)


def test_a_log_without_any_user_to_test_is_refused() -> None:
    with pytest.raises(AssentError, match="log: no user has more than 2 interactions that are not 'never'"):
        make_problem(log(history("ann", "ab") + history("bob", "abc", 1.0)), "full")
    with pytest.raises(AssentError, match="log: no user has more than 0"):
        make_problem(log([]), "full")


def test_an_unknown_protocol_is_refused() -> None:
    with pytest.raises(AssentError, match="accepted: paper-text, paper-tables, full"):
        make_problem(log(history("ann", "abc")), "papers")


def test_a_log_without_unwillingness_is_refused() -> None:
    bare = replace(log(history("ann", "abc")), table=log(history("ann", "abc")).table.drop("unwillingness"))
    with pytest.raises(AssentError, match=r"log: no unwillingness is given; accepted: .*random"):
        make_problem(bare, "full")


# --- candidates


def seen_by(*parts: Rows) -> set[tuple[int, int]]:
    return {pair for rows in parts for pair in zip(rows.users.tolist(), rows.items.tolist(), strict=True)}


@settings(deadline=None)
@given(logs(), protocols, st.integers(0, 3), st.integers(1, 3))
def test_candidates_are_the_own_item_and_distinct_unseen_ones(
    interactions: Interactions, protocol: Protocol, seed: int, negatives: int
) -> None:
    problem = make_problem(interactions, protocol, seed=seed, negatives=negatives)
    assert (problem.test_candidates is not None) == (protocol is Protocol.PAPER_TABLES)
    for rows, candidates, seen in (
        (problem.valid, problem.valid_candidates, seen_by(problem.train, problem.valid)),
        (problem.test, problem.test_candidates, seen_by(problem.train, problem.valid, problem.test)),
    ):
        if candidates is not None:
            assert candidates.shape == (len(rows), 1 + negatives)
            np.testing.assert_array_equal(candidates[:, 0], rows.items)
            for user, sampled in zip(rows.users.tolist(), candidates[:, 1:].tolist(), strict=True):
                assert len(set(sampled)) == negatives
                assert not {(user, item) for item in sampled} & seen
                assert 0 <= min(sampled) <= max(sampled) < problem.n_items


@settings(deadline=None)
@given(st.integers(2, 30), st.integers(0, 2**32), st.data())
def test_all_unseen_items_can_be_asked_for(n_items: int, seed: int, data: st.DataObject) -> None:
    seen = sorted(data.draw(st.sets(st.integers(0, n_items - 1), max_size=n_items - 1)))
    rows = Rows(np.full(len(seen), 3), np.array(seen, dtype=np.int64))
    keys, item_keys = mix(seed, np.arange(2)), mix(seed, 1, np.arange(n_items))
    sampled = sample_unseen(np.array([0, 3]), keys, rows, item_keys, n_items - len(seen))
    assert sorted(sampled[1]) == sorted(set(range(n_items)) - set(seen))


def test_each_set_of_unseen_items_is_equally_likely() -> None:
    rows = Rows(np.array([1, 1, 2]), np.array([4, 1, 0]))
    users: Ints = np.ones(30_000, dtype=np.int64)
    keys, item_keys = mix(np.arange(30_000)), string_keys("abcdefg")
    sampled = np.sort(sample_unseen(users, keys, rows, item_keys, 2), axis=1)
    sets, counts = np.unique(sampled, axis=0, return_counts=True)
    unseen = [0, 2, 3, 5, 6]
    assert sets.tolist() == [[a, b] for a in unseen for b in unseen if a < b]
    assert chisquare(counts).pvalue > 0.01


def test_candidates_depend_on_the_seed_alone_and_not_on_how_tests_are_ranked() -> None:
    letters = "abcdefghijklmnopqrstuvwxyz"
    interactions = log(
        [row for start in range(20) for row in history(f"u{start}", letters[start : start + 6])]
    )
    full, tables, again, other = (
        make_problem(interactions, protocol, seed=seed, negatives=9)
        for protocol, seed in (("full", 0), ("paper-tables", 0), ("paper-tables", 0), ("paper-tables", 1))
    )
    assert equal(tables, again)
    np.testing.assert_array_equal(full.valid_candidates, tables.valid_candidates)
    assert (tables.valid_candidates != other.valid_candidates).any()
    assert tables.test_candidates is not None
    assert (tables.valid_candidates[:, 1:] != tables.test_candidates[:, 1:]).any()


@settings(deadline=None)
@given(st.lists(st.sampled_from("ghijklmnopqrstuvwxyz"), min_size=8, max_size=8), st.integers(0, 3))
def test_validation_rows_are_ranked_without_a_look_at_test_rows(last: list[str], seed: int) -> None:
    """Whatever comes next, validation rows have the same negatives."""
    catalogue = history("one", "abcdefghijklmnop") + history("two", "opqrstuvwxyz")

    def negatives(ends: list[str]) -> Ints:
        rows = [row for n, item in enumerate(ends) for row in history(f"u{n}", f"abcde{item}")]
        return make_problem(log(catalogue + rows), "full", seed=seed, negatives=5).valid_candidates

    np.testing.assert_array_equal(negatives(last), negatives(["f"] * 8))


def test_a_small_catalogue_is_ranked_whole_and_who_has_more_of_it_is_told_of() -> None:
    small = log(history("ann", "abcd") + history("bob", "def"))
    with pytest.warns(UserWarning, match="negatives=") as told:
        problem = make_problem(small, "paper-tables")
    first, second = (str(each.message) for each in told)
    assert first.endswith(
        "negatives=99, but nobody has more than 3 unseen items, so that rows are ranked among 3"
    )
    assert "negatives=3, but 2 of 4 held-out rows are of people with fewer unseen items" in second
    unseen = {"ann": {"valid": "def", "test": "ef"}, "bob": {"valid": "abcf", "test": "abc"}}
    for (part, user, item), sampled in named_candidates(problem).items():
        assert sampled[0] == item
        assert len(sampled) == 4
        assert set(sampled[1:]) <= set(unseen[user][part])
        assert len(set(sampled[1:])) == min(3, len(unseen[user][part]))
    with pytest.warns(UserWarning, match="negatives=3"):
        few = make_problem(small, "paper-tables", negatives=3)
    np.testing.assert_array_equal(few.valid_candidates, problem.valid_candidates)


@settings(deadline=None)
@given(logs(), protocols, st.sampled_from([1, 4, 99]), st.data())
@pytest.mark.filterwarnings("ignore:log. negatives=")
def test_nobody_who_has_many_items_changes_what_others_are_ranked_among(
    interactions: Interactions, protocol: Protocol, negatives: int, data: st.DataObject
) -> None:
    known = sorted(set(interactions.table["item"]))
    kept = data.draw(st.sets(st.sampled_from(known), min_size=len(known) - 2))
    rows: list[Row] = [("zoe", item, float(time), 0.5) for time, item in enumerate(sorted(kept))]
    more = pl.concat([interactions.table, log(rows).table])
    alone = make_problem(interactions, protocol, negatives=negatives)
    beside = make_problem(replace(interactions, table=more), protocol, negatives=negatives)
    for before, after in zip(candidates_of(alone), candidates_of(beside), strict=True):
        assert {row: names for row, names in after.items() if row[0] != "zoe"} == before
        assert {len(names) for names in after.values()} == {len(names) for names in before.values()}


def candidates_of(problem: Problem) -> list[dict[tuple[str, str], list[str]]]:
    """The ids of the candidates of each validation and test row, if there are any."""
    parts = ((problem.valid, problem.valid_candidates), (problem.test, problem.test_candidates))
    return [
        dict(zip(pairs(problem, rows), problem.item_ids[candidates].tolist(), strict=True))
        for rows, candidates in parts
        if candidates is not None
    ]


@pytest.mark.parametrize("negatives", [0, -1])
def test_no_negatives_are_refused(negatives: int) -> None:
    with pytest.raises(AssentError, match=rf"log: negatives={negatives}; accepted: a whole number from 1 on"):
        make_problem(log(history("ann", "abcd") + history("bob", "def")), "full", negatives=negatives)


def test_who_has_every_item_is_ranked_against_themselves_and_stops_nobody() -> None:
    whole = log(history("ann", "abcdef") + history("bob", "abc") + history("cat", "def"))
    with pytest.warns(UserWarning, match="negatives=3, but 2 of 6 held-out rows"):
        problem = make_problem(whole, "paper-tables", negatives=3)
    found = named_candidates(problem)
    assert found["test", "ann", "f"] == ["f"] * 4
    assert found["valid", "ann", "e"] == ["e", "f", "f", "f"]
    assert sorted(found["test", "bob", "c"][1:]) == ["d", "e", "f"]


def test_a_log_of_people_who_all_have_every_item_is_refused() -> None:
    with pytest.raises(AssentError, match=r"everybody has every item.*accepted: a log with more items"):
        make_problem(log(history("ann", "abcd") + history("bob", "dcba")), "full", negatives=1)


# --- given parts


TRAIN = history("bob", "ef") + history("ann", "ab") + history("ann", "x", 1.0)
VALID = history("ann", "c")
TEST = history("bob", "a") + history("ann", "d")


def test_given_parts_are_kept() -> None:
    problem = make_problem_from_parts(log(TRAIN), log(VALID), log(TEST), "paper-tables", negatives=2)
    assert problem.protocol == "given, paper-tables"
    assert pairs(problem, problem.train) == [("ann", "a"), ("ann", "b"), ("bob", "e"), ("bob", "f")]
    assert pairs(problem, problem.valid) == [("ann", "c")]
    assert pairs(problem, problem.test) == [("ann", "d"), ("bob", "a")]
    assert problem.item_ids.tolist() == list("abcdef")
    assert sorted(problem.valid_candidates[0]) == [2, 4, 5]
    assert problem.test_candidates is not None
    assert problem.test_candidates.shape == (2, 3)


@settings(deadline=None)
@given(logs(), protocols, st.integers(0, 3))
def test_given_parts_of_a_protocol_make_the_same_problem(
    interactions: Interactions, protocol: Protocol, seed: int
) -> None:
    expected = make_problem(interactions, protocol, seed=seed, negatives=2)
    part = {
        pair: name for name in ("train", "valid", "test") for pair in pairs(expected, getattr(expected, name))
    }
    split = [part.get((user, item), "test") for user, item, *_ in interactions.table.iter_rows()]
    marked = replace(interactions, table=interactions.table.with_columns(split=pl.Series(split)))
    found = make_problem_from_parts(*parts_of(marked), protocol, seed=seed, negatives=2)
    assert equal(found, replace(expected, protocol=f"given, {protocol}"))


def test_a_pair_in_two_parts_is_named() -> None:
    with pytest.raises(AssentError, match="log: user 'ann', item 'b' is in train and in test"):
        make_problem_from_parts(log(TRAIN), log(VALID), log(TEST + history("ann", "b")), negatives=1)


def test_an_empty_part_is_named() -> None:
    with pytest.raises(AssentError, match="log: no valid row that is not 'never'"):
        make_problem_from_parts(log(TRAIN), log(history("ann", "c", 1.0)), log(TEST), negatives=1)


def test_a_wrong_split_column_is_named() -> None:
    with pytest.raises(AssentError, match="log: no column 'split'"):
        parts_of(log(VALID))
    for wrong, shown in (("dev", "'dev'"), (None, "None")):
        marked = log(TEST).table.with_columns(split=pl.Series(["train", wrong]))
        with pytest.raises(
            AssentError, match=f"log: row 2, column 'split' is {shown}; accepted: train, valid, test"
        ):
            parts_of(Interactions("log", marked, NO_ITEMS))


@pytest.mark.parametrize("name", ["diginetica", "steam", "amazon_video_games"])
def test_real_logs_under_the_protocol_of_the_papers_tables(name: str) -> None:
    if not (DATA / name).is_dir():
        pytest.skip(f"needs the folder {name} under ASSENT_DATA or ../shared/data")
    interactions = assign(read_interactions(DATA / name), "random", 0)
    problem = make_problem(interactions, "paper-tables")
    assert too_short(interactions) == (0, 0)
    assert len(problem.valid) == len(problem.test) == problem.n_users
    assert len(problem.train) == len(interactions) - 2 * problem.n_users
    # The paper's base rows: half of the interactions that are left for training, per user.
    assert problem.violation() == pytest.approx(len(problem.train) / problem.n_users / 2, rel=0.02)
    keys = problem.valid.users[:, None] * problem.n_items + problem.valid_candidates[:, 1:]
    assert not np.isin(
        keys, [user * problem.n_items + item for user, item in seen_by(problem.train, problem.valid)]
    ).any()


def _moved(array: Any) -> Any:
    """The array with its first entry changed."""
    found = array.copy()
    found[(0,) * found.ndim] = found[(-1,) * found.ndim]
    if np.array_equal(found, array):
        found[(0,) * found.ndim] = 0
    return found


def test_a_fingerprint_names_every_input_of_a_problem() -> None:
    """Whatever single thing is changed, it is another problem, for which all is computed anew."""
    problem = small_problem()
    assert problem.test_candidates is not None
    changes: dict[str, list[Any]] = {
        "name": ["another"],
        "protocol": ["another"],
        "seed": [problem.seed + 1],
        "negatives": [problem.negatives + 1],
        "user_ids": [np.char.add(problem.user_ids, "x")],
        "item_ids": [np.char.add(problem.item_ids, "x")],
        "unwillingness": [
            np.where(np.arange(len(problem.train)) == k, 0.123, problem.unwillingness) for k in (0, 7)
        ],
        "valid_candidates": [_moved(problem.valid_candidates)],
        "test_candidates": [None, _moved(problem.test_candidates)],
        "judges": [np.arange(len(problem.train)) == k for k in (0, 7)],
        "wishes": [Wishes(power=2.0), Wishes(floor=np.ones(problem.n_users, dtype=np.int64))],
        **{
            part: [
                replace(rows, users=_moved(rows.users)),
                replace(rows, items=_moved(rows.items)),
                rows[: len(rows) - 1],
            ]
            for part, rows in (("valid", problem.valid), ("test", problem.test))
        },
        "train": [
            replace(problem.train, users=_moved(problem.train.users)),
            replace(problem.train, items=_moved(problem.train.items)),
        ],
    }
    assert set(changes) == {field.name for field in fields(Problem)}
    others = [replace(problem, **{name: value}) for name, values in changes.items() for value in values]
    found = {problem.fingerprint(), *(each.fingerprint() for each in others)}
    assert len(found) == 1 + len(others)
    assert replace(problem).fingerprint() == problem.fingerprint()
