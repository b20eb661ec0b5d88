"""A log that says itself what is trained, validated and tested on."""

from pathlib import Path

import pytest

from tests.cli.conftest import QUICK, records
from tests.conftest import Assent

ROWS = [
    (f"u{u}", f"i{(u + k) % 9}", ["valid", "test"][k] if k < 2 else "train")
    for u in range(9)
    for k in range(5)
]


def log(folder: Path, header: str = "user,item,split", **renamed: str) -> Path:
    rows = [",".join(renamed.get(cell, cell) for cell in row) for row in ROWS]
    path = folder / "log.csv"
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def held_out(err: str) -> bool:
    return "column 'split' says train, valid or test in every row and is the split" in err


@pytest.mark.parametrize("columns", [[], ["--columns", "split=split"]], ids=["found", "named"])
def test_the_split_is_taken(columns: list[str], tmp_path: Path, assent: Assent) -> None:
    options = [*QUICK, "--negatives", 3, "--method", "all", "--unwillingness", "random", *columns]
    code, _, err = assent("fit", log(tmp_path), "--out", tmp_path / "run", *options)
    assert code == 0
    assert held_out(err) is (not columns)
    assert '"protocol": "given, paper-tables"' in (tmp_path / "run" / "settings.json").read_text()


def test_a_column_of_that_name_that_is_no_split_is_ignored_aloud(tmp_path: Path, assent: Assent) -> None:
    options = [*QUICK, "--negatives", 3, "--method", "all", "--unwillingness", "random"]
    options += ["--json", tmp_path / "fit.json"]
    code, _, err = assent("fit", log(tmp_path, valid="dev"), "--out", tmp_path / "run", *options)
    assert code == 0
    assert "row 1 says 'dev'" in err
    assert "--columns split=split" in err
    assert not held_out(err)
    assert records(tmp_path / "fit.json")


def test_insisting_on_it_is_refused_in_one_line(tmp_path: Path, assent: Assent) -> None:
    options = [*QUICK, "--unwillingness", "random", "--columns", "split=split"]
    code, out, err = assent("fit", log(tmp_path, valid="dev"), "--out", tmp_path / "run", *options)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "row 1, column 'split' is 'dev'; accepted: train, valid, test" in err
