"""Whatever is wrong with the input: one line that names it, exit code 2, nothing half-written."""

import resource
from pathlib import Path

import polars as pl
import pytest

from assent.cli import fit_commands
from assent.data.roles import GUESSES
from assent.runs.folder import FORMAT
from assent.runs.plan import RunPlan
from assent.support.errors import AssentError
from tests.cli.conftest import QUICK
from tests.conftest import Assent

LOG = "user,item,unwillingness\n" + "".join(
    f"u{u},i{(u + k) % 9},0.{k}\n" for u in range(9) for k in range(5)
)


def broken(text: str, change: tuple[str, str]) -> str:
    assert change[0] in text
    return text.replace(*change, 1)


CASES = {
    "no item column": (broken(LOG, ("item", "thing")), ["--columns item=NAME", "'thing'", *GUESSES["item"]]),
    "no user column": (broken(LOG, ("user", "who")), ["--columns user=NAME", "'who'", *GUESSES["user"]]),
    "NaN": (broken(LOG, ("u0,i0,0.0", "u0,i0,nan")), ["row 1", "unwillingness", "0"]),
    "out of range": (broken(LOG, ("u0,i1,0.1", "u0,i1,1.5")), ["row 2", "1.5"]),
    "not a number": (broken(LOG, ("u0,i1,0.1", "u0,i1,much")), ["row 2", "much"]),
    "missing value": (broken(LOG, ("u0,i1,0.1", "u0,i1,")), ["row 2"]),
    "empty": ("", ["empty"]),
    "header only": ("user,item,unwillingness\n", ["no"]),
    "duplicate": (LOG + "u0,i0,0.3\n", ["rows 1 and 46", "--duplicates"]),
    "too short": ("user,item,unwillingness\na,b,0.1\na,c,0.2\nd,b,0.1\n", ["no user has more than 2"]),
    "all never": (LOG.replace(",0.", ",1."), []),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_logs(case: str, tmp_path: Path, assent: Assent) -> None:
    text, named = CASES[case]
    (tmp_path / "log.csv").write_text(text)
    code, out, err = assent("fit", tmp_path / "log.csv", "--out", tmp_path / "run", *QUICK, "--negatives", 3)
    assert (code, out) == (2, "")
    assert err.strip().count("\n") == 0
    assert all(part in err for part in named)
    assert "log" in err
    assert not (tmp_path / "run").exists()


def test_ids_of_any_type(tmp_path: Path, assent: Assent) -> None:
    rows = [(u, k) for u in range(9) for k in range(5)]
    table = pl.DataFrame({"user": [u for u, _ in rows], "item": [f"é {(u + k) % 9}" for u, k in rows]})
    table.write_parquet(tmp_path / "log.parquet")
    how = [*QUICK, "--negatives", 3, "--unwillingness", "random"]
    code, _, _ = assent("fit", tmp_path / "log.parquet", "--out", tmp_path / "run", *how)
    assert code == 0
    assert assent("explain", tmp_path / "run", "--user", "3")[0] == 0


def test_truncated_parquet(tmp_path: Path, assent: Assent) -> None:
    pl.DataFrame({"user": ["a"] * 99, "item": list(range(99))}).write_parquet(tmp_path / "log.parquet")
    whole = (tmp_path / "log.parquet").read_bytes()
    (tmp_path / "log.parquet").write_bytes(whole[: len(whole) // 2])
    code, _, err = assent("data", "describe", tmp_path / "log.parquet")
    assert code == 2
    assert "not a readable parquet file" in err


def test_nobody_is_explained(run_folder: Path, assent: Assent) -> None:
    code, _, err = assent("explain", run_folder, "--user", "nobody")
    assert (code, err.count("\n")) == (2, 1)
    assert "--user nobody: not in this run" in err


@pytest.mark.parametrize("command", ["recommend", "explain"])
def test_bad_runs(command: str, run_folder: Path, tmp_path: Path, assent: Assent) -> None:
    assert "no such run folder" in assent(command, tmp_path / "none", "--user", "u")[2]
    other = tmp_path / "other"
    other.mkdir()
    for file in run_folder.iterdir():
        (other / file.name).write_bytes(file.read_bytes())
    settings = (other / "settings.json").read_text()
    (other / "settings.json").write_text(settings.replace(f'"format": {FORMAT}', '"format": 99'))
    code, _, err = assent(command, other, "--user", "u")
    assert code == 2
    assert "format 99" in err
    assert "settings.json" in err


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--method", "magic"], ["--method magic", "ifrqe++"]),
        (["--model", "svd"], ["model svd", "ials, mf", "package.module:Class"]),
        (["--set", "training.epochs=-1"], ["training.epochs", "-1"]),
        (["--set", "training.speed=9"], ["unknown setting training.speed; see assent settings"]),
        (["--set", "epochs"], ["KEY=VALUE"]),
        (["--columns", "owner=x"], ["--columns owner=x", "user"]),
        (["--unwillingness", "mood"], ["mood", "random"]),
        (["--unwillingness", "category:none.yaml"], ["none.yaml"]),
        (["--frontier", "2"], ["--frontier 2"]),
        (["--frontier", "0.5", "--frontier-methods", "foo"], ["--frontier-methods foo", "threshold"]),
        (["--frontier-methods", "random"], ["--frontier-seeds and --frontier-methods: need --frontier"]),
        (["--frontier-seeds", "3"], ["--frontier-seeds and --frontier-methods: need --frontier"]),
        (["--anchors", "1", "--set", "anchors=2"], ["--set anchors=2", "--anchors 1"]),
        (["--anchors", "1", "--set", "ifrqe++.anchors=2"], ["--set ifrqe++.anchors=2", "--anchors 1"]),
        (
            ["--estimator", "lissa", "--set", "influence.estimator=gauss-newton"],
            ["--set influence.estimator=gauss-newton: contradicts --estimator lissa"],
        ),
        (["--anchors", "2"], ["--anchors: not of worth, but of ifrqe++"]),
        (["--method", "ifrqe", "--set", "anchors=2"], ["setting anchors: not of ifrqe, but of ifrqe++"]),
        (["--method", "ifrqe", "--value", "structure"], ["--value: not of ifrqe, but of worth"]),
        (
            ["--method", "threshold", "--estimator", "lissa"],
            ["--estimator: not of threshold, but of worth, ifrqe, ifrqe++"],
        ),
        (["--set", "scratch.selections=2"], ["setting scratch.selections: not of worth, but of scratch"]),
        (["--set", "magic=1"], ["unknown setting magic; see assent settings --model ials"]),
        (["--set", "worth.magic=1"], ["unknown setting magic"]),
        (["--set", "worth.folds=100000"], ["--set folds=100000: accepted: no more than the training rows"]),
        (["--k", "5,5"], ["--k 5,5: accepted: different numbers from 1 on, for instance 5,10,20"]),
        (["--k", "0"], ["--k 0: accepted"]),
        (["--k", "ten"], ["--k ten: accepted"]),
        (["--model", "mf", "--set", "model=neumf"], ["--set model=neumf", "--model mf"]),
        (["--price", "-1"], ["--price -1", "from 0 to 1e+100"]),
        (["--price", "inf"], ["--price inf", "from 0 to 1e+100"]),
        (["--price", "1e308"], ["--price 1e+308", "from 0 to 1e+100"]),
        (["--price", "nan"], ["--price nan", "from 0 to 1e+100"]),
    ],
)
def test_bad_options(
    arguments: list[str], named: list[str], log_file: Path, tmp_path: Path, assent: Assent
) -> None:
    code, _, err = assent("fit", log_file, "--out", tmp_path / "run", *QUICK, *arguments)
    assert (code, err.count("\n")) == (2, 1)
    assert all(part in err for part in named)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["simulate", "--to", "s.csv", "--eta", "nan"],
        ["simulate", "--to", "s.csv", "--noise", "1.5"],
        ["lds", "log.csv", "--rate", "nan"],
        ["frontier", "log.csv", "--price", "inf"],
    ],
    ids=" ".join,
)
def test_numbers_that_are_none(arguments: list[str], assent: Assent) -> None:
    code, out, err = assent(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"{arguments[-2]} {arguments[-1]}: accepted: a number from" in err


@pytest.mark.parametrize("option", ["--budget", "--keep-quality", "--confidence"])
def test_a_percentage_is_no_share(option: str, assent: Assent) -> None:
    code, out, err = assent("fit", "log.csv", "--out", "run", option, "95")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"{option} 95: accepted: a number from 0 to 1 (95 % is 0.95)" in err


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            ["--keep-quality", "0.9", "--budget", "0.5"],
            "--keep-quality: accepted: without --budget and --price",
        ),
        (["--confidence", "0.8"], "--confidence: needs --keep-quality"),
        (["--k", "0"], "--k 0: accepted: different numbers from 1 on"),
    ],
)
def test_what_is_wrong_is_said_before_the_log_is_read(
    given: list[str], message: str, tmp_path: Path, assent: Assent
) -> None:
    code, out, err = assent("fit", tmp_path / "missing.csv", "--out", tmp_path / "run", *given)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err


