"""What a trained model recommends, against a plain loop over its scores."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

from assent.data.problem import make_problem
from assent.data.simulate import simulate
from assent.models import MF, CDAESettings, Draws, MFSettings, Sizes
from assent.runs.folder import Run
from assent.runs.manifest import RunFiles, read_manifest
from assent.support.errors import AssentError
from assent.training import Trained, TrainingSettings, disclose, train
from assent.training.stored import as_files

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


@pytest.mark.parametrize("given", [list, tuple, iter, as_table])
def test_what_is_excluded_is_not_recommended(trained: Trained, given: Callable[[Any], Any]) -> None:
    """Also to one of several people whom the model does not know."""
    found = trained.recommend(["ann", "a stranger", "another"], exclude=given(PAIRS))
    expected = {"ann": {"Brazil", "Casino", "Emma"}, "a stranger": {*ITEMS} - {"Emma"}, "another": {*ITEMS}}
    assert {user: set(rows["item"]) for (user,), rows in found.group_by("user")} == expected
    alone = trained.recommend("ann", exclude=given(PAIRS)).rows()
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


def test_a_run_recommends_what_was_not_disclosed(tmp_path: Path) -> None:
    """With titles, for a model that reads what people disclosed."""
    problem = make_problem(simulate(preference="learnable", users=20, items=30, seed=0), "full", negatives=2)
    disclosed = problem.train.users % 4 > 0
    settings = TrainingSettings(epochs=2)
    trained = train(
        disclose(problem, disclosed), model="cdae", model_settings=CDAESettings(), settings=settings, seed=0
    )
    items = problem.item_ids[problem.train.items]
    titles = {item: f"The {item}" for item in items.tolist() if not item.endswith("1")}
    table = pl.DataFrame(
        {
            "user": problem.user_ids[problem.train.users],
            "item": items,
            "title": [titles.get(item) for item in items.tolist()],
            "disclosed": disclosed,
        }
    )
    files = RunFiles(tmp_path)
    for name, content in as_files(trained, "model").items():
        files.write(name, content)
    files.finish(problem="", decisions="")
    run = Run(tmp_path, {}, table, table.clear(), table.clear(), [], {}, read_manifest(tmp_path))
    for user in problem.user_ids[:8].tolist():
        found = run.recommend(user, 5)
        theirs = run.rows_of(user).filter("disclosed")["item"]
        best = trained.recommend(user, 5, exclude=table.filter("disclosed"))
        assert [row["item"] for row in found] == best["item"].to_list()
        assert not set(theirs) & {row["item"] for row in found}
        assert all(row["title"] == titles.get(row["item"]) for row in found)
    with pytest.raises(
        AssentError, match=r"^user nobody: not in this run; accepted: the id of somebody who is$"
    ):
        run.recommend("nobody", 5)
    assert run.rows_of("nobody", needed=False).is_empty()
