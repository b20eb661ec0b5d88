"""The ledger and receipts: whatever is altered, missing or reordered is found, without the database."""

import copy
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from sqlalchemy import text

from assent.service import interactions, ledger, wishes
from assent.service.database import Database, NotFoundError
from assent.service.interactions import NewInteraction
from assent.service.ledger_check import (
    canonical,
    check_ledger,
    check_receipt,
    first_head,
    head_of,
    leaf_hash,
    levels_of,
    path_in,
    root_by_path,
)
from assent.service.settings import ServiceSettings
from assent.service.wishes import Said
from tests.conftest import Assent

SCHEMA = json.loads((Path(__file__).parent / "receipt.schema.json").read_text())


def made_up() -> list[str]:
    """A ledger of 9 events in 4 seals."""
    lines: list[str] = []
    head, leaf = first_head("some ledger"), 0
    for seal, count in enumerate((1, 3, 4, 1)):
        leaves = [
            {
                "leaf": leaf + n,
                "at": f"t{leaf + n}",
                "event": "wish",
                "digest": f"{leaf + n:064x}",
                "facts": {"n": n},
            }
            for n in range(count)
        ]
        about = {"seal": seal, "first": leaf, "count": count, "at": "t",
                 "root": levels_of([leaf_hash(each) for each in leaves])[-1][0].hex()}  # fmt: skip
        head = head_of(head, about)
        lines += [canonical(each) for each in (*leaves, {**about, "head": head})]
        leaf += count
    header = {"assent_ledger": 1, "ledger": "some ledger", "leaves": 9, "seals": 4, "head": head}
    return [canonical(header), *lines]


LINES = made_up()


def is_found(lines: list[str]) -> bool:
    return bool(check_ledger(lines, "ledger")[1])


def test_a_whole_ledger_is_fine() -> None:
    summary, findings = check_ledger(LINES, "ledger")
    assert findings == []
    assert (summary.leaves, summary.seals) == (9, 4)


@examples(max_examples=300)
@given(st.data())
def test_any_altered_byte_is_found(data: st.DataObject) -> None:
    number = data.draw(st.integers(0, len(LINES) - 1))
    line = LINES[number]
    at = data.draw(st.integers(0, len(line)))
    cut = data.draw(st.integers(0, 2))
    put = data.draw(st.text(max_size=2))
    changed = line[:at] + put + line[at + cut :]
    if changed == line or "\n" in put:
        return
    assert is_found([*LINES[:number], changed, *LINES[number + 1 :]])


@examples(max_examples=200)
@given(st.permutations(range(len(LINES))), st.data())
def test_missing_repeated_and_reordered_lines_are_found(order: list[int], data: st.DataObject) -> None:
    kept = data.draw(st.integers(0, len(LINES)))
    twice = data.draw(st.lists(st.sampled_from(range(len(LINES))), max_size=2))
    places = [*order[:kept], *twice]
    if places != list(range(len(LINES))):
        assert is_found([LINES[place] for place in places])
    drawn = sorted(data.draw(st.sets(st.sampled_from(range(len(LINES))))))
    if len(drawn) < len(LINES):
        assert is_found([LINES[place] for place in drawn])


@given(st.integers(1, 40), st.data())
def test_every_leaf_is_proved_by_its_path_and_by_no_other(count: int, data: st.DataObject) -> None:
    hashes = [bytes([number]) * 32 for number in range(count)]
    levels = levels_of(hashes)
    place = data.draw(st.integers(0, count - 1))
    path, root = path_in(levels, place), levels[-1][0].hex()
    assert root_by_path(hashes[place], place, count, path) == root
    other = data.draw(st.integers(0, count - 1))
    if other != place:
        assert root_by_path(hashes[place], other, count, path) != root
        assert root_by_path(hashes[other], place, count, path) != root
    assert root_by_path(hashes[place], place, count, [*path, "00" * 32]) is None


