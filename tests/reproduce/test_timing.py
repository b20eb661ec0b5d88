"""In which order cells are computed, and how long the rest still takes."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from assent.lab import Entry
from assent.reproduce import ITEMS, Plan, reproduce
from assent.reproduce.cells import TimeLeft, Waiting
from assent.support.cost import Cost
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


def entry(seconds: float) -> Entry:
    """A finished cell that took so long."""
    return Entry(Path("cell.json"), {}, {}, Cost(), seconds, code="", size=0)


class Cells:
    """Cells by number; those that are there took so many seconds."""

    def __init__(self) -> None:
        self.took: dict[int, float] = {}

    def waiting(self, number: int, kind: tuple[str, ...], rows: int) -> Waiting:
        return Waiting(kind, lambda: entry(self.took[number]) if number in self.took else None, rows)


def test_a_cell_is_expected_to_take_as_long_as_the_most_similar_ones() -> None:
    cells, now = Cells(), 0.0
    quick, slow = ("quick", "steam", "mf"), ("slow", "steam", "mf")
    waiting = [cells.waiting(number, kind, 50) for number, kind in enumerate((quick, quick, slow, slow), 1)]
    left = TimeLeft(waiting, jobs=2, clock=lambda: now)
    assert left() is None
    cells.took[1] = 10.0
    assert left() is None  # it does not look all the time
    now = 60.0
    assert left() == 3 * 10.0 / 2
    cells.took[3] = 100.0
    now = 120.0
    assert left() == (10.0 + 100.0) / 2
    more = [cells.waiting(5, ("slow", "steam", "din"), 50), cells.waiting(6, ("new",), 200)]
    elsewhere = TimeLeft([waiting[0], waiting[2], *more], jobs=0, clock=lambda: now)
    assert elsewhere() == 100.0 + 4 * 55.0


def test_what_is_being_computed_is_nearer_its_end_as_time_goes_by() -> None:
    cells, now = Cells(), 0.0
    left = TimeLeft([cells.waiting(number, ("kind",), 10) for number in range(4)], jobs=1, clock=lambda: now)
    assert left() is None
    cells.took[0] = 100.0
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


class Recorder:
    """An executor that computes nothing and remembers what it was asked for, in order."""

    workers = 1

    def __init__(self) -> None:
        self.order: list[str] = []

    def map(self, work: Any, items: Sequence[Any], shared: Any, tell: Advance) -> list[Any]:
        for group in items:
            for cell in group.tasks:
                self.order.append(str(cell.labels.get("method_name", type(cell.task).__name__)))
        return [([], False) for _ in items]


def test_items_are_computed_in_their_order_and_scr_last(plan: Plan, data: Path, tmp_path: Path) -> None:
    few = replace(plan, datasets=("simulation", "diginetica"), repeats=1)
    names = ("overall", "scratch", "approximation", "lds")
    recorder = Recorder()
    reproduce([ITEMS[name] for name in names], few, tmp_path, data=data, executor=recorder)
    order = recorder.order
    assert order[0] == "All"
    assert order.index("Proactive (nash)") < order.index("Scored")
    assert order.index("Scored") < order.index("SCR (nash)")
    assert set(order[order.index("SCR (nash)") :]) == {"SCR (nash)"}
