"""A recommender of the user's own, in a file of the current folder: `--model mine:Mine`."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from assent.influence.inverse import Estimator
from assent.runs.folder import open_run
from assent.support.errors import AssentError
from tests.cli.conftest import records
from tests.conftest import Assent

MINE = """
from pydantic import Field
from torch.nn import functional
from assent.models import MF, MFSettings


class MineSettings(MFSettings):
    dimension: int = Field(6, ge=1, description="length of the embeddings")
    bonus: float = Field(0.5, ge=0, description="added to every score")


class Mine(MF):
    name = "mine"
    Settings = MineSettings
    defaults = {"training": {"epochs": 3}}

    def forward(self, users, items, prepared=None):
        logits, penalties = super().forward(users, items)
        return logits + self.settings.bonus, penalties

    def score_all(self, users, prepared=None):
        return super().score_all(users) + self.settings.bonus


class Ranking(Mine):
    name = "ranking"

    def losses(self, users, items, prepared):
        logits, penalties = self.forward(users, items, prepared)
        return functional.softplus(logits - logits[:, :1]) + penalties


class Broken(Mine):
    name = "broken"

    def score_all(self, users, prepared=None):
        return super().score_all(users)[:, :-1]


class Demanding(Mine):
    class Settings(MFSettings):
        depth: int
