from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from assent.data.door import assign, fill_rest
from assent.data.interactions import Interactions
from assent.data.problem import Problem, make_problem
from assent.data.rules import read_wishes
from assent.data.simulate import simulate
from assent.data.wishes import Wishes
from assent.support.errors import AssentError


@pytest.fixture(scope="module")
def log() -> Interactions:
    table = pl.DataFrame(
        {
            "user": [user for user in ("ann", "bob", "cem") for _ in range(6)],
            "item": [f"i{(u + k) % 7}" for u in range(3) for k in range(6)],
            "time": [float(k) for _ in range(3) for k in range(6)],
            "unwillingness": [0.5] * 18,
        }
    )
    kinds = [["A", "B"], ["A"], ["B"], ["B"], [], ["C"], []]
    items = pl.DataFrame(
        {"item": [f"i{k}" for k in range(7)], "title": [None] * 7, "category": kinds},
        schema_overrides={"title": pl.String, "category": pl.List(pl.String)},
    )
    return Interactions("tiny", table, items)


@pytest.fixture(scope="module")
def problem(log: Interactions) -> Problem:
    return make_problem(log, "full", negatives=1)


def test_nothing_asked_is_plain(log: Interactions, problem: Problem) -> None:
    wishes = read_wishes(log, problem)
    assert wishes.are_plain
    assert wishes.mark() == b""
    assert replace(problem, wishes=wishes).fingerprint() == problem.fingerprint()


def test_numbers_rules_and_files_are_read(log: Interactions, problem: Problem, tmp_path: Path) -> None:
    floors = tmp_path / "floors.csv"
    floors.write_text("user,floor\nann,2\ncem,1\n")
    wishes = read_wishes(
        log, problem, user_budget="ann=1.5,*=4", user_floor=floors, prior=0.4, utility="power:1.5"
    )
    assert wishes.budget is not None
    assert wishes.floor is not None
    assert wishes.prior is not None
    assert wishes.budget.tolist() == [1.5, 4, 4]
    assert wishes.floor.tolist() == [2, 0, 1]
    assert (wishes.prior == 0.4).all()
    assert wishes.power == 1.5
    assert replace(problem, wishes=wishes).fingerprint() != problem.fingerprint()
    limited = read_wishes(log, problem, user_budget="bob=0.25").budget
    assert limited is not None
    assert limited.tolist() == [np.inf, 0.25, np.inf]
    for name in ("ann", "bob"):
        assert name not in str(wishes.summary())


def test_a_prior_may_be_of_single_interactions(log: Interactions, problem: Problem, tmp_path: Path) -> None:
    table = tmp_path / "prior.csv"
    table.write_text("user,item,prior\nann,i0,0.1\n*,*,0.7\n")
    prior = read_wishes(log, problem, prior=str(table)).prior
    assert prior is not None
    first = (problem.user_ids[problem.train.users] == "ann") & (problem.item_ids[problem.train.items] == "i0")
    np.testing.assert_array_equal(prior, np.where(first, 0.1, 0.7))
    by_user = read_wishes(log, problem, prior="ann=0.2").prior
    assert by_user is not None
    np.testing.assert_array_equal(by_user, np.where(problem.train.users == 0, 0.2, 0.9))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("ann,i0,0.1\nann,i0,0.2", "row 2: 'ann' and 'i0' occur twice; accepted: once"),
        ("ann,*,0.1", "row 1: accepted: \\* for both user and item, or for neither"),
        ("ann,i0,much", "row 1, column 'prior' is 'much'; accepted: a probability"),
    ],
)
def test_a_prior_of_single_interactions_is_read_strictly(
    rows: str, message: str, log: Interactions, problem: Problem, tmp_path: Path
) -> None:
    (tmp_path / "prior.csv").write_text(f"user,item,prior\n{rows}\n")
    with pytest.raises(AssentError, match=message):
        read_wishes(log, problem, prior=str(tmp_path / "prior.csv"))


def test_a_prior_of_nobodys_interaction_is_refused_or_told(
    log: Interactions, problem: Problem, tmp_path: Path
) -> None:
    path = tmp_path / "prior.csv"
    path.write_text("user,item,prior\nann,nowhere,0.1\n")
    with pytest.raises(AssentError, match=r"1 rows not in tiny, first .*; accepted: .*allow_unmatched=True"):
        read_wishes(log, problem, prior=path)
    with pytest.warns(UserWarning, match="ignored 1 rows not in tiny, first 'ann' and 'nowhere'"):
        assert read_wishes(log, problem, prior=path, allow_unmatched=True).prior is not None


@pytest.mark.parametrize("wish", ["user_budget", "user_floor", "prior"])
def test_a_wish_of_nobody_is_refused_or_told(wish: str, log: Interactions, problem: Problem) -> None:
    asked = {wish: "ann=1,annn=0,*=1"}
    with pytest.raises(AssentError) as caught:
        read_wishes(log, problem, **asked)  # type: ignore[arg-type]
    assert "no user of tiny is called 'annn'; accepted: " in str(caught.value)
    assert "did you mean" not in str(caught.value)  # the ids of others are nobody's business
    with pytest.warns(UserWarning, match="ignored 1 rules whose user is not in tiny, first 'annn'"):
        read_wishes(log, problem, **asked, allow_unmatched=True)  # type: ignore[arg-type]


