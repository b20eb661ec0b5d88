"""`assent recommend` and `assent export` on the command line."""

from pathlib import Path

import polars as pl
import pytest

from tests.conftest import Assent


def test_the_command_writes_everybodys_lists(run_folder: Path, tmp_path: Path, assent: Assent) -> None:
    file = tmp_path / "recs.parquet"
    code, out, err = assent("recommend", run_folder, "--all", "--k", 20, "--to", file)
    assert code == 0, err
    found = pl.read_parquet(file)
    assert f"{found.height:,} recommendations to 60 people" in out
    assert found.group_by("user").len()["len"].max() == 20
    code, _, err = assent("recommend", run_folder, "--all", "--to", file)
    assert (code, "already exists; accepted: another name, or --replace" in err) == (2, True)
    pl.DataFrame({"user": ["u01", "u02"]}).write_csv(tmp_path / "some.csv")
    how = ["--users", tmp_path / "some.csv", "--to", file, "--replace", "--include", "withheld, disclosed"]
    assert assent("recommend", run_folder, *how)[0] == 0
    assert pl.read_parquet(file)["user"].unique().sort().to_list() == ["u01", "u02"]


def test_the_command_prints_the_lists_of_several_people(run_folder: Path, assent: Assent) -> None:
    code, out, _ = assent("recommend", run_folder, "--user", "u01", "--user", "a stranger", "--k", 3)
    assert code == 0
    assert "recommended to u01" in out
    assert "a stranger gets the items that most people disclose" in out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "--user, --users, --all: accepted: one of these"),
        (["--all", "--user", "u01"], "--user, --users, --all: accepted: one of these"),
        (["--all"], "--all: needs --to, a file to write to"),
        (["--user", "u01", "--to", "recs.xlsx"], "accepted: a name that ends in .csv, .parquet, .jsonl"),
        (["--user", "u01", "--include", "mine"], "--include mine: accepted: disclosed, withheld, never"),
        (["--users", "none.csv"], "none.csv: no such file"),
    ],
)
def test_commands_that_cannot_be_meant(
    options: list[str], message: str, run_folder: Path, tmp_path: Path, assent: Assent,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    code, _, err = assent("recommend", run_folder, *options)
    assert (code, err.count("\n")) == (2, 1)
    assert message in err
    assert not list(tmp_path.iterdir())


def test_the_command_exports_a_run(run_folder: Path, tmp_path: Path, assent: Assent) -> None:
    code, out, err = assent("export", run_folder, "--to", tmp_path / "model", "--formats", "safetensors")
    assert code == 0, err
    assert "vectors.safetensors" in out
    assert "README.md" in err
    code, _, err = assent("export", run_folder, "--to", tmp_path / "model", "--formats", "safetensors")
    assert (code, "already exists; accepted: another name, or --replace" in err) == (2, True)
    code, _, err = assent("export", run_folder, "--to", tmp_path / "other", "--formats", "faiss")
    assert (code, err.count("\n")) == (2, 1)
    assert "--formats" in err
    assert not (tmp_path / "other").exists()
