import datetime
import gzip
import os
import warnings
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.data.files import refusal, write

from assent.data.interactions import NO_ITEMS
from assent.data.readers import Duplicates, read_interactions
from assent.support.errors import AssentError

pytestmark = pytest.mark.filterwarnings("ignore")  # notices about ids and scales; test_columns.py has them
REAL_DATA = Path(os.environ.get("ASSENT_DATA", Path(__file__).parents[2].parent / "shared" / "data"))

LOG = pl.DataFrame(
    {
        "user_id": ["007", "7", "ünï", "a b"],
        "item_id": ["x", "x", "y", "z"],
        "timestamp": [3.0, 1.5, 2.0, -4.0],
        "unwillingness": [0.0, 0.75, 0.25, 0.5],
    }
)
CELLS = ["user", "item", "time", "unwillingness"]
"""Columns of a log without those that say where unwillingness comes from."""


def write_atomic(log: pl.DataFrame, path: Path) -> None:
    types = {
        name: f"{name}:{'token' if dtype == pl.String else 'float'}" for name, dtype in log.schema.items()
    }
    log.rename(types).write_csv(path, separator="\t")


WRITERS: dict[str, Callable[[pl.DataFrame, Path], Any]] = {
    "log.csv": pl.DataFrame.write_csv,
    "log.tsv": lambda log, path: log.write_csv(path, separator="\t"),
    "log.parquet": pl.DataFrame.write_parquet,
    "log.inter": write_atomic,
    "log.CSV": pl.DataFrame.write_csv,
    "log.jsonl": pl.DataFrame.write_ndjson,
    "log.ndjson": pl.DataFrame.write_ndjson,
    "log.csv.gz": lambda log, path: path.write_bytes(gzip.compress(log.write_csv().encode())),
    "log.tsv.GZ": lambda log, path: path.write_bytes(gzip.compress(log.write_csv(separator="\t").encode())),
    "log.jsonl.gz": lambda log, path: path.write_bytes(gzip.compress(log.write_ndjson().encode())),
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_gives_the_same_table(tmp_path: Path, name: str) -> None:
    WRITERS[name](LOG, tmp_path / name)
    for path in (tmp_path / name, tmp_path):
        read = read_interactions(str(path))
        assert read.name == ("log" if path.is_file() else tmp_path.name)
        assert read.table.select(CELLS).rows() == LOG.rows()
        assert read.table.schema == {
            "user": pl.String,
            "item": pl.String,
            "time": pl.Float64,
            "unwillingness": pl.Float64,
            "source": pl.String,
            "said": pl.String,
        }
        assert read.items.equals(NO_ITEMS)
        assert read.items.schema == NO_ITEMS.schema


@pytest.mark.parametrize(
    ("header", "names"),
    [
        ("USER_ID,Item,Date,Beta", {}),
        ("userId, itemId, time, unwillingness", {}),
        ("uid,product id,ts,beta", {}),
        ("user,item_id,timestamp,UNWILLINGNESS", {}),
        ("who,what,when,how", {"user": "who", "item": "what", "time": "when", "unwillingness": "how"}),
        ("item,user,time,beta", {"user": "item", "item": "user"}),
    ],
)
def test_columns_are_guessed_or_named(tmp_path: Path, header: str, names: dict[str, str]) -> None:
    path = write(tmp_path / "log.csv", f"{header}\na,b,5,0.5\n")
    assert read_interactions(path, columns=names).table.select(CELLS).rows() == [("a", "b", 5.0, 0.5)]


def test_no_time_and_no_unwillingness(tmp_path: Path) -> None:
    read = read_interactions(write(tmp_path / "log.csv", "user,item,liked\na,b,1\n"))
    assert read.table.columns == ["user", "item", "time"]
    assert read.table.schema["time"] == pl.Float64
    assert read.table.rows() == [("a", "b", None)]


def test_byte_order_mark_line_ends_and_quotes(tmp_path: Path) -> None:
    path = write(tmp_path / "log.csv", b'\xef\xbb\xbfuser,item\r\n"a,\n""b""",c\r\n"d",e\r\n\r\n')
    assert read_interactions(path).table["user"].to_list() == ['a,\n"b"', "d"]


def test_quotes_mean_nothing_in_atomic_files(tmp_path: Path) -> None:
    path = write(tmp_path / "log.inter", 'user_id:token\titem_id:token\n"a\t5" disk\n')
    assert read_interactions(path).table.row(0)[:2] == ('"a', '5" disk')


# Ids


@given(
    pairs=st.lists(
        st.tuples(*[st.text(st.characters(categories=["L", "M", "P", "S"]), min_size=1)] * 2),
        min_size=1,
        unique=True,
    )
)
@settings(max_examples=50, deadline=None)
def test_text_ids_survive_parquet_exactly(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, str]]
) -> None:
    path = tmp_path_factory.getbasetemp() / "ids.parquet"
    written = [(f"u{user}.", f"i{item}~") for user, item in pairs]  # no white space around them, no 12.0
    pl.DataFrame(written, schema=["user", "item"], orient="row").write_parquet(path)
    assert read_interactions(path).table.select("user", "item").rows() == written


