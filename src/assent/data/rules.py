"""Rules: one value per category or per user, of unwillingness or a wish, from a small file or a text."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import numpy as np
import yaml

from assent.data import cells
from assent.data.tables import read_table
from assent.errors import AssentError
from assent.files import read_json

EVERYTHING_ELSE: Final = "*"
"""The key that gives the unwillingness of whatever the other rules do not name."""
TABLES: Final = (".csv", ".tsv", ".parquet")
FILES: Final = (".yaml", ".yml", ".json", *TABLES)
"""Kinds of file that hold rules."""


@dataclass(frozen=True)
class Quantity:
    """What a rule gives: its name, the largest value it may have, whether it is whole, and this in words."""

    name: str
    largest: float
    accepted: str
    is_whole: bool = False

    def parse(self, value: object, place: str) -> float:
        """A value that stands somewhere as a number or a text; `place` begins the message about it."""
        try:
            number = np.nan if isinstance(value, bool) else float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            number = np.nan
        if not 0 <= number <= self.largest or (self.is_whole and number % 1):
            raise AssentError(f"{place} is {value!r}; accepted: {self.accepted}")
        return number


UNWILLINGNESS: Final = Quantity("unwillingness", 1, "a number from 0 (use freely) to 1 (never)")


@dataclass(frozen=True)
class Rules:
    """A quantity by key (a category or a user), and that of all other keys, or None.

    `origin` is the file or text that the rules come from; messages begin with it.
    """

    origin: str
    values: Mapping[str, float]
    otherwise: float | None


def read_rules(text: str, key: str, quantity: Quantity = UNWILLINGNESS) -> Rules:
    """Rules by `key` ("category" or "user") from a file or a text.

    A yaml or json file holds a mapping; a csv, tsv or parquet file has the columns `key` and the quantity's.
    Any other text is taken for the rules themselves, such as Action=0.9,*=0.2. The key * is for everything
    else.
    """
    path = Path(text)
    match path.suffix.lower():
        case ".yaml" | ".yml":
            entries = _mapped(_read_yaml(path), text, quantity)
        case ".json":
            entries = _mapped(read_json(path), text, quantity)
        case suffix if suffix in TABLES:
            entries = _tabled(path, key, quantity)
        case _:
            entries = _written(text, quantity)
    values: dict[str, float] = {}
    for name, value in entries:
        if name in values:
            raise AssentError(f"{text}: {key} {name!r} occurs twice; accepted: once")
        values[name] = value
    otherwise = values.pop(EVERYTHING_ELSE, None)
    return Rules(text, values, otherwise)


def for_the_record(source: str) -> str:
    """A source of unwillingness as a run remembers it: no id of a person, no folder of the machine.

    Rules by user become their number and a hash that tells other rules from these; of a file its name stays.
    """
    kind, _, argument = source.partition(":")
    if kind == "file" or (kind in ("category", "user") and Path(argument).suffix.lower() in FILES):
        return f"{kind}:{Path(argument).name}"
    if kind != "user":
        return source
    count = argument.count(",") + 1
    mark = blake2b(argument.encode(), digest_size=4).hexdigest()
    return f"user: {count} rule{'' if count == 1 else 's'} ({mark})"


def parse_unwillingness(value: object, place: str) -> float:
    """An unwillingness that stands somewhere as a number or a text; `place` begins the message about it."""
    return UNWILLINGNESS.parse(value, place)


def _mapped(content: object, origin: str, quantity: Quantity) -> Iterator[tuple[str, float]]:
    if not isinstance(content, dict):
        raise AssentError(f"{origin}: not a mapping; accepted: names, each with its {quantity.name}")
    for name, value in content.items():
        # YAML reads yes, null and 1.50 as values whose text is another.
        if isinstance(name, bool) or not isinstance(name, str | int):
            raise AssentError(
                f"{origin}: {name!r} is not a name; accepted: text in quotes, or a whole number"
            )
        yield str(name), quantity.parse(value, f"{origin}: {name!r}")


def _tabled(path: Path, key: str, quantity: Quantity) -> Iterator[tuple[str, float]]:
    table = read_table(path, TABLES)
    for name in (key, quantity.name):
        if name not in table.frame.columns:
            raise AssentError(f"{path}: no column {name!r}; accepted: the columns {key} and {quantity.name}")
    values = enumerate(table.frame[quantity.name], 1)
    for name, (row, value) in zip(cells.ids(table, key), values, strict=True):
        yield name, quantity.parse(value, f"{path}: row {row}, column {quantity.name!r}")


def _written(text: str, quantity: Quantity) -> Iterator[tuple[str, float]]:
    for rule in text.split(","):
        name, equals, value = rule.rpartition("=")
        if not equals:
            files = ", ".join(FILES)
            raise AssentError(
                f"{quantity.name} {rule!r}: not a rule; accepted: NAME=VALUE, joined by commas, "
                f"or a file ({files})"
            )
        yield name.strip(), quantity.parse(value, f"{text}: {name.strip()!r}")


def _read_yaml(path: Path) -> Any:
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise AssentError(f"{path}: cannot be read ({error.strerror})") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise AssentError(f"{path}: not valid YAML ({' '.join(str(error).split())})") from None
