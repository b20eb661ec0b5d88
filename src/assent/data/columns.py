"""Columns of a file or a data frame as typed values; the first cell that does not fit is an `AssentError`.

A new kind of file is one function and one entry of `READERS`.
"""

import codecs
from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from assent.support.arrays import Ints
from assent.support.errors import AssentError

SEQUENCES = ("token_seq", "float_seq")
"""Types in an atomic file's header whose cells hold several values, separated by spaces."""
ISO_DATE = r"^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(?::(\d\d(?:\.\d+)?))?\s?(?:Z|([+-]\d\d:?\d\d))?)?$"
"""ISO 8601: date, clock, seconds, offset from UTC; all but the date are optional."""


class Scale(StrEnum):
    """How unwillingness is written."""

    UNIT = "0-1"
    PERCENT = "percent"
    FLAG = "flag"
    FIVE = "five"


@dataclass(frozen=True)
class Table:
    """Columns by name as they stand in a file or a data frame; messages call it `origin`.

    Columns of a text file (csv, tsv, atomic) are String, or List[String] if an atomic file's header declares
    a sequence. Those of a parquet file or a data frame keep their types. There is at least one row.
    """

    origin: str
    names: list[str]
    height: int
    column: Callable[[str], pl.Series]
    cells: Callable[[str, pl.Series], pl.Series] | None = None
    """Some rows of a column, by a mask, where other rows may stand in the way of reading them."""
    numbers: pl.Series | None = None
    """The number of each row in the file; None if they are all there."""

    def __post_init__(self) -> None:
        if not self.height and self.numbers is None:
            raise AssentError(f"{self.origin}: there are no rows; accepted: at least one")

    def only(self, kept: pl.Series) -> "Table":
        """The rows of a mask; messages count them as before, and nothing depends on the other rows."""
        cells = self.cells or (lambda name, rows: self.column(name).filter(rows))
        numbers = kept.arg_true() + 1
        column = cache(lambda name: cells(name, kept))
        return Table(self.origin, self.names, len(numbers), column, numbers=numbers)

    def number(self, row: int) -> int:
        """The number in the file, from 1 on, of a row of this table, from 0 on."""
        return row + 1 if self.numbers is None else int(self.numbers[row])

    def ids(self, name: str) -> pl.Series:
        """A column as String, never null or empty; how a cell reads does not depend on other cells."""
        texts = self.texts(name).str.strip_chars()
        if self.column(name).dtype == pl.String:
            texts = texts.str.replace(r"^(-?[0-9]+)\.0$", "${1}")
        # numpy drops a NUL at the end of a text: two ids could become one.
        self._demand(name, (texts != "") & ~texts.str.contains("\0", literal=True), "a number or a text")
        return texts

    def texts(self, name: str) -> pl.Series:
        """A column as String; 12.0 reads as 12, NaN and infinities are null."""
        values = self.column(name)
        self._demand_plain(name, values.dtype)
        texts = values.cast(pl.String)
        if values.dtype.is_float():
            whole = values.cast(pl.Int64, strict=False)
            choice = pl.when(whole == values).then(whole.cast(pl.String)).when(values.is_finite()).then(texts)
            return pl.select(choice).to_series()
        return texts.str.replace(r"\.0+$", "") if values.dtype.is_decimal() else texts

    def titles(self, name: str) -> pl.Series:
        """A column as String, null if empty."""
        lists = self._lists(name)
        texts = self.texts(name) if lists is None else lists.list.join(" ", ignore_nulls=True)
        return texts.replace("", None)

    def categories(self, name: str) -> pl.Series:
        """A column as List[String]: lists as they are, text split at `|`."""
        lists = self._lists(name)
        return self.texts(name).str.split("|") if lists is None else lists

    def unwillingness(
        self, name: str, *, gaps: bool = False, scale: Scale | str = Scale.UNIT, is_reversed: bool = False
    ) -> pl.Series:
        """A column as Float64 in [0, 1]; with `gaps`, empty cells are null.

        If the column `is_reversed`, it holds willingness: a value w is an unwillingness of 1 - w.
        """
        values = self.column(name)
        numbers = _numbers(values) / (100 if Scale(scale) is Scale.PERCENT else 1)
        fine = numbers.is_between(0, 1).fill_null(False)
        if gaps:
            fine |= values.cast(pl.String).str.strip_chars().fill_null("") == ""
        accepted = "a number from 0 (use freely) to 1 (never)"
        self._demand(name, fine, accepted if gaps else f"{accepted}, or gaps=True for empty ones")
        return 1.0 - numbers if is_reversed else numbers

    def times(self, name: str) -> pl.Series:
        """A column as Float64, dates as seconds since 1970; null in all rows or in none.

        A single gap is refused: that row would have no place in the order.
        """
        values = self.column(name)
        if values.null_count() == len(values):
            return no_values(len(values), pl.Float64())
        seconds = _numbers(values)
        if isinstance(values.dtype, pl.Date | pl.Datetime):
            seconds = values.dt.epoch("us") / 1e6
        # The first row decides for all: in a mixed column, 2024 could be a year or a second.
        elif values.dtype == pl.String and seconds[0] is None:
            seconds = _iso_seconds(values)
        accepted = "a number in every row, or an ISO date or datetime (2024-05-31T18:30:00Z) in every row"
        self._demand(name, seconds.is_finite(), accepted)
        return seconds

    def _lists(self, name: str) -> pl.Series | None:
        """A column of lists as List[String], None for a column of another type."""
        values = self.column(name)
        if not isinstance(values.dtype, pl.List | pl.Array):
            return None
        self._demand_plain(name, values.head(0).explode().dtype)
        return values.cast(pl.List(pl.String))

    def _demand(self, name: str, fine: pl.Series, accepted: str) -> None:
        """Raise for the first row of a column that is not `fine` (false or null)."""
        refused = (~fine.fill_null(False)).arg_true()
        if len(refused):
            row = refused[0]
            value = self.column(name)[row]
            shown = "empty" if value is None or (isinstance(value, str) and not value) else quoted(value)
            place = f"{self.origin}: row {self.number(row)}, column {name!r}"
            raise AssentError(f"{place} is {shown}; accepted: {accepted}")

    def _demand_plain(self, name: str, dtype: pl.DataType) -> None:
        """Raise for a type whose values have no obvious text: times, bytes, booleans, nested values."""
        if not (dtype.is_numeric() or dtype in (pl.String, pl.Categorical, pl.Enum, pl.Null)):
            place = f"{self.origin}: column {name!r}"
            raise AssentError(f"{place} has the type {dtype}; accepted: text or numbers")