@given(
    pairs=st.lists(
        st.tuples(*[st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1)] * 2),
        min_size=1,
        unique=True,
    ),
    suffix=st.sampled_from([".csv", ".tsv"]),
)
@settings(max_examples=50, deadline=None)
def test_text_ids_survive_csv_and_stay_distinct(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, str]], suffix: str
) -> None:
    path = tmp_path_factory.getbasetemp() / f"ids{suffix}"
    written = [(f"u{user}.", f"i{item}~") for user, item in pairs]  # not 12.0 and the like
    log = pl.DataFrame(written, schema=["user", "item"], orient="row")
    log.write_csv(path, separator="," if suffix == ".csv" else "\t")
    assert read_interactions(path).table.select("user", "item").rows() == written


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        (pl.Series([12, -3]), ["12", "-3"]),
        (pl.Series([2**63 + 1, 0], dtype=pl.UInt64), ["9223372036854775809", "0"]),
        (pl.Series([12.0, -3.0]), ["12", "-3"]),
        (pl.Series([12.0, 1.5]), ["12", "1.5"]),
        (pl.Series([Decimal("12.00"), Decimal("10.50")]), ["12", "10.50"]),
        (pl.Series([Decimal("100"), Decimal("7")]), ["100", "7"]),
        (pl.Series(["12", "012"]), ["12", "012"]),
        (pl.Series(["12.0", "-3.0"]), ["12", "-3"]),
        (pl.Series(["12.0", "v3.0"], dtype=pl.Categorical), ["12", "v3.0"]),
        (pl.Series([1.5, -7.0], dtype=pl.Float32), ["1.5", "-7"]),
        (pl.Series(["b", "a"], dtype=pl.Categorical), ["b", "a"]),
        (pl.Series(["b", "a"], dtype=pl.Enum(["a", "b"])), ["b", "a"]),
    ],
)
def test_ids_of_parquet_types(tmp_path: Path, values: pl.Series, texts: list[str]) -> None:
    path = tmp_path / "log.parquet"
    pl.DataFrame({"user": values, "item": values}).write_parquet(path)
    read = read_interactions(path).table
    assert read["user"].to_list() == texts
    assert read["item"].to_list() == texts


@pytest.mark.parametrize(
    ("cells", "texts"),
    [
        (["12.0", "7.0"], ["12", "7"]),
        (["012.0", "12.0"], ["012", "12"]),
        (["12.0", "v1.0", "*"], ["12", "v1.0", "*"]),
        (["12.00", "1.50", ".0", "-.0", "١.0"], ["12.00", "1.50", ".0", "-.0", "١.0"]),
        (["9" * 30, "9" * 29 + "8", "8" * 30 + ".0"], ["9" * 30, "9" * 29 + "8", "8" * 30]),
        (["2024-05-31", "2024-05-31T18:30Z"], ["2024-05-31", "2024-05-31T18:30Z"]),
        ([" a", "b\t", "\u00a0c d\u2003"], ["a", "b", "c d"]),
        (["007", "7"], ["007", "7"]),
        (["1e3", "nan"], ["1e3", "nan"]),
    ],
)
def test_ids_of_text_files(tmp_path: Path, cells: list[str], texts: list[str]) -> None:
    path = write(tmp_path / "log.csv", "user,item\n" + "".join(f"{cell},i\n" for cell in cells))
    assert read_interactions(path).table["user"].to_list() == texts


