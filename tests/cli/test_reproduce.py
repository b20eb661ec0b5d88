"""`assent reproduce` as it is typed: what it writes, what it refuses, when it fails."""

import gzip
import json
from collections import Counter
from pathlib import Path
from shutil import copytree
from typing import NamedTuple

import pytest
from typer.testing import CliRunner

from assent.cli import console
from assent.cli.app import app
from assent.results.records import METHOD
from tests.conftest import Assent

TINY = [
    "--users", "120", "--datasets", "simulation,steam", "--models", "mf", "--repeats", "2", "--jobs", "1",
    "--set", "training.epochs=2", "--set", "model_settings.dimension=4", "--set", "proactive.rounds=2",
]  # fmt: skip


class Done(NamedTuple):
    """A folder of `reproduce overall,sparsity`, and what the command said."""

    folder: Path
    out: str
    err: str


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Done:
    folder = tmp_path_factory.mktemp("reproduced") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("ASSENT_DATA", raising=False)
        patch.setattr(console.out, "width", 200)
        words = ["reproduce", "overall,sparsity", *TINY, "--out", str(folder)]
        found = CliRunner().invoke(app, words, env={"COLUMNS": "200"})
    assert found.exit_code == 0, found.output
    return Done(folder, found.stdout, found.stderr)


def test_it_writes_a_page_and_says_what_is_missing(
    done: Done, tmp_path: Path, assent: Assent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ASSENT_DATA", raising=False)
    out = copytree(done.folder, tmp_path / "out")
    text, err = done.out, done.err
    assert "IFRQE++ (nash) is at or above All in" in text
    assert "Overall comparison, price 1" in text
    assert "overall: Means ± standard errors over 2 repeats, fewer where said. Not tested:" in text
    assert "Not run: steam: no folder is named. Get it from" in err
    assert f"Page: {done.folder / 'index.html'}" in err
    page = (out / "index.html").read_text()
    assert "A neighbourhood of at most 120 users of each data set" in page
    assert "at most 500 users" not in page
    assert "Proactive has at most 2 rounds" in page
    assert "training.epochs=2" in page
    assert (out / "sparsity" / "sparsity-simulation-mf.png").exists()
    table = (out / "sparsity" / "sparsity.csv").read_text()
    code, again, _ = assent("reproduce", "overall,sparsity", *TINY, "--out", out, "--report-only")
    assert (code, again.replace(str(out), str(done.folder))) == (0, text)
    assert (out / "index.html").read_text() == page
    code, one, _ = assent("reproduce", "overall", *TINY, "--out", out, "--report-only")
    assert code == 0
    assert "sparsity:" not in one
    assert (out / "index.html").read_text() == page
    code, _, err = assent("reproduce", "overall", *TINY, "--users", "130", "--out", out, "--report-only")
    assert code == 1
    assert "sparsity was run in this folder with other options; its files are kept." in err
    assert (out / "sparsity" / "sparsity.csv").read_text() == table
    assert (out / "index.html").read_text() == page
    code, everything, _ = assent("reproduce", "sparsity, all", *TINY, "--out", out, "--report-only")
    assert code == 0
    assert "overall: " in everything
    assert "sparsity: " in everything


def test_the_records_of_a_run_give_its_page_without_data_and_cells(
    done: Done, tmp_path: Path, assent: Assent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ASSENT_DATA", raising=False)
    out, other, again = done.folder, tmp_path / "other", tmp_path / "again"
    records = out / "records.jsonl.gz"
    code, same, err = assent("reproduce", "overall,sparsity", "--records", records, "--out", other)
    assert (code, same.replace(str(other), str(out))) == (0, done.out)
    assert "Not run: steam:" in err
    for name in ("index.html", "verdicts.csv", "claims.csv", "overall/overall.csv", records.name):
        assert (other / name).read_bytes() == (out / name).read_bytes()
    assert not (other / "cells").exists()
    code, one, _ = assent("reproduce", "sparsity", "--records", other / records.name, "--out", again)
    assert code == 0
    assert "overall:" not in one
    assert (again / "index.html").read_bytes() == (out / "index.html").read_bytes()


def test_only_some_cells_are_computed_and_runs_of_others_add_up(tmp_path: Path, assent: Assent) -> None:
    options = [*TINY, "--datasets", "simulation"]
    rows = [["method=All"], ["method=Thresh*", "method=N*", "repeat=2"]]
    files = [tmp_path / str(number) for number in range(2)]
    for folder, wishes in zip(files, rows, strict=True):
        only = [part for wish in wishes for part in ("--only", wish)]
        assert assent("reproduce", "overall", *options, *only, "--out", folder)[0] == 0
    both = [part for folder in files for part in ("--records", folder / "records.jsonl.gz")]
    code, _, err = assent("reproduce", "overall", *both, "--out", tmp_path / "both")
    assert code == 0
    assert "Records of another run were added (2 records)." in err
    _, *lines = gzip.decompress((tmp_path / "both" / "records.jsonl.gz").read_bytes()).splitlines()
    found = [(line[METHOD], line["seed"]) for line in map(json.loads, lines)]
    assert found == [("All", 0), ("All", 1), ("Threshold", 1), ("Nothing", 1)]


def test_records_hold_figures_and_no_ids(done: Done) -> None:
    about, *lines = map(
        json.loads, gzip.decompress((done.folder / "records.jsonl.gz").read_bytes()).splitlines()
    )
    assert about["wanted"] == Counter(line["item"] for line in lines)
    for line in lines:
        for key, value in line.items():
            assert isinstance(value, int | float | None) or key in (
                "item", "dataset", "model", "method", "objective", "settings", METHOD,
            )  # fmt: skip
        assert (line["dataset"], line["model"]) == ("simulation", "mf")


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (b"", ["--scale", "full"], "--scale: the file of --records says how it was run"),
        (b"", ["--repeats", "3"], "--repeats: the file of --records says how it was run"),
        (b"", ["--report-only"], "--report-only: the file of --records says how it was run"),
        (b"mine", [], "mine.gz: no records of a reproduction"),
        (
            gzip.compress(b"{}", mtime=0),
            [],
            "mine.gz: no records of a reproduction; accepted: a records.jsonl.gz",
        ),
        (gzip.compress(b'{"format": 1}', mtime=0), [], "mine.gz: no records of a reproduction"),
        (None, [], "mine.gz: no such file"),
    ],
)
def test_what_are_no_records_is_refused_in_a_line(
    content: bytes | None, options: list[str], message: str, assent: Assent, tmp_path: Path
) -> None:
    file = tmp_path / "mine.gz"
    if content is not None:
        file.write_bytes(content)
    code, out, err = assent("reproduce", "all", "--records", file, *options, "--out", tmp_path / "out")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert not (tmp_path / "out").exists()


