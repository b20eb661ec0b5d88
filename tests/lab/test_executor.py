"""Work in this process or beside it: the same results, errors that say how to go on, no process left."""

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from assent.lab import SERIAL, Executor, Processes
from assent.support.arrays import Floats
from assent.support.errors import AssentError
from assent.support.progress import Advance


def solved(shared: Floats, item: int, tell: Advance) -> bytes:
    """Sums and solutions whose last digits depend on how many threads add them up."""
    noise = np.random.default_rng(item).standard_normal((200, 200))
    found: Floats = np.linalg.solve(shared + noise @ noise.T, noise.sum(axis=0))
    product = torch.from_numpy(noise) @ torch.from_numpy(shared)
    tell()
    return found.tobytes() + product.numpy().tobytes()


def process(shared: object, item: object, tell: Advance) -> tuple[int, str, int]:
    tell()
    return os.getpid(), os.environ["OPENBLAS_NUM_THREADS"], torch.get_num_threads()


def refuse(folder: Path, item: int, tell: Advance) -> int:
    if item == 1:
        raise AssentError("item 1: refused; accepted: 0 and 2")
    (folder / f"{item}").touch()
    return item


def fail(shared: object, item: int, tell: Advance) -> int:
    return 1 // item


def die(folder: Path, item: int, tell: Advance) -> int:
    if item == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    (folder / f"{item}").touch()
    return item


@pytest.fixture(params=["serial", "processes"])
def executor(request: pytest.FixtureRequest) -> Iterator[Executor]:
    if request.param == "serial":
        yield SERIAL
        return
    with Processes(2) as processes:
        yield processes


@pytest.mark.parametrize("workers", [2, 3])
def test_processes_return_the_bytes_of_one_process_in_order(workers: int) -> None:
    shared, told = np.eye(200), [0, 0]

    def tell(who: int) -> Advance:
        def advance() -> None:
            told[who] += 1

        return advance

    here = SERIAL.map(solved, range(7), shared, tell(0))
    with Processes(workers) as processes:
        assert processes.workers == workers
        assert processes.map(solved, range(7), shared, tell(1)) == here
        assert processes.map(solved, [4, 2], shared, tell(1)) == [here[4], here[2]]
    assert told == [7, 9]
    assert len(set(here)) == 7


def test_every_item_has_one_thread(executor: Executor) -> None:
    threads = torch.get_num_threads()
    found = executor.map(process, [0, 1, 2], None, lambda: None)
    assert {each[1:] for each in found} == {("1", 1)}
    assert torch.get_num_threads() == threads
    assert (os.getpid() in {pid for pid, *_ in found}) == (executor is SERIAL)


def test_workers_stay_for_what_has_the_same_shared_and_a_single_item_stays_here() -> None:
    shared = object
    with Processes(2) as processes:
        first = {pid for pid, *_ in processes.map(process, range(8), shared, lambda: None)}
        again = {pid for pid, *_ in processes.map(process, range(8), shared, lambda: None)}
        assert len(first | again) <= 2
        other = {pid for pid, *_ in processes.map(process, range(8), Path, lambda: None)}
        assert not other & first
        assert [pid for pid, *_ in processes.map(process, [0], shared, lambda: None)] == [os.getpid()]
        assert processes.map(process, [], shared, lambda: None) == []


def test_an_error_of_an_item_is_an_error_here(executor: Executor, tmp_path: Path) -> None:
    with pytest.raises(AssentError, match=r"^item 1: refused; accepted: 0 and 2$"):
        executor.map(refuse, [0, 1, 2], tmp_path, lambda: None)
    with pytest.raises(ZeroDivisionError):
        executor.map(fail, [1, 0], None, lambda: None)
    assert executor.map(fail, [1, 1], None, lambda: None) == [1, 1]


def test_a_killed_worker_says_how_to_go_on(tmp_path: Path) -> None:
    with Processes(2) as processes:
        said = r"^1: its worker process was ended from outside by SIGKILL, perhaps.*repeat the command"
        with pytest.raises(AssentError, match=said):
            processes.map(die, [0, 1, 2, 3], tmp_path, lambda: None)
        assert processes.map(fail, [1, 1], None, lambda: None) == [1, 1]


