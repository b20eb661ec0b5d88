"""Records of several runs add up to those of one, or are refused."""

import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assent.methods import merged
from assent.reproduce import ITEMS, Plan, Reproduction, quick, read_records, reproduce, write_records
from assent.reproduce.verdicts import judge
from assent.support.errors import AssentError

NAMES = ("overall", "approximation", "anchors", "sparsity")
TINY: dict[str, Any] = {
    "training": {"epochs": 2},
    "model_settings": {"dimension": 4},
    "proactive": {"rounds": 2},
}


def small(**changes: Any) -> Plan:
    """A plan that its records can tell: all else is as the quick scale has it."""
    plan = quick(2)
    overrides = merged(plan.overrides, TINY)
    given = {"users": 120, "datasets": ("simulation",), "models": ("mf", "cdae"), "overrides": overrides}
    return replace(plan, **{**given, **changes})


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cells")


@pytest.fixture(scope="module")
def whole(out: Path) -> Reproduction:
    """Both models, two repeats."""
    return reproduce([ITEMS[name] for name in NAMES], small(), out, data=None)


@pytest.fixture(scope="module")
def part(whole: Reproduction, out: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """The records that a run with another plan has of this, in a file."""

    def made(**changes: Any) -> Path:
        items = [ITEMS[name] for name in NAMES]
        found = reproduce(items, small(**changes), out, data=None, asked=NAMES, compute=False)
        return write_records(found, tmp_path_factory.mktemp("records"))

    return made


def altered(file: Path, change: Callable[[list[dict[str, Any]]], object], folder: Path) -> Path:
    """A copy of a file of records with its lines changed."""
    lines = [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()]
    change(lines)
    other = folder / f"altered-{file.name}"
    other.write_bytes(gzip.compress("\n".join(map(json.dumps, lines)).encode()))
    return other


def shown(found: Reproduction) -> list[tuple[object, ...]]:
    return [(each.item.name, each.records, each.wanted, each.table, each.said) for each in found.chapters]


def test_runs_of_several_machines_add_up_to_one(
    whole: Reproduction, part: Callable[..., Path], tmp_path: Path
) -> None:
    parts = [part(models=("cdae",)), part(models=("mf",), repeats=1), part(models=("mf",), repeats=2)]
    found, one = read_records(parts, ITEMS), read_records([part()], ITEMS)
    assert shown(found) == shown(one)
    assert [each.records for each in found.chapters] == [each.records for each in whole.chapters]
    assert (found.plan, found.missing) == (one.plan, one.missing)
    (state,) = whole.states
    cells = [read_records([each], ITEMS).states[state] for each in parts]
    assert found.states == {state: sum(cells)}
    assert f"{sum(cells)} cells" in found.provenance
    own = sum(len(each.records) for each in read_records(parts[1:2], ITEMS).chapters)
    assert f"{own} were there already: the later ones are shown, and 0 have other figures." in found.added[1]
    again = read_records([write_records(found, tmp_path)], ITEMS)
    assert (shown(again), again.provenance) == (shown(found), found.provenance)


def test_of_a_record_that_both_have_the_later_one_is_shown(part: Callable[..., Path], tmp_path: Path) -> None:
    file = part(models=("mf",))
    number = 3

    def change(lines: list[dict[str, Any]]) -> None:
        lines[number]["ndcg"] += 0.25
        lines[number + 1]["seconds"] += 100

    other = altered(file, change, tmp_path)
    for files, more in (([file, other], 0.25), ([other, file], 0.0)):
        found = read_records(files, ITEMS)
        old = read_records([file], ITEMS).chapters[0].records[number - 1]["ndcg"]
        assert found.chapters[0].records[number - 1]["ndcg"] == pytest.approx(old + more)
        assert "the later ones are shown, and 1 have other figures." in found.added[0]


@pytest.mark.parametrize(
    ("about", "words"),
    [
        ({"scale": "full"}, "scale is full and not quick"),
        ({"profile": "paper"}, "profile is paper and not assent"),
        ({"users": 150}, "users is 150 and not 120"),
        ({"altered": ["training.epochs=3"]}, "altered is ['training.epochs=3'] and not –"),
        ({"sizes": {"simulation": [120, 219, 1]}}, "simulation has another number of users"),
    ],
)
def test_runs_of_other_plans_do_not_add_up(
    about: dict[str, Any], words: str, part: Callable[..., Path], tmp_path: Path
) -> None:
    file = part()
    other = altered(file, lambda lines: lines[0].update(about), tmp_path)
    with pytest.raises(AssentError, match="cannot be added") as raised:
        read_records([file, other], ITEMS)
    assert words in str(raised.value)
    assert other.name in str(raised.value)


def test_records_that_cannot_be_told_apart_are_refused(part: Callable[..., Path], tmp_path: Path) -> None:
    other = altered(part(), lambda lines: lines.append(lines[-1]), tmp_path)
    with pytest.raises(AssentError, match="cannot be told apart"):
        read_records([part(), other], ITEMS)


def test_some_data_sets_of_the_records_are_looked_at_alone(part: Callable[..., Path], tmp_path: Path) -> None:
    file = part()

    def change(lines: list[dict[str, Any]]) -> None:
        about, *records = lines
        about["datasets"] = ["simulation", "steam"]
        lines += [
            {**each, "dataset": "steam"}
            for each in records
            if each["item"] not in ("approximation", "sparsity")
        ]

    both = altered(file, change, tmp_path)
    one, two = (read_records([both], ITEMS, [name]) for name in ("simulation", "steam"))
    alone = read_records([file], ITEMS)
    assert shown(one) == shown(alone)
    assert [each.item.name for each in two.chapters] == ["overall", "anchors"]
    assert {each["dataset"] for chapter in two.chapters for each in chapter.records} == {"steam"}
    assert {each.number.labels["data set"] for each in judge(two.plan, two.chapters, two.counted)} == {
        "steam"
    }
    assert any(each.startswith("approximation: none of its") for each in two.missing)
    assert not any(each.startswith("sparsity") for each in two.missing)
    with pytest.raises(AssentError, match="--datasets diginetica: not in the records; accepted: simulation"):
        read_records([file], ITEMS, ["diginetica"])
