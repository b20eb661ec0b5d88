"""Entries outlive the processes that computed them, and processes do not get into each other's way."""

import json
import math
import multiprocessing
import os
import pickle
import signal
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.lab import Found, Store
from assent.lab.store import digest
from assent.support.cost import Cost
from assent.support.errors import AssentError
from assent.support.files import read_json
from assent.support.runtime import code_state
from tests.small import rehashed

KEY = {"kind": "test", "price": 0.1, "settings": {"anchors": 3}}
OTHER = {**KEY, "price": 0.2}
FOUND = Found({"values": np.arange(6.0).reshape(2, 3), "bits": np.array([True, False])}, {"reward": -1.5})
DAY = 24 * 3600


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def reward(store: Store, key: dict[str, Any] = KEY) -> float | None:
    entry = store.get(key)
    return None if entry is None else entry.facts["reward"]


def file_of(store: Store, kind: str, key: dict[str, Any] = KEY) -> Path:
    return store.folder / f"{digest(key)}.{kind}"


def test_what_is_put_is_found_by_an_equal_key(store: Store) -> None:
    assert store.get(KEY) is None
    assert not store.folder.exists()
    store.put(KEY, FOUND, seconds=2.0)
    for again in (store, Store(store.folder), Store(str(store.folder))):
        entry = again.get({"settings": {"anchors": 3}, "price": 0.1, "kind": "test"})
        assert entry is not None
        assert entry.facts == {"reward": -1.5}
        assert entry.arrays.keys() == FOUND.arrays.keys()
        for name, array in FOUND.arrays.items():
            np.testing.assert_array_equal(entry.arrays[name], array)
            assert entry.arrays[name].dtype == array.dtype
    for changed in (OTHER, {**KEY, "settings": {"anchors": 4}}, {**KEY, "more": None}, {}):
        assert store.get(changed) is None


def test_a_digest_names_an_entry(store: Store) -> None:
    store.put(KEY, FOUND, seconds=2.0)
    entry = store.at(digest(KEY))
    assert entry is not None
    assert entry.facts == FOUND.facts
    assert store.at(digest(OTHER)) is None


def test_an_entry_says_what_it_is_and_what_it_took(store: Store) -> None:
    rests_on = Cost.of("a training", 5.0, 1)
    store.put(KEY, Found(facts={"reward": 1}, rests_on=rests_on, trainings=2), seconds=2.0)
    found = read_json(file_of(store, "json"))
    assert (found["key"], found["seconds"], found["code"]) == (KEY, 2.0, code_state())
    assert {"format", "assent"} <= found.keys()
    entry = store.get(KEY)
    assert entry is not None
    assert (entry.seconds, entry.code, dict(entry.arrays)) == (2.0, code_state(), {})
    assert entry.cost == rests_on + Cost.of(digest(KEY), 2.0, 2)
    assert (entry.cost.seconds, entry.cost.trainings) == (7.0, 3)


def test_a_task_that_knows_better_than_the_clock_is_believed(store: Store) -> None:
    store.put(KEY, Found(seconds=40.0), seconds=2.0)
    entry = store.get(KEY)
    assert entry is not None
    assert entry.seconds == entry.cost.seconds == 40.0


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
keys = st.dictionaries(st.text(), json_values, max_size=4)


@given(keys, keys)
def test_digests_are_equal_where_keys_are(one: dict[str, Any], other: dict[str, Any]) -> None:
    as_text = [json.dumps(each, sort_keys=True) for each in (one, other)]
    assert (digest(one) == digest(other)) == (as_text[0] == as_text[1])
    assert digest(dict(reversed(one.items()))) == digest(one)


def test_a_key_that_json_does_not_know_is_no_key(store: Store) -> None:
    with pytest.raises(ValueError, match="JSON"):
        store.get({"price": math.nan})


