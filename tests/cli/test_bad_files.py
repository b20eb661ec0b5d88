"""Files, columns, ids and rules that mean nothing, or not one thing: one line, exit code 2, nothing written.

What means one thing though it is written oddly is read, and it is told how.
"""

import gzip
from pathlib import Path

import polars as pl
import pytest

from tests.cli.conftest import QUICK
from tests.conftest import Assent

ROWS = [(f"u{u}", f"i{(u + k) % 9}", f"0.{k}") for u in range(9) for k in range(5)]
TIMED = "user,item,time,unwillingness\n"
CATEGORIES = ["Drama", "Comedy", "Crime"]


def log(header: str = "user,item,unwillingness", first: str = "", separator: str = ",") -> str:
    """A log of 45 rows, the first of which may be replaced."""
    rows = [",".join(row) for row in ROWS]
    rows[0] = first or rows[0]
    return "\n".join([header, *rows]).replace(",", separator) + "\n"


def parquet(folder: Path, **columns: pl.Series) -> bytes:
    users, items, values = zip(*ROWS, strict=True)
    table = pl.DataFrame({"user": users, "item": items, "unwillingness": [float(value) for value in values]})
    table.with_columns(**columns).write_parquet(folder / "made.parquet")
    data = (folder / "made.parquet").read_bytes()
    (folder / "made.parquet").unlink()
    return data


REFUSED: dict[str, tuple[str, str | bytes, list[str]]] = {
    "percentages": ("log.csv", log(first="u0,i0,80"), ["row 1, column 'unwillingness' is '80'", "percent"]),
    "percent signs": (
        "log.csv",
        log(first="u0,i0,80%"),
        ["row 1, column 'unwillingness' is '80%'", "percent"],
    ),
    "decimal commas": ("log.csv", log(first='u0,i0,"0,8"'), ["is '0,8'", "a point for the comma", "percent"]),
    "truth values": ("log.csv", log(first="u0,i0,True"), ["is 'True'", "flag"]),
    "not a number": ("log.csv", log(first="u0,i0,NaN"), ["row 1, column 'unwillingness' is 'NaN'"]),
    "negative": ("log.csv", log(first="u0,i0,-0.2"), ["row 1, column 'unwillingness' is '-0.2'"]),
    "endless": ("log.csv", log(first="u0,i0,inf"), ["row 1, column 'unwillingness' is 'inf'"]),
    "a word": ("log.csv", log(first="u0,i0,never"), ["row 1, column 'unwillingness' is 'never'"]),
    "no user": ("log.csv", log(first=",i0,0.5"), ["row 1, column 'user' is empty"]),
    "a blank user": ("log.csv", log(first=" ,i0,0.5"), ["row 1, column 'user' is ' '"]),
    "no item": ("log.csv", log(first="u0,,0.5"), ["row 1, column 'item' is empty"]),
    "no time": ("log.csv", f"{TIMED}u0,i0,5,0.5\nu0,i1,,0.5\n", ["row 2, column 'time' is empty"]),
    "a time that is none": ("log.csv", f"{TIMED}u0,i0,nan,0.5\n", ["row 1, column 'time' is 'nan'"]),
    "a pair twice": ("log.csv", log(first="u0,i1,0.5"), ["rows 1 and 2", "--duplicates first"]),
    "a pair twice by spaces": ("log.csv", log(first="u0 ,i1,0.5"), ["rows 1 and 2", "--duplicates first"]),
    "a column twice": ("log.csv", log("user,item,item"), ["column 'item' occurs twice; accepted: once"]),
    "ragged": ("log.csv", log(first="u0,i0"), ["row 1 has 2 field(s); accepted: 3"]),
    "empty": ("log.csv", "", ["the file is empty"]),
    "empty and compressed": ("log.csv.gz", gzip.compress(b""), ["the file is empty"]),
    "header only": ("log.csv", "user;item\n", ["there are no rows"]),
    "random bytes": ("log.csv", bytes(range(255, 100, -1)), ["line 1 is not text (byte 0xff)"]),
    "latin-1": ("log.csv", log(first="ü,i0,0.5").encode("latin-1"), ["line 2 is not text (byte 0xfc)"]),
    "UTF-16": ("log.csv", log().encode("utf-16"), ["line 1 is not text (byte 0xff)"]),
    "UTF-16 without a mark": ("log.csv", log().encode("utf-16-le"), ["line 1 is not text (byte 0x00)"]),
    "no gzip": ("log.csv.gz", log(), ["not a readable gzip file"]),
    "a bomb": ("log.csv.gz", gzip.compress(b"\n" * 2**25), ["grows more than 200 times"]),
    "random bytes as parquet": ("log.parquet", bytes(999), ["not a readable parquet file"]),
    "an array": ("log.jsonl", '["u0", "i0"]\n', ["line 1 is not a JSON object"]),
    "half an object": ("log.jsonl", '{"user": "u0"}\n{"user"', ["line 2 is not valid JSON"]),
    "a spreadsheet": ("log.xlsx", b"PK", ["unknown kind of file '.xlsx'; accepted: .inter", ".csv.gz"]),
    "escapes": ("log.csv", log(first="u0,i0,\x1b[31mred"), ["is '\\x1b[31mred'"]),
}


