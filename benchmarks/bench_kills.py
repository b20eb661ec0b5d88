"""Kill `assent reproduce` with signal 9 at random moments, continue it, and compare with a run left alone.

    bench_kills.py --kills 20 --jobs 2

Every third start is two commands at once in the same folder, both of which are killed.
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import polars as pl

from common import Option, read_options, verdict

TINY = [
    "--users", "120", "--datasets", "simulation", "--models", "mf,lightgcn", "--repeats", "3",
    "--set", "training.epochs=5", "--set", "proactive.rounds=5",
]  # fmt: skip
ITEMS = "overall,price,approximation,lds"


def wait_for_work(out: Path, process: subprocess.Popen[bytes], since: float) -> None:
    """Return once a task has been taken up after `since`, or all is over."""
    while process.poll() is None:
        if any(_changed(lock) >= since for lock in (out / "cells").glob("*.lock")):
            return
        time.sleep(0.02)


def _changed(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except FileNotFoundError:  # the task is done
        return 0.0


def start(out: Path, jobs: int) -> subprocess.Popen[bytes]:
    command = [str(Path(sys.executable).with_name("assent")), "reproduce", ITEMS, *TINY]
    return subprocess.Popen(
        [*command, "--jobs", str(jobs), "--out", str(out)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def records(out: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the records of every item, without the seconds that they took."""
    found = {}
    for item in ITEMS.split(","):
        table = pl.read_parquet(out / item / "records.parquet")
        found[item] = table.drop("seconds", strict=False).to_dicts()
    return found


def main(kills: int, jobs: int, folder: Path) -> None:
    since = time.time()
    alone = start(folder / "whole", jobs)
    wait_for_work(folder / "whole", alone, since)
    begun = time.perf_counter()
    if alone.wait() != 0:
        sys.exit("the run that is left alone failed")
    working = time.perf_counter() - begun
    moments, killed = random.Random(0), 0
    finished: list[Path] = []
    while killed < kills:
        out, since = folder / f"killed-{len(finished)}", time.time()
        running = [start(out, jobs) for _ in range(2 if killed % 3 == 2 else 1)]
        wait_for_work(out, running[-1], since)
        time.sleep(moments.random() * 4 * working / max(kills, 12))
        if all(process.poll() is not None for process in running):
            finished.append(out)  # it was quicker than the kill: take another folder
            continue
        for process in running:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        killed += 1
        print(f"kill {killed}: {len(list((out / 'cells').glob('*.json')))} finished tasks", flush=True)
    last = folder / f"killed-{len(finished)}"
    if start(last, jobs).wait() != 0:
        sys.exit("the last run failed")
    same = all(records(out) == records(folder / "whole") for out in (*finished, last))
    verdict(f"records the same after {kills} kills", float(same), 1, at_most=False)


if __name__ == "__main__":
    given = read_options(
        __doc__, kills=Option(20, "number of kills", quick=3), jobs=Option(2, "processes of a command")
    )
    with tempfile.TemporaryDirectory() as temporary:
        main(given.kills, given.jobs, Path(temporary))
