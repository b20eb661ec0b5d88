"""Changes of mind from the command line: update in both grades, history, forget."""

import json
import shutil
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from assent import open_run
from assent.cli.app import app
from assent.testing.updates import differing
from tests.cli.conftest import QUICK
from tests.cli.processes import killed_at
from tests.conftest import Assent

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, log_file: Path) -> Path:
    """A folder with a log and a live run of it."""
    folder = tmp_path_factory.mktemp("update")
    shutil.copy(log_file, folder / "log.csv")
    how = ["--value", "structure", "--seeds", "1", *QUICK]
    fitted = CliRunner().invoke(app, ["fit", str(folder / "log.csv"), "--out", str(folder / "run"), *how])
    assert fitted.exit_code == 0, fitted.output
    return folder


def said(folder: Path, *lines: str) -> Path:
    file = folder / "now.csv"
    file.write_text("\n".join(["user,item,unwillingness", *lines]) + "\n")
    return file


def test_the_whole_story(folder: Path, tmp_path: Path, assent: Assent) -> None:
    folder = shutil.copytree(folder, tmp_path / "story")
    first = pl.read_csv(folder / "log.csv").filter(pl.col("user") == "u05").row(0, named=True)["item"]
    now = said(folder, "u03,*,withdraw", f"u05,{first},1")
    update = ["update", folder / "run", "--data", folder / "log.csv", "--wishes", now, "--jobs", "1"]
    code, out, err = assent(*update, "--grade", "prompt", "--out", folder / "soon")
    assert code == 0, err
    for words in ("Grade: prompt", "Values and items are those of the run", "would be decided otherwise"):
        assert words in out
    assert "Grade: prompt. Values and items are" in assent("explain", folder / "soon", "--user", "u05")[1]
    assert "Grade: prompt. Values and items are" in assent("verify", folder / "soon")[1]
    assert "Grade: prompt. Values and items are" in assent("recommend", folder / "soon", "--user", "u05")[2]
    code, out, err = assent(*update, "--json", folder / "update.json")
    assert code == 0, err
    theirs = pl.read_csv(folder / "log.csv").filter(pl.col("user") == "u03").height
    gone = f"1 person withdrawn altogether, with {theirs} interactions"
    for words in ("Grade: exact", gone, "What is withdrawn, or never used from now on, is", "assent forget"):
        assert words in out
    [told] = json.loads((folder / "update.json").read_text())
    assert told["grade"] == "exact"
    _, mine, _ = assent("history", folder / "run-2", "--user", "u05", columns=80)
    assert max(map(len, mine.splitlines())) <= 80
    assert "…" not in mine
    for words in ("changed mind", "never", "run-2 (exact)"):
        assert words in mine
    assert assent("history", folder / "run-2", "--user", "u03")[0] == 2
    assert "run-2" in assent("history", folder / "run-2")[1]
    assert "Grade" not in assent("explain", folder / "run-2", "--user", "u05")[1]
    assert assent("forget", folder / "soon", "--yes")[0] == 2
    assert (folder / "run").exists()
    code, out, err = assent("forget", folder / "run-2", "--yes")
    assert code == 0, err
    assert "found in 0" in out
    assert not (folder / "run").exists()


def test_a_new_row_has_an_expected_worth_until_it_is_measured(
    folder: Path, tmp_path: Path, assent: Assent
) -> None:
    log = pl.read_csv(folder / "log.csv", schema_overrides={"user": pl.String})
    new = (
        log.filter(pl.col("user") == "u05")
        .head(1)
        .with_columns(item=pl.lit("brand new"), title=pl.lit("Novel"))
    )
    pl.concat([log, new]).write_csv(tmp_path / "more.csv")
    data = ["--data", tmp_path / "more.csv", "--jobs", "1", "--out"]
    assert assent("update", folder / "run", *data, tmp_path / "soon", "--grade", "prompt")[0] == 0
    assert assent("update", folder / "run", *data, tmp_path / "next")[0] == 0
    told = {name: assent("explain", tmp_path / name, "--user", "u05")[1] for name in ("soon", "next")}
    told = {name: " ".join(each.replace("│", " ").split()) for name, each in told.items()}
    assert "Novel" in told["next"]
    assert "expect, until it" in told["soon"]
    assert "expect, until it" not in told["next"]