@pytest.fixture
def receipts(database: Database, settings: ServiceSettings) -> list[dict[str, Any]]:
    """Receipts of three people's wishes, in two batches."""
    users = ["ann", "bob", "eve"]
    with database.writing() as session:
        interactions.add(session, [NewInteraction(user, "i1", 0.0, "One", ["films"]) for user in users])
    found = []
    for value in (0.25, 1.0):
        with database.writing() as session:
            done = wishes.record(session, settings, [(user, [Said("item", "i1", value)]) for user in users])
        found += [each[0].receipt for each in done if isinstance(each, list)]
    return found


def lines_of(database: Database) -> list[str]:
    with database.snapshot() as session:
        return list(ledger.export_lines(session))


def test_receipts_are_consent_records(receipts: list[dict[str, Any]], settings: ServiceSettings) -> None:
    validator = Draft202012Validator(SCHEMA)
    for receipt in receipts:
        validator.validate(receipt)
    first, last = receipts[0]["dpv:hasRecordOfActivity"], receipts[-1]["dpv:hasRecordOfActivity"]
    assert first["events"][0]["dpv:hasConsentStatus"] == "dpv:ConsentGiven"
    assert last["events"][0]["dpv:hasConsentStatus"] == "dpv:ConsentWithdrawn"
    assert first["dpv:hasDataController"]["dpv:hasName"] == settings.controller.name
    broken = copy.deepcopy(receipts[0])
    del broken["dpv:hasRecordOfActivity"]["dpv:hasDataSubject"]
    assert not validator.is_valid(broken)


