"""What a run recommends to whom, against a plain loop: whose lists rest on what, and what is not shown."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

from assent.runs.folder import KINDS, Run
from assent.runs.recommend import read_people, write_recommendations
from assent.support.errors import AssentError
from tests.runs.served import problem_of, run_in, some_disclosed

K = 8


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """u02 has had items of every kind; eve said never to the only one."""
    problem = problem_of()
    item = problem.item_ids[5]
    sealed = [("u02", item, "never"), ("u02", problem.item_ids[6], "closed"), ("eve", item, "never")]
    return run_in(tmp_path_factory.mktemp("run"), problem, some_disclosed(problem), sealed=sealed)


def had_by(run: Run, user: str, kind: str) -> set[str]:
    """What somebody has had of a kind."""
    decided = run.selection.filter(user=user)
    match kind:
        case "disclosed":
            return set(decided.filter("disclosed")["item"])
        case "withheld":
            rest = set(run.held_out.filter(user=user)["item"]) - set(decided["item"])
            return set(decided.filter(~pl.col("disclosed"))["item"]) | rest
        case _:
            return set(run.sealed.filter(user=user, reason=kind)["item"])


def naive(run: Run, user: str, hidden: set[str], k: int = K) -> list[str]:
    """The best items by 64-bit scores of the model, or by counts of disclosed rows; ties by id."""
    trained = run.trained
    items, users = trained.item_ids.tolist(), trained.user_ids.tolist()
    if user in users:
        table = trained.model.double()
        scores = trained.scores_of_all(torch.tensor([users.index(user)]))[0, :-1].tolist()
        table.float()
    else:
        disclosed = run.selection.filter("disclosed")["item"].to_list()
        scores = [disclosed.count(item) for item in items]
    order = sorted(range(len(items)), key=lambda place: (-scores[place], items[place]))
    return [items[place] for place in order if items[place] not in hidden][:k]


def lists_of(table: pl.DataFrame) -> dict[str, list[str]]:
    """The items of each person; their ranks are checked on the way."""
    found = {}
    for (user,), rows in table.group_by("user", maintain_order=True):
        assert rows["rank"].to_list() == list(range(1, rows.height + 1))
        found[str(user)] = rows["item"].to_list()
    return found


@pytest.mark.parametrize("include", [[], ["withheld"], ["never", "closed"], ["disclosed"], list(KINDS)])
def test_everybody_gets_the_best_of_what_they_have_not_had(run: Run, include: list[str]) -> None:
    found = run.recommend(k=K, include=include)
    assert found.columns == ["user", "item", "title", "rank", "score", "basis"]
    everybody = sorted({*run.selection["user"], *run.held_out["user"], "eve"})
    expected = {}
    for user in everybody:
        hidden = set().union(*(had_by(run, user, kind) for kind in KINDS if kind not in include))
        expected[user] = naive(run, user, hidden)
    assert lists_of(found) == expected


def test_lists_say_what_they_rest_on(run: Run) -> None:
    known = run.trained.user_ids.tolist()
    found = run.recommend([*known[:3], "eve", "a stranger"], K)
    basis = dict(found.select("user", "basis").unique().iter_rows())
    assert basis == {**dict.fromkeys(known[:3], "own"), "eve": "general", "a stranger": "general"}
    silent = set(run.selection["user"]) - set(known)
    assert silent
    assert set(run.recommend(sorted(silent), K)["basis"]) == {"general"}
    general = found.filter(user="a stranger")
    counts = Counter(run.selection.filter("disclosed")["item"])
    assert general["score"][0] == max(counts.values()) / len(known)
    assert general["score"].is_sorted(descending=True)


def test_one_some_and_all_get_the_same_lists(run: Run) -> None:
    everybody = lists_of(run.recommend(k=K))
    some = ["u05", "eve", "u02", "eve"]
    assert lists_of(run.recommend(some, K)) == {user: everybody[user] for user in ("u05", "eve", "u02")}
    assert lists_of(run.recommend("u02", K)) == {"u02": everybody["u02"]}
    assert run.recommend([]).is_empty()


def test_titles_are_those_of_disclosed_items(run: Run) -> None:
    found = run.recommend(k=K, include=KINDS)
    assert (found["title"] == "The " + found["item"]).all()


def test_a_sealed_row_changes_its_owners_list_alone(run: Run, tmp_path: Path) -> None:
    problem = problem_of()
    without = run_in(tmp_path, problem, some_disclosed(problem)).recommend(k=K)
    found = run.recommend(k=K)
    others = ~pl.col("user").is_in(["u02", "eve"])
    assert found.filter(others).equals(without.filter(others))
    asked_for = run.recommend(k=K, include=["never", "closed"]).filter(pl.col("user") != "eve")
    assert asked_for.equals(without)


def test_a_run_that_discloses_nothing_recommends_nothing(tmp_path: Path) -> None:
    problem = problem_of()
    run = run_in(tmp_path, problem, np.zeros(len(problem.train), dtype=np.bool_))
    assert run.recommend(k=3).is_empty()


def test_what_cannot_be_asked_for_is_refused(run: Run) -> None:
    with pytest.raises(AssentError, match=r"^include='had': accepted: disclosed, withheld, never, closed$"):
        run.recommend(include=["had"])
    with pytest.raises(AssentError, match=r"^k=0: accepted: a positive integer$"):
        run.recommend("eve", 0)


@pytest.mark.parametrize("kind", ["csv", "parquet", "jsonl"])
def test_files_hold_the_table_and_are_private(run: Run, kind: str, tmp_path: Path) -> None:
    table, file = run.recommend(k=3), tmp_path / "new" / f"recs.{kind}"
    write_recommendations(table, file)
    read: Any = {"csv": pl.read_csv, "parquet": pl.read_parquet, "jsonl": pl.read_ndjson}[kind]
    assert read(file).equals(table)
    assert file.stat().st_mode & 0o777 == 0o600
    with pytest.raises(AssentError, match="already exists; accepted: another name, or replace=True"):
        write_recommendations(table.head(1), file)
    write_recommendations(table.head(1), file, replace=True)
    assert read(file).height == 1


def test_formulas_are_text_in_csv_and_as_they_are_elsewhere(run: Run, tmp_path: Path) -> None:
    table = run.recommend("a stranger", 1).with_columns(user=pl.lit("=1+1"))
    for kind in ("csv", "jsonl"):
        write_recommendations(table, tmp_path / f"recs.{kind}")
    assert "'=1+1" in (tmp_path / "recs.csv").read_text()
    assert '"=1+1"' in (tmp_path / "recs.jsonl").read_text()


def test_people_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "some.csv").write_text("User ID,age\n007,3\neve,4\n")
    assert read_people(tmp_path / "some.csv") == ["007", "eve"]
    (tmp_path / "none.csv").write_text("age\n3\n")
    with pytest.raises(AssentError, match="which column is the user"):
        read_people(tmp_path / "none.csv")
