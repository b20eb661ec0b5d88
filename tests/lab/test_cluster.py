"""Work on Ray: two nodes of the tests' own, on this machine, which they start and end by process id.

The node that the tests are not attached to reaches their stores through the desk, as another machine would.
"""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assent.data.problem import Problem
from assent.lab import SERIAL, Executor, Lab, Processes, Store, Training
from assent.lab.lab import compute
from assent.support.errors import AssentError
from assent.support.files import write_bytes
from assent.support.progress import Advance
from assent.testing.cluster import Nodes, descendants, two_nodes
from assent.training import Settings
from tests.lab.test_executor import fail, process, refuse, solved
from tests.small import small_problem, some_of

ray = pytest.importorskip("ray", reason="ray is not installed: pip install 'assent[ray]'")
pytestmark = pytest.mark.xdist_group("ray")

from assent.lab.cluster import Ray  # noqa: E402


def test_an_address_where_nothing_answers_is_one_line() -> None:
    """It comes first: afterwards this process has joined the tests' cluster."""
    with pytest.raises(
        AssentError, match=r"^Ray at 127\.0\.0\.1:1: nothing answers there; accepted: HOST:PORT"
    ):
        Ray("127.0.0.1:1").__enter__()


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    with two_nodes() as made:
        yield made


@dataclass
class Joined:
    executor: Ray
    nodes: Nodes
    said: list[str]


@pytest.fixture(scope="module")
def joined(nodes: Nodes) -> Iterator[Joined]:
    said: list[str] = []
    with Ray(nodes.address, say=said.append) as executor:
        yield Joined(executor, nodes, said)


def test_two_nodes_return_the_bytes_of_one_process_in_order(joined: Joined) -> None:
    shared, told = np.eye(200), list[int]()
    here = SERIAL.map(solved, range(7), shared, lambda: None)
    assert joined.executor.workers == 2
    assert joined.executor.map(solved, range(7), shared, lambda: told.append(1)) == here
    assert len(told) == 7
    assert joined.executor.map(solved, [4, 2], shared, lambda: None) == [here[4], here[2]]
    assert re.match(r"Ray at \S+: 2 machines, 2 processors, ready after \d+ s$", joined.said[0])


def test_every_job_has_one_thread_and_a_single_one_stays_here(joined: Joined) -> None:
    found = joined.executor.map(process, range(6), None, lambda: None)
    assert {each[1:] for each in found} == {("1", 1)}
    assert os.getpid() not in {pid for pid, *_ in found}
    assert joined.executor.map(process, [0], None, lambda: None)[0][0] == os.getpid()
    assert joined.executor.map(process, [], None, lambda: None) == []


@dataclass
class Shared:
    """What jobs share: it notes each process that it comes to."""

    folder: Path
    memory: int = 0

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        (self.folder / f"{time.monotonic_ns()}").touch()


def test_what_jobs_share_comes_to_each_worker_once(joined: Joined, tmp_path: Path) -> None:
    shared = Shared(tmp_path)
    for _ in range(3):
        joined.executor.map(fail_shared, [1] * 4, shared, lambda: None)
    assert 1 <= len(list(tmp_path.iterdir())) <= 2


def fail_shared(shared: Shared, item: int, tell: Advance) -> int:
    time.sleep(0.1)  # so that both workers get some
    return 1 // item


def test_a_job_that_fits_nowhere_is_refused_with_both_figures(joined: Joined, tmp_path: Path) -> None:
    with pytest.raises(
        AssentError, match=r"a job takes about 1000\.7 GB, and no machine has more than [\d.]+ GB"
    ):
        joined.executor.map(fail_shared, [1, 1], Shared(tmp_path, 10**12), lambda: None)
    assert list(tmp_path.iterdir()) == []  # nothing has begun


def test_it_is_said_where_jobs_run(joined: Joined) -> None:
    joined.executor.map(short_sleep, range(4), None, lambda: None)
    said = [each for each in joined.said if each.startswith("jobs run on ")]
    assert any(re.fullmatch(r"jobs run on [\d.]+/\w{6} \(1\), [\d.]+/\w{6} \(1\)", each) for each in said)


def short_sleep(shared: None, item: int, tell: Advance) -> None:
    time.sleep(1.5)


def test_an_error_names_its_machine(joined: Joined, tmp_path: Path) -> None:
    with pytest.raises(AssentError, match=r"^item 1: refused; accepted: 0 and 2 \(on [\d.]+/\w{6}\)$"):
        joined.executor.map(refuse, [0, 1, 2], tmp_path, lambda: None)
    with pytest.raises(ZeroDivisionError) as caught:
        joined.executor.map(fail, [1, 0], None, lambda: None)
    assert any("in a worker on" in note for note in caught.value.__notes__)
    assert joined.executor.map(fail, [1, 1], None, lambda: None) == [1, 1]


def die_once(folder: Path, item: int, tell: Advance) -> int:
    mark = folder / f"{item}"
    if item == 1 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    tell()
    return item


def test_a_killed_worker_is_replaced(joined: Joined, tmp_path: Path) -> None:
    told = list[int]()
    assert joined.executor.map(die_once, [0, 1, 2], tmp_path, lambda: told.append(1)) == [0, 1, 2]
    assert len(told) == 3
    assert any(each.startswith("1: its worker on") for each in joined.said)


def wait_till(folder: Path, item: int, tell: Advance) -> int:
    (folder / f"{item} begun").touch()
    wait_for(folder / "go")
    tell()
    return item


