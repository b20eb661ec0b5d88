"""A file as a table of columns: csv, tsv, parquet and RecBole's atomic files, refused where damaged.

A column of a file as what the program works on; the first cell that cannot be is an `AssentError`.
"""

import codecs
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from assent.support.arrays import Ints
from assent.support.errors import AssentError

SEQUENCES = ("token_seq", "float_seq")
"""Types of an atomic file's header whose cells hold several values, separated by spaces."""


@dataclass(frozen=True)
class Table:
    """The columns of a file as they stand there, with its path for the errors about them.

    The columns of a text file (csv, tsv, atomic) are String, or List[String] where an atomic file's header
    declares a sequence; those of a parquet file keep their types. There is at least one row.
    """

    path: Path
    frame: pl.DataFrame


def read_table(path: Path, accepted: Collection[str]) -> Table:
    """Read `path`, whose suffix must be one of `accepted` (".csv", ".tsv", ".parquet", ".inter", ".item")."""
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
    match suffix:
        case ".parquet":
            frame = _parquet(path, data)
        case ".csv":
            frame = _text(path, data, separator=",", quote='"')
        case ".tsv":
            frame = _text(path, data, separator="\t", quote='"')
        case _:
            frame = _atomic(path, data)
    if frame.is_empty():
        raise AssentError(f"{path}: there are no rows; accepted: a header and at least one row")
    return Table(path, frame)


def _parquet(path: Path, data: bytes) -> pl.DataFrame:
    try:
        return pl.read_parquet(data)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        raise AssentError(f"{path}: not a readable parquet file (truncated or damaged)") from None


def _text(path: Path, data: bytes, *, separator: str, quote: str | None) -> pl.DataFrame:
    """Columns of separated text, all String: ids such as 007 must not become numbers."""
    _refuse_bad_encoding(path, data)
    data = data.removeprefix(codecs.BOM_UTF8).strip(b"\r\n")
    _refuse_ragged_rows(path, data, separator=separator, quote=quote)
    try:
        frame = pl.read_csv(data, separator=separator, quote_char=quote, infer_schema=False)
    except pl.exceptions.PolarsError as error:
        raise AssentError(f"{path}: not readable as separated text ({str(error).splitlines()[0]})") from None
    frame = _named(path, frame, [name.strip() for name in frame.columns])
    return frame.with_columns(_without_point_zero(column) for column in frame)


def _atomic(path: Path, data: bytes) -> pl.DataFrame:
    """Columns of a RecBole file: tab separated, no quoting, a header of `name:type`."""
    frame = _text(path, data, separator="\t", quote=None)
    parts = [name.partition(":") for name in frame.columns]
    sequences = [name for name, _, kind in parts if kind in SEQUENCES]
    return _named(path, frame, [name for name, _, _ in parts]).with_columns(pl.col(sequences).str.split(" "))


def _named(path: Path, frame: pl.DataFrame, names: list[str]) -> pl.DataFrame:
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise AssentError(f"{path}: column {repeated!r} occurs twice; accepted: once")
    return frame.rename(dict(zip(frame.columns, names, strict=True)))


def _without_point_zero(column: pl.Series) -> pl.Series:
    """Undo 12 -> 12.0, which is what many programs make of whole numbers in a column that once had gaps.

    Only where every cell looks so: then no two cells that differ become the same.
    """
    if not column.str.contains(r"^-?\d+\.0$").all():
        return column
    return column.str.strip_suffix(".0")


def _refuse_bad_encoding(path: Path, data: bytes) -> None:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise AssentError(
            f"{path}: line {_line(data, error.start)} is not text (byte 0x{data[error.start]:02x}); "
            "accepted: text in UTF-8"
        ) from None


