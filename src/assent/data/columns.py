"""Columns of a file or a data frame as typed values; the first cell that does not fit is an `AssentError`."""

import math
import re
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any, Final, TypeVar

import polars as pl

from assent.support.errors import AssentError

ISO_DATE: Final = r"^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(?::(\d\d(?:\.\d+)?))?\s?(?:Z|([+-]\d\d:?\d\d))?)?$"
"""ISO 8601: date, clock, seconds, offset from UTC; all but the date are optional."""
WHOLE: Final = r"^(-?[0-9]+)\.0$"
"""A whole number as many programs write it in a column that once had gaps."""
TRUTHS: Final = {"0": 0.0, "false": 0.0, "no": 0.0, "1": 1.0, "true": 1.0, "yes": 1.0}
"""What the cells of a flag may say, in lower case."""
_Texts = TypeVar("_Texts", pl.Series, pl.Expr)


class Scale(StrEnum):
    """How unwillingness is written: the cells' values from "use freely" to "never"."""

    UNIT = "0-1"
    """Numbers from 0 to 1."""
    PERCENT = "percent"
    """Numbers from 0 to 100, with or without a % sign."""
    FLAG = "flag"
    """0 or 1, false or true, no or yes, in any case."""
    FIVE = "five"
    """Whole numbers from 1 to 5: 0, 0.25, 0.5, 0.75 and 1."""

    @classmethod
    def _missing_(cls, value: object) -> "Scale":
        raise AssentError(f"scale={value!r}: accepted: {', '.join(cls)}")

    def read(self, values: pl.Series) -> pl.Series:
        """A column as Float64 in [0, 1], null where a cell is not on this scale."""
        match self:
            case Scale.UNIT:
                return _between(_numbers(values), 0, 1)
            case Scale.PERCENT:
                return _between(_numbers(_without_sign(values)), 0, 100) / 100
            case Scale.FIVE:
                steps = _between(_numbers(values), 1, 5)
                return (_only(steps, steps % 1 == 0) - 1) / 4
            case Scale.FLAG if values.dtype == pl.String:
                texts = normal(values).str.to_lowercase()
                return texts.replace_strict(TRUTHS, default=None, return_dtype=pl.Float64)
            case Scale.FLAG:
                numbers = values.cast(pl.Float64) if values.dtype == pl.Boolean else _numbers(values)
                return _only(numbers, (numbers == 0) | (numbers == 1))

    def parse(self, value: object) -> float:
        """A single value in [0, 1], NaN if it is not on this scale."""
        # Numbers go by their text: it is exact, and holds whole numbers of any size.
        if not isinstance(value, str | int | float) or not (text := str(value)).isascii():
            return math.nan
        [found] = self.read(pl.Series([value if isinstance(value, bool) else text]))
        return math.nan if found is None else float(found)

    def accepted(self, *, is_reversed: bool = False) -> str:
        """What a cell may hold, in words."""
        free, never = ("never", "use freely") if is_reversed else ("use freely", "never")
        return {
            Scale.UNIT: f"a number from 0 ({free}) to 1 ({never})",
            Scale.PERCENT: f"a percentage from 0 ({free}) to 100 ({never})",
            Scale.FLAG: f"0, false or no ({free}), or 1, true or yes ({never})",
            Scale.FIVE: f"a whole number from 1 ({free}) to 5 ({never})",
        }[self]


def fitting_scale(cell: object, column: pl.Series | None = None) -> str:
    """How a message goes on about a cell that is not from 0 to 1: the scale that its column seems to have."""
    text = str(cell).strip().lower()
    if text in TRUTHS:
        return ", or scale=flag for truth values"
    is_step = not math.isnan(Scale.FIVE.parse(text))
    if is_step and (column is None or Scale.FIVE.read(column).null_count() == column.null_count()):
        return ", or scale=five for 1 to 5"
    if not math.isnan(Scale.PERCENT.parse(text)):
        return ", or scale=percent for 0 to 100"
    if re.fullmatch("[0-9]+,[0-9]+ ?%?", text):
        return ", with a point for the comma, or scale=percent for 0 to 100"
    return ""