# Times

BERLIN = pl.Series([datetime.datetime(2024, 5, 31, 20, 30)]).dt.replace_time_zone("Europe/Berlin")


@pytest.mark.parametrize(
    ("cell", "seconds"),
    [
        ("1717180200", 1717180200.0),
        (" 1.7e9", 1.7e9),
        ("-5", -5.0),
        ("2024-05-31", 1717113600.0),
        ("2024-05-31T18:30:00", 1717180200.0),
        ("2024-05-31 18:30", 1717180200.0),
        ("2024-05-31T18:30:00Z", 1717180200.0),
        ("2024-05-31T18:30:00.25Z", 1717180200.25),
        ("2024-05-31T20:30:00+02:00", 1717180200.0),
        ("2024-05-31 13:00:00 -0530", 1717180200.0),
        ("1969-12-31T23:59:59Z", -1.0),
    ],
)
def test_times_of_text(tmp_path: Path, cell: str, seconds: float) -> None:
    path = write(tmp_path / "log.csv", f"user,item,time\na,b,{cell}\n")
    assert read_interactions(path).table["time"].to_list() == [seconds]


@pytest.mark.parametrize(
    ("values", "seconds"),
    [
        (pl.Series([1717180200]), 1717180200.0),
        (pl.Series([2.5], dtype=pl.Float32), 2.5),
        (pl.Series([datetime.date(2024, 5, 31)]), 1717113600.0),
        (pl.Series([datetime.datetime(2024, 5, 31, 18, 30)], dtype=pl.Datetime("ms")), 1717180200.0),
        (pl.Series([datetime.datetime(2024, 5, 31, 18, 30)], dtype=pl.Datetime("ns")), 1717180200.0),
        (BERLIN, 1717180200.0),
        (pl.Series([None], dtype=pl.Date), None),
        (pl.Series([None]), None),
    ],
)
def test_times_of_parquet_types(tmp_path: Path, values: pl.Series, seconds: float | None) -> None:
    path = tmp_path / "log.parquet"
    pl.DataFrame({"user": ["a"], "item": ["b"], "time": values}).write_parquet(path)
    table = read_interactions(path).table
    assert table["time"].to_list() == [seconds]
    assert table.schema["time"] == pl.Float64


# Repeated pairs


@pytest.mark.parametrize(
    ("log", "duplicates", "kept"),
    [
        ("u,i,9,0\nu,j,1,0\nu,i,3,0.9\nu,i,9,0.5\n", "first", [("u", "j", 1.0, 0.0), ("u", "i", 3.0, 0.9)]),
        ("u,i,9,0\nu,j,1,0\nu,i,3,0.9\nu,i,9,0.5\n", "last", [("u", "j", 1.0, 0.0), ("u", "i", 9.0, 0.9)]),
        ("u,i,,0\nu,j,,0\nu,i,,0.9\n", "first", [("u", "i", None, 0.9), ("u", "j", None, 0.0)]),
        ("u,i,,0\nu,j,,0\nu,i,,0.9\n", "last", [("u", "j", None, 0.0), ("u", "i", None, 0.9)]),
        (
            "v,i,,0\nu,i,,0.9\nu,j,,0\n",
            "last",
            [("v", "i", None, 0.0), ("u", "i", None, 0.9), ("u", "j", None, 0.0)],
        ),
    ],
)
def test_one_of_a_repeated_pair_is_kept(
    tmp_path: Path, log: str, duplicates: Duplicates, kept: list[tuple[Any, ...]]
) -> None:
    path = write(tmp_path / "log.csv", f"user,item,time,unwillingness\n{log}")
    assert read_interactions(path, duplicates=duplicates).table.select(CELLS).rows() == kept


# Items