def test_an_option_that_is_given_twice_is_refused(tmp_path: Path, assent: Assent) -> None:
    twice = ["--unwillingness", "file:wishes.csv", "--unwillingness=category:Health=0.9,*=0.2"]
    code, out, err = assent("fit", tmp_path / "missing.csv", "--out", tmp_path / "run", *twice)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "--unwillingness: given 2 times; accepted: once" in err


def test_a_finished_run_is_refused_before_the_log_is_read(
    run_folder: Path, tmp_path: Path, assent: Assent
) -> None:
    code, _, err = assent("fit", tmp_path / "missing.csv", "--out", run_folder)
    assert (code, err.count("\n")) == (2, 1)
    assert "holds a finished run" in err


def test_ctrl_c_in_compiled_code_is_ctrl_c(
    log_file: Path, tmp_path: Path, assent: Assent, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise SystemError("returned a result with an exception set") from KeyboardInterrupt()

    monkeypatch.setattr(fit_commands, "fit", stopped)
    code, _, err = assent("fit", log_file, "--out", tmp_path / "run", *QUICK)
    assert code == 130
    assert "interrupted; a command with --out goes on where it was when you repeat it" in err


def test_lds_judges_all_sources(log_file: Path, assent: Assent) -> None:
    code, out, err = assent("lds", log_file, "--set", "worth.source=structure")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "--set worth.source: all sources are judged in any case" in err


@pytest.mark.parametrize("command", ["frontier", "compare"])
def test_settings_that_no_method_of_a_list_has(command: str, log_file: Path, assent: Assent) -> None:
    code, out, err = assent(command, log_file, "--methods", "random,worth", "--anchors", 2)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "assent: --anchors: not of random, worth, but of ifrqe++" in err


@pytest.mark.parametrize("setting", ["learning_rate=0.1", "batch_size=64", "negatives=2"])
def test_settings_of_adam_for_a_model_with_its_own_solver(
    setting: str, log_file: Path, tmp_path: Path, assent: Assent
) -> None:
    command = ["fit", log_file, "--out", tmp_path / "run", "--set", f"training.{setting}"]
    code, out, err = assent(*command)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"setting training.{setting.partition('=')[0]}: ials has its own solver" in err


def test_a_store_that_is_not_there(tmp_path: Path, assent: Assent) -> None:
    code, out, err = assent("store", tmp_path / "none")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"{tmp_path / 'none'}: no such folder" in err


@pytest.mark.parametrize("command", ["frontier", "lds", "compare"])
def test_a_file_is_no_folder(command: str, log_file: Path, assent: Assent) -> None:
    code, out, err = assent(command, log_file, "--out", log_file)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"--out {log_file}: is a file; accepted: a folder" in err


@pytest.mark.parametrize("price", [-0.5, float("inf"), float("nan")])
def test_a_price_at_which_nothing_can_be_decided(price: float) -> None:
    with pytest.raises(AssentError, match=r"accepted: a number from 0 to 1e\+100"):
        RunPlan(price=price)


@pytest.mark.parametrize("text", ["5", "null", '["format", "assent", "method"]', '{"format": 2}'])
def test_replace_spares_folders_whose_settings_are_no_runs(
    text: str, log_file: Path, tmp_path: Path, assent: Assent
) -> None:
    (tmp_path / "settings.json").write_text(text)
    code, out, err = assent("fit", log_file, "--out", tmp_path, *QUICK, "--replace")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "--replace only replaces run folders" in err
    assert (tmp_path / "settings.json").read_text() == text


def test_a_frontier_of_methods_that_are_none(log_file: Path, assent: Assent) -> None:
    code, out, err = assent("frontier", log_file, "--methods", "foo")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "assent: --methods foo: unknown; accepted: all, nothing" in err


def test_a_picture_of_unknown_records_is_kept(log_file: Path, tmp_path: Path, assent: Assent) -> None:
    front = tmp_path / "front"
    command = ["frontier", log_file, "--points", 0.5, "--seeds", 1, "--methods", "random", *QUICK]
    command += ["--out", front]
    assert assent(*command)[0] == 0
    picture = front / "frontier.svg"
    picture.write_text("before")
    assert assent(*command)[0] == 0  # its records are there: it can be drawn again
    assert picture.read_text() != "before"
    picture.write_text("before")
    (front / "cells").rename(tmp_path / "elsewhere")
    code, out, err = assent(*command)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert picture.read_text() == "before"
    assert assent(*command, "--replace")[0] == 0
    assert picture.read_text() != "before"


def test_an_existing_json_file_is_kept(log_file: Path, tmp_path: Path, assent: Assent) -> None:
    (tmp_path / "a.json").write_text("mine")
    code, _, err = assent("data", "describe", log_file, "--json", tmp_path / "a.json")
    assert code == 2
    assert "--replace" in err
    assert (tmp_path / "a.json").read_text() == "mine"


@pytest.mark.parametrize("limit", [1_000, 5_000])
def test_a_disk_that_takes_no_more(limit: int, log_file: Path, tmp_path: Path, assent: Assent) -> None:
    # A limit on the size of files stands for the full disk: the first file above it fails half-way.
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        code, out, err = assent("fit", log_file, "--out", tmp_path / "run", *QUICK)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (code, out) == (2, "")
    message = err.strip().splitlines()[-1]
    assert str(tmp_path / "run") in message
    assert message.endswith("File too large")
    assert not list((tmp_path / "run").rglob("*.tmp"))
    assert assent("fit", log_file, "--out", tmp_path / "run", *QUICK)[0] == 0


@pytest.mark.parametrize("asked", [["--budget", "0.3"], ["--keep-quality", "0.9"]])
def test_all_keeps_within_nothing(asked: list[str], log_file: Path, tmp_path: Path, assent: Assent) -> None:
    code, _, err = assent("fit", log_file, "--out", tmp_path / "run", *QUICK, "--method", "all", *asked)
    assert code == 2
    assert f"{' '.join(asked)}: method all discloses everything; accepted: without it" in err
    assert not (tmp_path / "run").exists()
