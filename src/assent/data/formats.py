"""Kinds of files: from the bytes of a file to a `Table`.

A new kind is one function and one entry of `READERS`.
"""

import codecs
import json
import re
import warnings
from collections.abc import Callable, Collection
from functools import cache, partial
from gzip import GzipFile
from io import BytesIO
from pathlib import Path
from typing import Any, Final, Never
from zlib import error as ZlibError

import numpy as np
import numpy.typing as npt
import polars as pl

from assent.data.columns import Table, first_repeated, quoted, refuse_repeated, table_of
from assent.data.databases import is_url, not_read
from assent.support.arrays import Ints
from assent.support.errors import AssentError

SEQUENCES: Final = ("token_seq", "float_seq")
"""Types in an atomic file's header whose cells hold several values, separated by spaces."""
SEPARATORS: Final = {",": "commas", ";": "semicolons", "\t": "tabs"}
"""What may stand between the fields of a csv file, and how messages call it."""
SQLITE: Final = (".db", ".sqlite", ".sqlite3")
"""Usual suffixes of databases, which are named by a URL."""
GREATEST_RATIO: Final = 200
"""How much larger than its file decompressed text may be. Logs of real rows come to 3 to 30."""
SMALL: Final = 2**24
"""Bytes of decompressed text that are accepted at any ratio."""
_AT_ONCE: Final = 2**20
"""Bytes that are decompressed at once."""


def kind_of(path: str | Path) -> str:
    """The kind of a file by its name: the suffix in lower case, of a gz file the last two (.csv.gz)."""
    *_, before, last = ["", "", *(suffix.lower() for suffix in Path(path).suffixes)]
    return before + last if last == ".gz" else last


def stem_of(path: Path) -> str:
    """The name of a file without its `kind_of`."""
    return path.name[: len(path.name) - len(kind_of(path))]


def read_table(path: Path, accepted: Collection[str]) -> Table:
    """Read a file whose kind is one of `accepted`: of `TABLES`, `LOG_FILES` or `ITEM_FILES`."""
    kind = kind_of(path)
    if is_url(path):
        raise not_read(path)
    try:
        if not path.exists():
            raise AssentError(f"{path}: no such file or folder")
        if kind not in accepted:
            or_else = f", or sqlite:///{path}" if kind in SQLITE else ""
            raise AssentError(
                f"{path}: unknown kind of file {kind!r}; accepted: {', '.join(accepted)}{or_else}"
            )
        if not path.is_file():
            raise AssentError(f"{path}: not a file; accepted: a file of rows")
        data = path.read_bytes()
    except OSError as error:
        raise AssentError(f"{path}: cannot be read ({error.strerror})") from None
    if kind.endswith(".gz"):
        data = _decompressed(path, data)
    if not data or data.isspace():
        raise AssentError(f"{path}: the file is empty; accepted: a header and at least one row")
    return READERS[kind.removesuffix(".gz")](path, data)


def _decompressed(path: Path, data: bytes) -> bytes:
    """Decompress a gz file; what would fill the memory from a small file is refused on the way."""
    most = max(SMALL, GREATEST_RATIO * len(data))
    chunks: list[bytes] = []
    try:
        with GzipFile(fileobj=BytesIO(data)) as file:
            while chunk := file.read(_AT_ONCE):
                chunks.append(chunk)
                most -= len(chunk)
                if most < 0:
                    grows = f"grows more than {GREATEST_RATIO} times when it is decompressed"
                    raise AssentError(f"{path}: {grows}; accepted: less, or the decompressed file")
    except (OSError, EOFError, ZlibError):
        raise AssentError(f"{path}: not a readable gzip file (truncated or damaged)") from None
    return b"".join(chunks)


def _parquet(path: Path, data: bytes) -> Table:
    try:
        return table_of(pl.read_parquet(data), str(path))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        raise AssentError(f"{path}: not a readable parquet file (truncated or damaged)") from None


def _separated(path: Path, data: bytes, *, separators: str, quote: str | None) -> Table:
    return table_of(_text(path, data, separators=separators, quote=quote), str(path))


