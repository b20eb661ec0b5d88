"""In which order cells are computed, and how long the rest still takes."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from assent.lab.executor import Work
from assent.lab.store import Found, Store
from assent.reproduce import ITEMS, Plan, reproduce
from assent.reproduce.run import TimeLeft, Waiting
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


def cell(store: Store, number: int, kind: tuple[str, ...], rows: int) -> Waiting:
    return Waiting(kind, lambda: store.get({"cell": number}), rows)


def test_a_cell_is_expected_to_take_as_long_as_the_most_similar_ones(tmp_path: Path) -> None:
    store, now = Store(tmp_path), 0.0
    quick, slow = ("quick", "steam", "mf"), ("slow", "steam", "mf")
    waiting = [cell(store, number, kind, 50) for number, kind in enumerate([quick, quick, slow, slow], 1)]
    left = TimeLeft(waiting, jobs=2, clock=lambda: now)
    assert left() is None
    store.put({"cell": 1}, Found(), seconds=10.0)
    assert left() is None  # it does not look all the time
    now = 60.0
    assert left() == 3 * 10.0 / 2
    store.put({"cell": 3}, Found(), seconds=100.0)
    now = 120.0
    assert left() == (10.0 + 100.0) / 2
    larger = [cell(store, 5, ("slow", "steam", "din"), 50), cell(store, 6, ("new",), 200)]
    elsewhere = TimeLeft([*larger, waiting[0], waiting[2]], jobs=0, clock=lambda: now)
    assert elsewhere() == 100.0 + 4 * 55.0


def test_what_is_being_computed_is_nearer_its_end_as_time_goes_by(tmp_path: Path) -> None:
    store, now = Store(tmp_path), 0.0
    waiting = [cell(store, number, ("kind",), 10) for number in range(4)]
    left = TimeLeft(waiting, jobs=1, clock=lambda: now)
    assert left() is None
    store.put({"cell": 0}, Found(), seconds=100.0)
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


class Lazy:
    """An executor that does nothing but remember what it was asked for."""

    workers = 1

    def __init__(self) -> None:
        self.order: list[str] = []

    def map(
        self, work: Work[Any, Any, Any], items: Sequence[Any], shared: object, tell: Advance
    ) -> list[Any]:
        cells = [each for group in items for each in group.tasks]
        self.order += [str(each.labels.get("method_name", type(each.task).__name__)) for each in cells]
        return [([], False) for _ in items]


def test_items_are_computed_in_their_order_and_scr_last(plan: Plan, data: Path, tmp_path: Path) -> None:
    few, lazy = replace(plan, datasets=("simulation", "diginetica"), repeats=1), Lazy()
    names = ("overall", "scratch", "approximation", "lds")
    reproduce([ITEMS[name] for name in names], few, tmp_path, data=data, executor=lazy)
    order = [each for each in lazy.order if "anchor" not in each]  # what cells share comes before them
    assert order[0] == "All"
    assert order.index("Proactive (nash)") < order.index("Scored")
    assert order.index("Scored") < order.index("SCR (nash)")
    assert set(order[order.index("SCR (nash)") :]) == {"SCR (nash)"}