def refused(assent: Assent, tmp_path: Path, *arguments: object) -> str:
    code, out, err = assent("fit", *arguments, "--out", tmp_path / "run", *QUICK, "--negatives", 3)
    assert (code, out) == (2, "")
    *notices, line = err.strip().splitlines()
    assert line.startswith("assent: ")
    assert not any("Traceback" in notice for notice in notices)
    assert not (tmp_path / "run").exists()
    return line


@pytest.mark.parametrize("case", REFUSED)
def test_files_that_are_refused(case: str, tmp_path: Path, assent: Assent) -> None:
    name, content, parts = REFUSED[case]
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    line = refused(assent, tmp_path, path)
    assert line.startswith(f"assent: {path}: ")
    for part in parts:
        assert part in line


@pytest.mark.parametrize(
    ("user", "part"),
    [
        (pl.Series([float("nan"), *range(44)]), "row 1, column 'user' is nan"),
        (pl.Series([1e300, *range(44)]), "row 1, column 'user' is 1e+300; accepted: floats below"),
        (pl.Series([2.0**60, *range(44)]), "row 1, column 'user' is 1.152921504606847e+18; accepted: floats"),
        (pl.Series([True] * 45), "column 'user' has the type Boolean; accepted: text or numbers"),
        (pl.Series([[1]] * 45), "column 'user' has the type List(Int64); accepted: text or numbers"),
    ],
)
def test_ids_of_parquet_that_are_refused(user: pl.Series, part: str, tmp_path: Path, assent: Assent) -> None:
    (tmp_path / "log.parquet").write_bytes(parquet(tmp_path, user=user))
    assert part in refused(assent, tmp_path, tmp_path / "log.parquet")


@pytest.mark.parametrize("share", [0.5, 0.99])
def test_a_truncated_parquet_file(share: float, tmp_path: Path, assent: Assent) -> None:
    data = parquet(tmp_path)
    (tmp_path / "log.parquet").write_bytes(data[: int(share * len(data))])
    assert "not a readable parquet file" in refused(assent, tmp_path, tmp_path / "log.parquet")


def catalogue(folder: Path) -> Path:
    """A log of the users 1 to 9, with categories."""
    rows = [f"{u + 1},i{(u + k) % 9},{CATEGORIES[(u + k) % 3]}" for u in range(9) for k in range(5)]
    path = folder / "log.csv"
    path.write_text("\n".join(["user,item,category", *rows]) + "\n")
    return path