def entry_with(**changes: object) -> str:
    """An entry without arrays, with a hash that fits."""
    whole = {"key": KEY, "facts": {"reward": 1.0}, "seconds": 2.0, "code": "0", "size": 0, "content": ""}
    return rehashed(whole | {"cost": {"part": [1.0, 1]}} | changes)


def test_the_smallest_whole_entry_is_read(store: Store) -> None:
    store.put(KEY, FOUND, seconds=2.0)
    file_of(store, "json").write_text(entry_with())
    assert reward(store) == 1.0


@pytest.mark.parametrize("part", ["facts", "key", "cost", "seconds", "size", "content", "code"])
def test_an_entry_that_was_edited_is_none(part: str, store: Store) -> None:
    store.put(KEY, FOUND, seconds=2.0)
    about = read_json(file_of(store, "json"))
    edited: dict[str, Any] = {"facts": {"reward": 9.0}, "key": OTHER, "cost": {}, "seconds": 3.0}
    edited |= {"size": 0, "content": "0", "code": "1"}
    file_of(store, "json").write_text(json.dumps(about | {part: edited[part]}))
    assert store.get(KEY) is None


def test_arrays_of_another_entry_are_refused(store: Store) -> None:
    store.put(KEY, FOUND, seconds=2.0)
    swapped = {name: array[::-1].copy() for name, array in FOUND.arrays.items()}
    store.put(OTHER, Found(swapped, FOUND.facts), seconds=2.0)
    file_of(store, "safetensors", OTHER).replace(file_of(store, "safetensors"))
    entry = store.get(KEY)
    assert entry is not None
    with pytest.raises(AssentError, match=r"not what was put there.*delete it and run again"):
        _ = entry.arrays


