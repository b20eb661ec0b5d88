"""What a trained model recommends, against a plain loop over its scores."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from assent.models import MF, Draws, MFSettings, Sizes
from assent.support.errors import AssentError
from assent.training import Trained
from assent.training.ranking import best_items

USERS, ITEMS = ["ann", "bob", "eve"], ["Alien", "Brazil", "Casino", "Dune", "Emma"]


@pytest.fixture(scope="module")
def trained() -> Trained:
    model = MF(Sizes(3, 5, 9, 1), MFSettings(dimension=4, initial_scale=1.0))
    model.initialise(Draws.numbered(model.sizes, 0))
    model.finish()
    return Trained(model, np.array(USERS), np.array(ITEMS), seed=0, epochs=1, monitor=None)


def naive(trained: Trained, user: str, k: int, hidden: Sequence[str] = ()) -> list[tuple[Any, ...]]:
    index = USERS.index(user) if user in USERS else len(USERS)
    scores = dict(zip(ITEMS, trained.scores_of_all(torch.tensor([index]))[0].tolist(), strict=False))
    best = sorted((item for item in ITEMS if item not in hidden), key=lambda item: -scores[item])[:k]
    return [(user, item, scores[item], rank) for rank, item in enumerate(best, 1)]


def test_the_best_items_come_first(trained: Trained) -> None:
    found = trained.recommend("bob", 3)
    assert found.schema == {"user": pl.String, "item": pl.String, "score": pl.Float64, "rank": pl.Int64}
    assert found.rows() == naive(trained, "bob", 3)


def test_several_users_get_what_each_gets_alone(trained: Trained) -> None:
    asked = ["eve", "a stranger", "ann", "eve"]
    found = trained.recommend(asked, 4)
    expected = pl.concat([trained.recommend(user, 4) for user in asked])
    assert found.drop("score").equals(expected.drop("score"))
    # A score is a sum of products, which cancel: its error is relative to the largest score.
    largest = np.abs(expected["score"].to_numpy()).max()
    np.testing.assert_allclose(found["score"], expected["score"], rtol=1e-6, atol=1e-6 * largest)


def test_a_stranger_gets_the_scores_of_an_unknown_user(trained: Trained) -> None:
    assert trained.recommend("a stranger").rows() == naive(trained, "a stranger", 5)


PAIRS = [
    ("ann", "Dune"),
    ("ann", "Alien"),
    ("a stranger", "Emma"),
    ("nobody", "Brazil"),
    ("ann", "Unheard of"),
]


def as_table(pairs: list[tuple[str, str]]) -> pl.DataFrame:
    return pl.DataFrame([(1, *pair) for pair in pairs], ["n", "user", "item"], orient="row")


@pytest.mark.parametrize("form", [list, tuple, iter, as_table])
def test_what_is_excluded_is_not_recommended(trained: Trained, form: Callable[[Any], Any]) -> None:
    """Also to one of several people whom the model does not know."""
    found = trained.recommend(["ann", "a stranger", "another"], exclude=form(PAIRS))
    expected = {"ann": {"Brazil", "Casino", "Emma"}, "a stranger": {*ITEMS} - {"Emma"}, "another": {*ITEMS}}
    assert {user: set(rows["item"]) for (user,), rows in found.group_by("user")} == expected
    alone = trained.recommend("ann", exclude=form(PAIRS)).rows()
    assert alone == naive(trained, "ann", 5, ["Dune", "Alien"])


def test_nobody_and_nothing(trained: Trained) -> None:
    assert trained.recommend([]).is_empty()
    assert trained.recommend("ann", exclude=[("ann", item) for item in ITEMS]).is_empty()
    empty = np.array([], dtype=np.str_)
    knows_nothing = Trained(MF(Sizes(0, 0, 0, 1), MFSettings()), empty, empty, 0, 0, None)
    assert knows_nothing.recommend(["ann", "bob"]).is_empty()


@pytest.mark.parametrize("k", [0, -3, 2.5, True, "3"])
def test_a_k_that_is_no_number_of_items_is_refused(trained: Trained, k: Any) -> None:
    with pytest.raises(AssentError, match=r"^k=.*: accepted: a positive integer$"):
        trained.recommend("ann", k)


def test_a_table_without_users_is_refused(trained: Trained) -> None:
    with pytest.raises(AssentError, match=r"^exclude: no column user; accepted: a table with user and item$"):
        trained.recommend("ann", exclude=pl.DataFrame({"item": ["Dune"]}))


def test_more_people_than_fit_into_a_block() -> None:
    """5,000 people with 3,000 items each: 15 million scores."""
    ids = np.char.mod("%05d", np.arange(3000))
    model = MF(Sizes(3000, 3000, 9, 1), MFSettings(dimension=2, initial_scale=1.0))
    model.initialise(Draws.numbered(model.sizes, 0))
    model.finish()
    trained = Trained(model, ids, ids, seed=0, epochs=1, monitor=None)
    asked = [f"{place:05}" for place in range(5000)]
    found = trained.recommend(asked, 1, exclude=[(user, "00007") for user in asked])
    assert found["user"].to_list() == asked
    scores = trained.scores_of_all(torch.arange(3001).clamp(max=3000))[:, :-1]
    scores[:, 7] = -torch.inf
    best = scores.max(1).values.double().numpy()
    np.testing.assert_allclose(found["score"], np.append(best[:3000], np.full(2000, best[3000])), rtol=1e-5)


@given(
    scores=arrays(
        np.float32,
        array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=12),
        elements=st.sampled_from([-np.inf, -2.0, 0.0, 1.0, 2.0]),
    ),
    k=st.integers(1, 15),
    data=st.data(),
)
def test_lists_are_those_of_a_plain_sort(scores: Any, k: int, data: st.DataObject) -> None:
    """Few distinct scores, so that ties are everywhere: equal ones are in the order of ids."""
    people, items = scores.shape
    names, ids = [f"u{row}" for row in range(people)], np.array([f"i{column:02}" for column in range(items)])
    pairs = data.draw(st.lists(st.tuples(st.sampled_from([*names, "else"]), st.sampled_from([*ids, "new"]))))
    found = best_items(pl.Series(names), ids, k, lambda here: scores[here], pairs)
    expected = []
    for row, user in enumerate(names):
        candidates = [
            column
            for column in range(items)
            if scores[row, column] > -np.inf and (user, ids[column]) not in pairs
        ]
        best = sorted(candidates, key=lambda column: (-scores[row, column], column))[:k]
        expected += [(user, ids[c], float(scores[row, c]), rank) for rank, c in enumerate(best, 1)]
    assert found.rows() == expected


def test_a_score_that_is_no_number_is_an_error() -> None:
    scores = np.array([[1.0, 2.0], [np.nan, 0.0]])
    with pytest.raises(AssentError, match=r"^scores: the model has diverged \(NaN\)"):
        best_items(pl.Series(["ann", "bob"]), np.array(["a", "b"]), 1, lambda here: scores[here])


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_lists_do_not_depend_on_threads(threads: int) -> None:
    scores = np.random.default_rng(0).normal(size=(23, 70))
    people, items = pl.Series([f"{row}" for row in range(23)]), np.char.mod("%03d", np.arange(70))
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        found = best_items(people, items, 9, lambda here: scores[here])
    finally:
        torch.set_num_threads(before)
    expected = np.argsort(-scores, axis=1)[:, :9]
    assert found["item"].to_list() == items[expected.ravel()].tolist()
