"""The records of a reproduction in one file, from which its page is written again without data or cells.

Records of several runs add up to those of one.

The first line says how it was run (the plan, the sizes of the data sets, the states of the code); each
further line is one record with the name of its item. All are figures: no line has a person, an item or an
interaction.
"""

import gzip
import json
import math
import zlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from assent.reproduce.item import Item, as_place
from assent.reproduce.plan import DATASETS, MODELS, Plan, Scale, full, quick
from assent.reproduce.profiles import Profile
from assent.reproduce.run import Reproduction, none_there
from assent.results.records import Flat
from assent.results.table import shown
from assent.results.words import NONE, plural
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
        "added": found.added,
    }
    lines = [about] + [
        {"item": chapter.item.name, **record} for chapter in found.chapters for record in chapter.records
    ]
    text = "".join(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n" for line in lines)
    write_bytes(out / RECORDS, gzip.compress(text.encode(), mtime=0))
    return out / RECORDS


def read_records(
    files: Sequence[Path], items: Mapping[str, Item], datasets: Collection[str] = tuple(DATASETS)
) -> Reproduction:
    """Return what the records of one run say, or of several that add up, with a chapter per item.

    Only the named data sets are looked at. The numbers of all items have verdicts, as in `assent reproduce`.
    Runs add up if they have the same scale, profile and settings, and data sets of the same size. Of a record
    that several files have, the last one is taken.
    """
    run = _read(files[0], items)
    for file in files[1:]:
        run = _added(run, _read(file, items), file, items)
    if not set(run.plan.datasets) <= set(datasets):
        run = _narrowed(run, datasets, items)
    plan = run.plan
    try:
        chapters = [items[name].chapter(plan, own, run.wanted[name]) for name, own in run.records.items()]
    except (KeyError, TypeError, ValueError) as error:
        raise AssentError(f"{files[-1]}: no records of a reproduction ({error})") from None
    counted = [item for item in items.values() if plan.profile in item.profiles]
    return Reproduction(
        plan, chapters, run.missing, [], [], run.seconds, counted, states=run.states, added=run.added
    )


@dataclass(frozen=True)
class _Run:
    """What a file of records says."""

    plan: Plan
    records: Mapping[str, Sequence[dict[str, Any]]]
    """By item."""
    wanted: Mapping[str, int]
    """How many records each item has when all is done."""
    missing: Sequence[str]
    seconds: float
    states: Mapping[str, int]
    added: Sequence[str]


def _read(file: Path, items: Mapping[str, Item]) -> _Run:
    about, *lines = _lines(file)
    try:
        made = quick if about["scale"] == Scale.QUICK else full
        plan = made(about["repeats"], Profile(about["profile"]))
        plan = replace(plan, **{name: about[name] for name in _OF_PLAN})
        wanted = {name: int(about["wanted"][name]) for name in items if name in about["wanted"]}
        records: dict[str, list[dict[str, Any]]] = {name: [] for name in wanted}
        for line in lines:
            records[line["item"]].append({key: value for key, value in line.items() if key != "item"})
        missing, seconds, states = (about[name] for name in ("missing", "seconds", "states"))
        return _Run(plan, records, wanted, missing, seconds, states, about.get("added", []))
    except (KeyError, TypeError, ValueError) as error:
        raise AssentError(f"{file}: no records of a reproduction ({error})") from None


def _narrowed(run: _Run, datasets: Collection[str], items: Mapping[str, Item]) -> _Run:
    """Return the part of a run on some data sets."""
    left = [name for name in run.plan.datasets if name in datasets]
    if not left:
        raise AssentError(
            f"--datasets {', '.join(datasets)}: not in the records; accepted: {', '.join(run.plan.datasets)}"
        )
    plan = replace(run.plan, datasets=left)
    own = {name: [each for each in some if each["dataset"] in left] for name, some in run.records.items()}
    records = {name: some for name, some in own.items() if some}
    cells = {name: len(item.cells(plan)) for name, item in items.items() if plan.profile in item.profiles}
    missing = [each for each in run.missing if each.partition(":")[0] not in items]
    missing += [none_there(name, number) for name, number in cells.items() if number and name not in records]
    wanted = {name: cells[name] for name in records}
    return replace(run, plan=plan, records=records, wanted=wanted, missing=missing)


_SAME = ("scale", "profile", "users", "altered")
"""Fields of a plan in which runs that add up agree."""
_EXACT = 1e-6
"""Largest relative difference of figures that count as the same: machines round differently."""
_TIMES = ("seconds",)
"""Figures that differ whenever a record is computed again."""


def _added(one: _Run, other: _Run, file: Path, items: Mapping[str, Item]) -> _Run:
    """Return both runs as one; `file` is where the other one was read."""
    for name in _SAME:
        here, there = (shown(getattr(run.plan, name) or NONE) for run in (one, other))
        if here != there:
            raise AssentError(
                f"{file}: cannot be added, {name} is {there} and not {here}; accepted: records of runs with "
                "the same scale, profile, users and settings"
            )
    for name in one.plan.sizes.keys() & other.plan.sizes.keys():
        if tuple(one.plan.sizes[name]) != tuple(other.plan.sizes[name]):
            raise AssentError(
                f"{file}: cannot be added, {name} has another number of users, items or interactions there; "
                "accepted: records of the same data"
            )
    plan = replace(
        one.plan,
        repeats=max(one.plan.repeats, other.plan.repeats),
        datasets=[name for name in DATASETS if name in (*one.plan.datasets, *other.plan.datasets)],
        models=[name for name in MODELS if name in (*one.plan.models, *other.plan.models)],
        sizes={**one.plan.sizes, **other.plan.sizes},
    )
    absent = {each.partition(":")[0]: each for run in (one, other) for each in run.missing}
    known = {name: item.cells(plan) for name, item in items.items() if name in {*one.records, *other.records}}
    for name in absent.keys() & items.keys() - known.keys():
        absent[name] = none_there(name, len(items[name].cells(plan)))
    records, twice, changed = {}, 0, 0
    for name, cells in known.items():
        order = {_key(cell.place): number for number, cell in enumerate(cells)}
        labels = {label for cell in cells for label in cell.place}
        old, new = (_by_place(run.records.get(name, ()), labels, file) for run in (one, other))
        both = old.keys() & new.keys()
        twice += len(both)
        changed += sum(not _same(old[key], new[key]) for key in both)
        merged = old | new
        records[name] = [merged[key] for key in sorted(merged, key=lambda key: order.get(key, len(order)))]
    said = f"Records of another run were added ({plural(sum(map(len, other.records.values())), 'record')})."
    if twice:
        said += f" {twice} were there already: the later ones are shown, and {changed} have other figures."
    return _Run(
        plan,
        records,
        {name: len(cells) for name, cells in known.items()},
        [each for name, each in absent.items() if name not in (*plan.datasets, *known)],
        one.seconds + other.seconds,
        dict((Counter(one.states) + Counter(other.states)).most_common()),
        [*one.added, *other.added, said],
    )


def _key(place: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(place.items()))


def _by_place(
    records: Sequence[dict[str, Any]], labels: Collection[str], file: Path
) -> dict[tuple[tuple[str, str], ...], dict[str, Any]]:
    """The records by what tells them apart; raise where nothing does."""
    found = {}
    for record in records:
        place = {name: value for name, value in as_place(record).items() if name in labels}
        found[_key(place)] = record
    if len(found) < len(records):
        raise AssentError(
            f"{file}: cannot be added, some records cannot be told apart; accepted: records of this version"
        )
    return found


def _same(one: Flat, other: Flat) -> bool:
    """Return whether two records have the same figures, but for their seconds."""
    return one.keys() == other.keys() and all(
        _close(value, other[name]) for name, value in one.items() if name not in _TIMES
    )


def _close(one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=_EXACT, abs_tol=_EXACT)
    return one == other


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
