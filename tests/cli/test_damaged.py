"""Whatever was done to a run folder: a line that names it, nothing executed, nothing outside touched."""

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from assent.runs.folder import FILES, MARKER, OPTIONAL, REPLACED, REPORT, WORK
from assent.runs.manifest import MANIFEST
from assent.support.files import read_json, write_json
from tests.cli.conftest import PRICED, forged, forged_table
from tests.cli.processes import killed_at
from tests.conftest import Assent
from tests.small import rehashed

Damage = Callable[[Path], object]
NAMES = [name for name in FILES if name not in OPTIONAL]
EVIL = "from pathlib import Path\nPath(__file__).with_suffix('.ran').touch()\nclass Model: pass\n"


def edited(name: str, **changes: object) -> Damage:
    """A JSON object with other values, and a manifest that has its hash."""

    def damage(run: Path) -> None:
        about = json.loads((run / name).read_bytes())
        forged(run, name, json.dumps(about | changes).encode())

    return damage


def replaced(name: str, content: bytes) -> Damage:
    return lambda run: forged(run, name, content)


def table(change: Callable[[pl.DataFrame], pl.DataFrame], name: str = "selection.parquet") -> Damage:
    return lambda run: forged_table(run, name, change(pl.read_parquet(run / name)))


def flipped(run: Path) -> None:
    """Somebody's decisions, turned round."""
    found = pl.read_parquet(run / "selection.parquet")
    found.with_columns(~pl.col("disclosed")).write_parquet(run / "selection.parquet")


def each(what: str, damage: Callable[[Path], object], names: Sequence[str] = NAMES) -> dict[str, Damage]:
    """The same damage to each file."""

    def to(name: str) -> Damage:
        return lambda run: damage(run / name)

    return {f"{name}: {what}": to(name) for name in names}


def in_place_of(file: Path) -> None:
    file.unlink()
    file.mkdir()


def pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def linked(file: Path) -> None:
    outside = file.parents[1] / "outside" / file.name
    file.rename(outside)
    file.symlink_to(outside)


