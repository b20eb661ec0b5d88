"""Changes of mind from the command line: update in both grades, history, forget."""

import json
import shutil
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from assent.cli.app import app
from tests.cli.conftest import QUICK
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
    assert "Grade: prompt" in out
    code, out, err = assent(*update, "--json", folder / "update.json")
    assert code == 0, err
    for words in ("Grade: exact", "1 person withdrawn altogether", "assent forget"):
        assert words in out
    [told] = json.loads((folder / "update.json").read_text())
    assert told["grade"] == "exact"
    _, mine, _ = assent("history", folder / "run-2", "--user", "u05")
    assert "changed mind" in mine
    assert "never" in mine
    assert assent("history", folder / "run-2", "--user", "u03")[0] == 2
    assert "run-2" in assent("history", folder / "run-2")[1]
    assert assent("forget", folder / "soon", "--yes")[0] == 2
    assert (folder / "run").exists()
    code, out, err = assent("forget", folder / "run-2", "--yes")
    assert code == 0, err
    assert "found in 0" in out
    assert not (folder / "run").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["update", "run"], "--data: missing"),
        (
            ["update", "run", "--data", "log.csv", "--grade", "prompt", "--keep-calibration"],
            "--grade prompt",
        ),
        (["update", "nothing", "--data", "log.csv"], "no such run folder"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    folder: Path, assent: Assent, arguments: list[str], message: str
) -> None:
    placed = [folder / each if each in ("run", "nothing", "log.csv") else each for each in arguments]
    code, _, err = assent(*placed)
    assert code == 2
    assert message in err