def test_a_wish_of_somebody_who_is_in_the_log_with_never_alone_is_matched(log: Interactions) -> None:
    never = pl.when(pl.col("user") == "cem").then(1.0).otherwise("unwillingness")
    log = replace(log, table=log.table.with_columns(unwillingness=never))
    problem = make_problem(log, "full", negatives=1)
    assert problem.user_ids.tolist() == ["ann", "bob"]
    budget = read_wishes(log, problem, user_budget="cem=1,bob=2,*=3").budget
    assert budget is not None
    assert budget.tolist() == [3, 2]


def test_a_category_is_one_decision_per_user(log: Interactions, problem: Problem) -> None:
    groups = read_wishes(log, problem, by_category=True).groups
    assert groups is not None
    kind = {"i0": "A", "i1": "A", "i2": "B", "i3": "B", "i4": "4", "i5": "C", "i6": "6"}
    names = [
        (user, kind[item])
        for user, item in zip(problem.train.users, problem.item_ids[problem.train.items], strict=True)
    ]
    for one, group in zip(names, groups, strict=True):
        for other, another in zip(names, groups, strict=True):
            assert (one == other) == (group == another)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"user_budget": "-1"}, r"user_budget is '-1'; accepted: a number from 0 on"),
        ({"user_floor": "1.5"}, r"user_floor is '1.5'; accepted: a whole number"),
        ({"prior": "1.5"}, r"prior is '1.5'; accepted: a probability from 0 to 1"),
        ({"prior": "ann=2"}, r"'ann=2': 'ann' is '2'; accepted: a probability"),
        ({"utility": "cubic"}, r"utility='cubic': accepted: linear, quadratic or power:P"),
        ({"utility": "power:0"}, r"utility: power 0; accepted: a number above 0"),
        ({"utility": "power:1e9"}, r"utility: power 1e\+09; accepted: a number above 0, at most 10"),
        ({"user_budget": "nobody"}, r"'nobody': not a rule"),
        ({"user_budget": "1_0"}, r"'1_0': not a rule"),
        ({"user_floor": "ann=0_1"}, r"'ann' is '0_1'; accepted: a whole number"),
        ({"utility": "power:0_1"}, r"utility='power:0_1': accepted: linear, quadratic or power:P"),
    ],
)
def test_what_cannot_be_is_refused(
    asked: dict[str, str], message: str, log: Interactions, problem: Problem
) -> None:
    with pytest.raises(AssentError, match=message):
        read_wishes(log, problem, **asked)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [np.nan, -0.1, 1.0, 1.5])
def test_unwillingness_that_no_training_row_has_is_refused(wrong: float, problem: Problem) -> None:
    unwillingness = problem.unwillingness.copy()
    unwillingness[0] = wrong
    with pytest.raises(AssentError, match="accepted: from 0 to below 1"):
        replace(problem, unwillingness=unwillingness)


@pytest.mark.parametrize("wrong", [np.nan, 0.5, -1.0])
def test_floors_are_whole_numbers(wrong: float) -> None:
    with pytest.raises(AssentError, match="whole numbers from 0 on"):
        Wishes(floor=np.array([1, wrong]))


def test_wishes_of_other_interactions_are_refused(problem: Problem) -> None:
    with pytest.raises(AssentError, match="budget has the shape"):
        replace(problem, wishes=Wishes(budget=np.ones(7)))
    with pytest.raises(AssentError, match="interactions of several users"):
        replace(problem, wishes=Wishes(groups=np.zeros(len(problem.train), dtype=np.int64)))


def test_no_category_at_all_is_refused() -> None:
    log = simulate(preference="learnable", users=30, items=40, seed=0)
    bare = replace(log, items=log.items.head(0))
    with pytest.raises(AssentError, match="no item has a category"):
        read_wishes(bare, make_problem(bare, "full", negatives=1), by_category=True)


def test_the_rest_takes_a_number_or_a_mean_and_never_0_or_1() -> None:
    users = pl.Series(["a", "a", "a", "b", "c", "c"])
    values = pl.Series([1.0, 1.0, None, 0.2, None, 0.0])
    assert fill_rest(users, values, "0.3").to_list() == [1.0, 1.0, 0.3, 0.2, 0.3, 0.0]
    mean = 2.2 / 4
    assert fill_rest(users, values, "mean").to_list() == [1.0, 1.0, mean, 0.2, mean, 0.0]
    own = fill_rest(users, values, "own-mean").to_list()
    assert own[2] == pytest.approx((2 + 2 * mean) / 4)
    assert own[4] == pytest.approx((0 + 2 * mean) / 3)
    certain = fill_rest(pl.Series(["a", "a"]), pl.Series([1.0, None]), "own-mean")
    assert certain[0] == 1.0
    assert certain[1] < 1.0
    with pytest.raises(AssentError, match="1 interactions have none; accepted: one each, or rest=own-mean"):
        fill_rest(pl.Series(["a"]), pl.Series([None], dtype=pl.Float64), None)
    with pytest.raises(AssentError, match="nobody gave an"):
        fill_rest(pl.Series(["a"]), pl.Series([None], dtype=pl.Float64), "mean")


def test_rules_for_a_part_leave_the_rest_to_the_rest(log: Interactions) -> None:
    with pytest.raises(AssentError, match="no rule for 2 users"):
        assign(log, "user:ann=0.2", 0)
    filled = assign(log, "user:ann=0.2", 0, "0.6").table["unwillingness"]
    assert filled.to_list() == [0.2] * 6 + [0.6] * 12
    by_category = assign(log, "category:A=0.4", 0, "mean").table["unwillingness"]
    assert by_category.null_count() == 0