def test_a_killed_update_goes_on_when_it_is_repeated(folder: Path, tmp_path: Path, assent: Assent) -> None:
    folder = shutil.copytree(folder, tmp_path / "killed")
    now = said(folder, "u03,*,withdraw")
    words = [folder / "run", "--data", folder / "log.csv", "--wishes", now, "--jobs", "1"]
    before = {file.name: file.read_bytes() for file in (folder / "run").iterdir()}
    assert assent("update", *words, "--out", folder / "whole")[0] == 0
    for label in ("final model", "report"):
        assert killed_at(label, *words, command="update") == -9
        assert not (folder / "run-2" / "manifest.json").exists()
    code, _, err = assent("update", *words)
    assert code == 0, err
    assert differing(open_run(folder / "run-2"), open_run(folder / "whole")) == []
    names = [{file.name for file in (folder / name).iterdir()} for name in ("run-2", "whole")]
    assert names[0] == names[1]
    assert {file.name: file.read_bytes() for file in (folder / "run").iterdir()} == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["update", "run"], "--data: missing"),
        (
            ["update", "run", "--data", "log.csv", "--grade", "prompt", "--keep-calibration"],
            "--grade prompt",
        ),
        (["update", "nothing", "--data", "log.csv"], "no such run folder"),
        (
            ["update", "run", "--data", "log.csv", "--out", "run", "--replace"],
            "the run that is updated, which stays until the new one is whole; accepted: another folder",
        ),
        (
            ["train", "run", "--out", "nothing", "--method", "value"],
            "--values: accepted: a column, with --method",
        ),
        (
            ["train", "run", "--out", "nothing", "--set", "model=mf"],
            "--set model: large logs are trained with",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(
    folder: Path, assent: Assent, arguments: list[str], message: str
) -> None:
    placed = [folder / each if each in ("run", "nothing", "log.csv") else each for each in arguments]
    code, _, err = assent(*placed)
    assert code == 2
    assert message in err


@pytest.mark.parametrize("grade", ["exact", "prompt"])
def test_what_a_run_was_told_is_not_forgotten(
    grade: str, folder: Path, tmp_path: Path, assent: Assent
) -> None:
    folder = shutil.copytree(folder, tmp_path / "told")
    log = pl.read_csv(folder / "log.csv")
    mine = log.filter(pl.col("user") == "u05")["item"].to_list()
    now = said(folder, "u03,*,withdraw", f"u05,{mine[0]},1", f"u05,{mine[1]},withdraw")
    update = ["update", "--data", folder / "log.csv", "--jobs", "1", "--grade", grade]
    assert assent(*update, folder / "run", "--wishes", now, "--out", folder / "first")[0] == 0
    then = [*update, folder / "first", "--out", folder / "second"]
    code, _, err = assent(*then)
    assert code == 2, err
    assert "Traceback" not in err
    for words in (
        "1 interaction said to be never would be used again", "up to 1 withdrawn interaction and",
        "up to 1 withdrawn person would be back", "--wishes FILE", "--wishes-in-log",
    ):  # fmt: skip
        assert words in err
    assert not (folder / "second").exists(), err
    others = said(folder, f"u05,{mine[0]},1", f"u05,{mine[2]},withdraw", "u07,*,withdraw")
    code, _, err = assent(*then, "--wishes", others)
    assert code == 2
    assert "up to 1 withdrawn interaction and up to 1 withdrawn person would be back" in err
    whole = said(
        folder, "u03,*,withdraw", f"u05,{mine[0]},0.9", f"u05,{mine[1]},withdraw", f"u05,{mine[2]},withdraw"
    )
    code, _, err = assent(*then, "--wishes", whole)
    assert code == 0, err
    noted = (folder / "second" / "words.json").read_text()
    assert json.loads(noted) == {"source": "file:now.csv", "rows": 2, "people": 1}
    code, _, err = assent(*update, folder / "second", "--wishes-in-log", "--out", folder / "third")
    assert code == 0, err
    assert not (folder / "third" / "words.json").exists()
    assert "u03" in open_run(folder / "third").selection["user"]


def test_words_are_kept_apart_from_a_source_of_the_same_name(
    folder: Path, tmp_path: Path, assent: Assent
) -> None:
    folder = shutil.copytree(folder, tmp_path / "named")
    log = pl.read_csv(folder / "log.csv")
    (folder / "first").mkdir()
    base = folder / "first" / "now.csv"
    log.select("user", "item", "unwillingness").write_csv(base)
    mine = log.filter(pl.col("user") == "u05")["item"].to_list()
    reading = ["--data", folder / "log.csv", "--unwillingness", f"file:{base}", "--jobs", "1"]
    update = ["update", *reading, "--grade", "prompt", "--wishes"]
    first = said(folder, "u03,*,withdraw", f"u05,{mine[0]},1")
    assert assent(*update, first, folder / "run", "--out", folder / "second")[0] == 0
    less = said(folder, f"u05,{mine[1]},1")
    code, _, err = assent(*update, less, folder / "second", "--out", folder / "third")
    assert code == 2
    assert "1 interaction said to be never would be used again, up to 1 withdrawn person would be back" in err
