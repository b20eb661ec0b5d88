"""A file as a table of columns: csv, tsv, parquet and RecBole's atomic files, refused where damaged."""

import codecs
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from assent.arrays import Ints
from assent.errors import AssentError

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
