"""Kinds of files: JSON lines, compressed text, separators that are found out, names of columns."""

import gzip
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.data.files import refusal, write

from assent.data.formats import LOG_FILES, kind_of, read_table, stem_of
from assent.data.readers import read_interactions
from assent.support.errors import AssentError

ROWS = "user,item,time\nann,x,1\nbob,y,2\n"


def refused_for(path: Path) -> str:
    """What is said of a file that is refused, after its path."""
    message = refusal(path)
    assert message.startswith(f"{path}: ")
    return message.removeprefix(f"{path}: ")


@pytest.mark.parametrize(
    ("name", "kind", "stem"),
    [
        ("log.csv", ".csv", "log"),
        ("log.2024.CSV.gz", ".csv.gz", "log.2024"),
        ("log.gz", ".gz", "log"),
        ("log", "", "log"),
        (".hidden.jsonl", ".jsonl", ".hidden"),
    ],
)
def test_a_kind_is_read_off_the_name(name: str, kind: str, stem: str) -> None:
    assert (kind_of(name), stem_of(Path(name))) == (kind, stem)


# Separators


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (ROWS.replace(",", ";"), "semicolons"),
        (ROWS.replace(",", "\t"), "tabs"),
        ('"user";"item, or thing";item\nann;"a;b",c\n'.replace('",c', '";c'), "semicolons"),
        ("\ufeff" + ROWS.replace(",", ";"), "semicolons"),
    ],
)
def test_semicolons_and_tabs_in_a_csv_file_are_found_out_and_told(
    text: str, said: str, tmp_path: Path
) -> None:
    path = write(tmp_path / "log.csv", text)
    with pytest.warns(UserWarning, match=f"log.csv: read with {said} between fields, as in line 1"):
        read = read_interactions(path).table
    assert read.columns[:2] == ["user", "item"]
    assert read["user"][0] == "ann"


@pytest.mark.parametrize("text", [ROWS, "user,item,a;b;c\nann,x,y\n", 'user,item,"a;b"\nann,x,y;\n'])
def test_commas_in_the_header_are_the_separator(text: str, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_interactions(write(tmp_path / "log.csv", text)).table.row(0)[:2] == ("ann", "x")


def test_what_the_header_may_hold(tmp_path: Path) -> None:
    # x^ begins a compressed stream for polars; columns without a name cannot be asked for.
    table = read_table(write(tmp_path / "log.csv", "x^2,,user,, item\n1,2,3,4,5\n"), LOG_FILES)
    assert table.names == ["x^2", "user", "item"]
    assert table.column("item").to_list() == ["5"]
    assert table.column("x^2").to_list() == ["1"]


# Compressed files


def test_a_gz_file_of_several_parts_is_read_whole(tmp_path: Path) -> None:
    header, rest = ROWS[:15], ROWS[15:]
    path = write(
        tmp_path / "log.csv.gz",
        gzip.compress(header.encode(), mtime=0) + gzip.compress(rest.encode(), mtime=0),
    )
    read = read_interactions(path)
    assert (read.name, len(read)) == ("log", 2)


PACKED = gzip.compress(ROWS.encode() * 9, mtime=0)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (ROWS.encode(), "not a readable gzip file (truncated or damaged)"),
        (PACKED[:-1], "not a readable gzip file (truncated or damaged)"),
        (PACKED[:12], "not a readable gzip file (truncated or damaged)"),
        (PACKED + b"rest", "not a readable gzip file (truncated or damaged)"),
        (PACKED[:20] + b"\0" + PACKED[21:], "not a readable gzip file (truncated or damaged)"),
        (b"", "the file is empty; accepted: a header and at least one row"),
        (gzip.compress(b" \n", mtime=0), "the file is empty; accepted: a header and at least one row"),
        (gzip.compress(b"\xff\xfe", mtime=0), "line 1 is not text (byte 0xff); accepted: text in UTF-8"),
        (
            gzip.compress(b"\n" * 2**25, mtime=0),
            "grows more than 200 times when it is decompressed; accepted: less, or the decompressed file",
        ),
    ],
)
def test_gz_files_that_cannot_be_read(data: bytes, message: str, tmp_path: Path) -> None:
    assert refused_for(write(tmp_path / "log.csv.gz", data)) == message


@pytest.mark.parametrize("name", ["log.gz", "log.parquet.gz", "log.zip", "log.csv.bz2"])
def test_other_compressed_files_are_refused(name: str, tmp_path: Path) -> None:
    message = refused_for(write(tmp_path / name, PACKED))
    assert f"unknown kind of file {kind_of(name)!r}; accepted: .inter, .parquet, .csv" in message
    assert ".jsonl.gz" in message


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "log.csv").symlink_to("/dev/zero")
    assert refused_for(tmp_path / "log.csv") == "not a file; accepted: a file of rows"
    with pytest.raises(AssentError, match=r"cannot be read \(File name too long\)"):
        read_table(tmp_path / f"{'x' * 999}.csv", LOG_FILES)


# JSON lines


def lines(*rows: dict[str, Any]) -> str:
    return "\n".join(json.dumps(row) for row in rows)


def test_numbers_of_json_are_read_as_they_are_written(tmp_path: Path) -> None:
    long = "123456789012345678901234567890"
    cells = [(long, "1.50"), (f"{long[:-1]}1", "12.0"), ('"007"', "1e3")]
    text = "\r\n".join(f'{{"user": {user}, "item": {item}}}' for user, item in cells)
    read = read_interactions(write(tmp_path / "log.jsonl", text)).table
    assert read.select("user", "item").rows() == [(long, "1.50"), (f"{long[:-1]}1", "12"), ("007", "1e3")]