def test_a_table_that_does_not_fit_is_named(tmp_path: Path, assent: Assent) -> None:
    options = [*TINY, "--datasets", "simulation", "--repeats", "1"]
    code, text, _ = assent("reproduce", "price-of-anarchy", *options, "--out", tmp_path)
    assert code == 0
    (line,) = (line for line in text.splitlines() if "the table is in" in line)
    title, _, file = line.partition(": the table is in ")
    assert file == str(tmp_path / "price-of-anarchy" / "price-of-anarchy.md")
    assert Path(file).read_text().startswith(f"### {title}\n")


def test_each_scale_has_a_folder_of_its_own(
    tmp_path: Path, assent: Assent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for scale in ("quick", "full"):
        code, _, err = assent("reproduce", "overall", *TINY, "--scale", scale, "--report-only")
        assert code == 1
        assert f"reproduced-{scale}: nothing to show, so no page was written." in err
    assert list(tmp_path.iterdir()) == []


def test_where_no_data_set_is_there_nothing_is_left_in_the_way(
    tmp_path: Path, assent: Assent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ASSENT_DATA", raising=False)
    out = tmp_path / "out"
    code, _, err = assent("reproduce", "approximation", *TINY, "--datasets", "steam", "--out", out)
    assert code == 1
    assert "Not run: steam: no folder is named." in err
    assert not out.exists()


def test_cells_that_fail_are_told_and_the_command_fails(tmp_path: Path, assent: Assent) -> None:
    options = [*TINY, "--datasets", "simulation", "--repeats", "1", "--set", "training.learning_rate=1e30"]
    code, _, err = assent("reproduce", "sparsity", *options, "--out", tmp_path)
    assert code == 1
    assert "Could not be computed: simulation, All, 0.1, mf, repeat 1: " in err
    assert "training.learning_rate" in err
    assert "cells failed; the page says which and why." in err
    assert "What went wrong" in (tmp_path / "index.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["everything"], "everything: no item; accepted: all, overall, more-metrics, price"),
        (["overall, everything"], "everything: no item"),
        (["overall", "--set", "scratch.magic=1"], "unknown setting"),
        (["overall", "--datasets", "movies"], "--datasets movies: unknown; accepted: simulation, diginetica"),
        (["overall", "--models", "mf,bpr"], "--models bpr: unknown; accepted: mf, neumf"),
        (["overall", "--set", "training.epochs"], "--set training.epochs: accepted: KEY=VALUE"),
        (["overall", "--set", "training.epochs=many"], "setting training.epochs:"),
        (["overall", "--set", "magic=1"], "unknown setting magic; see assent settings --model mf"),
        (
            ["overall", "--set", "training=1", "--set", "training.epochs=2"],
            "--set training.epochs: 'training' has no settings of its own",
        ),
        (["overall", "--set", "model=din"], "--set model: accepted: --models"),
        (["overall", "--only", "method"], "--only method: accepted: NAME=PATTERN, such as price=0.5"),
    ],
)
def test_what_cannot_be_reproduced_is_refused_in_a_line(
    arguments: list[str], message: str, assent: Assent, tmp_path: Path
) -> None:
    code, out, err = assent("reproduce", *arguments, "--out", tmp_path / "out")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        ("methods=All", "no cell has a label methods; accepted: price, model, dataset, method, repeat"),
        ("method=all", "no cell has the method all; accepted: All; Random; Threshold; Proactive (nash)"),
    ],
)
def test_a_wish_that_no_cell_fits_is_refused(wish: str, message: str, assent: Assent, tmp_path: Path) -> None:
    options = [*TINY, "--datasets", "simulation", "--only", wish]
    code, _, err = assent("reproduce", "overall", *options, "--out", tmp_path / "out")
    assert code == 2
    assert message in err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("options", [[], ["--out", "reproduced-quick"]], ids=["default", "named"])
def test_a_file_in_place_of_its_folder_is_refused(
    options: list[str], tmp_path: Path, assent: Assent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reproduced-quick").write_text("mine")
    code, out, err = assent("reproduce", "overall", *TINY, *options)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "--out reproduced-quick: is a file; accepted: a folder" in err


def test_a_page_of_unknown_origin_is_kept(tmp_path: Path, assent: Assent) -> None:
    (tmp_path / "index.html").write_text("mine")
    code, _, err = assent("reproduce", "overall", *TINY, "--out", tmp_path)
    assert code == 2
    assert "index.html: already exists" in err
