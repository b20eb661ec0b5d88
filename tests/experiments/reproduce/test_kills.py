"""Killed at random moments, a reproduction goes on where it was, and nobody works on for a dead parent."""

import multiprocessing
import os
import random
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assent.reproduce import ITEMS, Plan, reproduce
from assent.reproduce.run import CELLS
from assent.runs import pool
from assent.runs.measure import _load_optimizers
from assent.support.errors import AssentError

KILLS = 20
THE_ITEMS = [ITEMS["overall"], ITEMS["approximation"]]
_FORK = multiprocessing.get_context("fork")

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc: Linux")


def _drive(plan: Plan, out: Path) -> None:
    """A command in a process group of its own, whose workers are there at once."""
    os.setsid()
    pool._START = "fork"
    try:
        reproduce(THE_ITEMS, plan, out, data=None, jobs=2)
    except AssentError as error:
        assert "give the same command again" in str(error)  # noqa: PT017
        os._exit(3)


def start(plan: Plan, out: Path) -> Any:
    process = _FORK.Process(target=_drive, args=(plan, out))
    process.start()
    return process


def children(pid: int) -> list[int]:
    """The processes that this one has started and that run."""
    return [int(stat[0]) for stat in _processes() if stat[3] == str(pid) and stat[2] != "Z"]


def alive(pid: int) -> bool:
    return any(stat[0] == str(pid) and stat[2] != "Z" for stat in _processes())


def _processes() -> Iterator[list[str]]:
    """Number, name, state, parent of every process."""
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            before, _, after = file.read_text().rpartition(")")
        except (FileNotFoundError, ProcessLookupError):
            continue
        yield [before.split()[0], "", *after.split()[:2]]


def kill(process: Any, whom: str) -> bool:
    """Kill it, or some of it, and see that nobody works on; whether it had not ended before."""
    workers = children(process.pid)
    if whom == "everybody":
        os.killpg(process.pid, signal.SIGKILL)
    elif whom == "a worker" and workers:
        os.kill(workers[0], signal.SIGKILL)
    else:
        os.kill(process.pid, signal.SIGKILL)
    process.join(60)
    assert process.exitcode in (-signal.SIGKILL, 3, 0)
    left, deadline = workers, time.monotonic() + 60
    while left and time.monotonic() < deadline:
        left = [pid for pid in left if alive(pid)]
        time.sleep(0.01)
    assert not left, "workers work on"
    return bool(process.exitcode)


def results(plan: Plan, out: Path) -> list[Any]:
    found = reproduce(THE_ITEMS, plan, out, data=None, compute=False)
    assert [len(each.records) for each in found.chapters] == [each.wanted for each in found.chapters]
    return [
        [{key: value for key, value in record.items() if key != "seconds"} for record in each.records]
        for each in found.chapters
    ]


def _kill_again_and_again(plan: Plan, folder: Path) -> None:
    """Leave one run alone and kill others; runs are forked from this process, which has all loaded.

    It uses no library that has threads of its own: those would not be there after a fork.
    """
    _load_optimizers()
    begun = time.monotonic()
    alone = start(plan, folder / "alone")
    alone.join()
    assert alone.exitcode == 0
    took, moments, number, kills = time.monotonic() - begun, random.Random(6), 0, 0
    while kills < KILLS:
        running = start(plan, folder / str(number))
        running.join(0.05 + moments.random() * took / 4)
        if running.exitcode is None:
            kills += kill(running, ("everybody", "the parent", "a worker")[kills % 3])
        else:  # it was quicker than the kill: the next goes to another folder
            assert running.exitcode == 0
            number += 1
    last = start(plan, folder / str(number))
    last.join()
    assert last.exitcode == 0


def test_killed_at_random_moments_it_ends_as_if_it_had_not_been(plan: Plan, tmp_path: Path) -> None:
    small = replace(plan, datasets=("simulation",))
    context = multiprocessing.get_context("spawn")
    driver = context.Process(target=_kill_again_and_again, args=(small, tmp_path))
    driver.start()
    driver.join(300)
    if driver.is_alive():
        driver.kill()
    assert driver.exitcode == 0
    wanted = results(small, tmp_path / "alone")
    for out in tmp_path.iterdir():
        assert results(small, out) == wanted
        assert not list((out / CELLS).glob("work-*"))
