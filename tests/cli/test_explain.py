"""`assent explain` on a terminal of ordinary width: whole words, and every interaction."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.cli.conftest import QUICK, records
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


def sentence(record: dict[str, Any]) -> str:
    decision = {True: "disclosed: ", False: "withheld: ", None: ""}[record["disclosed"]]
    return f"{record['title']} {decision}{record['words']}"


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
        for record in records(file):
            assert record["value"] is None or f" {record['value']:+.3f} " in out


def test_what_is_held_out_is_shown(
    users: list[str], run_folder: Path, log_file: Path, tmp_path: Path, assent: Assent
) -> None:
    log = pl.read_csv(log_file, schema_overrides={"user": pl.String})
    for user in users:
        file = tmp_path / f"{user}.json"
        _, out, _ = assent("explain", run_folder, "--user", user, "--json", file)
        found = records(file)
        theirs = log.filter(pl.col("user") == user).sort("time", maintain_order=True)
        assert sorted(record["item"] for record in found) == sorted(theirs["item"])
        valid, test = found[-2:]
        assert [valid["item"], test["item"]] == theirs["item"].tail(2).to_list()
        assert [valid["words"], test["words"]] == ["held out for validation", "held out for test"]
        assert [valid["unwillingness"], test["unwillingness"]] == theirs["unwillingness"].tail(2).to_list()
        assert valid["disclosed"] is valid["value"] is valid["price"] is None
        assert "2 more are held out" in out


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
    assert "they carry 0.301 of 0.301 unwillingness" in out
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
    assert any("; its owner's budget has no room left for it" in words for words in told)
    assert not any(" or " in words or "budget for all was used up" in words for words in told)


def test_what_fills_a_budget_up_is_said_to(log_file: Path, tmp_path: Path, assent: Assent) -> None:
    how = ["--budget", 0.95, "--method", "ifrqe"]
    assert assent("fit", log_file, "--out", tmp_path / "run", *QUICK, *how)[0] == 0
    table = pl.read_parquet(tmp_path / "run" / "selection.parquet")
    assert set(table.filter(pl.col("disclosed") & (pl.col("value") <= 0))["reason"]) == {"budget"}
    assert set(table.filter(~pl.col("disclosed"))["reason"]) == {"no help"}


def test_somebody_who_only_tests_is_explained(tmp_path: Path, assent: Assent) -> None:
    parts = ["valid", "test", "train", "train", "train"]
    rows = [f"u{u},i{(u + k) % 9},0.5,{parts[k]}" for u in range(9) for k in range(5)]
    log = tmp_path / "log.csv"
    log.write_text("\n".join(["user,item,unwillingness,split", *rows, "late,i0,0.5,test", "late,i1,1,train"]))
    options = [*QUICK, "--negatives", 3, "--method", "threshold"]
    assert assent("fit", log, "--out", tmp_path / "run", *options)[0] == 0
    code, out, err = assent("explain", tmp_path / "run", "--user", "late", "--json", tmp_path / "e.json")
    assert code == 0, err
    assert "0 of 0 interactions are used" in out
    found = json.loads((tmp_path / "e.json").read_text())
    assert [(record["item"], record["words"]) for record in found] == [
        ("i0", "held out for test"),
        ("i1", "never used"),
    ]
    assert "--user nobody" in assent("explain", tmp_path / "run", "--user", "nobody")[2]