STEAM = "item_id:token\ttitle:token\tcategory:token_seq\n1\tCivilization® V\tStrategy Free_to_Play\n2\t\t\n"


def known(path: Path, **options: Any) -> list[tuple[Any, ...]]:
    read = read_interactions(path, **options)
    assert read.items.schema == NO_ITEMS.schema
    return read.items.rows()


def test_item_file_of_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "steam"
    write(folder / "steam.inter", "user_id:token\titem_id:token\tcategory:token_seq\na\t1\tnot this one\n")
    write(folder / "extra.csv", "user,item\n")
    write(folder / ".hidden.inter", "")
    write(folder / "steam.item", STEAM)
    write(folder / "other.item", "item_id:token\n9\n")
    expected = [("1", "Civilization® V", ["Strategy", "Free_to_Play"]), ("2", None, [])]
    assert known(folder) == expected
    assert read_interactions(folder).name == "steam"
    assert known(folder, items=str(folder / "other.item")) == [("9", None, [])]


def test_the_folder_one_stands_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "data" / "data.inter", "user_id:token\titem_id:token\na\t1\n")
    write(tmp_path / "data" / "items.item", STEAM)
    monkeypatch.chdir(tmp_path / "data")
    read = read_interactions(Path())
    assert (read.name, read.items.height) == ("data", 2)


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
def test_item_tables(tmp_path: Path, suffix: str) -> None:
    log = write(tmp_path / "log.csv", "user,sku,title\na,01,Dear diary\n")
    path = tmp_path / f"items{suffix}"
    table = pl.DataFrame({"Id": ["01", "1"], "name": ["Jam, red", None], "Genres": ["Food| Sweet ||", None]})
    match suffix:
        case ".parquet":
            table.write_parquet(path)
        case _:
            table.write_csv(path, separator="," if suffix == ".csv" else "\t")
    assert known(log, columns={"item": "sku"}, items=path) == [
        ("01", "Jam, red", ["Food", "Sweet"]),
        ("1", None, []),
    ]


@pytest.mark.parametrize(
    ("category", "lists"),
    [
        (pl.Series([["a|b", "c d"], [], None, [None, "c"]]), [["a|b", "c d"], [], [], ["c"]]),
        (pl.Series([["a", "b"]] * 4, dtype=pl.Array(pl.String, 2)), [["a", "b"]] * 4),
        (pl.Series([[1, 2], [3], [], [4]]), [["1", "2"], ["3"], [], ["4"]]),
        (pl.Series([5.0, None, 6.0, float("nan")]), [["5"], [], ["6"], []]),
        (pl.Series(["a|b", "c", "", None], dtype=pl.Categorical), [["a", "b"], ["c"], [], []]),
    ],
)
def test_categories_of_parquet_types(tmp_path: Path, category: pl.Series, lists: list[list[str]]) -> None:
    log = write(tmp_path / "log.csv", "user,item\na,1\n")
    path = tmp_path / "items.parquet"
    pl.DataFrame({"item": [1, 2, 3, 4], "category": category}).write_parquet(path)
    assert known(log, items=path) == [(str(row + 1), None, parts) for row, parts in enumerate(lists)]


def test_items_from_the_log_merge_the_rows_of_an_item(tmp_path: Path) -> None:
    path = write(
        tmp_path / "log.csv",
        "user,item,title,kind,name\na,1,,x|y,Ada\nb,1,One,y|z,Bob\nb,2,Two,,Bob\na,3,,,Ada\n",
    )
    assert known(path, columns={"category": "kind"}) == [
        ("1", "One", ["x", "y", "z"]),
        ("2", "Two", []),
        ("3", None, []),
    ]


def test_titles_of_several_tokens(tmp_path: Path) -> None:
    header = "user_id:token\titem_id:token\tmovie_title:token_seq\tclass:token\n"
    path = write(tmp_path / "log.inter", f"{header}a\t1\tToy Story\tComedy\n")
    assert known(path) == [("1", "Toy Story", ["Comedy"])]