SIZES = ("users", "items", "rows", "negatives")
JSON = [name for name in NAMES if name.endswith("json") and name != MANIFEST]
DAMAGES: dict[str, Damage] = {
    **each("missing", Path.unlink),
    **each("empty", lambda file: file.write_bytes(b"")),
    **each("cut", lambda file: os.truncate(file, file.stat().st_size // 2)),
    **each("random", lambda file: file.write_bytes(bytes(range(256)) * 9)),
    **each("a link", linked),
    **each("a folder", in_place_of),
    **each("a pipe", pipe),
    **each("deep", lambda file: forged(file.parent, file.name, b"[" * 10**5), JSON),
    **each("of another type", lambda file: forged(file.parent, file.name, b'["text"]'), JSON),
    **each("edited", lambda file: file.write_bytes(file.read_bytes() + b" "), [*NAMES[:-1]]),
    "metrics.json: not utf-8": replaced("metrics.json", b'"\xff\xfe"'),
    "metrics.json: NaN": replaced("metrics.json", b"[NaN]"),
    "metrics.json: without figures": replaced("metrics.json", b'[{"method": "worth"}]'),
    "metrics.json: none": replaced("metrics.json", b"[]"),
    "certificate.json: too large a number": replaced("certificate.json", b'{"true_reward": 1e999}'),
    "certificate.json: half a character": replaced("certificate.json", b'{"objective": "\\ud800"}'),
    "settings.json: another format": edited(MARKER, format=99),
    "settings.json: a setting less": lambda run: forged(
        run, MARKER, (run / MARKER).read_bytes().replace(b'"rest"', b'"test"')
    ),
    "settings.json: no price": edited(MARKER, price="dear"),
    "manifest.json: another format": lambda run: write_json(run / MANIFEST, {"format": 99}),
    "manifest.json: of a web app": lambda run: write_json(run / MANIFEST, {"name": "app", "icons": []}),
    "manifest.json: bare": lambda run: write_json(run / MANIFEST, {"format": 1}),
    "selection.parquet: turned round": flipped,
    "selection.parquet: a column less": table(lambda found: found.drop("reason")),
    "selection.parquet: text": table(lambda found: found.with_columns(pl.col("value").cast(pl.String))),
    "selection.parquet: numbers": table(lambda found: found.with_columns(user=pl.lit(7))),
    "selection.parquet: a gap": table(lambda found: found.with_columns(disclosed=pl.lit(None, pl.Boolean))),
    "selection.parquet: above 1": table(lambda found: found.with_columns(unwillingness=pl.lit(2.0))),
    "selection.parquet: moody": table(lambda found: found.with_columns(reason=pl.lit("mood"))),
    "held_out.parquet: a column less": table(lambda found: found.drop("held_out_for"), "held_out.parquet"),
    "model.json: other shapes": edited("model.json", settings={"dimension": 5}),
    "model.json: huge shapes": edited("model.json", settings={"dimension": 10**12}),
    "model.json: other sizes": edited("model.json", sizes=dict.fromkeys(SIZES, 1)),
    "model.json: names code": edited("model.json", model="evil:Model"),
    "model.json: names code without a manifest that fits": lambda run: write_json(
        run / "model.json", read_json(run / "model.json") | {"model": "evil:Model"}
    ),
    "model.json: ids that are numbers": edited("model.json", user_ids=[1, 2, 3]),
    "model.json: ids in disorder": edited("model.json", user_ids=["b", "a"]),
    "model.json: no settings": edited("model.json", settings=None),
}


@pytest.fixture
def run(run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of a run, beside a folder that is none of its business, where evil.py lies in the way."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "evil.py").write_text(EVIL)
    monkeypatch.chdir(tmp_path)
    path = list(sys.path)
    yield Path(shutil.copytree(run_folder, tmp_path / "run"))
    sys.path[:] = path
    sys.modules.pop("evil", None)
    assert not (tmp_path / "evil.ran").exists()


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


UNREAD = {
    "explain": ("tuning", "quality", "report", "model"),
    "recommend": ("tuning", "quality", "report"),
}
"""What commands do not read."""


@pytest.mark.parametrize("damage", DAMAGES)
def test_every_command_says_what_is_wrong(damage: str, run: Path, run_folder: Path, assent: Assent) -> None:
    user = pl.read_parquet(run_folder / "selection.parquet")["user"][0]
    DAMAGES[damage](run)
    outside = contents(run.parent / "outside")
    file = damage.partition(":")[0]
    code, out, err = assent("verify", run)
    assert code == 1
    assert any(line.startswith(f"{file}: ") for line in out.splitlines())
    assert len(err.splitlines()) == 3  # what was not checked
    for command, unread in UNREAD.items():
        code, out, err = assent(command, run, "--user", user)
        if file.split(".")[0] in unread:
            assert code == 0
        else:
            assert (code, out, err.count("\n")) == (2, "", 1), err
            assert str(run) in err
    assert contents(run.parent / "outside") == outside


@pytest.mark.parametrize("damage", sorted(DAMAGES.keys() - {"manifest.json: missing"}))
def test_a_fit_goes_on_in_no_damaged_run(damage: str, run: Path, log_file: Path, assent: Assent) -> None:
    """Without a manifest the run is unfinished, and is written anew."""
    DAMAGES[damage](run)
    before = contents(run.parent)
    code, out, err = assent("fit", log_file, "--out", run, *PRICED)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert contents(run.parent) == before


@pytest.mark.parametrize("name", [*NAMES, WORK, REPLACED, ".assent-lock", ".moving"])
@pytest.mark.parametrize("options", [[], ["--replace"]], ids=["again", "replace"])
def test_no_link_in_a_run_folder_is_followed(
    name: str, options: list[str], run: Path, log_file: Path, assent: Assent
) -> None:
    outside = run.parent / "outside"
    (outside / f"{'0' * 32}.json").write_text("kept")
    (outside / MARKER).write_text("kept")
    (run / name).unlink(missing_ok=True)
    (run / name).symlink_to(outside / MARKER if name in (*NAMES, ".assent-lock") else outside)
    before, inside = contents(outside), contents(run)
    code, out, err = assent("fit", log_file, "--out", run, *PRICED, *options)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"{run / name}: a symbolic link; accepted: " in err
    assert (contents(outside), contents(run)) == (before, inside)


@pytest.mark.parametrize("damage", ["selection.parquet: cut", "manifest.json: missing"])
def test_a_damaged_run_can_be_replaced(damage: str, run: Path, log_file: Path, assent: Assent) -> None:
    DAMAGES[damage](run)
    assert assent("fit", log_file, "--out", run, *PRICED, "--replace")[0] == 0
    assert assent("verify", run)[0] == 0


def test_a_replacement_leaves_files_of_others(run: Path, log_file: Path, assent: Assent) -> None:
    """The log itself may lie in the folder."""
    log = Path(shutil.copy(log_file, run / "log.csv"))
    (run / "figures").mkdir()
    (run / "figures" / "photo.jpg").write_text("mine")
    command = ["fit", log, "--out", run, *PRICED, "--method", "random"]
    assert assent(*command)[0] == 2
    assert assent(*command, "--replace")[0] == 0
    assert (run / "figures" / "photo.jpg").read_text() == "mine"
    assert log.read_bytes() == log_file.read_bytes()
    assert json.loads((run / MARKER).read_text())["method"] == "random"
    assert {path.name for path in run.iterdir()} == {*NAMES, "log.csv", "figures"}


@pytest.mark.parametrize("place", [WORK, REPLACED])
def test_files_of_others_where_fits_delete_are_told(
    place: str, run: Path, log_file: Path, assent: Assent
) -> None:
    (run / place).mkdir()
    (run / place / "photo.jpg").write_text("mine")
    before = contents(run)
    code, out, err = assent("fit", log_file, "--out", run, *PRICED, "--replace")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"{run / place / 'photo.jpg'}: no file of a run; move it" in err
    assert contents(run) == before


def test_the_run_that_is_replaced_is_there_until_the_page_of_the_other_is_drawn(
    run: Path, run_folder: Path, log_file: Path, assent: Assent
) -> None:
    command = [log_file, "--out", run, *PRICED, "--method", "random"]
    assert killed_at("report", *command, "--replace") == -9
    assert contents(run / REPLACED) == contents(run_folder)
    assert assent("verify", run / REPLACED)[0] == 0
    assert assent("fit", *command)[0] == 0
    assert not (run / REPLACED).exists()


def test_what_lies_in_an_unfinished_run_is_written_anew(
    run: Path, run_folder: Path, log_file: Path, assent: Assent
) -> None:
    (run / MANIFEST).unlink()
    for name in ("model.safetensors", "model.json", "selection.parquet", "metrics.json", REPORT):
        (run / name).write_text("of somebody else")
    assert assent("fit", log_file, "--out", run, *PRICED)[0] == 0
    for name in ("model.safetensors", "model.json", "selection.parquet"):
        assert (run / name).read_bytes() == (run_folder / name).read_bytes()


@pytest.fixture(scope="module")
def killed(log_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was killed while its page was drawn."""
    out = tmp_path_factory.mktemp("killed") / "run"
    assert killed_at("report", log_file, "--out", out, *PRICED) == -9
    return out


def models_in(work: Path) -> dict[Path, dict[str, Any]]:
    """What a store says of its models, by file."""
    found = {file: read_json(file) for file in work.glob("*.json")}
    return {file: about for file, about in found.items() if about["key"]["kind"] == "training"}


def test_another_model_in_the_work_of_an_unfinished_run_is_refused(
    killed: Path, log_file: Path, tmp_path: Path, assent: Assent
) -> None:
    out = Path(shutil.copytree(killed, tmp_path / "run"))
    for file in models_in(out / WORK):
        arrays = file.with_suffix(".safetensors")
        content = bytearray(arrays.read_bytes())
        content[-1] ^= 1
        arrays.write_bytes(content)
    code, printed, err = assent("fit", log_file, "--out", out, *PRICED)
    *phases, last = err.splitlines()
    assert (code, printed) == (2, "")
    assert "not what was put there" in last
    assert all(": done after " in line for line in phases)
    assert not (out / MANIFEST).exists()


def test_code_that_the_work_of_a_run_names_is_not_run(
    killed: Path, run: Path, log_file: Path, assent: Assent
) -> None:
    """Not even where all hashes fit."""
    out = Path(shutil.copytree(killed, run.parent / "killed"))
    for file, about in models_in(out / WORK).items():
        about["facts"]["model"] = "evil:Model"
        file.write_text(rehashed(about))
    code, _, err = assent("fit", log_file, "--out", out, *PRICED)
    assert code == 2
    assert "made by 'evil:Model', and not by ials" in err


@pytest.mark.parametrize("name", NAMES)
def test_a_file_that_may_not_be_read_is_told(
    name: str, run: Path, assent: Assent, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open

    def denied(path: Any, *args: Any, **kwargs: Any) -> int:  # root would be let in
        if Path(path).name == name:
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *args, **kwargs)

    monkeypatch.setattr(os, "open", denied)
    code, out, _ = assent("verify", run)
    assert code == 1
    assert f"{name}: Permission denied" in out


def test_what_a_run_writes_is_for_its_user_alone(run_folder: Path, run: Path, assent: Assent) -> None:
    assert stat.S_IMODE(run_folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in run_folder.iterdir()} == {0o600}
    user = pl.read_parquet(run / "selection.parquet")["user"][0]
    for command in ("explain", "recommend"):
        assert assent(command, run, "--user", user, "--json", f"{command}.json")[0] == 0
        assert stat.S_IMODE(Path(f"{command}.json").stat().st_mode) == 0o600


SHADOWS = ("polars", "numpy", "torch", "selectors", "safetensors", "rich", "evil")


@pytest.mark.parametrize("command", ["recommend", "verify"])
def test_nothing_is_imported_from_the_current_directory(command: str, run: Path) -> None:
    user = pl.read_parquet(run / "selection.parquet")["user"][0]
    edited("model.json", model="evil:Model")(run)
    for name in SHADOWS:
        (run.parent / f"{name}.py").write_text(EVIL)
    words = [command, "run", *(["--user", user] if command == "recommend" else [])]
    done = subprocess.run([sys.executable, "-m", "assent", *words], capture_output=True, check=False)
    assert done.returncode == (2 if command == "recommend" else 1)
    assert b"made by 'evil:Model'" in done.stdout + done.stderr
    assert not list(run.parent.glob("*.ran"))


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A folder with a short name: the sockets of workers lie in it."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def test_a_signal_leaves_no_model_of_withheld_rows(log_file: Path, tmp_path: Path, temporary: Path) -> None:
    """Nor do the workers import anything from the current directory."""
    for name in SHADOWS:
        (tmp_path / f"{name}.py").write_text(EVIL)
    quick = ["--set", "training.epochs=2", "--negatives", "20", "--seeds", "40", "--jobs", "2"]
    process = subprocess.Popen(
        [sys.executable, "-m", "assent", "frontier", str(log_file), *quick],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while process.poll() is None and not list(temporary.glob("*/*.safetensors")):
        time.sleep(0.01)
    process.terminate()
    assert process.wait() == 128 + signal.SIGTERM
    assert not [path for path in temporary.iterdir() if path.name.startswith("assent")]
    assert not list(tmp_path.glob("*.ran"))
