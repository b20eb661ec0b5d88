"""Cells outlive the processes that computed them, and two processes do not get into each other's way."""

import json
import math
import multiprocessing
import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from assent.runs.store import Kept, Store, choice_key, code_state, digest, unit_key
from assent.settings import Settings
from assent.workbench import Workbench
from assent.worth.settings import Source, ValueSettings

from assent.data.simulate import simulate
from assent.data.split import make_problem
from assent.game.estimates import Objective
from assent.methods import make_method
from assent.runs import lds, run
from assent.runs import store as stores
from assent.support.files import read_json
from assent.training import checkpoint, disclose

KEY = {"kind": "test", "price": 0.1, "settings": {"anchors": 3}}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "cells")


def test_what_is_put_is_found_by_an_equal_key(store: Store) -> None:
    assert store.get(KEY) is None
    store.put(KEY, {"reward": -1.5}, seconds=2.0)
    assert store.get({"settings": {"anchors": 3}, "price": 0.1, "kind": "test"}) == {"reward": -1.5}
    assert store.get({**KEY, "price": 0.2}) is None
    assert store.get({**KEY, "settings": {"anchors": 4}}) is None
    assert Store(store.folder).get(KEY) == {"reward": -1.5}


def test_a_cell_says_what_it_is(store: Store) -> None:
    store.put(KEY, {"reward": -1.5}, seconds=2.0)
    (file,) = store.folder.iterdir()
    found = read_json(file)
    assert found["key"] == KEY
    assert found["seconds"] == 2.0
    assert {"format", "assent"} <= found.keys()
    assert found["code"] == code_state()
    assert store.find(KEY) == Kept(file.stem, {"reward": -1.5}, 2.0, code_state())
    assert store.find({**KEY, "price": 0.2}) is None


def test_only_old_leavings_are_swept_away(store: Store) -> None:
    store.put(KEY, {"reward": -1.5}, seconds=2.0)
    (cell,) = store.folder.iterdir()
    work = store.work(KEY)
    work.mkdir()
    new, old, older = store.folder / ".cell.a.tmp", store.folder / ".cell.b.tmp", work / ".anchor.c.tmp"
    for file in (new, old, older):
        file.write_text("half")
    for file in (cell, old, older):
        os.utime(file, (1, 1))
    store.sweep()
    assert [file.exists() for file in (cell, new, old, older)] == [True, True, False, False]
    Store(store.folder / "nowhere").sweep()


def cell_with(**changes: object) -> str:
    whole = {"key": KEY, "record": {"reward": 1.0}, "seconds": 2.0, "code": "0"}
    return json.dumps(whole | changes)


@pytest.mark.parametrize(
    "content",
    [
        "", "{", "[]", "[" * 100_000, json.dumps({"key": KEY}), cell_with(key={"kind": "other"}),
        cell_with(record=None), cell_with(record={"reward": math.nan}), cell_with(seconds="x"),
    ],
    ids=lambda content: content[:90],
)  # fmt: skip
def test_a_damaged_cell_is_none_and_can_be_put_again(content: str, store: Store) -> None:
    store.put(KEY, {"reward": -1.5}, seconds=2.0)
    (file,) = store.folder.iterdir()
    file.write_text(content)
    assert store.get(KEY) is None
    store.put(KEY, {"reward": -2.5}, seconds=2.0)
    assert store.get(KEY) == {"reward": -2.5}


def test_another_version_or_format_has_other_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    before = digest(KEY)
    with monkeypatch.context() as patched:
        patched.setattr(stores, "FORMAT", 99)
        assert digest(KEY) != before
    with monkeypatch.context() as patched:
        patched.setattr(stores, "version", lambda _: "99")
        assert digest(KEY) != before
    assert digest(KEY) == before