def test_a_name_in_the_log_is_not_taken_for_a_title(tmp_path: Path) -> None:
    assert known(write(tmp_path / "log.csv", "user,item,name\na,1,Ada\n")) == []


# Refusals: the content of log.csv, and what the message must say


def with_unwillingness(cell: str) -> str:
    return f"user,item,beta\na,b,0\na,c,{cell}\n"


RANGE = "accepted: a number from 0 (use freely) to 1 (never)"
REFUSED_TEXT = {
    "empty": ("", ["the file is empty"]),
    "blank": (" \n\n", ["the file is empty"]),
    "header only": ("user,item\n", ["no rows"]),
    "no user": ("who,item\na,b\n", ["the user?", "'who', 'item'", "columns={'user': 'NAME'}"]),
    "no item": ("user,what\na,b\n", ["the item?", "'user', 'what'", "columns={'item': 'NAME'}"]),
    "column twice": ("user,item,item\na,b,c\n", ["column 'item' occurs twice"]),
    "quoted column twice": ('user,item," item"\na,b,c\n', ["column 'item' occurs twice"]),
    "control characters": (
        "user,item,time\na,b,\x1b[31m\x07\n",
        ["column 'time' is '\\x1b[31m\\x07'"],
    ),
    "UTF-16 without a mark": (
        "user,item\na,b\n".encode("utf-16-le").decode(),
        ["line 1 is not text (byte 0x00)"],
    ),
    "no user id": (
        "user,item\na,b\n,c\n",
        ["row 2", "column 'user' is empty", "accepted: a number or a text"],
    ),
    "quoted nothing": ('user,item\na,b\nc,""\n', ["row 2", "column 'item' is empty"]),
    "NUL in id": ("user,item\na,b\n\0c,d\n", ["row 2", "column 'user' is '\\x00c'"]),
    "bad time": (
        "user,item,time\na,b,5\na,c,soon\n",
        ["row 2", "column 'time' is 'soon'", "accepted: a number", "ISO date or datetime"],
    ),
    "bad first time": ("user,item,time\na,b,5th\na,c,6\n", ["row 1", "column 'time' is '5th'"]),
    "mixed times": ("user,item,time\na,b,2024-05-31\na,c,2024\n", ["row 2", "column 'time' is '2024'"]),
    "no such day": ("user,item,date\na,b,2024-02-30\n", ["row 1", "column 'date' is '2024-02-30'"]),
    "gap in times": ("user,item,time\na,b,5\na,c,\n", ["row 2", "column 'time' is empty"]),
    "endless time": ("user,item,time\na,b,inf\n", ["row 1", "column 'time' is 'inf'"]),
    "unwillingness above 1": (with_unwillingness("1.5"), ["row 2", "column 'beta' is '1.5'", RANGE]),
    "unwillingness below 0": (with_unwillingness("-0.1"), ["row 2", "column 'beta' is '-0.1'", RANGE]),
    "unwillingness NaN": (with_unwillingness("NaN"), ["row 2", "column 'beta' is 'NaN'", RANGE]),
    "unwillingness word": (with_unwillingness("never"), ["row 2", "column 'beta' is 'never'", RANGE]),
    "unwillingness missing": (with_unwillingness(""), ["row 2", "column 'beta' is empty", RANGE]),
    "repeated pairs": (
        "user,item\nu,i\nv,i\nw,j\nu,i\nw,j\nu,i\n",
        ["rows 1 and 4", "user 'u' and item 'i'", "3 such repetitions", "duplicates='first'"],
    ),
    "short row": ("user,item,time\na,b,5\na,c\n", ["row 2 has 2 field(s)", "accepted: 3"]),
    "long row": ("user,item\na,b\na,c\na,d,5\n", ["row 3 has 3 field(s)", "accepted: 2"]),
    "blank row": ("user,item\na,b\n\na,d\n", ["row 2 has 1 field(s)", "accepted: 2"]),
    "ragged after quotes": ('user,item\n"a,\n""x",b\na\n', ["row 2 has 1 field(s)"]),
    "open quote": (
        'user,item\na,b\n"c,d\n',
        ["line 3 has a stray quote", "accepted: quotes around a whole field"],
    ),
    "quotes in fields": ('user,item\na,b\nc,5" disk\nd,7" disk\n', ["line 3 has a stray quote"]),
    "text after a quote": ('user,item\na,"b"c"d"\n', ["line 2 has a stray quote"]),
    "repeated column": ("user,item, item\na,b,c\n", ["column 'item' occurs twice"]),
    "long value": (
        f"user,item,time\na,b,{'x' * 999}\n",
        ["row 1", "column 'time' is 'xxx", "xxx...'; accepted"],
    ),
    "many columns": (
        ",".join(f"c{n}" for n in range(99)) + "\n" + "," * 98 + "\n",
        ["the user?", "'c19' and 79 more"],
    ),
}