def _atomic(path: Path, data: bytes) -> Table:
    """Columns of a RecBole file: tab separated, no quoting, a header of `name:type`."""
    frame = _text(path, data, separators="\t", quote=None)
    parts = [name.partition(":") for name in frame.columns]
    sequences = [name for name, _, kind in parts if kind in SEQUENCES]
    names = [name for name, _, _ in parts]
    refuse_repeated(str(path), names)
    frame.columns = names
    return table_of(frame.with_columns(pl.col(sequences).str.split(" ")), str(path))


def _text(path: Path, data: bytes, *, separators: str, quote: str | None) -> pl.DataFrame:
    """Columns of separated text, all String: ids such as 007 must not become numbers.

    Columns without a name are left out: nobody could ask for them.
    """
    data = _utf8(path, data).strip(b"\r\n")
    header = _header(data, quote)
    if b"\0" in header:
        raise AssentError(f"{path}: line 1 is not text (byte 0x00); accepted: text in UTF-8")
    separator = _separator(header.decode(), separators)
    if separator != separators[0]:
        warnings.warn(f"{path}: read with {SEPARATORS[separator]} between fields, as in line 1", stacklevel=2)
    _refuse_ragged_rows(path, data, separator=separator, quote=quote)
    try:
        # The mark keeps polars from taking a text that begins with x^ for a compressed one.
        frame = pl.read_csv(
            codecs.BOM_UTF8 + data,
            separator=separator,
            quote_char=quote,
            has_header=False,
            infer_schema=False,
        )
    except pl.exceptions.PolarsError as error:
        raise AssentError(f"{path}: not readable as separated text ({str(error).splitlines()[0]})") from None
    written = [name and name.strip() for name in frame.row(0)]
    named = [column for column, name in zip(frame.columns, written, strict=True) if name]
    names = [name for name in written if name]
    refuse_repeated(str(path), names)
    frame = frame.slice(1).select(named)
    frame.columns = names
    return frame


