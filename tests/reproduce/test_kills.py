"""Killed at random moments, a reproduction goes on where it was."""

import multiprocessing
import random
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch._dynamo  # noqa: F401  (what the first optimizer of a process loads)

from assent.reproduce import ITEMS, Plan, reproduce
from assent.reproduce.run import CELLS

KILLS = 6
THE_ITEMS = [ITEMS["overall"], ITEMS["approximation"]]


def start(plan: Plan, out: Path) -> Any:
    process = multiprocessing.get_context("fork").Process(
        target=reproduce, args=(THE_ITEMS, plan, out), kwargs={"data": None}
    )
    process.start()
    return process


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
    begun = time.monotonic()
    alone = start(plan, folder / "alone")
    alone.join()
    assert alone.exitcode == 0
    took, moments, number, kills = time.monotonic() - begun, random.Random(6), 0, 0
    while kills < KILLS:
        running = start(plan, folder / str(number))
        running.join(0.05 + moments.random() * took / 4)
        if running.exitcode is None:
            running.kill()
            running.join()
            kills += 1
        else:  # it was quicker than the kill: the next goes to another folder
            assert running.exitcode == 0
            number += 1
    last = start(plan, folder / str(number))
    last.join()
    assert last.exitcode == 0


def test_killed_at_random_moments_it_ends_as_if_it_had_not_been(plan: Plan, tmp_path: Path) -> None:
    small = replace(plan, datasets=("simulation",), repeats=1)
    driver = multiprocessing.get_context("spawn").Process(
        target=_kill_again_and_again, args=(small, tmp_path)
    )
    driver.start()
    driver.join(300)
    if driver.is_alive():
        driver.kill()
    assert driver.exitcode == 0
    wanted = results(small, tmp_path / "alone")
    for out in tmp_path.iterdir():
        assert results(small, out) == wanted
        assert not list((out / CELLS).glob("*.progress"))
