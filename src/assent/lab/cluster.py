"""An executor on Ray: the same jobs on the machines of a cluster, or on a Ray instance of this machine's own.

What all jobs share is put into Ray's object store once; a worker keeps it for its next job. A *desk*, an
actor on the machine where the command runs, counts steps and reaches the stores of that machine for workers
elsewhere (`mirror`). Workers on the same machine use its stores directly. Ray starts it again if it is lost.

Ray retries the jobs of lost workers and machines. Results have the bytes of `SERIAL`: workers have one
thread, and a machine whose libraries, processor or code differ is refused, because its bytes might.
"""

import os
import secrets
import shutil
import signal
import socket
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, cast

from assent.lab.executor import GO_ON, SERIAL, R, S, T, Work, done, name_of
from assent.lab.mirror import Files, Mirror, read_files, write_files
from assent.lab.store import Store, open_received
from assent.results.words import plural
from assent.support.errors import AssentError
from assent.support.progress import Advance
from assent.support.runtime import THREAD_VARIABLES, code_state, cores, made_with, one_thread

try:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray would tell its makers of every cluster
    import ray
    from ray._raylet import AuthenticationTokenLoader, Config
    from ray.exceptions import RayError
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
except ModuleNotFoundError as missing:
    raise AssentError(
        f"--executor ray needs {missing.name}, which is not installed; accepted: pip install 'assent[ray]'"
    ) from None

_HERE = "127.0.0.1"
_PATIENCE = 10.0
"""Seconds in which a cluster has to answer."""
_RETRIES = 20
"""Times that a job whose worker or machine was lost is begun again."""
_LOOK_EVERY = 0.5
"""Seconds between two looks at how far jobs are."""
_NO_CALL = 0
"""Calls of `map` are counted from 1."""
_LIBRARIES, _PER_BYTE = 700 * 2**20, 12
"""Memory of a job: that of the libraries, and so many bytes for each byte of what the jobs share."""
_AUTH = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
"""Whoever has no token cannot use the instances that this process starts: their ports are open to all."""


