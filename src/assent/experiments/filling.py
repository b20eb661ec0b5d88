"""Computing the cells of a unit: those that share a workbench, one after the other, by one process."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assent.errors import AssentError
from assent.experiments.store import Key, Store
from assent.progress import Advance
from assent.workbench import Workbench


@dataclass(frozen=True)
class Step:
    """One cell of a unit: its key, how its record is computed, and what it is called where that fails."""

    key: Key
    run: Callable[[], Mapping[str, Any]]
    name: str


def fill(
    store: Store,
    unit: Key,
    *,
    bench: Callable[[Path], Workbench],
    steps: Callable[[Workbench], Iterable[Step]],
    wait: bool,
    tell: Advance,
    go_on: bool = False,
) -> list[str] | None:
    """Compute the cells of a unit that the store lacks; None, at once, if another process is at it.

    `bench` makes the workbench that keeps its state in the folder that it is given. What is wrong with a cell
    ends the unit; with `go_on` the others are computed still, and that is what is returned, in sentences.
    """
    with store.held(unit, wait=wait) as held:
        if not held:
            return None
        own, wrong = bench(store.work(unit)), []
        for step in steps(own):
            if store.get(step.key) is None:
                start = time.perf_counter()
                try:
                    record = step.run()
                    store.put(step.key, record, seconds=time.perf_counter() - start)
                except AssentError as error:
                    if not go_on:
                        raise
                    wrong.append(f"{step.name}: {error}")
            tell()
        if not wrong:
            own.clear()
    return wrong