@pytest.mark.parametrize(("content", "parts"), REFUSED_TEXT.values(), ids=REFUSED_TEXT.keys())
def test_refused_text(tmp_path: Path, content: str, parts: list[str]) -> None:
    path = write(tmp_path / "log.csv", content)
    message = refusal(path)
    assert message.startswith(f"{path}: ")
    for part in parts:
        assert part in message


def parquet(**columns: Any) -> pl.DataFrame:
    return pl.DataFrame({"user": ["a", "a"], "item": ["b", "c"], **columns})


REFUSED_PARQUET = {
    "no rows": (parquet().head(0), ["no rows"]),
    "null id": (parquet(item=["b", None]), ["row 2", "column 'item' is empty"]),
    "rounded id": (
        parquet(user=[1.0, 2.0**60]),
        ["row 2", "column 'user' is 1.152921504606847e+18", "accepted: floats below 9007199254740992"],
    ),
    "huge id": (parquet(user=[1.0, -1e300]), ["row 2", "column 'user' is -1e+300"]),
    "rounded small float": (
        parquet(user=pl.Series([2.0**24, 1.0], dtype=pl.Float32)),
        ["row 1", "accepted: floats below 16777216"],
    ),
    "endless id": (parquet(user=[1.0, float("inf")]), ["row 2", "column 'user' is inf"]),
    "date as id": (parquet(user=[datetime.date(2024, 1, 1)] * 2), ["column 'user' has the type Date"]),
    "blank id": (parquet(user=["a", " \t"]), ["row 2", "column 'user' is ' \\t'"]),
    "NaN id": (parquet(user=[1.0, float("nan")]), ["row 2", "column 'user' is nan"]),
    "nested id": (parquet(user=[[1], [2]]), ["column 'user' has the type List(Int64)", "text or numbers"]),
    "truth as id": (parquet(user=[True, False]), ["column 'user' has the type Boolean"]),
    "nested time": (parquet(time=[[1], [2]]), ["row 1", "column 'time' is", "accepted: a number"]),
    "clock": (parquet(time=[datetime.time(1)] * 2), ["row 1", "column 'time' is", "accepted: a number"]),
    "truth as unwillingness": (parquet(beta=[False, True]), ["row 1", "column 'beta' is False", RANGE]),
    "NaN unwillingness": (parquet(beta=[0.5, float("nan")]), ["row 2", "column 'beta' is nan", RANGE]),
    "null unwillingness": (parquet(beta=[0.5, None]), ["row 2", "column 'beta' is empty", RANGE]),
    "unwillingness above 1": (parquet(beta=[0, 2]), ["row 2", "column 'beta' is 2", RANGE]),
    "nested category": (parquet(category=[[{"a": 1}]] * 2), ["column 'category' has the type Struct"]),
}


