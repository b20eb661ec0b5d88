"""A whole command knows how far it is, from the weights of its phases and the steps of their tasks."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.support.progress import SILENT, Advance, Phase, Progress, Whole, phases, timed_task


class Clock:
    """A clock that stands still until it is moved."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def share(whole: Whole) -> float:
    found = whole.stage.share
    assert found is not None
    return found


def test_phases_count_by_their_weights_and_tasks_by_their_steps() -> None:
    clock = Clock()
    whole = Whole(clock)
    assert whole.stage.share is None
    with phases(whole, {"reading": 1, "training": 3}) as phase:
        assert share(whole) == 0
        with phase("reading"):
            assert (whole.stage.phase, whole.stage.task, whole.stage.left) == ("reading", None, None)
            clock.now = 5.0
        assert (share(whole), whole.stage.phase, whole.stage.left) == (0.25, None, 15.0)
        with phase("training"), whole.task("models", 3) as advance:
            advance()
            clock.now = 10.0
            stage = whole.stage
            assert (stage.task, stage.done, stage.total, stage.seconds) == ("models", 1, 3, 10.0)
            assert (stage.share, stage.left) == (0.5, 10.0)
        assert share(whole) == 1
    assert whole.stage.share is None


def test_parts_of_a_phase_count_within_it() -> None:
    whole = Whole(Clock())
    with phases(whole, {"reading": 1, "fitting": 4}) as phase:
        with phase("reading"):
            pass
        with phase("fitting"):
            with phases(whole, {"tuning": 1, "values": 3}) as part:
                with part("tuning"), whole.task("rounds", 2) as advance:
                    advance()
                    assert whole.stage.phase == "tuning"
                    assert share(whole) == pytest.approx(0.2 + 0.8 / 8)
                assert share(whole) == pytest.approx(0.4)
                with part("values"):
                    pass
            assert whole.stage.phase == "fitting"
            assert share(whole) == pytest.approx(1)


def test_a_phase_that_is_left_out_is_done() -> None:
    whole = Whole(Clock())
    with phases(whole, {"reading": 1, "tuning": 1, "report": 2}) as phase, phase("report"):
        assert share(whole) == 0.5


def test_a_task_that_knows_its_time_left_is_believed() -> None:
    clock = Clock()
    whole = Whole(clock)
    with phases(whole, {"reading": 1, "cells": 7, "page": 2}) as phase:
        with phase("reading"):
            clock.now = 1.0
        with phase("cells"), timed_task(whole, "cells", 10, lambda: 100.0):
            assert whole.stage.left == pytest.approx(102.0)
    with whole.timed_task("cells", 10, lambda: 3.0):
        assert (whole.stage.left, whole.stage.share) == (3.0, None)


def test_tasks_within_tasks_and_after_tasks_move_nothing_back() -> None:
    whole, seen = Whole(Clock()), [0.0]
    with phases(whole, {"all": 1}) as phase, phase("all"):
        for _ in range(2):
            with whole.task("outer", 2) as outer:
                for _ in range(2):
                    with whole.task("inner", 3) as inner:
                        inner()
                        seen.append(share(whole))
                    outer()
                    seen.append(share(whole))
    assert seen == [0, 0, 0.5, 0.5, 1, 1, 1, 1, 1]


weights = st.lists(st.floats(0.01, 100), min_size=1, max_size=5)


@given(weights=weights, parts=weights, steps=st.integers(0, 4), entered=st.sets(st.integers(0, 4)))
def test_a_share_grows_from_0_to_1(
    weights: list[float], parts: list[float], steps: int, entered: set[int]
) -> None:
    clock = Clock()
    whole, shares = Whole(clock), [0.0]

    def look() -> None:
        clock.now += 1
        shares.append(share(whole))
        left = whole.stage.left
        assert left is None or left >= 0

    with phases(whole, named(weights)) as phase:
        for number in sorted(entered & set(range(len(weights)))):
            with phase(str(number)):
                look()
                with phases(whole, named(parts)) as part:
                    for each in range(len(parts)):
                        with part(str(each)), whole.task("steps", steps) as advance:
                            for _ in range(steps):
                                advance()
                                look()
                        look()
            look()
    assert shares == pytest.approx(sorted(shares))
    assert 0 <= min(shares) <= max(shares) <= 1
    if len(weights) - 1 in entered:
        assert shares[-1] == pytest.approx(1)


def named(weights: Sequence[float]) -> dict[str, float]:
    return {str(number): weight for number, weight in enumerate(weights)}


def test_an_error_leaves_phases_and_tasks() -> None:
    whole = Whole(Clock())
    with (
        pytest.raises(ValueError, match="no"),
        phases(whole, {"one": 1}) as phase,
        phase("one"),
        whole.task("steps", 2),
    ):
        raise ValueError("no")
    assert (whole.stage.share, whole.stage.phase, whole.stage.task) == (None, None, None)


def test_a_watcher_of_tasks_alone_is_enough() -> None:
    class Counting:
        seen = 0

        @contextmanager
        def task(self, label: str, total: int) -> Iterator[Advance]:
            self.seen += total
            yield lambda: None

    def work(progress: Progress) -> Phase:
        with phases(progress, {"one": 1}) as phase, phase("one"), progress.task("steps", 2) as advance:
            advance()
        return phase

    counting = Counting()
    work(counting)
    work(SILENT)
    assert counting.seen == 2