"""
SETTINGS = ["--set", "model_settings.bonus=0.25", "--negatives", "20", "--jobs", "1", "--tune", "none"]


@pytest.fixture(scope="module")
def own_run(log_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of `assent fit` with a model of its own folder, which holds mine.py and the run."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "mine.py").write_text(MINE)
    command = [str(Path(sys.executable).with_name("assent")), "fit", str(log_file), "--out", "run"]
    subprocess.run(
        [*command, "--model", "mine:Mine", *SETTINGS],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    return folder / "run"


@pytest.fixture
def unimported() -> Iterator[None]:
    """Whatever is imported from a folder is forgotten afterwards."""
    path = list(sys.path)
    yield
    sys.path[:] = path
    sys.modules.pop("mine", None)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unimported: None) -> Path:
    """A folder with mine.py, where the commands are given."""
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_fit_keeps_the_settings_of_the_model_with_the_run(own_run: Path) -> None:
    kept = json.loads((own_run / "settings.json").read_text())
    assert kept["model"] == "mine:Mine"
    assert kept["model_settings"] == {"dimension": 6, "strength": 0.65, "initial_scale": 0.1, "bonus": 0.25}
    assert kept["training"]["epochs"] == 3
    about = json.loads((own_run / "model.json").read_text())
    assert (about["model"], about["settings"]) == ("mine:Mine", kept["model_settings"])
    assert {record["model"] for record in records(own_run / "metrics.json")} == {"mine:Mine"}


def test_the_run_answers_where_the_model_is(
    own_run: Path, tmp_path: Path, assent: Assent, monkeypatch: pytest.MonkeyPatch, unimported: None
) -> None:
    user = pl.read_parquet(own_run / "selection.parquet")["user"][0]
    monkeypatch.chdir(own_run.parent)
    asked = ["recommend", "run", "--user", user, "--json", tmp_path / "r.json"]
    assert assent(*asked, "--model", "mine:Mine")[0] == 0
    assert len(records(tmp_path / "r.json")) == 10
    opened = open_run(own_run, "mine:Mine").trained.model
    assert type(opened).__name__ == "Mine"
    assert opened.settings.bonus == 0.25
    assert sys.path.count(str(own_run.parent)) == 1


def test_the_run_says_what_it_lacks_where_the_model_is_not(
    own_run: Path, tmp_path: Path, assent: Assent, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = pl.read_parquet(own_run / "selection.parquet")["user"][0]
    monkeypatch.chdir(tmp_path)
    assert assent("explain", own_run, "--user", user)[0] == 0  # it needs no model
    code, out, err = assent("recommend", own_run, "--user", user, "--model", "mine:Mine")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "model.json: model mine:Mine: No module named 'mine'; accepted: " in err
    assert "current directory" in err
    with pytest.raises(AssentError, match="No module named 'mine'"):
        _ = open_run(own_run, "mine:Mine").trained


def test_a_run_imports_no_code_that_was_not_asked_for(
    own_run: Path, assent: Assent, monkeypatch: pytest.MonkeyPatch, unimported: None
) -> None:
    user = pl.read_parquet(own_run / "selection.parquet")["user"][0]
    monkeypatch.chdir(own_run.parent)
    code, out, err = assent("recommend", "run", "--user", user)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "made by 'mine:Mine', which is no model of assent's; accepted: --model package.module:Class" in err
    assert "mine" not in sys.modules
    code, out, err = assent("recommend", "run", "--user", user, "--model", "mine:Ranking")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "made by 'mine:Mine', and not by mine:Ranking" in err


@pytest.mark.usefixtures("here")
def test_frontier_takes_it(log_file: Path, assent: Assent) -> None:
    own = ["--model", "mine:Mine", *SETTINGS]
    code, _, err = assent(
        "frontier", log_file, *own, "--points", 0.5, "--seeds", 1, "--methods", "random", "--json", "f.json"
    )
    assert code == 0, err
    assert {record["model"] for record in records(Path("f.json"))} == {"mine:Mine"}


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(("name", "lacks"), [("Mine", set()), ("Ranking", {"gauss-newton"})])
def test_lds_takes_it_with_the_estimators_that_it_has(
    name: str, lacks: set[str], log_file: Path, assent: Assent
) -> None:
    few = ["--model", f"mine:{name}", *SETTINGS, "--selections", 10, "--truth-seeds", 1, "--json", "l.json"]
    code, _, err = assent("lds", log_file, *few)
    assert code == 0, err
    assert {each.value for each in Estimator} - {
        each["estimator"] for each in records(Path("l.json"))
    } == lacks


@pytest.mark.usefixtures("here")
def test_settings_lists_those_of_the_model(assent: Assent) -> None:
    code, out, _ = assent("settings", "--model", "mine:Mine", "--json", "s.json")
    assert code == 0
    assert "added to every score" in out
    listed = {record["setting"]: record["default"] for record in records(Path("s.json"))}
    assert listed["model_settings.bonus"] == "0.5"
    assert listed["model_settings.dimension"] == "6"
    assert listed["training.epochs"] == "3"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["mine:Mine", "--set", "model_settings.bonus=-1"], "setting model_settings.bonus: Input should be"),
        (
            ["mine:Mine", "--set", "model_settings.bonus=high"],
            "setting model_settings.bonus: Input should be",
        ),
        (["mine:Mine", "--set", "model_settings.colour=red"], "unknown setting model_settings.colour"),
        (["mine:Mine", "--set", "model_settings=red"], "setting model_settings: Input should be"),
        (["mine:Demanding"], "setting model_settings.depth: Field required"),
        (["mine:Other"], "model mine:Other: module 'mine' has no attribute 'Other'"),
        (["yours:Mine"], "model yours:Mine: No module named 'yours'"),
        (["mine:Broken"], "model broken: score_all gave scores of shape"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
@pytest.mark.usefixtures("here")
def test_what_is_wrong_is_one_line(arguments: list[str], named: str, log_file: Path, assent: Assent) -> None:
    command = ["fit", log_file, "--out", "run", "--jobs", 1, "--negatives", 20]
    code, out, err = assent(*command, "--model", *arguments)
    assert (code, out) == (2, "")
    assert err.strip().splitlines()[-1].startswith(f"assent: {named}")


@pytest.mark.parametrize(
    "text", ["import absent_module", "1 / 0", "class"], ids=["import", "error", "syntax"]
)
def test_a_file_that_cannot_be_imported_is_one_line(text: str, here: Path, assent: Assent) -> None:
    (here / "mine.py").write_text(text)
    code, out, err = assent("settings", "--model", "mine:Mine")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "model mine:Mine: " in err
    assert any(part in err for part in ("absent_module", "ZeroDivisionError", "SyntaxError"))