def test_keys_that_lines_lack_are_empty_cells(tmp_path: Path) -> None:
    text = lines(
        {"user": "a", "item": 1, "other": {"nested": [1]}},
        {"item": 2, "user": "a", "beta": 0.5, "category": ["x", "y"]},
        {"user": "b", "item": 1, "beta": None, "category": None, "other": 5},
    )
    read = read_interactions(write(tmp_path / "log.jsonl", text), gaps=True)
    assert read.table["unwillingness"].to_list() == [None, 0.5, None]
    assert read.items["category"].to_list() == [[], ["x", "y"]]
    assert "row 1, column 'beta' is empty" in refused_for(tmp_path / "log.jsonl")


def test_truth_values_of_json_are_flags_and_no_ids(tmp_path: Path) -> None:
    path = write(tmp_path / "log.jsonl", lines({"user": True, "item": 1, "beta": False}))
    assert refused_for(path) == "column 'user' has the type Boolean; accepted: text or numbers"
    assert read_table(path, LOG_FILES).unwillingness("beta", scale="flag").to_list() == [0]


def test_rows_that_are_left_out_do_not_matter(tmp_path: Path) -> None:
    path = write(tmp_path / "log.jsonl", lines({"user": "a"}, {"user": ["b"]}, {"user": "c"}))
    table = read_table(path, LOG_FILES).only(pl.Series([True, False, True]))
    assert table.ids("user").to_list() == ["a", "c"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"user": 1}\n[1]', "line 2 is not a JSON object; accepted: one object per line"),
        ('{"user": 1}\n\n{"user": 2}', "line 2 is not valid JSON (Expecting value)"),
        ('{"user": NaN}', "line 1 is not valid JSON (NaN is no number)"),
        ('{"user": 1, "user": 2}', "line 1 is not valid JSON ('user' occurs twice)"),
        ("{\n", "line 1 is not valid JSON"),
        ('{"a": ' + "[" * 99_999, "line 1 is not valid JSON"),
        (b'{"user": "\xff"}', "line 1 is not text (byte 0xff); accepted: text in UTF-8"),
        (lines({"user": "a"}), "which column is the item?"),
        (lines({}), "which column is the user?"),
        (lines({"user": "a", "item": {"id": 1}}), "column 'item' is nested or mixes types of values"),
        (lines({"user": "a", "item": 1}, {"user": "a", "item": True}), "column 'item' is nested or mixes"),
        (lines({"user": "a", "item": 1, "category": [["x"]]}), "column 'category' is nested or mixes"),
        ('{"user": "\\ud800", "item": 1}', "column 'user' holds half a character"),
        (lines({"user": "a", "item": " "}), "row 1, column 'item' is ' '"),
    ],
)
def test_json_lines_that_cannot_be_read(text: str | bytes, message: str, tmp_path: Path) -> None:
    assert message in refused_for(write(tmp_path / "log.jsonl", text))


# Whatever a file holds, it is read or refused in one line

LOG = pl.DataFrame(
    {"user": ["007", "7", "ü ï"], "item": ["x", "x", "y"], "time": [3.0, 1.5, 2.0], "beta": [0.0, 1.0, 0.25]}
)
CONTENTS: dict[str, bytes] = {
    "log.csv": LOG.write_csv().encode(),
    "log.tsv": LOG.write_csv(separator="\t").encode(),
    "log.inter": LOG.write_csv(separator="\t").encode(),
    "log.jsonl": LOG.write_ndjson().encode(),
    "log.csv.gz": gzip.compress(LOG.write_csv().encode(), mtime=0),
}
ODD = st.sampled_from(
    [
        b"",
        b"\0",
        b'"',
        b"\n",
        b"\r",
        b",",
        b";",
        b"\t",
        b"\xff",
        b"\xef\xbb\xbf",
        b"{",
        b"[" * 50,
        b"nan",
        b"-1",
        b"1e999",
    ]
)


def either_read_or_refused(path: Path, read: Callable[[], object]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            read()
        except AssentError as error:
            message = str(error)
            assert message.startswith(str(path))
            assert "\n" not in message
            assert "\x1b" not in message.replace(str(path), "")


@given(
    name=st.sampled_from([*CONTENTS, "log.parquet", "log.ndjson.gz"]),
    data=st.binary(max_size=300) | st.text().map(str.encode),
)
@settings(max_examples=200)
def test_any_bytes_are_a_log_or_one_line(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: bytes
) -> None:
    path = write(tmp_path_factory.getbasetemp() / name, data)
    either_read_or_refused(path, lambda: read_interactions(path))


@given(
    name=st.sampled_from(list(CONTENTS)),
    edits=st.lists(
        st.tuples(st.integers(0, 200), st.integers(0, 9), ODD | st.binary(max_size=9)), max_size=4
    ),
)
@settings(max_examples=300)
def test_a_damaged_file_is_a_log_or_one_line(
    tmp_path_factory: pytest.TempPathFactory, name: str, edits: list[tuple[int, int, bytes]]
) -> None:
    data = CONTENTS[name]
    for place, length, new in edits:
        data = data[:place] + new + data[place + length :]
    path = write(tmp_path_factory.getbasetemp() / name, data)
    either_read_or_refused(path, lambda: read_interactions(path))