def test_a_lost_desk_is_replaced(joined: Joined, tmp_path: Path) -> None:
    """It is a process too, which may be ended where memory is short."""

    def kill_when_begun() -> None:
        wait_for(tmp_path / "0 begun")
        [desk] = [
            pid
            for pid in descendants(joined.nodes.running[0].pid)
            if b"_Desk" in Path(f"/proc/{pid}/cmdline").read_bytes()
        ]
        os.kill(desk, signal.SIGKILL)
        (tmp_path / "go").touch()

    killer = threading.Thread(target=kill_when_begun)
    killer.start()
    told = list[int]()
    assert joined.executor.map(wait_till, [0, 1, 2], tmp_path, lambda: told.append(1)) == [0, 1, 2]
    killer.join()
    assert len(told) == 3


def wait_for_long(folder: Path, item: int, tell: Advance) -> None:
    write_bytes(folder / f"{item} begun", str(os.getpid()).encode())
    time.sleep(300)


COMMAND = """
import sys
from pathlib import Path
from assent.lab.cluster import Ray
from tests.lab.test_cluster import wait_for_long

with Ray(sys.argv[1]) as executor:
    executor.map(wait_for_long, [0, 1, 2], Path(sys.argv[2]), lambda: None)
"""


def test_ctrl_c_ends_the_jobs_of_this_command_alone(joined: Joined, tmp_path: Path) -> None:
    of_others = ray.remote(wait_for).options(num_cpus=0).remote(tmp_path / "go")
    path = os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])
    command = subprocess.Popen(
        [sys.executable, "-c", COMMAND, joined.nodes.address, tmp_path],
        env=os.environ | {"PYTHONPATH": path},
        stderr=subprocess.PIPE,
        text=True,
    )
    begun = [tmp_path / "0 begun", tmp_path / "1 begun"]
    for file in begun:
        wait_for(file)
    command.send_signal(signal.SIGINT)
    assert "KeyboardInterrupt" in command.communicate()[1]
    workers = [int(file.read_text()) for file in begun]
    deadline = time.monotonic() + 60
    while any(Path(f"/proc/{pid}").exists() for pid in workers) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)
    assert not (tmp_path / "2 begun").exists()
    assert joined.executor.map(fail, [1, 1], None, lambda: None) == [1, 1]
    (tmp_path / "go").touch()
    assert ray.get(of_others) == "went on"


def test_after_an_error_what_waits_is_not_begun(joined: Joined, tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        joined.executor.map(fail_or_note, [0, *range(1, 30)], tmp_path, lambda: None)
    assert joined.executor.map(fail, [1, 1, 1], None, lambda: None) == [1, 1, 1]  # they come after those
    assert len(list(tmp_path.iterdir())) < 29


def fail_or_note(folder: Path, item: int, tell: Advance) -> float:
    time.sleep(0.2)
    if item:
        (folder / f"{item}").touch()
    return 1 / item


def wait_for(file: Path) -> str:
    while not file.exists():
        time.sleep(0.05)
    return "went on"


def trainings(problem: Problem) -> list[Training]:
    return [Training(some_of(problem, 0.7, seed)) for seed in range(4)]


def digest_of(lab: Lab) -> str:
    """Train four models and hash all that the store then has, but for what the clock said."""
    found = lab.train(trainings(lab.problem))
    digest = blake2b()
    for trained in found:
        for name, value in sorted(trained.model.state_dict().items()):
            digest.update(name.encode() + value.numpy().tobytes())
    return digest.hexdigest()


def lab_of(problem: Problem, folder: Path, executor: Executor) -> Lab:
    settings = Settings.model_validate({"model": "mf", "training": {"epochs": 3}})
    return Lab(problem, settings, 0, Store(folder), executor)


def test_models_have_the_same_digest_whoever_trains_them(joined: Joined, tmp_path: Path) -> None:
    problem = small_problem()
    digests = {digest_of(lab_of(problem, tmp_path / "serial", SERIAL))}
    with Processes(2) as processes:
        digests.add(digest_of(lab_of(problem, tmp_path / "processes", processes)))
    digests.add(digest_of(lab_of(problem, tmp_path / "two", joined.executor)))
    assert len(digests) == 1
    assert sorted(file.name for file in (tmp_path / "two").iterdir()) == sorted(
        file.name for file in (tmp_path / "serial").iterdir()
    )


def train_once_killed(shared: tuple[Lab, Path], training: Training, tell: Advance) -> None:
    """Train after a node was killed: until then, jobs wait in the midst of their work."""
    lab, marks = shared
    (marks / f"begun-{os.getpid()}").touch()
    while not (marks / "killed").exists():
        time.sleep(0.05)
    compute(lab, training)
    tell()


def test_a_node_that_is_killed_half_way_changes_no_byte_and_a_new_one_is_used(
    joined: Joined, tmp_path: Path
) -> None:
    problem = small_problem()
    here = digest_of(lab_of(problem, tmp_path / "here", SERIAL))
    lab, marks = lab_of(problem, tmp_path / "there", SERIAL), tmp_path / "marks"
    marks.mkdir()

    def kill_when_both_have_begun() -> None:
        while len(list(marks.glob("begun-*"))) < 2:
            time.sleep(0.05)
        joined.nodes.kill(joined.nodes.running[-1])
        (marks / "killed").touch()

    killer = threading.Thread(target=kill_when_both_have_begun)
    killer.start()
    told = list[int]()
    joined.executor.map(train_once_killed, trainings(problem), (lab, marks), lambda: told.append(1))
    killer.join()
    assert len(told) == 4
    assert sum("was lost; begun again on" in each for each in joined.said) >= 1
    assert len(list((tmp_path / "there").glob("*.json"))) == 4  # all there is to hash
    assert digest_of(lab) == here
    joined.nodes.add()
    assert joined.executor.workers == 2
    assert digest_of(lab_of(problem, tmp_path / "again", joined.executor)) == here