def no_values(height: int, dtype: pl.DataType) -> pl.Series:
    """A column of nulls."""
    return pl.repeat(None, height, dtype=dtype, eager=True)


def quoted(value: object) -> str:
    """Quote a value for a message, in one line of at most 80 characters."""
    whole = " ".join(repr(value).split())
    return whole if len(whole) <= 80 else f"{whole[:77]}..."


def listed(names: list[str]) -> str:
    """List up to 20 names for a message, in one line."""
    shown = ", ".join(quoted(name) for name in names[:20])
    return shown if len(names) <= 20 else f"{shown} and {len(names) - 20} more"


def _numbers(values: pl.Series) -> pl.Series:
    """A column as Float64, null where it holds no number."""
    if values.dtype == pl.String:
        return values.str.strip_chars().cast(pl.Float64, strict=False)
    return values.cast(pl.Float64) if values.dtype.is_numeric() else no_values(len(values), pl.Float64())


def _iso_seconds(texts: pl.Series) -> pl.Series:
    date, clock, seconds, offset = texts.str.strip_chars().str.extract_groups(ISO_DATE).struct.unnest()
    whole = date + "T" + clock.fill_null("00:00") + ":" + seconds.fill_null("00") + offset.fill_null("+00:00")
    return whole.str.to_datetime("%Y-%m-%dT%H:%M:%S%.f%z", strict=False, time_unit="us").dt.epoch("us") / 1e6


def table_of(frame: Any, origin: str) -> Table:
    """The columns of a polars or pandas DataFrame, converted when they are asked for."""
    if isinstance(frame, pl.DataFrame):
        return Table(origin, frame.columns, frame.height, frame.get_column)
    if not hasattr(frame, "iloc"):
        kind = type(frame).__name__
        raise AssentError(f"{origin}: is of type {kind}; accepted: a DataFrame of polars or pandas")
    names = [str(label) for label in frame.columns]
    _refuse_repeated(origin, names)

    def cells(name: str, rows: pl.Series) -> pl.Series:
        return _of_pandas(frame.iloc[rows.to_numpy(), names.index(name)], f"{origin}: column {name!r}")

    column = cache(lambda name: _of_pandas(frame.iloc[:, names.index(name)], f"{origin}: column {name!r}"))
    return Table(origin, names, len(frame), column, cells)


