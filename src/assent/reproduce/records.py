"""The records of a reproduction in one file, from which its page is written again without data or cells.

The first line says how it was run (the plan, the sizes of the data sets, the states of the code); each
further line is one record with the name of its item. All are figures: no line has a person, an item or an
interaction.
"""

import gzip
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from assent.reproduce.item import Item
from assent.reproduce.plan import Scale, full, quick
from assent.reproduce.profiles import Profile
from assent.reproduce.run import Reproduction
from assent.results.records import Flat
from assent.support.errors import AssentError
from assent.support.files import parse_json, write_bytes

RECORDS = "records.jsonl.gz"
FORMAT = 1
_OF_PLAN = ("repeats", "datasets", "models", "users", "overrides", "sizes", "altered")
"""Fields of a plan that options and data sets determine; the others belong to the scale."""


def write_records(found: Reproduction, out: Path) -> Path:
    """Write OUT/records.jsonl.gz: all that `read_records` needs; the same figures give the same bytes."""
    plan = found.plan
    about = {
        "format": FORMAT,
        "assent": version("assent"),
        "scale": plan.scale,
        "profile": plan.profile,
        **{name: getattr(plan, name) for name in _OF_PLAN},
        "wanted": {chapter.item.name: chapter.wanted for chapter in found.chapters},
        "missing": found.missing,
        "seconds": found.seconds,
        "states": found.states,
    }
    lines = [about] + [
        {"item": chapter.item.name, **record} for chapter in found.chapters for record in chapter.records
    ]
    text = "".join(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n" for line in lines)
    write_bytes(out / RECORDS, gzip.compress(text.encode(), mtime=0))
    return out / RECORDS


def read_records(file: Path, items: Mapping[str, Item]) -> Reproduction:
    """Return what the records of a file say, with a chapter for each of the items that it has.

    The numbers of all items have verdicts, as in `assent reproduce`.
    """
    about, *lines = _lines(file)
    try:
        made = quick if about["scale"] == Scale.QUICK else full
        plan = made(about["repeats"], Profile(about["profile"]))
        plan = replace(plan, **{name: about[name] for name in _OF_PLAN})
        chapters = [
            items[name].chapter(plan, [_without_item(line) for line in lines if line["item"] == name], wanted)
            for name, wanted in about["wanted"].items()
        ]
        counted = [item for item in items.values() if plan.profile in item.profiles]
        missing, seconds, states = (about[name] for name in ("missing", "seconds", "states"))
    except (KeyError, TypeError, ValueError) as error:
        raise AssentError(f"{file}: no records of a reproduction ({error})") from None
    return Reproduction(plan, chapters, missing, [], [], seconds, counted, states)


def _without_item(line: Flat) -> dict[str, Any]:
    return {key: value for key, value in line.items() if key != "item"}


def _lines(file: Path) -> Sequence[dict[str, Any]]:
    """The lines of a file of records, as JSON; anything else is refused."""
    try:
        text = gzip.decompress(file.read_bytes())
    except FileNotFoundError:
        raise AssentError(f"{file}: no such file") from None
    except (OSError, EOFError, zlib.error) as error:
        raise AssentError(f"{file}: no records of a reproduction ({error})") from None
    lines = [parse_json(file, line) for line in text.splitlines()]
    if not lines or not isinstance(lines[0], dict) or lines[0].get("format") != FORMAT:
        raise AssentError(f"{file}: no records of a reproduction; accepted: a {RECORDS} of this version")
    return lines
