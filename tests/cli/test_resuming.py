"""A run that was killed goes on; one that failed at once stands in nobody's way."""

import resource
import shutil
from pathlib import Path

import pytest

from assent.cli import fit_commands
from assent.runs.folder import FILES, OPTIONAL
from assent.runs.manifest import MANIFEST, RunFiles
from tests.cli.conftest import PRICED
from tests.cli.processes import killed_at
from tests.conftest import Assent
from tests.small import Listener

DIVERGING = ["--model", "mf", "--tune", "none", "--set", "training.learning_rate=1e30"]


@pytest.fixture(scope="module")
def killed(log_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was killed while its page was drawn."""
    out = tmp_path_factory.mktemp("killed") / "run"
    assert killed_at("report", log_file, "--out", out, *PRICED) == -9
    assert not (out / MANIFEST).exists()
    return out


@pytest.fixture
def out(killed: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(killed, tmp_path / "run"))


def test_a_run_killed_while_its_page_is_drawn_trains_nothing_twice(
    log_file: Path, run_folder: Path, out: Path, assent: Assent, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = Listener(), Listener()
    for folder, seen in ((out.with_name("new"), first), (out, second)):
        monkeypatch.setattr(fit_commands, "watcher", lambda seen=seen: seen)
        assert assent("fit", log_file, "--out", folder, *PRICED)[0] == 0
    trainings = [*(f"fold {fold}" for fold in (1, 2, 3)), "worth at 2", "final model"]
    assert {*trainings, "tuning strength"} <= set(first.labels)
    assert not {*second.labels} & {*trainings}
    assert not [label for label in second.labels if label.startswith(("trial", "tuning"))]
    assert not (out / ".work").exists()
    for name in ("model.safetensors", "model.json", "selection.parquet", "settings.json"):
        assert (out / name).read_bytes() == (run_folder / name).read_bytes()


def test_a_damaged_model_is_trained_again(
    log_file: Path, run_folder: Path, out: Path, assent: Assent
) -> None:
    (out / "model.safetensors").write_bytes(b"half")
    for entry in (out / ".work").glob("*.safetensors"):
        entry.write_bytes(b"half")
    assert assent("fit", log_file, "--out", out, *PRICED)[0] == 0
    assert (out / "model.safetensors").read_bytes() == (run_folder / "model.safetensors").read_bytes()


def test_what_knows_withheld_rows_is_gone_before_the_run_is_finished(
    log_file: Path, run_folder: Path, out: Path, assent: Assent, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", str(out / MANIFEST))

    with monkeypatch.context() as changed:
        changed.setattr(RunFiles, "finish", full)
        code, _, err = assent("fit", log_file, "--out", out, *PRICED)
    assert code == 2
    assert "manifest.json: No space left" in err
    assert {path.name for path in out.iterdir()} == {*FILES} - {*OPTIONAL, MANIFEST}
    assert assent("fit", log_file, "--out", out, *PRICED)[0] == 0
    assert (out / "model.safetensors").read_bytes() == (run_folder / "model.safetensors").read_bytes()


def test_a_page_that_cannot_be_written_costs_no_training(
    log_file: Path, run_folder: Path, tmp_path: Path, assent: Assent, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A limit on the size of files lets all be written but the page, which is the largest.
    out, before = tmp_path / "run", resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, ((run_folder / "report.html").stat().st_size - 1, before[1]))
    try:
        code, _, err = assent("fit", log_file, "--out", out, *PRICED)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert code == 2
    assert "report.html: File too large" in err
    missing = {*OPTIONAL, "report.html", MANIFEST}
    assert {path.name for path in out.iterdir()} == set(FILES) - missing | {".work"}
    again = Listener()
    monkeypatch.setattr(fit_commands, "watcher", lambda: again)
    assert assent("fit", log_file, "--out", out, *PRICED)[0] == 0
    assert not {"final model", "all", "nothing"} & set(again.labels)
    assert (out / "model.safetensors").read_bytes() == (run_folder / "model.safetensors").read_bytes()


@pytest.mark.parametrize("there", [False, True], ids=["new folder", "empty folder"])
def test_a_fit_that_fails_at_once_leaves_nothing(
    there: bool, log_file: Path, tmp_path: Path, assent: Assent
) -> None:
    out = tmp_path / "runs" / "run"
    if there:
        out.mkdir(parents=True)
    code, _, err = assent(
        "fit", log_file, "--out", out, *PRICED, *DIVERGING, "--set", "training.batch_size=8"
    )
    assert code == 2
    assert "at epoch 1, batch 2; lower the setting training.learning_rate" in err
    assert [path for path in tmp_path.rglob("*") if path not in (out, out.parent)] == []
    assert out.exists() is there
    assert out.parent.exists() is there
    assert assent("fit", log_file, "--out", out, *PRICED)[0] == 0


def test_a_fit_whose_loss_is_not_finite_keeps_the_last_good_state(
    log_file: Path, tmp_path: Path, assent: Assent
) -> None:
    out = tmp_path / "run"
    options = [*PRICED, *DIVERGING, "--set", "training.batch_size=100000"]
    for _ in range(2):
        code, _, err = assent("fit", log_file, "--out", out, *options)
        assert code == 2
        assert "at epoch 2, batch 1" in err
        (state,) = (out / ".work").glob("*.progress")
        assert f"the state after epoch 1 is kept in {state}" in err
    code, _, err = assent("fit", log_file, "--out", out, *PRICED)
    assert code == 2
    assert "choose another folder, or --replace" in err
    assert assent("fit", log_file, "--out", out, *PRICED, "--replace")[0] == 0
    assert not state.exists()


def test_a_fit_that_fails_with_something_to_go_on_from_keeps_it(
    log_file: Path, out: Path, assent: Assent
) -> None:
    before = sorted(path.name for path in (out / ".work").iterdir())
    (out / "report.html").mkdir()
    code, _, _ = assent("fit", log_file, "--out", out, *PRICED)
    assert code == 2
    assert sorted(path.name for path in (out / ".work").iterdir()) == before


def test_what_killed_runs_had_half_written_is_swept(log_file: Path, tmp_path: Path, assent: Assent) -> None:
    out = tmp_path / "run"
    out.mkdir()
    for name in FILES:
        (out / f".{name}.abc_1234.tmp").write_text("half")
    assert assent("fit", log_file, "--out", out, *PRICED)[0] == 0
    assert {path.name for path in out.iterdir()} == {*FILES} - {*OPTIONAL}


def test_files_of_others_are_not_swept(log_file: Path, tmp_path: Path, assent: Assent) -> None:
    for name in (".photo.jpg.abc_1234.tmp", ".settings.json.tmp", "settings.json.abc_1234.tmp"):
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / name).write_text("kept")
        code, _, err = assent("fit", log_file, "--out", tmp_path / "mine", *PRICED)
        assert code == 2
        assert "is no run folder" in err
        (tmp_path / "mine" / name).unlink()
        (tmp_path / "mine").rmdir()