def test_a_link_in_place_of_a_file_is_not_followed(store: Store, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    for kind in ("json", "safetensors"):
        store.put(KEY, FOUND, seconds=2.0)
        file_of(store, kind).rename(outside)
        file_of(store, kind).symlink_to(outside)
        before = outside.read_bytes()
        assert store.get(KEY) is None
        store.put(KEY, FOUND, seconds=2.0)
        assert reward(store) == -1.5
        assert outside.read_bytes() == before
    file_of(store, "lock").symlink_to(outside)
    with pytest.raises(AssentError, match="symbolic link"), store.held(KEY):
        pass
    assert outside.read_bytes() == before
    link = tmp_path / "link"
    link.symlink_to(store.folder)
    with pytest.raises(AssentError, match="symbolic link"):
        Store(link).clear()
    assert reward(store) == -1.5


def test_its_files_are_for_their_user_alone(store: Store) -> None:
    store.put(KEY, FOUND, seconds=2.0)
    with store.held(OTHER):
        modes = {stat.S_IMODE(file.stat().st_mode) for file in store.folder.iterdir()}
    assert modes == {0o600}
    assert stat.S_IMODE(store.folder.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "content",
    [
        "", "{", "[]", "[" * 100_000, "\ud800", json.dumps({"key": KEY}), entry_with(key={"kind": "other"}),
        entry_with(key=None), entry_with(facts=None), entry_with(facts={"reward": math.nan}),
        entry_with(seconds="x"), entry_with(code=None), entry_with(size=None), entry_with(cost=None),
        entry_with(cost={"part": None}), entry_with(cost={"part": [1.0]}), entry_with(cost={"part": "ab"}),
        entry_with(size=1),
    ],
    ids=lambda content: content[-90:].encode(errors="replace").decode(),
)  # fmt: skip
def test_a_damaged_or_foreign_entry_is_none_and_can_be_put_again(content: str, store: Store) -> None:
    store.put(KEY, Found(facts={"reward": -1.5}), seconds=2.0)
    file_of(store, "json").write_bytes(content.encode(errors="surrogatepass"))
    assert store.get(KEY) is None
    store.put(KEY, Found(facts={"reward": -2.5}), seconds=2.0)
    assert reward(store) == -2.5


def test_an_entry_without_its_arrays_or_with_half_of_them_is_none(store: Store) -> None:
    store.put(KEY, FOUND, seconds=2.0)
    arrays = file_of(store, "safetensors")
    whole = arrays.read_bytes()
    arrays.write_bytes(whole[:-1])
    assert store.get(KEY) is None
    arrays.unlink()
    assert store.get(KEY) is None
    arrays.write_bytes(whole)
    assert reward(store) == -1.5


def test_arrays_that_are_lost_or_damaged_meanwhile_are_told_by_their_file(store: Store) -> None:
    store.put(KEY, FOUND, seconds=2.0)
    arrays = file_of(store, "safetensors")
    damaged = store.get(KEY)
    arrays.write_bytes(b"x" * arrays.stat().st_size)
    lost = store.get(KEY)
    assert damaged is not None
    assert lost is not None
    for entry in (damaged, lost):
        with pytest.raises(AssentError, match=rf"{arrays}: missing or damaged .*delete it and run again"):
            _ = entry.arrays
        arrays.unlink(missing_ok=True)


def test_an_entry_can_be_removed(store: Store) -> None:
    store.remove(KEY)
    store.put(KEY, FOUND, seconds=2.0)
    store.put(OTHER, FOUND, seconds=2.0)
    store.remove(KEY)
    assert reward(store) is None
    assert reward(store, OTHER) == -1.5
    assert len(list(store.folder.iterdir())) == 2


def test_a_store_knows_its_size_and_can_be_pruned(store: Store) -> None:
    assert (store.size(), store.prune()) == (0, 0)
    for key in (KEY, OTHER):
        store.put(key, FOUND, seconds=2.0)
    store.checkpoint(OTHER).write_bytes(b"state")
    assert store.size() == sum(file.stat().st_size for file in store.folder.iterdir())
    for kind in ("json", "safetensors"):
        os.utime(file_of(store, kind), (1, 1))
    old = sum(file_of(store, kind).stat().st_size for kind in ("json", "safetensors"))
    left = store.size() - old
    assert store.prune(days=1) == old
    assert (reward(store), reward(store, OTHER)) == (None, -1.5)
    assert store.size() == left
    assert store.prune() == left
    assert list(store.folder.iterdir()) == []


def test_an_entry_is_pruned_whole_or_not_at_all(store: Store) -> None:
    """Its arrays are written first, and are a moment older."""
    store.put(KEY, FOUND, seconds=2.0)
    os.utime(file_of(store, "safetensors"), (1, 1))
    assert store.prune(days=1) == 0
    entry = store.get(KEY)
    assert entry is not None
    assert entry.arrays.keys() == FOUND.arrays.keys()


def test_what_a_process_works_on_is_not_pruned(store: Store) -> None:
    store.put(OTHER, FOUND, seconds=2.0)
    other, pipe = holding(store)
    store.checkpoint(KEY).write_bytes(b"state")
    store.prune()
    assert store.checkpoint(KEY).exists()
    assert store.get(OTHER) is None
    with store.held(KEY, wait=False) as held:
        assert not held
    pipe.send(None)
    other.join()
    store.prune()
    assert list(store.folder.iterdir()) == []


def test_only_old_leavings_are_swept_away(store: Store) -> None:
    store.put(KEY, FOUND, seconds=2.0)
    name = digest(OTHER)
    new, old, foreign = (
        store.folder / each
        for each in (f".{name}.json.abcdefgh.tmp", f".{name}.safetensors.abcd_f12.tmp", ".photo.b.tmp")
    )
    for file in (new, old, foreign):
        file.write_text("half")
    for file in (file_of(store, "json"), old, foreign):
        os.utime(file, (1, 1))
    store.sweep()
    there = [file.exists() for file in (file_of(store, "json"), new, old, foreign)]
    assert there == [True, True, False, True]
    Store(store.folder / "nowhere").sweep()


def test_clearing_removes_all_of_the_store_and_nothing_else(store: Store) -> None:
    store.clear()
    store.put(KEY, FOUND, seconds=2.0)
    name = digest(OTHER)
    for left in (f"{name}.progress", f"{name}.lock", f".{name}.progress.x1y2z3w4.tmp"):
        (store.folder / left).write_bytes(b"left by a killed process")
    store.clear()
    assert not store.folder.exists()
    store.put(KEY, FOUND, seconds=2.0)
    for mine in ("notes.json", "wishes.progress", f"{name}.txt", "model.safetensors"):
        (store.folder / mine).write_text("mine")
    store.clear()
    assert {file.read_text() for file in store.folder.iterdir()} == {"mine"}
    assert len(list(store.folder.iterdir())) == 4
    assert store.size() == 0


def test_a_temporary_store_leaves_with_its_last_user() -> None:
    store = Store.temporary()
    store.put(KEY, FOUND, seconds=2.0)
    folder, other = store.folder, Store.temporary()
    assert other.folder != folder
    worker = pickle.loads(pickle.dumps(store))
    assert reward(worker) == -1.5
    del worker
    assert reward(store) == -1.5
    del store
    assert not folder.exists()


def _hold(folder: Path, pipe: Any) -> None:
    with Store(folder).held(KEY, wait=True) as held:
        pipe.send(held)
        pipe.recv()


def holding(store: Store) -> tuple[Any, Any]:
    """A process that holds the work on `KEY` until it is told to leave, and the pipe to tell it."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    other = context.Process(target=_hold, args=(store.folder, theirs))
    other.start()
    assert ours.recv()
    return other, ours


@pytest.mark.parametrize("end", ["leaves", "is killed"])
def test_work_is_held_by_one_process_until_it_ends(end: str, store: Store) -> None:
    other, pipe = holding(store)
    with store.held(KEY, wait=False) as held:
        assert not held
    with store.held(OTHER, wait=False) as held:
        assert held
    if end == "leaves":
        pipe.send(None)
    else:
        os.kill(other.pid, signal.SIGKILL)
    with store.held(KEY, wait=True) as held:
        assert held
    other.join()
    assert list(store.folder.iterdir()) == []


def _put(folder: Path) -> None:
    for _ in range(30):
        arrays = {"same": np.full(20_000, 7)}
        Store(folder).put(KEY, Found(arrays, {"text": "x" * 20_000}), seconds=0)


def test_processes_that_put_the_same_entry_leave_a_whole_one(store: Store) -> None:
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_put, args=(store.folder,)) for _ in range(3)]
    for each in writers:
        each.start()
    while any(each.is_alive() for each in writers):
        found = store.get(KEY)
        if found is not None:
            assert len(found.facts["text"]) == 20_000
            assert len(np.unique(found.arrays["same"])) == 1
    assert {path.name for path in store.folder.iterdir()} == {
        f"{digest(KEY)}.json", f"{digest(KEY)}.safetensors"
    }  # fmt: skip


def _put_for_ever(folder: Path, pipe: Any) -> None:
    for number in range(10_000):
        key = {"number": number}
        Store(folder).put(key, Found({"number": np.full(30_000, number)}, {"number": number}), seconds=0)
        if number == 3:
            pipe.send(None)


def test_a_killed_writer_leaves_whole_entries_alone(store: Store) -> None:
    """Wherever kill -9 strikes: an entry is there with all of its arrays, or it is not there."""
    context = multiprocessing.get_context("fork")
    lots = np.random.default_rng(0)
    for round_ in range(8):
        folder = store.folder / f"{round_}"
        ours, theirs = context.Pipe()
        writer = context.Process(target=_put_for_ever, args=(folder, theirs))
        writer.start()
        ours.recv()
        writer.join(float(lots.uniform(0, 0.02)))
        writer.kill()
        writer.join()
        here, numbers = Store(folder), []
        for number in range(10_000):
            entry = here.get({"number": number})
            if entry is None:
                break
            assert (entry.arrays["number"] == entry.facts["number"]).all()
            numbers.append(number)
        assert len(numbers) >= 4
        here.prune()
        assert list(folder.iterdir()) == []