@dataclass(frozen=True)
class Table:
    """Columns by name as they stand in a file or a data frame; messages call it `origin`.

    Columns of a text file (csv, tsv, atomic) are String, or List[String] if an atomic file's header declares
    a sequence. Those of JSON lines are String, Boolean or List[String]. Those of a parquet file or a data
    frame keep their types. There is at least one row.
    """

    origin: str
    names: list[str]
    height: int
    column: Callable[[str], pl.Series]
    cells: Callable[[str, pl.Series], pl.Series] | None = None
    """Some rows of a column, by a mask, where other rows may stand in the way of reading them."""
    numbers: pl.Series | None = None
    """The number of each row in the file; None if they are all there."""
    names_in: Callable[[pl.Series], list[str]] | None = None
    """The columns that some rows have, by a mask; None if all rows have all."""
    is_ordered: bool = True
    """Whether the order of rows means anything."""

    def __post_init__(self) -> None:
        if not self.height and self.numbers is None:
            raise AssentError(f"{self.origin}: there are no rows; accepted: at least one")

    def only(self, kept: pl.Series) -> "Table":
        """The rows of a mask; messages count them as before, and nothing depends on the other rows."""
        cells = self.cells or (lambda name, rows: self.column(name).filter(rows))
        numbers = kept.arg_true() + 1
        return Table(
            self.origin,
            self.names if self.names_in is None else self.names_in(kept),
            len(numbers),
            cache(lambda name: cells(name, kept)),
            None,
            numbers,
            is_ordered=self.is_ordered,
        )

    def number(self, row: int) -> int:
        """The number in the file, from 1 on, of a row of this table, from 0 on."""
        return row + 1 if self.numbers is None else int(self.numbers[row])

    def ids(self, name: str) -> pl.Series:
        """A column as String, never null or empty, `normal`; what that changes is told by a warning.

        How a cell reads does not depend on other cells.
        """
        values, texts = self.column(name), self.texts(name)
        # numpy drops a NUL at the end of a text: two ids could become one.
        fine = (texts.str.strip_chars() != "") & ~texts.str.contains("\0", literal=True)
        self._demand(name, fine, "a number or a text")
        if values.dtype.is_float():
            exact = 2**53 if values.dtype == pl.Float64 else 2**24
            accepted = f"floats below {exact}, which hold ids exactly, or text or integers"
            self._demand(name, values.abs() < exact, accepted)
        if _uncoded(values).dtype != pl.String:
            return texts
        self._tell_of_ids(name, texts)
        return normal(texts)

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
        """A column as List[String], each `normal`: lists as they are, text split at `|`."""
        lists = self._lists(name)
        lists = self.texts(name).str.split("|") if lists is None else lists
        return lists.list.eval(normal(pl.element()))

    def unwillingness(
        self, name: str, *, gaps: bool = False, scale: Scale | str = Scale.UNIT, is_reversed: bool = False
    ) -> pl.Series:
        """A column as Float64 in [0, 1], read by `scale`; with `gaps`, empty cells are null.

        If the column `is_reversed`, it holds willingness: a value w is an unwillingness of 1 - w.
        """
        scale, values = Scale(scale), _uncoded(self.column(name))
        numbers, is_empty = scale.read(values), values.is_null()
        if values.dtype == pl.String:
            is_empty |= values.str.strip_chars() == ""
        is_bad = numbers.is_null() & ~is_empty if gaps else numbers.is_null()
        accepted = scale.accepted(is_reversed=is_reversed)
        for row in is_bad.arg_true().head(1):
            if is_empty[row]:
                accepted += ", or gaps=True for empty ones"
            elif scale is Scale.UNIT:
                accepted += fitting_scale(values[row], values)
        self._demand(name, ~is_bad, accepted)
        self._tell_of_scale(name, values, numbers, scale, is_reversed=is_reversed)
        return 1.0 - numbers if is_reversed else numbers

    def ratings(self, name: str) -> pl.Series:
        """A column as Float64, never null."""
        ratings = _numbers(_uncoded(self.column(name)))
        self._demand(name, ratings.is_finite(), "a number in every row that may be read")
        return ratings

    def times(self, name: str) -> pl.Series:
        """A column as Float64, dates as seconds since 1970; null in all rows or in none.

        A single gap is refused: that row would have no place in the order.
        """
        values = _uncoded(self.column(name))
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
            place = f"{self.origin}: row {self.number(row)}, column {quoted(name)}"
            raise AssentError(f"{place} is {shown}; accepted: {accepted}")

    def _tell_of_ids(self, name: str, texts: pl.Series) -> None:
        """Warn where ids are not as they are written, and where they nearly are."""
        stripped = texts.str.strip_chars()
        padded = (stripped != texts).arg_true()
        if len(padded):
            row = self.number(padded[0])
            self._tell(name, f"white space around {len(padded)} ids is removed, first in row {row}")
        distinct = stripped.unique()
        ids = normal(distinct).unique()
        if same := len(distinct) - len(ids):
            self._tell(name, f"{same} ids are written both like 12 and like 12.0: read as the same")
        numerals = ids.filter(ids.str.contains("^[0-9]+$"))
        if alike := len(numerals) - numerals.str.strip_chars_start("0").n_unique():
            self._tell(name, f"{alike} ids differ from another by zeros in front, like 01 and 1: kept apart")

    def _tell_of_scale(
        self, name: str, values: pl.Series, numbers: pl.Series, scale: Scale, *, is_reversed: bool
    ) -> None:
        """Warn where a column may have been written on another scale than it is read by."""
        never, free = (0, 1) if is_reversed else (1, 0)
        if scale is Scale.UNIT and ((numbers == 0) | (numbers == 1)).all() and (numbers == never).any():
            self._tell(name, f"nothing but 0 and 1: {never} is read as never, {free} as use freely")
        bare = _numbers(values)  # null where there is a % sign
        are_bare = bare.null_count() == numbers.null_count()
        if scale is Scale.PERCENT and are_bare and (bare <= 1).all() and (bare > 0).any():
            self._tell(name, "no percentage is above 1: is the scale from 0 to 1?")

    def _tell(self, name: str, what: str) -> None:
        warnings.warn(f"{self.origin}: column {quoted(name)}: {what}", stacklevel=4)

    def _demand_plain(self, name: str, dtype: pl.DataType) -> None:
        """Raise for a type whose values have no obvious text: times, bytes, booleans, nested values."""
        if not (dtype.is_numeric() or dtype in (pl.String, pl.Categorical, pl.Enum, pl.Null)):
            place = f"{self.origin}: column {quoted(name)}"
            raise AssentError(f"{place} has the type {dtype}; accepted: text or numbers")