def test_receipts_are_found_again(database: Database, receipts: list[dict[str, Any]]) -> None:
    with database.reading() as session:
        for receipt in receipts:
            assert ledger.receipt(session, receipt["dct:identifier"]) == receipt
            assert ledger.verify_receipt(session, receipt) == []
        theirs, cursor = ledger.receipts_of(session, "ann", limit=1)
        rest, end = ledger.receipts_of(session, "ann", limit=1, cursor=cursor)
        assert [theirs, rest, end] == [[receipts[3]], [receipts[0]], None]
        with pytest.raises(NotFoundError):
            ledger.receipt(session, receipts[0]["dct:identifier"], user="bob")
    assert (
        check_ledger(lines_of(database), "ledger", {str(n): each for n, each in enumerate(receipts)})[1] == []
    )


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The places of all numbers, texts and truths within a JSON value."""
    if isinstance(value, dict):
        return [each for key, inner in value.items() for each in places(inner, (*path, key))]
    if isinstance(value, list):
        return [each for key, inner in enumerate(value) for each in places(inner, (*path, key))]
    return [path]


def test_any_altered_receipt_is_found(database: Database, receipts: list[dict[str, Any]]) -> None:
    lines, checked = lines_of(database), 0
    for path in places(receipts[4]):
        if path[0] not in ("dpv:hasRecordOfActivity", "proof"):
            continue  # the envelope says nothing that the record does not
        broken = copy.deepcopy(receipts[4])
        at: Any = broken
        for step in path[:-1]:
            at = at[step]
        old = at[path[-1]]
        at[path[-1]] = old[::-1] + "x" if isinstance(old, str) else (0 if old is None else not old)
        assert check_ledger(lines, "ledger", {"receipt": broken})[1], path
        with database.reading() as session:
            assert ledger.verify_receipt(session, broken), path
        checked += 1
    assert checked > 30


@pytest.mark.parametrize("wrong", [None, 3, "receipt", [], {}, {"proof": {}}, {"proof": {"path": [1]}}])
def test_what_is_no_receipt_is_said_so(wrong: Any) -> None:
    assert [each.what for each in check_receipt(wrong)] == ["is no receipt of assent's"]


def test_a_forged_end_is_found_by_a_receipt(database: Database, receipts: list[dict[str, Any]]) -> None:
    """Whoever can compute all hashes anew can cut the end off; a receipt of then shows it."""
    lines = lines_of(database)
    cut = [n for n, line in enumerate(lines) if '"root"' in line][-2] + 1
    seal = json.loads(lines[cut - 1])
    header = json.loads(lines[0]) | {
        "leaves": seal["first"] + seal["count"],
        "seals": seal["seal"] + 1,
        "head": seal["head"],
    }
    forged = [canonical(header), *lines[1:cut]]
    assert check_ledger(forged, "ledger")[1] == []
    [finding] = check_ledger(forged, "ledger", {"mine": receipts[-1]})[1]
    assert "is missing in ledger" in str(finding)


@pytest.mark.parametrize(
    "tamper",
    [
        "UPDATE leaf SET event = 'other' WHERE number = 2",
        "UPDATE leaf SET facts = '{\"a\": 1}' WHERE number = 2",
        "UPDATE leaf SET digest = (SELECT digest FROM leaf AS other WHERE other.number = 3) WHERE number = 2",
        "DELETE FROM leaf WHERE number = 5",
        "DELETE FROM seal WHERE number = 0",
        "UPDATE leaf SET number = -1 WHERE number = 4; UPDATE leaf SET number = 4 WHERE number = 3; "
        "UPDATE leaf SET number = 3 WHERE number = -1",
    ],
)
def test_whoever_can_write_to_the_database_is_found(
    database: Database, receipts: list[dict[str, Any]], tamper: str
) -> None:
    with database.writing() as session:
        if database.is_sqlite:
            for name in session.scalars(text("SELECT name FROM sqlite_master WHERE type = 'trigger'")).all():
                session.execute(text(f"DROP TRIGGER {name}"))
        else:
            for table in ("leaf", "seal"):
                session.execute(text(f"ALTER TABLE {table} DISABLE TRIGGER USER"))
        for statement in tamper.split("; "):
            session.execute(text(statement))
    assert check_ledger(lines_of(database), "ledger")[1]


def test_the_ledger_holds_no_personal_data(database: Database, receipts: list[dict[str, Any]]) -> None:
    whole = "".join(lines_of(database))
    people = {each["dpv:hasRecordOfActivity"]["dpv:hasDataSubject"]["dct:identifier"] for each in receipts}
    salts = {each["proof"]["salt"] for each in receipts}
    assert len(people) == 3
    assert len(salts) == 6
    assert not any(word in whole for word in ("ann", "bob", "i1", "films", *people, *salts))


def test_writers_take_turns(database: Database) -> None:
    def write(number: int) -> None:
        with database.writing() as session:
            ledger.note(session, "something", number=number)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(write, range(30)))
    summary, findings = check_ledger(lines_of(database), "ledger")
    assert (summary.leaves, summary.seals, findings) == (30, 30, [])
    with database.reading() as session:
        page, cursor = ledger.entries(session, events=("something",), limit=20)
        rest, end = ledger.entries(session, events=("something",), limit=20, cursor=cursor)
        assert sorted(each.facts["number"] for each in page + rest) == list(range(30))
        assert end is None
        heads, _ = ledger.heads(session, limit=1)
        assert heads[0].head == summary.head


def test_the_command_checks_a_ledger(
    database: Database,
    settings: ServiceSettings,
    receipts: list[dict[str, Any]],
    tmp_path: Path,
    assent: Assent,
) -> None:
    file, mine = tmp_path / "ledger.jsonl", tmp_path / "receipt.json"
    mine.write_text(json.dumps(receipts[1], indent=1))
    code, _, err = assent("ledger", "--database", settings.database, "--to", file)
    assert (code, err.strip()) == (0, f"Written: {file}")
    code, out, _ = assent("verify", file, "--receipt", mine)
    assert (code, "6 events in 2 seals, all as written" in out, "1 receipt found" in out) == (0, True, True)
    head = out.partition("Head: ")[2].partition(".")[0]
    code, out, _ = assent("verify", file, "--head", head, "--head", head)
    assert code == 0
    assert "2 heads found in it." in out
    code, out, _ = assent("verify", file, "--head", "0" * 64)
    assert code == 1
    assert f"head {'0' * 64}: is missing" in out
    code, _, err = assent("verify", tmp_path, "--head", head)
    assert "a head needs a ledger" in err
    file.write_text(file.read_text().replace("wish requested", "wish granted", 1))
    code, out, _ = assent("verify", file)
    assert code == 1
    assert "the events of seal 0 are not those that it sealed" in out
    code, _, err = assent("verify", tmp_path / "none.jsonl", "--receipt", mine)
    assert (code, err.count("\n")) == (2, 1)