class Ray:
    """Runs items as tasks of a Ray cluster; use it as a context manager.

    What jobs share may say what a job takes, as the attribute `memory`: bytes, besides those of libraries.
    `address` is HOST:PORT of a cluster that this machine has joined; without it, an instance is started here,
    with `workers` processors, and ended afterwards. `say` is told where jobs run, and of lost machines.
    """

    def __init__(
        self,
        address: str | None = None,
        workers: int | None = None,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._address, self._wanted, self._say = address, workers, say
        self._folder: str | None = None
        self._before: dict[str, str | None] = {}
        self._shared: Any = None
        self._held: Any = None
        self._desk: Any = None
        self._memory = self._calls = 0
        self._told: set[str] = set()

    @property
    def workers(self) -> int:
        """The processors of the cluster, as it is now."""
        return max(1, int(ray.cluster_resources().get("CPU", 1)))

    def __enter__(self) -> "Ray":
        """Join the cluster, or start an instance."""
        if ray.is_initialized():
            raise AssentError("this process uses Ray already; accepted: one executor on Ray at a time")
        start = time.monotonic()
        with _signals_kept(), one_thread():
            try:
                self._connect()
            except (ConnectionError, RayError, RuntimeError, ValueError) as error:
                self.close()
                raise AssentError(f"{self._called}: {_first_line(error)}; {_JOINING}") from None
        home = ray.get_runtime_context().get_node_id()
        nodes = [node for node in ray.nodes() if node["Alive"]]
        at_home = NodeAffinitySchedulingStrategy(home, soft=False)
        always = {"max_restarts": -1, "max_task_retries": -1}  # what it counts is not needed for results
        self._desk = _DESK.options(num_cpus=0, scheduling_strategy=at_home, **always).remote(home, _made_by())
        took = time.monotonic() - start
        self._say(f"{self._called}: {plural(len(nodes), 'machine')}, {plural(self.workers, 'processor')}, "
                  f"ready after {took:.0f} s")  # fmt: skip
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the cluster, whose workers of this process end; end an instance that was started here."""
        self._shared = self._held = self._desk = None
        with _signals_kept():
            ray.shutdown()
        for name, value in self._before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        self._before = {}
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def map(self, work: Work[S, T, R], items: Sequence[T], shared: S, tell: Advance) -> list[R]:
        """Return the results; a single item is worked on by this process."""
        if len(items) < 2:
            return SERIAL.map(work, items, shared, tell)
        self._share(shared)
        names = [name_of(item) for item in items]
        told, steps = Counter[int](), Counter[int]()
        self._calls += 1
        call = self._calls
        ray.get(self._desk.open.remote(call))
        how: dict[str, Any] = {"num_cpus": 1, "memory": self._memory, "max_retries": _RETRIES}
        waiting = {
            _JOB.options(**how, name=name, scheduling_strategy="SPREAD").remote(
                self._desk, (call, number), self._held, work, item
            ): number
            for number, (name, item) in enumerate(zip(names, items, strict=True))
        }
        found: dict[int, R] = {}
        try:
            while waiting:
                ready, _ = ray.wait(list(waiting), num_returns=1, timeout=_LOOK_EVERY)
                steps |= self._look(call, names)
                for each in ready:
                    number = waiting.pop(each)
                    found[number], steps[number] = _result(each, names[number])
                for number, count in steps.items():
                    while told[number] < count:
                        told[number] += 1
                        tell()
        except BaseException:
            # What waits is not begun; what runs ends at the latest with `close`. `ray.cancel` would interrupt
            # workers while they tell the desk something, and has crashed the process that leads.
            with suppress(RayError):
                self._desk.open.remote(_NO_CALL)
            raise
        return [found[number] for number in range(len(items))]

    def _connect(self) -> None:
        quiet: dict[str, Any] = {
            "logging_level": "ERROR",
            "log_to_driver": False,
            "runtime_env": {"env_vars": dict.fromkeys(THREAD_VARIABLES, "1")},
        }
        if self._address is not None:
            _check_answers(self._address)
            _read_token_anew()
            ray.init(self._address, **quiet)
            return
        self._folder = tempfile.mkdtemp(prefix="assent-ray-")
        self._before = {name: os.environ.get(name) for name in _AUTH}
        os.environ.update(_AUTH)
        _read_token_anew()
        ray.init("local", num_cpus=self._wanted or cores(), include_dashboard=False,
                 _node_ip_address=_HERE, _temp_dir=self._folder, **quiet)  # fmt: skip

    @property
    def _called(self) -> str:
        return "Ray" if self._address is None else f"Ray at {self._address}"

    def _share(self, shared: Any) -> None:
        """Put what the next jobs share into the object store, unless it is there."""
        if self._held is not None and self._shared is shared:
            return
        reference = ray.put(shared)
        size = ray.experimental.get_object_locations([reference])[reference].get("object_size") or 0
        self._shared, self._held = shared, [reference]
        self._memory = _LIBRARIES + int(getattr(shared, "memory", _PER_BYTE * size))
        largest = max(
            (node["Resources"].get("memory", 0) for node in ray.nodes() if node["Alive"]), default=0
        )
        if largest < self._memory:
            raise AssentError(
                f"{self._called}: a job takes about {self._memory / 10**9:.1f} GB, and no machine has more "
                f"than {largest / 10**9:.1f} GB for jobs; accepted: larger machines, or a smaller log"
            )

    def _look(self, call: int, names: Sequence[str]) -> Counter[int]:
        """Return the steps of each job, and say where jobs run if that has changed."""
        try:
            steps, running, again = ray.get(self._desk.look.remote(call))
        except RayError as error:
            why = _first_line(error)
            raise AssentError(f"{self._called}: the cluster is lost ({why}); {GO_ON}") from None
        for number, before, now in again:
            self._say(f"{names[number]}: its worker on {_machine(before)} was lost; "
                      f"begun again on {_machine(now)}")  # fmt: skip
        if running and running.keys() != self._told:
            self._told = set(running)
            places = sorted(f"{_machine(node)} ({count})" for node, count in running.items())
            self._say(f"jobs run on {', '.join(places)}")
        return Counter(steps)


_JOINING = (
    "accepted: HOST:PORT of a cluster that this machine has joined (ray start --address HOST:PORT), with the "
    "cluster's token, if it has one (RAY_AUTH_TOKEN_PATH)"
)


def _result(reference: Any, name: str) -> tuple[Any, int]:
    """Return the result of a job and its steps, or raise its error, which names the machine."""
    try:
        kind, result, steps, node = ray.get(reference)
    except RayError as error:
        raise AssentError(f"{name}: {_first_line(error)}; {GO_ON}") from None
    if kind == "result":
        return result, steps
    if isinstance(result, AssentError):
        raise AssentError(f"{result} (on {_machine(node)})")
    result.add_note(f"in a worker on {_machine(node)}")
    raise result


class _Desk:
    """Counts the steps of jobs and reaches the stores of its machine."""

    def __init__(self, home: str, made_by: dict[str, str]) -> None:
        self._home, self._made_by = home, made_by
        self._call: int | None = None
        self._steps: dict[tuple[int, int], int] = {}
        self._nodes: dict[tuple[int, int], str] = {}
        self._over: set[tuple[int, int]] = set()
        self._again: list[tuple[int, str, str]] = []

    def about(self) -> tuple[str, dict[str, str]]:
        """Return the machine of the desk, and what bytes depend on there."""
        return self._home, self._made_by

    def open(self, call: int) -> None:
        """Begin a call of `map`; others are over."""
        self._call = call
        self._steps, self._nodes, self._over, self._again = {}, {}, set(), []

    def begin(self, job: tuple[int, int], node: str) -> bool:
        """Note that a job is at work, perhaps once more; False if it is no longer wanted."""
        if self._call not in (job[0], None):  # None: this desk replaces one that was lost
            return False
        if job in self._nodes:
            self._again.append((job[1], self._nodes[job], node))
        self._nodes[job] = node
        self._steps[job] = 0
        return True

    def step(self, job: tuple[int, int]) -> None:
        """Count a step of a job."""
        self._steps[job] = self._steps.get(job, 0) + 1

    def end(self, job: tuple[int, int]) -> None:
        """Note that a job is done."""
        self._over.add(job)

    def look(self, call: int) -> tuple[dict[int, int], dict[str, int], list[tuple[int, str, str]]]:
        """Return the steps of jobs, how many run on each machine, and which were begun again."""
        again, self._again = self._again, []
        running = Counter(node for job, node in self._nodes.items() if job not in self._over)
        steps = {number: count for (of, number), count in self._steps.items() if of == call}
        return steps, dict(running), again

    def fetch(self, folder: Path, name: str) -> Files:
        """Return the files of a digest in a store here."""
        return read_files(folder, name)

    def send(self, folder: Path, name: str, files: Files) -> None:
        """Write files of a digest into a store here."""
        write_files(folder, name, files)


class _Elsewhere:
    """Reaches stores through the desk."""

    def __init__(self, desk: Any) -> None:
        self._desk = desk

    def fetch(self, folder: Path, name: str) -> Files:
        return cast(Files, ray.get(self._desk.fetch.remote(folder, name)))

    def send(self, folder: Path, name: str, files: Files) -> None:
        ray.get(self._desk.send.remote(folder, name, files))


_kept: dict[str, Any] = {}
"""What this worker's last job shared, by its reference."""


def _job(
    desk: Any, job: tuple[int, int], held: list[Any], work: Work[S, T, R], item: T
) -> tuple[str, Any, int, str]:
    """Do a job: ("result" or "error", what came of it, its steps, the machine)."""
    node, steps = ray.get_runtime_context().get_node_id(), 0

    def tell() -> None:
        nonlocal steps
        steps += 1
        desk.step.remote(job)

    try:
        if not ray.get(desk.begin.remote(job, node)):
            raise AssentError(f"{name_of(item)}: no longer wanted")
        _prepare(desk, node)
        with one_thread():
            result = done(work, item, _received(held[0]), tell)
        return "result", result, steps, node
    except Exception as error:
        if not isinstance(error, AssentError):
            error.add_note(f"in a worker process: {traceback.format_exc()}")
        return "error", error, steps, node
    finally:
        desk.end.remote(job)


_DESK: Any = ray.remote(_Desk)
_JOB: Any = ray.remote(_job)


def _received(reference: Any) -> Any:
    """Return what jobs share, unpacked once for all jobs of this worker."""
    name = reference.hex()
    if name not in _kept:
        _kept.clear()
        _kept[name] = ray.get(reference)
    return _kept[name]


_prepared: set[str] = set()


def _prepare(desk: Any, node: str) -> None:
    """Check this machine against the desk's, and reach the stores there; once for a worker."""
    if _prepared:
        return
    home, expected = ray.get(desk.about.remote())
    here = _made_by()
    for name, value in expected.items():
        if here.get(name) != value:
            raise AssentError(
                f"a machine with {name} {here.get(name)} where the command runs with {value}, so that "
                "results might differ; accepted: machines with the same processor, libraries and code"
            )
    open_received(Store if node == home else lambda folder: Mirror(folder, _Elsewhere(desk)))
    _prepared.add(node)


def _machine(node: str) -> str:
    """Return what a node is called: its address, and the beginning of Ray's name for it."""
    address = next((each["NodeManagerAddress"] for each in ray.nodes() if each["NodeID"] == node), "")
    return f"{address}/{node[:6]}"


@cache
def _made_by() -> dict[str, str]:
    return {**made_with(), "code": code_state()}


def _check_answers(address: str) -> None:
    """Raise if nothing listens there: Ray itself would try for a quarter of an hour."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE).close()
    except (OSError, OverflowError):
        raise ConnectionError("nothing answers there") from None


def _read_token_anew() -> None:
    """Let Ray, which has read them when it was loaded, read the variables of its tokens again."""
    Config.initialize("")
    AuthenticationTokenLoader.instance().reset_cache()


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Undo what Ray does to the handlers of signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(".") if lines else type(error).__name__