def _refuse_ragged_rows(path: Path, data: bytes, *, separator: str, quote: str | None) -> None:
    """Raise where a row has fewer or more fields than the header; polars would fill up the short ones.

    A byte is inside a quoted field if an odd number of quotes precedes it (an escaped quote counts twice).
    """
    codes = np.frombuffer(data, np.uint8)
    quotes = np.flatnonzero(codes == ord(quote)) if quote else np.empty(0, np.int64)
    _refuse_stray_quotes(path, data, codes, quotes, separator)
    separators, ends = (
        places[np.searchsorted(quotes, places) % 2 == 0]
        for places in (np.flatnonzero(codes == ord(character)) for character in (separator, "\n"))
    )
    widths = np.diff(np.searchsorted(separators, np.append(ends, len(data))), prepend=0) + 1
    ragged = np.flatnonzero(widths != widths[0])
    if len(ragged):
        row = ragged[0]
        raise AssentError(
            f"{path}: row {row} has {widths[row]} field(s); accepted: {widths[0]}, as in the header"
        )


def _refuse_stray_quotes(
    path: Path, data: bytes, codes: npt.NDArray[np.uint8], quotes: Ints, separator: str
) -> None:
    """Raise for a quote within a field, as in 5" disk: two of them would swallow the rows between them.

    Quotes open and close in turn. One that opens stands at the start of a field, one that closes at its
    end; beside another quote it is half of an escaped one.
    """
    beside = np.frombuffer(f'"{separator}\r\n'.encode(), np.uint8)
    around = np.concatenate([beside[-1:], codes, beside[-1:]])
    neighbours = np.where(np.arange(len(quotes)) % 2 == 0, around[quotes], around[quotes + 2])
    stray = quotes[~np.isin(neighbours, beside)]
    if len(stray) or len(quotes) % 2:
        line = _line(data, stray[0] if len(stray) else quotes[-1])
        raise AssentError(
            f"{path}: line {line} has a stray quote; accepted: quotes around a whole field, doubled within it"
        )


def _line(data: bytes, place: int) -> int:
    return data.count(b"\n", 0, place) + 1


ISO_DATE = r"^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(?::(\d\d(?:\.\d+)?))?\s?(?:Z|([+-]\d\d:?\d\d))?)?$"
"""ISO 8601: date, clock, seconds, offset from UTC; all but the date may be left out."""


def ids(table: Table, column: str) -> pl.Series:
    """A column as String, never null or empty."""
    texts = _texts(table, column)
    # Arrays of ids are numpy's, which drop a NUL at the end: two ids could become one.
    _demand(table, column, (texts != "") & ~texts.str.contains("\0", literal=True), "a number or a text")
    return texts


def titles(table: Table, column: str) -> pl.Series:
    """A column as String, null where there is nothing."""
    lists = _lists(table, column)
    texts = _texts(table, column) if lists is None else lists.list.join(" ", ignore_nulls=True)
    return texts.replace("", None)


def categories(table: Table, column: str) -> pl.Series:
    """A column as List[String]: lists as they are, text split at `|`."""
    lists = _lists(table, column)
    return _texts(table, column).str.split("|") if lists is None else lists


def parts(table: Table, column: str) -> pl.Series:
    """A column as String, which may say anything: `parts_of` judges it."""
    return _texts(table, column)


def unwillingness(table: Table, column: str, *, gaps: bool = False) -> pl.Series:
    """A column as Float64 in [0, 1]; with `gaps`, null where it is empty."""
    numbers = _numbers(table.frame[column])
    fine = numbers.is_between(0, 1).fill_null(False)
    if gaps:
        fine |= table.frame[column].cast(pl.String).str.strip_chars().fill_null("") == ""
    accepted = "a number from 0 (use freely) to 1 (never)"
    _demand(table, column, fine, accepted if gaps else f"{accepted}, or --rest for empty ones")
    return numbers


