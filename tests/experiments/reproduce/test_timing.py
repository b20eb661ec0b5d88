"""In which order cells are computed, and how long the rest still takes."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from assent.runs.store import Store

from assent.reproduce import ITEMS, Plan, reproduce
from assent.reproduce import cells as computing
from assent.reproduce.cells import TimeLeft, Waiting
from assent.support.progress import SILENT, Advance, Left, timed_task


class Watcher:
    """Is told of the time left."""

    def __init__(self) -> None:
        self.told: list[float | None] = []

    @contextmanager
    def task(self, label: str, total: int) -> Iterator[Advance]:
        yield lambda: None

    @contextmanager
    def timed_task(self, label: str, total: int, left: Left) -> Iterator[Advance]:
        yield lambda: self.told.append(left())


def test_a_cell_is_expected_to_take_as_long_as_the_most_similar_ones(tmp_path: Path) -> None:
    store, now = Store(tmp_path), 0.0
    quick, slow = ("quick", "steam", "mf"), ("slow", "steam", "mf")
    kinds = [quick, quick, slow, slow]
    waiting = [Waiting(kind, {"cell": number}, 50) for number, kind in enumerate(kinds, 1)]
    left = TimeLeft(store, waiting, jobs=2, clock=lambda: now)
    assert left() is None
    store.put({"cell": 1}, {}, seconds=10.0)
    assert left() is None  # it does not look all the time
    now = 60.0
    assert left() == 3 * 10.0 / 2
    store.put({"cell": 3}, {}, seconds=100.0)
    now = 120.0
    assert left() == (10.0 + 100.0) / 2
    kept = {number: store.find({"cell": number}) for number in (1, 3)}
    larger = [Waiting(("slow", "steam", "din"), {"cell": 5}, 50), Waiting(("new",), {"cell": 6}, 200)]
    elsewhere = TimeLeft(store, larger, jobs=0, clock=lambda: now)
    for kind, number in ((quick, 1), (slow, 3)):
        found = kept[number]
        assert found is not None
        elsewhere.learn(kind, 50, found)
    assert elsewhere() == 100.0 + 4 * 55.0


def test_what_is_being_computed_is_nearer_its_end_as_time_goes_by(tmp_path: Path) -> None:
    store, now = Store(tmp_path), 0.0
    waiting = [Waiting(("kind",), {"cell": number}, 10) for number in range(4)]
    left = TimeLeft(store, waiting, jobs=1, clock=lambda: now)
    assert left() is None
    store.put({"cell": 0}, {}, seconds=100.0)
    now = 100.0
    assert left() == 300.0
    now = 140.0
    assert left() == 260.0
    now = 350.0
    assert left() == 200.0  # it takes longer than was thought, and may be done at any moment


def test_who_watches_is_told_if_there_is_use_for_it(plan: Plan, tmp_path: Path) -> None:
    few = replace(plan, datasets=("simulation",), repeats=1)
    watcher = Watcher()
    reproduce([ITEMS["sparsity"]], few, tmp_path, data=None, progress=watcher)
    assert watcher.told[0] is not None
    assert watcher.told[0] > 0
    with timed_task(SILENT, "cells", 1, lambda: 1.0) as advance:
        advance()


def test_items_are_computed_in_their_order_and_scr_last(
    plan: Plan, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []

    def work(_: object, unit: computing.Unit, **__: object) -> list[str]:
        order.extend(str(cell.labels.get("method_name", type(cell.task).__name__)) for cell in unit.cells)
        return []

    monkeypatch.setattr(computing, "_work", work)
    few = replace(plan, datasets=("simulation", "diginetica"), repeats=1)
    names = ("overall", "scratch", "approximation", "lds")
    reproduce([ITEMS[name] for name in names], few, tmp_path, data=data)
    assert order[0] == "All"
    assert order.index("Proactive (nash)") < order.index("Scored")
    assert order.index("Scored") < order.index("SCR (nash)")
    assert set(order[order.index("SCR (nash)") :]) == {"SCR (nash)"}