def _of_pandas(column: Any, place: str) -> pl.Series:
    """Convert a pandas column without pyarrow; what pandas calls missing is null."""
    if column.dtype.kind == "M":  # also with a time zone: it becomes UTC
        return pl.Series(column.to_numpy("datetime64[us]"))
    values = column.to_numpy()
    if values.dtype.kind in "biuf":
        return pl.Series(values, nan_to_null=True)
    missing = column.isna().to_numpy()
    cells = [None if gone else value for value, gone in zip(values.tolist(), missing, strict=True)]
    try:
        return pl.Series(cells)
    except (TypeError, OverflowError, pl.exceptions.PolarsError):
        raise AssentError(f"{place} mixes types of values; accepted: one type in all rows") from None


def read_table(path: Path, accepted: Collection[str]) -> Table:
    """Read a file whose suffix is one of `accepted`, which are keys of `READERS`."""
    if not path.exists():
        raise AssentError(f"{path}: no such file or folder")
    suffix = path.suffix.lower()
    if suffix not in accepted:
        raise AssentError(f"{path}: unknown kind of file {suffix!r}; accepted: {', '.join(accepted)}")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise AssentError(f"{path}: cannot be read ({error.strerror})") from None
    if not data.strip():
        raise AssentError(f"{path}: the file is empty; accepted: a header and at least one row")
    return table_of(READERS[suffix](path, data), str(path))


def _parquet(path: Path, data: bytes) -> pl.DataFrame:
    try:
        return pl.read_parquet(data)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        raise AssentError(f"{path}: not a readable parquet file (truncated or damaged)") from None


def _text(path: Path, data: bytes, *, separator: str, quote: str | None) -> pl.DataFrame:
    """Columns of separated text, all String: ids such as 007 must not become numbers."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        place, byte = f"{path}: line {_line(data, error.start)}", data[error.start]
        raise AssentError(f"{place} is not text (byte 0x{byte:02x}); accepted: text in UTF-8") from None
    data = data.removeprefix(codecs.BOM_UTF8).strip(b"\r\n")
    _refuse_ragged_rows(path, data, separator=separator, quote=quote)
    try:
        frame = pl.read_csv(data, separator=separator, quote_char=quote, infer_schema=False)
    except pl.exceptions.PolarsError as error:
        raise AssentError(f"{path}: not readable as separated text ({str(error).splitlines()[0]})") from None
    return _named(path, frame, [name.strip() for name in frame.columns])


def _atomic(path: Path, data: bytes) -> pl.DataFrame:
    """Columns of a RecBole file: tab separated, no quoting, a header of `name:type`."""
    frame = _text(path, data, separator="\t", quote=None)
    parts = [name.partition(":") for name in frame.columns]
    sequences = [name for name, _, kind in parts if kind in SEQUENCES]
    return _named(path, frame, [name for name, _, _ in parts]).with_columns(pl.col(sequences).str.split(" "))


def _named(path: Path, frame: pl.DataFrame, names: list[str]) -> pl.DataFrame:
    _refuse_repeated(str(path), names)
    return frame.rename(dict(zip(frame.columns, names, strict=True)))


def _refuse_repeated(origin: str, names: list[str]) -> None:
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise AssentError(f"{origin}: column {repeated!r} occurs twice; accepted: once")


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


READERS: dict[str, Callable[[Path, bytes], pl.DataFrame]] = {
    ".inter": _atomic,
    ".item": _atomic,
    ".parquet": _parquet,
    ".csv": partial(_text, separator=",", quote='"'),
    ".tsv": partial(_text, separator="\t", quote='"'),
}
"""Readers of files by suffix: from a path and the file's bytes to a data frame."""
TABLES = tuple(suffix for suffix in READERS if suffix not in (".inter", ".item"))
"""Suffixes of files that may hold any table."""
LOG_FILES = (".inter", *TABLES)
"""Suffixes of files that may hold interactions."""
ITEM_FILES = (".item", *TABLES)
"""Suffixes of files that may hold items."""