def _utf8(path: Path, data: bytes) -> bytes:
    """The bytes of a text without the mark at its start; an `AssentError` if it is not in UTF-8."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        place, byte = f"{path}: line {_line(data, error.start)}", data[error.start]
        raise AssentError(f"{place} is not text (byte 0x{byte:02x}); accepted: text in UTF-8") from None
    return data.removeprefix(codecs.BOM_UTF8)


def _header(data: bytes, quote: str | None) -> bytes:
    """The first line without what is in quotes."""
    header = data[: data.find(b"\n") + 1 or None]
    return re.sub(rb'"[^"]*"', b"", header) if quote else header


def _separator(header: str, separators: str) -> str:
    """The first of `separators` if the header has it, else that which it has most often."""
    return separators[0] if separators[0] in header else max(separators, key=header.count)


def _refuse_ragged_rows(path: Path, data: bytes, *, separator: str, quote: str | None) -> None:
    """Raise for a row with fewer or more fields than the header, which polars would fill up, or stray quotes.

    A byte is inside a quoted field if an odd number of quotes precedes it (an escaped quote counts twice).
    """
    codes = np.frombuffer(data, np.uint8)
    quotes = np.flatnonzero(codes == ord(quote)) if quote else np.empty(0, np.int64)
    stray = _stray(codes, quotes, separator)
    if len(stray):
        line, accepted = _line(data, stray[0]), "quotes around a whole field, doubled within it"
        raise AssentError(f"{path}: line {line} has a stray quote; accepted: {accepted}")
    separators, ends = (
        places[np.searchsorted(quotes, places) % 2 == 0]
        for places in (np.flatnonzero(codes == ord(character)) for character in (separator, "\n"))
    )
    widths = np.diff(np.searchsorted(separators, np.append(ends, len(data))), prepend=0) + 1
    ragged = np.flatnonzero(widths != widths[0])
    if len(ragged):
        place, width = f"{path}: row {ragged[0]}", widths[ragged[0]]
        raise AssentError(f"{place} has {width} field(s); accepted: {widths[0]}, as in the header")


def _stray(codes: npt.NDArray[np.uint8], quotes: Ints, separator: str) -> Ints:
    """Places of quotes within a field, as in 5" disk: two of them would swallow the rows between them.

    Quotes open and close in turn. An opening one stands at the start of a field, a closing one at its end;
    beside another quote it is half of an escaped quote. The last of an odd number is never closed.
    """
    beside = np.frombuffer(f'"{separator}\r\n'.encode(), np.uint8)
    around = np.concatenate([beside[-1:], codes, beside[-1:]])
    neighbours = np.where(np.arange(len(quotes)) % 2 == 0, around[quotes], around[quotes + 2])
    return np.append(quotes[~np.isin(neighbours, beside)], quotes[-1:] if len(quotes) % 2 else quotes[:0])


def _line(data: bytes, place: int) -> int:
    return data.count(b"\n", 0, place) + 1


def _json_lines(path: Path, data: bytes) -> Table:
    """Columns of one JSON object per line. Numbers become text as they are written: 30 digits stay 30 digits.

    A key that a line lacks is an empty cell. Columns are made when they are asked for, so that nested values
    in others do not matter.
    """
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(_utf8(path, data).strip(b"\r\n").split(b"\n"), 1):
        try:
            row = _JSON.decode(line.decode())
        except (ValueError, RecursionError) as error:
            reason = getattr(error, "msg", error)
            raise AssentError(f"{path}: line {number} is not valid JSON ({reason})") from None
        if not isinstance(row, dict):
            raise AssentError(f"{path}: line {number} is not a JSON object; accepted: one object per line")
        rows.append(row)

    def names_in(kept: pl.Series) -> list[str]:
        some = (row for row, is_kept in zip(rows, kept, strict=True) if is_kept)
        return list(dict.fromkeys(name for row in some for name in row))

    def column(name: str) -> pl.Series:
        return _json_column([row.get(name) for row in rows], f"{path}: column {quoted(name)}")

    def cells(name: str, kept: pl.Series) -> pl.Series:
        some = [row.get(name) for row, is_kept in zip(rows, kept, strict=True) if is_kept]
        return _json_column(some, f"{path}: column {quoted(name)}")

    names = names_in(pl.repeat(True, len(rows), eager=True))
    return Table(str(path), names, len(rows), cache(column), cells, names_in=names_in)


def _json_column(cells: list[Any], place: str) -> pl.Series:
    """A column as String, Boolean or List[String]."""
    kinds = {type(cell) for cell in cells if cell is not None}
    parts = {type(part) for cell in cells if isinstance(cell, list) for part in cell if part is not None}
    if len(kinds) > 1 or kinds == {dict} or not parts <= {str}:
        accepted = "in all rows text or numbers, or truth values, or lists of text"
        raise AssentError(f"{place} is nested or mixes types of values; accepted: {accepted}")
    dtype = pl.Boolean() if kinds == {bool} else pl.List(pl.String) if kinds == {list} else pl.String()
    try:
        return pl.Series(cells, dtype=dtype)
    except UnicodeEncodeError:
        raise AssentError(f"{place} holds half a character (an escaped surrogate); accepted: text") from None


def each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The members of a JSON object; a `ValueError` if a key occurs twice: Python would keep the last."""
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError(f"{quoted(first_repeated(name for name, _ in pairs))} occurs twice")
    return members


def _refuse_constant(name: str) -> Never:
    raise ValueError(f"{name} is no number")


_JSON: Final = json.JSONDecoder(
    object_pairs_hook=each_once, parse_int=str, parse_float=str, parse_constant=_refuse_constant
)
READERS: Final[dict[str, Callable[[Path, bytes], Table]]] = {
    ".inter": _atomic,
    ".item": _atomic,
    ".parquet": _parquet,
    ".csv": partial(_separated, separators="".join(SEPARATORS), quote='"'),
    ".tsv": partial(_separated, separators="\t", quote='"'),
    ".jsonl": _json_lines,
    ".ndjson": _json_lines,
}
"""Readers of files by suffix: from a path and the file's bytes to its columns."""
_TEXTS: Final = (".csv", ".tsv", ".jsonl", ".ndjson")
TABLES: Final = (".parquet", *_TEXTS, *(f"{suffix}.gz" for suffix in _TEXTS))
"""Kinds of files that may hold any table."""
LOG_FILES: Final = (".inter", *TABLES)
"""Kinds of files that may hold interactions."""
ITEM_FILES: Final = (".item", *TABLES)
"""Kinds of files that may hold items."""
