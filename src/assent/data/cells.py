"""A column of a file as what the program works on; the first cell that cannot be is an `AssentError`."""

import polars as pl

from assent.data.tables import Table
from assent.errors import AssentError

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