@pytest.mark.parametrize(("log", "parts"), REFUSED_PARQUET.values(), ids=REFUSED_PARQUET.keys())
def test_refused_parquet(tmp_path: Path, log: pl.DataFrame, parts: list[str]) -> None:
    path = tmp_path / "log.parquet"
    log.write_parquet(path)
    message = refusal(path)
    assert message.startswith(f"{path}: ")
    for part in parts:
        assert part in message


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-20], lambda data: data[:4], lambda _: b"\x7fELF" * 99]
)
def test_damaged_parquet(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "log.parquet"
    LOG.write_parquet(path)
    path.write_bytes(damage(path.read_bytes()))
    assert refusal(path) == f"{path}: not a readable parquet file (truncated or damaged)"


@pytest.mark.parametrize("name", ["log.csv", "log.tsv", "log.inter"])
def test_bytes_that_are_not_text(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, b"user,item\na,b\na,\xffc\n")
    assert refusal(path) == f"{path}: line 3 is not text (byte 0xff); accepted: text in UTF-8"


@given(
    name=st.sampled_from(["log.csv", "log.tsv", "log.inter"]),
    place=st.integers(0, 100),
    gap=st.integers(0, 5),
    damage=st.text('",\n\r\t\0|:.a1').map(str.encode) | st.binary(),
)
@settings(max_examples=200, deadline=None)
def test_damage_is_refused_in_one_line_or_harmless(
    tmp_path_factory: pytest.TempPathFactory, name: str, place: int, gap: int, damage: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / name
    WRITERS[name](LOG, path)
    data = path.read_bytes()
    path.write_bytes(data[:place] + damage + data[place + gap :])
    try:
        pairs = read_interactions(path).table.select("user", "item")
    except AssentError as error:
        pairs, message = LOG.select("user_id", "item_id"), str(error)
    else:
        message = f"{path}: read"
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    assert pairs.null_count().row(0) == (0, 0)
    assert not pairs.is_duplicated().any()


@pytest.mark.parametrize("role", ["user", "item", "time", "unwillingness", "category", "title"])
def test_named_column_that_is_absent(tmp_path: Path, role: str) -> None:
    path = write(tmp_path / "log.csv", "user,item\na,b\n")
    message = refusal(path, columns={role: "nope"})
    assert message == f"{path}: no column 'nope' (columns={{{role!r}: 'nope'}}); columns: 'user', 'item'"


def test_a_dropped_repeat_never_makes_anybody_more_willing(tmp_path: Path) -> None:
    path = write(tmp_path / "log.csv", "user,item,unwillingness\na,b,0.9\na,b,0.2\na,c,0.3\n")
    for duplicates in ("first", "last"):
        table = read_interactions(path, duplicates=duplicates).table
        assert table["unwillingness"].to_list() == [0.9, 0.3]


@pytest.mark.parametrize("dtype", [pl.String(), pl.Categorical(), pl.Enum(["train", "valid", "test"])])
def test_a_column_called_split_that_says_the_parts_is_the_split(tmp_path: Path, dtype: pl.DataType) -> None:
    split = pl.Series(["train", "valid", "test"], dtype=dtype)
    pl.DataFrame({"user": list("aab"), "item": list("xyx"), "Split": split}).write_parquet(
        tmp_path / "log.parquet"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = read_interactions(tmp_path / "log.parquet").table["split"]
    assert found.to_list() == ["train", "valid", "test"]
    assert found.dtype == pl.String


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (["train", "dev", "odd"], "row 2 says 'dev'"),
        (["train", None, "test"], "row 2 says None"),
        ([0, 1, 2], "row 1 says 0"),
        ([["train"], ["valid"], ["test"]], r"row 1 says "),
    ],
    ids=["text", "gap", "numbers", "lists"],
)
def test_a_column_called_split_that_says_anything_else_is_ignored_with_a_warning(
    tmp_path: Path, values: list[Any], said: str
) -> None:
    pl.DataFrame({"user": list("aab"), "item": list("xyx"), "split": values}).write_parquet(
        tmp_path / "log.parquet"
    )
    with pytest.warns(
        UserWarning, match=f"column 'split' is ignored, since {said}.*columns={{'split': 'split'}}"
    ):
        assert "split" not in read_interactions(tmp_path / "log.parquet").table.columns


def test_a_split_column_that_is_named_has_to_say_the_parts(tmp_path: Path) -> None:
    path = write(tmp_path / "log.csv", "user,item,part\na,b,train\na,c,validation\n")
    assert "split" not in read_interactions(path).table.columns
    named = read_interactions(path, columns={"split": "part"}).table
    assert named["split"].to_list() == ["train", "valid"]
    write(path, "user,item,part\na,b,train\na,c,dev\n")
    message = refusal(path, columns={"split": "part"})
    assert message == f"{path}: row 2, column 'part' is 'dev'; accepted: train, valid, test"


def test_a_named_split_of_lists_is_refused(tmp_path: Path) -> None:
    pl.DataFrame({"user": ["a"], "item": ["x"], "split": [["train"]]}).write_parquet(tmp_path / "log.parquet")
    with pytest.raises(AssentError, match="column 'split' has the type List"):
        read_interactions(tmp_path / "log.parquet", columns={"split": "split"})


def test_one_column_for_user_and_item(tmp_path: Path) -> None:
    path = write(tmp_path / "log.csv", "user,item\na,b\n")
    assert "'item' is both user and item" in refusal(path, columns={"user": "item"})


def test_paths_that_hold_no_log(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none.csv") == f"{tmp_path / 'none.csv'}: no such file or folder"
    text = refusal(write(tmp_path / "log.xlsx", "user,item\na,b\n"))
    assert "log.xlsx: unknown kind of file '.xlsx'; accepted: .inter, .parquet, .csv, .tsv" in text
    folder = tmp_path / "folder"
    write(folder / "readme.txt", "nothing here")
    assert "the folder holds no data file; accepted: folder.inter, or exactly one file of" in refusal(folder)
    write(folder / "a.csv", "user,item\na,b\n")
    write(folder / "b.parquet", "")
    assert "the folder holds 'a.csv', 'b.parquet'; accepted: folder.inter" in refusal(folder)


def test_item_files_that_cannot_be_used(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    log = write(folder / "log.csv", "user,item\na,b\n")
    assert "items.csv: no such file" in refusal(log, items=folder / "items.csv")
    assert "accepted: .item, .parquet" in refusal(log, items=folder)
    unknown = write(tmp_path / "items.csv", "sku,title\nb,Jam\n")
    assert "items.csv: which column is the item? columns: 'sku', 'title'" in refusal(log, items=unknown)
    gap = write(tmp_path / "gap.csv", "item,title\nb,Jam\n,Tea\n")
    assert "gap.csv: row 2, column 'item' is empty" in refusal(log, items=gap)
    plain = write(tmp_path / "plain.csv", "item,title\nb,Jam\n")
    message = refusal(log, items=plain, columns={"category": "kind"})
    assert message == f"{plain}: no column 'kind' (columns={{'category': 'kind'}}); columns: 'item', 'title'"
    write(folder / "a.item", STEAM)
    write(folder / "b.item", STEAM)
    assert "the folder holds 'a.item', 'b.item'; accepted: log.item" in refusal(folder)


def test_roles_and_choices_that_there_are_not(tmp_path: Path) -> None:
    path = write(tmp_path / "log.csv", "user,item\na,b\n")
    message = refusal(path, columns={"owner": "x"})
    assert message == (
        "columns={'owner': 'x'}: unknown role 'owner'; "
        "accepted: user, item, time, unwillingness, willingness, category, title, split, rating"
    )
    assert refusal(path, duplicates="both") == "duplicates='both': accepted: error, first, last"


# Real data


@pytest.mark.parametrize(
    ("name", "users", "items", "interactions"),
    [
        ("diginetica", 2_879, 10_835, 17_268),
        ("steam", 3_220, 2_439, 21_662),
        ("amazon_video_games", 3_013, 11_169, 19_458),
        ("simulation_authors", 1_000, 1_000, 12_305),
        ("gowalla", 29_858, 40_981, 1_027_370),
    ],
)
def test_real_data(name: str, users: int, items: int, interactions: int) -> None:
    folder = REAL_DATA / name
    if not folder.is_dir():
        pytest.skip(f"no folder {name} in {REAL_DATA}; set ASSENT_DATA")
    read = read_interactions(folder)
    counts = (read.table["user"].n_unique(), read.table["item"].n_unique(), len(read))
    assert counts == (users, items, interactions)
    assert (read.items.height > 0) == (name in ("diginetica", "steam"))
    assert (read.table["time"].null_count() == 0) == (name != "gowalla")