def times(table: Table, column: str) -> pl.Series:
    """A column as Float64, seconds since 1970 where it holds dates; null in all rows or in none.

    One gap among times is refused: that row would have no place in the order.
    """
    values = table.frame[column]
    if values.null_count() == len(values):
        return no_values(len(values), pl.Float64())
    seconds = _numbers(values)
    if isinstance(values.dtype, pl.Date | pl.Datetime):
        seconds = values.dt.epoch("us") / 1e6
    # The first row sets the kind for all: in a mixed column, 2024 could be a year or a second.
    elif values.dtype == pl.String and seconds[0] is None:
        seconds = _iso_seconds(values)
    accepted = "a number in every row, or an ISO date or datetime (2024-05-31T18:30:00Z) in every row"
    _demand(table, column, seconds.is_finite(), accepted)
    return seconds


def no_values(height: int, dtype: pl.DataType) -> pl.Series:
    """A column of nulls."""
    return pl.repeat(None, height, dtype=dtype, eager=True)


def quoted(value: object) -> str:
    """A value as it stands in a message of one line."""
    whole = " ".join(repr(value).split())
    return whole if len(whole) <= 80 else f"{whole[:77]}..."


def listed(names: list[str]) -> str:
    """Names as they stand in a message of one line."""
    shown = ", ".join(quoted(name) for name in names[:20])
    return shown if len(names) <= 20 else f"{shown} and {len(names) - 20} more"


def _texts(table: Table, column: str) -> pl.Series:
    """A column as String; whole numbers read as 12 whatever their type, NaN and infinite ones are null."""
    values = table.frame[column]
    _demand_plain(table, column, values.dtype)
    texts = values.cast(pl.String)
    if values.dtype.is_float():
        whole = values.cast(pl.Int64, strict=False)
        choice = pl.when(whole == values).then(whole.cast(pl.String)).when(values.is_finite()).then(texts)
        return pl.select(choice).to_series()
    return texts.str.replace(r"\.0+$", "") if values.dtype.is_decimal() else texts


def _lists(table: Table, column: str) -> pl.Series | None:
    """A column of lists as List[String], None for a column of another type."""
    values = table.frame[column]
    if not isinstance(values.dtype, pl.List | pl.Array):
        return None
    _demand_plain(table, column, values.head(0).explode().dtype)
    return values.cast(pl.List(pl.String))


def _numbers(values: pl.Series) -> pl.Series:
    """A column as Float64, null where it holds no number."""
    if values.dtype == pl.String:
        return values.str.strip_chars().cast(pl.Float64, strict=False)
    return values.cast(pl.Float64) if values.dtype.is_numeric() else no_values(len(values), pl.Float64())


def _iso_seconds(texts: pl.Series) -> pl.Series:
    date, clock, seconds, offset = texts.str.strip_chars().str.extract_groups(ISO_DATE).struct.unnest()
    whole = date + "T" + clock.fill_null("00:00") + ":" + seconds.fill_null("00") + offset.fill_null("+00:00")
    return whole.str.to_datetime("%Y-%m-%dT%H:%M:%S%.f%z", strict=False, time_unit="us").dt.epoch("us") / 1e6


def _demand(table: Table, column: str, fine: pl.Series, accepted: str) -> None:
    """Raise for the first row of `column` that is not `fine` (False or null)."""
    refused = (~fine.fill_null(False)).arg_true()
    if len(refused):
        row = refused[0]
        value = table.frame[column][row]
        shown = "empty" if value is None or (isinstance(value, str) and not value) else quoted(value)
        raise AssentError(f"{table.path}: row {row + 1}, column {column!r} is {shown}; accepted: {accepted}")


def _demand_plain(table: Table, column: str, dtype: pl.DataType) -> None:
    """Raise for a type whose values have no one obvious text: times, bytes, truth values, nested ones."""
    if not (dtype.is_numeric() or dtype in (pl.String, pl.Categorical, pl.Enum, pl.Null)):
        raise AssentError(f"{table.path}: column {column!r} has the type {dtype}; accepted: text or numbers")
