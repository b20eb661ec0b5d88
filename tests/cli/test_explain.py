"""`assent explain` on a terminal of ordinary width: whole words, and every interaction."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from shutil import copytree
from typing import Any

import polars as pl
import pytest

from assent.results.words import number
from tests.cli.conftest import QUICK, forged_table, records
from tests.conftest import Assent

USERS = 4


@pytest.fixture(scope="module")
def users(run_folder: Path) -> list[str]:
    """People with something disclosed."""
    table = pl.read_parquet(run_folder / "selection.parquet").filter("disclosed")
    return table["user"].unique(maintain_order=True).head(USERS).to_list()


def first_cells(out: str) -> list[str]:
    """The text of the first column of each row of the table, its lines joined."""
    rows = re.split(r"\n[├└┡].*", out)[1:-1]
    return [" ".join(line.split("│")[1].strip() for line in row.strip("\n").splitlines()) for row in rows]


MEASURED = "measured the quality of recommendations, in aggregate"


def sentence(record: dict[str, Any]) -> str:
    decision = {True: "disclosed: ", False: "withheld: ", None: ""}[record["disclosed"]]
    also = "" if record["held_out_for"] is None else f" also {MEASURED}"
    return f"{record['title']} {decision}{record['words']}{also}"


def test_at_80_columns_words_and_figures_are_whole(
    users: list[str], run_folder: Path, tmp_path: Path, assent: Assent
) -> None:
    for user in users:
        file = tmp_path / f"{user}.json"
        code, out, _ = assent("explain", run_folder, "--user", user, "--json", file, columns=80)
        assert code == 0
        assert max(map(len, out.splitlines())) <= 80
        assert "…" not in out
        assert first_cells(out) == [sentence(record) for record in records(file)]


def test_worth_is_told_to_its_owner_and_to_everybody_unless_it_is_too_uncertain(
    users: list[str], run_folder: Path, tmp_path: Path, assent: Assent
) -> None:
    table = pl.read_parquet(run_folder / "selection.parquet")
    assert table["worth_everybody"].equals(table["value"])
    assert not table["worth_owner"].equals(table["value"])
    some = pl.when(pl.int_range(pl.len()) % 2 == 0).then(1e-6).otherwise(1e6)
    sure = table.with_columns(uncertainty=some, error_owner=some, error_everybody=some)
    folder = tmp_path / "run"
    copytree(run_folder, folder)
    forged_table(folder, "selection.parquet", sure)
    for user in users:
        file = tmp_path / f"{user}.json"
        _, out, _ = assent("explain", folder, "--user", user, "--json", file)
        found = records(file)
        for record in found:
            told = f"{number(record['worth_owner'])} │ {number(record['worth_everybody'])} │"
            assert told in re.sub(" +", " ", out) or record["uncertainty"] > 1
        unsure = sum(record["uncertainty"] > 1 for record in found)
        assert out.count("too uncertain") == 2 * unsure
        assert out.count("as far as can be told") == unsure
        assert out.count(f"± {number(1e-6)}") == 2 * (len(found) - unsure)


def test_what_measured_quality_is_listed_once_and_marked(
    users: list[str], run_folder: Path, log_file: Path, tmp_path: Path, assent: Assent
) -> None:
    log = pl.read_csv(log_file, schema_overrides={"user": pl.String})
    for user in users:
        file = tmp_path / f"{user}.json"
        _, out, _ = assent("explain", run_folder, "--user", user, "--json", file)
        found = {record["item"]: record for record in records(file)}
        theirs = log.filter(pl.col("user") == user).sort("time", maintain_order=True)
        assert sorted(record["item"] for record in records(file)) == sorted(theirs["item"])
        valid, test = (found.pop(item) for item in theirs["item"].tail(2))
        assert [valid["held_out_for"], test["held_out_for"]] == ["validation", "test"]
        assert valid["disclosed"] is not None
        assert {record["held_out_for"] for record in found.values()} == {None}
        assert out.replace("\n", " ").count("also measured the quality") == 2
        assert "To measure the quality of recommendations, in aggregate: 2 interactions.\n" in out


def test_in_an_experiment_what_is_held_out_is_not_decided_on(
    log_file: Path, tmp_path: Path, assent: Assent
) -> None:
    log = pl.read_csv(log_file, schema_overrides={"user": pl.String})
    assert assent("fit", log_file, "--out", tmp_path / "run", *SMALL, "--experiment")[0] == 0
    user, file = log["user"][0], tmp_path / "e.json"
    _, out, _ = assent("explain", tmp_path / "run", "--user", user, "--json", file)
    theirs = log.filter(pl.col("user") == user).sort("time", maintain_order=True)
    assert sorted(record["item"] for record in records(file)) == sorted(theirs["item"])
    valid, test = records(file)[-2:]
    assert [valid["item"], test["item"]] == theirs["item"].tail(2).to_list()
    assert [valid["unwillingness"], test["unwillingness"]] == theirs["unwillingness"].tail(2).to_list()
    assert valid["words"] == test["words"] == "not decided on"
    assert valid["disclosed"] is valid["value"] is valid["price"] is None
    assert "2 interactions.\nNobody decided on them" in out


def small_log(file: Path, unwillingness: Sequence[str]) -> Path:
    """A log of nine people whose k-th of five interactions has the k-th unwillingness."""
    rows = [f"u{u},i{(u + k) % 9},{k},{given}" for u in range(9) for k, given in enumerate(unwillingness)]
    file.write_text("\n".join(["user,item,time,unwillingness", *rows]))
    return file


SMALL = [*QUICK, "--negatives", 3, "--method", "threshold"]


def test_a_small_unwillingness_is_not_shown_as_none(tmp_path: Path, assent: Assent) -> None:
    log = small_log(tmp_path / "log.csv", ["0.00128", "0.3", "0", "0.0041", "0.5"])
    assert assent("fit", log, "--out", tmp_path / "run", *SMALL)[0] == 0
    _, out, _ = assent("explain", tmp_path / "run", "--user", "u0")
    shown = [line.split("│")[2].strip() for line in out.splitlines() if re.match("│ i", line)]
    assert shown == ["0.0013", "0.30", "0", "0.0041", "0.50"]
    assert "they carry 0.805 of 0.805 unwillingness" in out
    assert "<td>0.0013</td>" in (tmp_path / "run" / "report.html").read_text()


def test_what_nobody_said_is_not_put_into_her_mouth(tmp_path: Path, assent: Assent) -> None:
    log = small_log(tmp_path / "log.csv", ["0.2", "", "0.4", "", "0.6"])
    assert assent("fit", log, "--out", tmp_path / "run", *SMALL, "--rest", "own-mean")[0] == 0
    assert json.loads((tmp_path / "run" / "settings.json").read_text())["rest"] == "own-mean"
    _, out, _ = assent("explain", tmp_path / "run", "--user", "u0", "--json", tmp_path / "e.json")
    assert [record["given"] for record in records(tmp_path / "e.json")] == [True, False, True, False, True]
    assert len(re.findall(r"│ +0\.40 │.*\n.*│ \(not given: own-mean\) │", out)) == 2
    assert out.count("not given") == 2
    page = (tmp_path / "run" / "report.html").read_text()
    assert "<td>0.40<small>(not given: own-mean)</small></td>" in page


def test_limits_that_leave_the_budget_unused_are_the_reason(
    log_file: Path, tmp_path: Path, assent: Assent
) -> None:
    limits = ["--budget", 0.9, "--user-budget", 0.3, "--user-floor", 1, "--by-category"]
    code, _, err = assent("fit", log_file, "--out", tmp_path / "run", *QUICK, *limits)
    assert code == 0, err
    table = pl.read_parquet(tmp_path / "run" / "selection.parquet")
    assert set(table.filter("disclosed")["reason"]) <= {"worth", "budget", "floor", "category"}
    withheld = table.filter(~pl.col("disclosed"))
    assert set(withheld["reason"]) <= {"own budget", "no help", "category"}
    theirs = withheld.filter(pl.col("reason") == "own budget")["user"][0]
    assent("explain", tmp_path / "run", "--user", theirs, "--json", tmp_path / "e.json")
    told = [record["words"] for record in records(tmp_path / "e.json")]
    assert any(words.startswith("its owner’s limit has no room left for it") for words in told)
    assert not any(" or " in words or "limit for everybody was used up" in words for words in told)


def test_what_fills_a_budget_up_is_said_to(log_file: Path, tmp_path: Path, assent: Assent) -> None:
    how = ["--budget", 0.95, "--method", "ifrqe"]
    assert assent("fit", log_file, "--out", tmp_path / "run", *QUICK, *how)[0] == 0
    table = pl.read_parquet(tmp_path / "run" / "selection.parquet")
    assert set(table.filter(pl.col("disclosed") & (pl.col("value") <= 0))["reason"]) == {"budget"}
    assert set(table.filter(~pl.col("disclosed"))["reason"]) == {"no help"}


def test_who_has_nothing_in_the_run_learns_why(tmp_path: Path, assent: Assent) -> None:
    parts = ["valid", "test", "train", "train", "train"]
    rows = [f"u{u},i{(u + k) % 9},0.5,{parts[k]}" for u in range(9) for k in range(5)]
    rows += ["late,i0,0.5,test", "late,i1,1,train", "never,i2,1,train", "never,i3,0.9,train"]
    log = tmp_path / "log.csv"
    log.write_text("\n".join(["user,item,unwillingness,split", *rows]))
    assert assent("fit", log, "--out", tmp_path / "run", *SMALL, "--experiment", "--closed", 0.8)[0] == 0

    def told(user: str) -> tuple[list[tuple[str, str]], str]:
        code, out, err = assent("explain", tmp_path / "run", "--user", user, "--json", tmp_path / "e.json")
        assert code == 0, err
        found = [(record["item"], record["words"]) for record in records(tmp_path / "e.json")]
        (tmp_path / "e.json").unlink()
        return found, out

    found, out = told("late")
    assert found == [("i0", "not decided on"), ("i1", "never used")]
    assert "Nothing of theirs is used: all that may be read only measured the quality." in out
    found, out = told("never")
    assert found == [("i2", "never used"), ("i3", "withheld unread, above the limit 0.8")]
    assert "Nothing of theirs is used: all of it is marked never or above the limit." in out
    code, _, err = assent("explain", tmp_path / "run", "--user", "nobody")
    assert code == 2
    assert "--user nobody: not in this run, because no interaction of theirs was read" in err
    assert "late" not in err


def test_who_withholds_everything_learns_so(tmp_path: Path, assent: Assent) -> None:
    log = small_log(tmp_path / "log.csv", ["0.2", "0.4", "0.6", "0.5", "0.3"])
    assert assent("fit", log, "--out", tmp_path / "run", *SMALL, "--budget", 0)[0] == 0
    _, out, _ = assent("explain", tmp_path / "run", "--user", "u0")
    assert "0 of 5 interactions are used" in out
    assert "Nothing of theirs is used: all that was decided on is withheld." in out


def test_values_that_cannot_be_told_apart_are_said_to_be_one(
    users: list[str], run_folder: Path, tmp_path: Path, assent: Assent
) -> None:
    run = copytree(run_folder, tmp_path / "run")
    said = "all alike, measuring could not tell them apart"
    table = pl.read_parquet(run / "selection.parquet")
    apart = pl.int_range(pl.len()).cast(pl.Float64)
    for owner in (apart, pl.lit(1.34)):
        forged_table(run, "selection.parquet", table.with_columns(worth_owner=owner, worth_everybody=apart))
        out = " ".join(assent("explain", run, "--user", users[0])[1].split())
        assert (f"Worth to its owner: {said}" in out) == (owner is not apart)
        assert f"Worth to everybody: {said}" not in out
