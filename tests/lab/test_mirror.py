"""A store on another machine: entries and checkpoints that a lost machine left are found by the next one."""

import time
from pathlib import Path

import numpy as np
import pytest

from assent.lab import Found, Store
from assent.lab.mirror import Files, Mirror, read_files, write_files
from assent.lab.store import digest
from assent.support.files import write_bytes

KEY = {"kind": "training", "seed": 1}


class Home:
    """The machine of the store, which counts what is asked of it."""

    def __init__(self) -> None:
        self.fetched, self.sent = 0, 0

    def fetch(self, folder: Path, name: str) -> Files:
        self.fetched += 1
        return read_files(folder, name)

    def send(self, folder: Path, name: str, files: Files) -> None:
        self.sent += 1
        write_files(folder, name, files)


def test_an_entry_that_is_put_elsewhere_is_at_home_and_everywhere(tmp_path: Path) -> None:
    one, two = Mirror(tmp_path, Home()), Mirror(tmp_path, Home())
    assert one.get(KEY) is None
    one.put(KEY, Found({"a": np.arange(3)}, {"b": 1}), seconds=2.0)
    for store in (Store(tmp_path), two):
        found = store.get(KEY)
        assert found is not None
        assert found.arrays["a"].tolist() == [0, 1, 2]
        assert (found.facts, found.seconds) == ({"b": 1}, 2.0)
    two.remove(KEY)
    assert Store(tmp_path).get(KEY) is None


def test_a_retry_elsewhere_goes_on_from_the_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assent.lab.mirror.LOOK_EVERY", 0.02)
    lost, home = Mirror(tmp_path, Home()), Store(tmp_path).checkpoint(KEY)
    file = lost.checkpoint(KEY)
    assert file != home
    for state in (b"epoch 1", b"epoch 2"):  # a training writes, and its machine is lost
        write_bytes(file, state, private=True)
        deadline = time.monotonic() + 30
        while not (home.exists() and home.read_bytes() == state) and time.monotonic() < deadline:
            time.sleep(0.01)
    next_one = Mirror(tmp_path, Home())
    assert next_one.checkpoint(KEY).read_bytes() == b"epoch 2"
    next_one.put(KEY, Found(facts={"done": True}), seconds=1.0)
    assert sorted(each.name for each in tmp_path.iterdir()) == [f"{digest(KEY)}.json"]
    time.sleep(0.1)  # what is late at the lost machine brings no checkpoint back
    write_files(tmp_path, digest(KEY), {"progress": b"epoch 3"})
    assert not home.exists()