@dataclass(frozen=True)
class Named:
    label: str
    error: Exception | None = None


def run_short(shared: object, item: Named, tell: Advance) -> str:
    if item.error is not None:
        raise item.error
    return item.label


SHORT_OF_MEMORY = [
    MemoryError("unable to allocate 20.0 GiB"),
    OSError(errno.ENOMEM, "Cannot allocate memory"),
    RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory"),
    RuntimeError("can't start new thread"),
]


@pytest.mark.parametrize("error", SHORT_OF_MEMORY, ids=lambda error: type(error).__name__)
def test_an_item_that_is_short_of_memory_is_named(error: Exception, executor: Executor) -> None:
    items = [Named("fold 1"), Named("fold 2", error)]
    with pytest.raises(AssentError, match=r"^fold 2: not enough memory; finished work is kept: repeat"):
        executor.map(run_short, items, None, lambda: None)


class Unreadable:
    """What no process can receive."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os._exit, ("not a number",)


def test_a_worker_that_cannot_even_begin_is_noticed() -> None:
    with Processes(2) as processes:
        with pytest.raises(AssentError, match=r"^(first|second): its worker process ended, perhaps"):
            processes.map(run_short, [Named("first"), Named("second")], Unreadable(), lambda: None)
        assert processes.map(run_short, [Named("a"), Named("b")], None, lambda: None) == ["a", "b"]


def is_running(pid: int) -> bool:
    """Whether there is such a process, and it is not merely waiting to be buried."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def all_end(pids: list[int]) -> bool:
    deadline = time.monotonic() + 30
    while any(map(is_running, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not any(map(is_running, pids))


def test_workers_end_when_the_executor_is_closed() -> None:
    with Processes(2) as processes:
        pids = [pid for pid, *_ in processes.map(process, range(6), None, lambda: None)]
        assert all(map(is_running, pids))
    assert all_end(pids)


def wrong_deadly_or_long(shared: Path, item: str, tell: Advance) -> str:
    match item:
        case "wrong":
            raise AssentError("a wrong item")
        case "deadly":
            os.kill(os.getpid(), signal.SIGKILL)
        case "long":
            (shared / "pid").write_text(str(os.getpid()))
            time.sleep(600)
    tell()
    return item


@pytest.mark.parametrize(("item", "said"), [("wrong", "a wrong item"), ("deadly", "finished work is kept")])
def test_an_error_ends_the_otherwrong_deadly_or_longers_at_once(item: str, said: str, tmp_path: Path) -> None:
    start = time.monotonic()
    with Processes(2) as processes:
        with pytest.raises(AssentError, match=said):
            processes.map(wrong_deadly_or_long, ["long", item], tmp_path, lambda: None)
        assert processes.map(wrong_deadly_or_long, ["a", "b"], tmp_path, lambda: None) == ["a", "b"]
    assert time.monotonic() - start < 60
    if (tmp_path / "pid").exists():
        assert not is_running(int((tmp_path / "pid").read_text()))


SCRIPT = """
import os, sys, time
from pathlib import Path
from assent.lab import Processes
from tests.lab.test_executor import work_for_long
if __name__ == "__main__":
    Processes(2).map(work_for_long, [0, 1], Path(sys.argv[1]), lambda: None)
"""


def work_for_long(folder: Path, item: int, tell: Advance) -> None:
    (folder / f"{item}").write_text(f"{os.getpid()}")
    time.sleep(300)


def test_workers_end_with_a_killed_parent(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    parent = subprocess.Popen([sys.executable, "-c", SCRIPT, str(tmp_path)], cwd=root)
    files = [tmp_path / "0", tmp_path / "1"]
    deadline = time.monotonic() + 60
    while not all(file.exists() and file.read_text() for file in files) and time.monotonic() < deadline:
        time.sleep(0.05)
    pids = [int(file.read_text()) for file in files]
    assert all(map(is_running, pids))
    parent.kill()
    parent.wait()
    assert all_end(pids)
