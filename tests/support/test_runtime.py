"""Threads, and denormal numbers."""

import multiprocessing
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info

from assent.support.runtime import THREAD_VARIABLES, are_flushed, cores, flushed, one_thread


@pytest.fixture(autouse=True)
def plain() -> None:
    torch.set_flush_denormal(False)


def threads() -> list[int]:
    """Numbers of threads of torch and of every OpenMP and BLAS library that is loaded."""
    np.linalg.inv(np.eye(3))
    return [torch.get_num_threads(), *(library["num_threads"] for library in threadpool_info())]


def fail_within() -> None:
    with one_thread():
        raise ValueError("once")


def test_one_thread_limits_this_process_and_is_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        monkeypatch.setenv("OMP_NUM_THREADS", "3")
        monkeypatch.delenv("POLARS_MAX_THREADS", raising=False)
        found = threads()
        assert found[0] == 2
        with one_thread():
            assert set(threads()) == {1}
            with one_thread():
                pass
            assert set(threads()) == {1}
            assert all(os.environ[name] == "1" for name in THREAD_VARIABLES)
        assert threads() == found
        with pytest.raises(ValueError, match="once"):
            fail_within()
        assert threads() == found
        assert os.environ["OMP_NUM_THREADS"] == "3"
        assert "POLARS_MAX_THREADS" not in os.environ
    finally:
        torch.set_num_threads(before)


def test_one_thread_limits_processes_that_are_started_within() -> None:
    asked = "import os, polars; print(os.environ['OMP_NUM_THREADS'], polars.thread_pool_size())"
    with one_thread():
        told = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["1", "1"]


def test_there_is_a_core_and_no_more_than_the_machine_has() -> None:
    assert 1 <= cores() <= multiprocessing.cpu_count()


def test_tiny_numbers_are_taken_for_nothing_meanwhile() -> None:
    tiny = torch.tensor([1e-40])
    assert float(tiny * 1) > 0
    with flushed():
        assert are_flushed()
        assert float(tiny * 1) == 0
    assert not are_flushed()
    assert float(tiny * 1) > 0


def test_one_inside_another_leaves_things_to_it() -> None:
    with flushed():
        with flushed():
            pass
        assert are_flushed()
    assert not are_flushed()


def test_an_error_ends_it() -> None:
    with pytest.raises(ValueError, match="once"), flushed():
        raise ValueError("once")
    assert not are_flushed()