def normal(texts: _Texts) -> _Texts:
    """Ids and categories as they are compared: without white space around them, and 12.0 as 12."""
    return texts.str.strip_chars().str.replace(WHOLE, "${1}")


def no_values(height: int, dtype: pl.DataType) -> pl.Series:
    """A column of nulls."""
    return pl.repeat(None, height, dtype=dtype, eager=True)


def quoted(value: object) -> str:
    """Quote a value for a message, in one line of at most 80 characters."""
    whole = " ".join(repr(value).split())
    if len(whole) <= 80:
        return whole
    end = whole[-1] if isinstance(value, str) else ""
    return f"{whole[: 77 - len(end)]}...{end}"


def listed(names: list[str]) -> str:
    """List up to 20 names for a message, in one line."""
    shown = ", ".join(quoted(name) for name in names[:20])
    return shown if len(names) <= 20 else f"{shown} and {len(names) - 20} more"


def first_repeated(names: Iterable[str]) -> str | None:
    """The first name that occurred before, None if there is none."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def refuse_repeated(origin: str, names: list[str]) -> None:
    """Raise if two columns have the same name."""
    repeated = first_repeated(names)
    if repeated is not None:
        raise AssentError(f"{origin}: column {quoted(repeated)} occurs twice; accepted: once")


def _uncoded(values: pl.Series) -> pl.Series:
    """A column with its text as String, other values as they are."""
    return values.cast(pl.String) if values.dtype in (pl.Categorical, pl.Enum) else values


def _numbers(values: pl.Series) -> pl.Series:
    """A column as Float64, null where it holds no number."""
    if values.dtype == pl.String:
        return values.str.strip_chars().cast(pl.Float64, strict=False)
    return values.cast(pl.Float64) if values.dtype.is_numeric() else no_values(len(values), pl.Float64())


def _without_sign(values: pl.Series) -> pl.Series:
    """A column without the % at the end of its cells."""
    return values.str.strip_chars().str.strip_suffix("%") if values.dtype == pl.String else values


def _between(numbers: pl.Series, low: float, high: float) -> pl.Series:
    return _only(numbers, numbers.is_between(low, high))


def _only(numbers: pl.Series, fine: pl.Series) -> pl.Series:
    """The numbers that are `fine`; others are null."""
    return numbers.zip_with(fine.fill_null(False), no_values(len(numbers), pl.Float64()))


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
    refuse_repeated(origin, names)

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
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
        raise AssentError(f"{place} mixes types of values; accepted: one type in all rows") from None