RULES: dict[str, tuple[str, str, list[str]]] = {
    "a mistyped category": ("category:Drma=1,*=0.5", "", ["'Drma' (did you mean 'Drama'?)"]),
    "a mistyped user": ("user:10=1,*=0.5", "", ["no user of log is called '10'; accepted"]),
    "octal": ("user:rules.yaml", "010: 1\n'*': 0.5\n", ["no user of log is called '010'"]),
    "zeros": ("user:rules.yaml", "007: 1\n'*': 0.5\n", ["no user of log is called '007'"]),
    "underscores": ("user:rules.yaml", "0_8: 1\n'*': 0.5\n", ["no user of log is called '0_8'"]),
    "sexagesimal": ("user:rules.yaml", "0:5: 1\n'*': 0.5\n", ["no user of log is called '0:5'"]),
    "a yes": ("user:rules.yaml", "yes: 1\n'*': 0.5\n", ["no user of log is called 'yes'"]),
    "twice in YAML": ("category:rules.yaml", "Drama: 1\nDrama: 0\n", ["category 'Drama' occurs twice"]),
    "twice in JSON": ("category:rules.json", '{"Drama": 1, "Drama": 0}', ["'Drama' occurs twice"]),
    "twice in csv": ("user:rules.csv", "user,unwillingness\n8,1\n8.0,0\n", ["user '8' occurs twice"]),
    "twice in text": ("category:Drama=1, Drama=0", "", ["category 'Drama' occurs twice"]),
    "an alias": ("user:rules.yaml", "1: &a 1\n2: *a\n", ["line 1: not a plain mapping"]),
    "a tag": ("user:rules.yaml", "1: !!python/name:os.system\n", ["line 1: not a plain mapping"]),
    "a merge key": ("user:rules.yaml", "<<: {1: 1}\n", ["line 1: not a plain mapping"]),
    "nested YAML": ("user:rules.yaml", "1: " + "[" * 99_999, ["line 1: not a plain mapping"]),
    "nested JSON": ("user:rules.json", "[" * 99_999, ["not valid JSON"]),
    "wishes that differ": (
        "file:rules.csv",
        "user,item,unwillingness\n1,i0,1\n2,i1,0.5\n1,i0,0.5\n*,*,0.1\n",
        ["rows 1 and 3 say 1.0 and 0.5 about user '1' and item 'i0'; accepted: one value for each pair"],
    ),
}


@pytest.mark.parametrize("case", RULES)
def test_rules_that_are_refused(
    case: str, tmp_path: Path, assent: Assent, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, content, parts = RULES[case]
    monkeypatch.chdir(tmp_path)
    if content:
        Path(source.partition(":")[2]).write_text(content)
    line = refused(assent, tmp_path, catalogue(tmp_path), "--unwillingness", source)
    for part in parts:
        assert part in line
    assert "duplicates" not in line


@pytest.mark.parametrize("wish", ["--user-budget", "--user-floor"])
def test_wishes_of_nobody_are_refused(wish: str, tmp_path: Path, assent: Assent) -> None:
    line = refused(assent, tmp_path, catalogue(tmp_path), "--unwillingness", "constant:0.5", wish, "10=1,*=3")
    assert "no user of log is called '10'; accepted: " in line


def test_a_method_is_no_setting(tmp_path: Path, assent: Assent) -> None:
    line = refused(
        assent, tmp_path, catalogue(tmp_path), "--unwillingness", "constant:0.5", "--set", "worth=5"
    )
    assert "setting worth: is a method, not a setting; accepted: settings of it, worth.NAME" in line


# Accepted, and told

HEADER = "user,item,unwillingness"
TOLD: dict[str, tuple[str, str | bytes, list[str]]] = {
    "flags": ("log.csv", "user,item,unwillingness\na,x,0\na,y,1\n", ["1 is read as never"]),
    "semicolons": ("log.csv", log(separator=";"), ["read with semicolons between fields"]),
    "tabs": ("log.csv", log(separator="\t"), ["read with tabs between fields"]),
    "spaces": ("log.csv", log(first="u0 ,i0,0.5"), ["white space around 1 ids is removed, first in row 1"]),
    "zeros": ("log.csv", f"{HEADER}\n01,x,0.5\n1,x,0.5\n", ["1 ids differ from another by zeros in front"]),
    "12.0": ("log.csv", f"{HEADER}\n12,x,0.5\n12.0,y,0.5\n", ["both like 12 and like 12.0"]),
    "tiny": ("log.csv", f"{HEADER}\na,x,1e-310\na,y,5e-324\na,z,0.9999999999999999\n", []),
    "long ids": ("log.csv", f"{HEADER}\n{'9' * 30},x,0.5\n{'9' * 29}8,y,0.5\n", []),
    "dates as ids": ("log.csv", f"{HEADER}\n2024-05-31,x,0.5\n2024-06-01,y,0.5\n", []),
    "compressed": ("log.csv.gz", gzip.compress(log().encode()), []),
    "JSON lines": ("log.jsonl", '{"user": 1, "item": 2, "unwillingness": 0.5}\n', []),
}


@pytest.mark.parametrize("case", TOLD)
def test_files_that_are_read(case: str, tmp_path: Path, assent: Assent) -> None:
    name, content, notices = TOLD[case]
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    code, _, err = assent("data", "describe", path)
    assert (code, err.count("\n")) == (0, len(notices))
    for notice in notices:
        assert f"{path}: " in err
        assert notice in err
