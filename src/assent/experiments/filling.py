"""Computing the cells of a unit: those that share a workbench, one after the other, by one process."""

import time
import traceback
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
    ends the unit; with `go_on` the others are computed still, and that is what is returned, in sentences. A
    file system that fails ends it even so: it would fail the others too, after hours of work.
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
                except Exception as error:
                    if not go_on or isinstance(error, OSError):
                        raise
                    wrong.append(f"{step.name}: {_in_words(error)}")
            tell()
        if not wrong:
            own.clear()
    return wrong


def _in_words(error: Exception) -> str:
    """What went wrong; of an error that nobody foresaw, also its kind and where it comes from."""
    if isinstance(error, AssentError):
        return str(error)
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(last.filename).name}, line {last.lineno})"