def test_a_choice_is_determined_by_the_settings_that_its_method_reads() -> None:
    def key(method: str, objective: Objective = Objective.NASH, **changes: Any) -> str:
        settings = Settings().model_copy(update=changes)
        return digest(choice_key("problem", settings, 0, make_method(method, objective)))

    assert key("threshold") == key("threshold", anchors=5)
    assert key("ifrqe") == key("ifrqe", anchors=5) != key("ifrqe", rounds=5)
    assert key("ifrqe++") == key("ifrqe++", anchors=5, adaptive=1)  # pooled values know no anchors
    single = ValueSettings(source=Source.INFLUENCE)
    assert len({key("ifrqe++", value=single, anchors=t, adaptive=a) for t in (3, 5) for a in (0, 1)}) == 4
    assert key("ifrqe", Objective.NASH) != key("ifrqe", Objective.WELFARE)
    assert key("threshold", Objective.NASH) == key("threshold", Objective.WELFARE)
    assert key("threshold") != key("random")
    assert unit_key("problem", Settings(), 0) != unit_key("problem", Settings(), 1)
    assert unit_key("problem", Settings(), 0) != unit_key("another", Settings(), 0)


def test_the_code_of_a_recommender_of_ones_own_is_part_of_all_that_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cells, trainings, anchors, retrainings and runs of a changed one are not those of the old one."""
    file = tmp_path / "changing.py"
    own = "from assent.models.mf import MF\nclass Mine(MF):\n    name = 'mine'\n"
    file.write_text(own)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    problem = make_problem(simulate(preference="learnable", users=20, items=40, seed=0), "full", negatives=3)
    everything = np.ones(len(problem.train), dtype=np.bool_)

    def marks(settings: Settings) -> list[object]:
        about = settings.model, settings.model_settings, settings.training
        return [
            unit_key("problem", settings, 0),
            checkpoint.fingerprint(disclose(problem, everything), *about, seed=0),
            Workbench(problem, settings, seed=0).mark,
            lds._mark(problem, settings, everything, 0),
            run.describe(problem, run.RunPlan(), settings),
        ]

    before = marks(Settings(model="changing:Mine"))
    assert marks(Settings(model="changing:Mine")) == before
    file.write_text(own + "    kind = 2\n")
    after = marks(Settings(model="changing:Mine"))
    assert [a == b for a, b in zip(after, before, strict=True)] == [False] * 5
    assert unit_key("problem", Settings(), 0)["code"] == ""


def _hold(folder: Path, pipe: Any) -> None:
    with Store(folder).held(KEY, wait=True) as held:
        pipe.send(held)
        pipe.recv()


@pytest.mark.parametrize("end", ["leaves", "is killed"])
def test_work_is_held_by_one_process_until_it_ends(end: str, store: Store) -> None:
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    other = context.Process(target=_hold, args=(store.folder, theirs))
    other.start()
    assert ours.recv()
    with store.held(KEY, wait=False) as held:
        assert not held
    with store.held({**KEY, "price": 0.2}, wait=False) as held:
        assert held
    if end == "leaves":
        ours.send(None)
    else:
        assert other.pid is not None
        os.kill(other.pid, signal.SIGKILL)
    with store.held(KEY, wait=True) as held:
        assert held
    other.join()


def test_leavings_of_work_are_forgotten_unless_somebody_is_at_it(store: Store) -> None:
    store.forget(KEY)
    assert not store.folder.exists()
    store.work(KEY).mkdir(parents=True)
    (store.work(KEY) / "anchor").write_text("kept")
    with store.held(KEY, wait=False):
        store.forget(KEY)
    assert store.work(KEY).exists()
    store.forget(KEY)
    assert not store.work(KEY).exists()


def _put(folder: Path, number: int) -> None:
    for _ in range(30):
        Store(folder).put(KEY, {"number": number, "text": "x" * 20_000}, seconds=0)


def test_processes_that_put_the_same_cell_leave_a_whole_one(store: Store) -> None:
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_put, args=(store.folder, n)) for n in range(3)]
    for each in writers:
        each.start()
    while any(each.is_alive() for each in writers):
        found = store.get(KEY)
        assert found is None or len(found["text"]) == 20_000
    assert [path.name for path in store.folder.iterdir()] == [f"cell-{digest(KEY)}.json"]
