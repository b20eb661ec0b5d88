"""The store and the worker processes survive kills, deletions and damage."""

import json
import multiprocessing
import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from assent.lab.executor import Processes
from assent.lab.store import Found, Store, digest
from assent.support.errors import AssentError
from assent.support.progress import Advance

KEY = {"kind": "test", "price": 0.1}
FOUND = Found({"own": np.arange(3.0)}, {"reward": -1.5}, trainings=1)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def stored(store: Store, key: dict[str, Any] | None = None) -> Path:
    store.put(key or KEY, FOUND, seconds=2.0)
    return store.folder / f"{digest(key or KEY)}.json"


@pytest.mark.parametrize("lost", ["json", "safetensors"])
def test_half_an_entry_is_none(store: Store, lost: str) -> None:
    stored(store).with_suffix(f".{lost}").unlink()
    assert store.get(KEY) is None
    stored(store)
    found = store.get(KEY)
    assert found is not None
    assert found.arrays["own"].tolist() == [0, 1, 2]
    assert (found.facts, found.cost.seconds, found.cost.trainings) == ({"reward": -1.5}, 2.0, 1)


def test_arrays_that_are_deleted_before_they_are_read_are_an_error_that_names_the_file(store: Store) -> None:
    file = stored(store)
    found = store.get(KEY)
    store.clear()
    assert found is not None
    with pytest.raises(AssentError, match=file.stem):
        assert found.arrays


@pytest.mark.parametrize(
    "changes",
    [
        {"cost": {"a": 1}},
        {"cost": []},
        {"cost": {"a": ["x", 1]}},
        {"seconds": "x"},
        {"facts": None},
        {"key": []},
    ],
)
def test_a_damaged_entry_is_none(store: Store, changes: dict[str, Any]) -> None:
    file = stored(store)
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))
    assert store.get(KEY) is None


def test_pruning_leaves_what_is_young_what_is_computed_and_what_is_not_the_stores(store: Store) -> None:
    old, busy, young = (stored(store, {"number": number}) for number in range(3))
    others = [store.folder / name for name in ("package.json", "uv.lock", "draft.tmp")]
    for file in others:
        file.write_text("mine")
    for file in [
        *others,
        *(each.with_suffix(end) for each in (old, busy) for end in (".json", ".safetensors")),
    ]:
        os.utime(file, (1, 1))
    freed = old.stat().st_size + old.with_suffix(".safetensors").stat().st_size
    with store.held({"number": 1}):
        assert store.prune(days=1) == freed
    left = {file.name for each in (busy, young) for file in (each, each.with_suffix(".safetensors"))}
    assert {file.name for file in store.folder.iterdir()} == left | {file.name for file in others}
    store.clear()
    assert sorted(store.folder.iterdir()) == sorted(others)


def _hold(folder: Path, pipe: Any) -> None:
    with Store(folder).held(KEY) as held:
        pipe.send(held)
        pipe.recv()


def test_work_of_a_killed_process_is_free_again(store: Store) -> None:
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    other = context.Process(target=_hold, args=(store.folder, theirs))
    other.start()
    assert ours.recv()
    with store.held(KEY, wait=False) as held:
        assert not held
    other.kill()
    with store.held(KEY) as held:
        assert held
    other.join()


def _work(shared: Path, item: str, tell: Advance) -> str:
    match item:
        case "wrong":
            raise AssentError("a wrong item")
        case "deadly":
            os.kill(os.getpid(), signal.SIGKILL)
        case "long":
            (shared / "pid").write_text(str(os.getpid()))
            time.sleep(600)
    tell()
    return f"{item} {torch.get_num_threads()} {os.environ['OMP_NUM_THREADS']}"


def test_workers_keep_the_order_tell_every_step_and_compute_with_one_thread(tmp_path: Path) -> None:
    told: list[int] = []
    with Processes(2) as processes:
        for _ in range(2):
            found = processes.map(_work, ["a", "b", "c"], tmp_path, lambda: told.append(1))
            assert found == ["a 1 1", "b 1 1", "c 1 1"]
    assert len(told) == 6


@pytest.mark.parametrize(("item", "said"), [("wrong", "a wrong item"), ("deadly", "finished work is kept")])
def test_an_error_ends_the_other_workers_at_once(item: str, said: str, tmp_path: Path) -> None:
    start = time.monotonic()
    with Processes(2) as processes:
        with pytest.raises(AssentError, match=said):
            processes.map(_work, ["long", item], tmp_path, lambda: None)
        assert processes.map(_work, ["a", "b"], tmp_path, lambda: None) == ["a 1 1", "b 1 1"]
    assert time.monotonic() - start < 60
    if (tmp_path / "pid").exists():
        with pytest.raises(ProcessLookupError):
            os.kill(int((tmp_path / "pid").read_text()), 0)
