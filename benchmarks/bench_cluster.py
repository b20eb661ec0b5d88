"""Work on two Ray nodes of one processor each, on this machine: how fast, with which bytes, how large.

    bench_cluster.py --cases speed        time of serial, two processes, and two nodes
    bench_cluster.py --cases digest       the same bytes whoever works, and after nodes were killed
    bench_cluster.py --cases large --rows 10000000

`speed` first prints the ceiling: two equal trainings, one after the other and beside each other. Then it
fits a part of Gowalla (`--fitted` people) and reproduces `overall` with two models (`--dataset`, `--users`),
and prints how long jobs were, and what two workers could gain at most. What starting takes is apart.
After `--minutes` nothing new is begun. `--works fit` or `--works reproduce` does one of the two.

`digest` fits a simulated log once for each executor, and with `--kills` kills of a node that runs a job, each
after a random number of jobs; a new node takes its place.

`large` decides and trains on a simulated log in partitions, and trains in memory on the same rows. The folder
`--folder` keeps the partitions. All cases start and end their own nodes, by their process ids.
"""

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from assent.data.live import live_problem
from assent.data.problem import Problem, Protocol, make_problem
from assent.data.simulate import simulate, simulate_parts
from assent.lab import SERIAL, Executor, Lab, Processes, Training, everything
from assent.runs.large import LargePlan, fit_large
from assent.runs.plan import RunPlan
from assent.runs.run import fit
from assent.support.runtime import one_thread
from assent.testing.partitions import in_memory
from assent.training import Settings, train
from assent.training.stored import as_files
from common import QUICK_USERS, Option, data_folder, part_of_gowalla, read_options, verdict

try:
    from assent.lab.cluster import Ray
    from assent.testing.cluster import Nodes, descendants, two_nodes
except Exception as error:  # Ray or pytest is not installed
    print(f"skipped: {error}")
    sys.exit(0)

EPOCHS = 16
"""Of `large`: the time for more is in proportion."""


def clean(value: Any) -> Any:
    """Return records without what the clock said."""
    if isinstance(value, dict):
        return {key: clean(each) for key, each in value.items() if key != "seconds"}
    return [clean(each) for each in value] if isinstance(value, list) else value


def digest_of(folder: Path) -> str:
    """Hash the model, the decisions and the records of a run."""
    found = sha256()
    for name in ("model.safetensors", "model.json", "selection.parquet", "quality.json", "certificate.json"):
        found.update((folder / name).read_bytes())
    for name in ("metrics.json", "tuning.json"):
        found.update(json.dumps(clean(json.loads((folder / name).read_text())), sort_keys=True).encode())
    return found.hexdigest()[:16]


def digests() -> None:
    """Fit with every executor, and with a node killed at random moments."""
    log = simulate(
        preference="learnable", users=100 if given.quick else given.people, items=150, noise=0.3, seed=3
    )
    problem, live = make_problem(log, Protocol.PAPER_TABLES, seed=3), live_problem(log, seed=3)
    settings = Settings.model_validate({"model": "mf", "tune": "none", "training": {"epochs": 200}})
    found = dict[str, str]()

    def fitted(name: str, executor: Executor) -> None:
        start = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            plan = RunPlan(budget=0.5, seed=3, seeds=1)
            fit(log, problem, Path(folder) / "run", plan, settings, live=live, executor=executor)
            found[name] = digest_of(Path(folder) / "run")
        print(f"{name}: {found[name]}, {time.perf_counter() - start:.0f} s", flush=True)

    fitted("serial", SERIAL)
    with Processes(2) as processes:
        fitted("two processes", processes)
    with Ray(workers=1) as one:
        fitted("one Ray node", one)
    lost = list[str]()
    with two_nodes() as nodes, Ray(nodes.address, say=lambda said: tell_lost(said, lost)) as two:
        fitted("two Ray nodes", two)
        timed = Timed(two)
        fitted("two Ray nodes, which are warm", timed)
        kills, moments, hits, tried, again = 2 if given.quick else given.kills, random.Random(0), 0, 0, 0
        while hits < kills and tried < 2 * kills:
            killed, tried, before = Timed(two), tried + 1, len(lost)
            killer = Killer(nodes, killed, moments.randrange(timed.steps))
            killer.start()
            fitted(f"two Ray nodes, kill {tried} after {killer.after} of {timed.steps} jobs", killed)
            killer.over.set()
            killer.join()
            hits, again = hits + killer.hit, again + (len(lost) > before)
            if len(nodes.running) < 2:
                nodes.add()
    print(f"{tried} moments: {hits} kills of a node that ran a job, {again} of them with jobs begun again")
    verdict("kills of a node that ran a job", hits, kills, f"of {kills}", at_most=False)
    same = sum(each == found["serial"] for each in found.values())
    verdict("runs with the digest of serial", same, len(found), f"of {len(found)}", at_most=False)


class Timed:
    """An executor that counts jobs, and adds up the time in lists of them and the CPU seconds of each."""

    def __init__(self, inner: Executor) -> None:
        self.inner, self.start = inner, time.perf_counter()
        self.busy = 0.0
        """Seconds in lists of jobs."""
        self.steps = 0
        """Jobs that are done."""
        self.own_start = time.process_time()
        self.jobs: list[list[float]] = []

    @property
    def workers(self) -> int:
        """Those of the executor."""
        return self.inner.workers

    def map(self, work: Any, items: Any, shared: Any, tell: Any) -> list[Any]:
        """Let the executor do it."""

        def count() -> None:
            self.steps += 1
            tell()

        if len(items) < 2:  # which the leading process does
            return self.inner.map(work, items, shared, count)
        start = time.perf_counter()
        found = self.inner.map(partial(with_seconds, work), items, shared, count)
        self.jobs.append([seconds for _, seconds in found])
        self.busy += time.perf_counter() - start
        return [result for result, _ in found]


def with_seconds(work: Any, shared: Any, item: Any, tell: Callable[[], None]) -> tuple[Any, float]:
    """Do a job, and return what came of it with its CPU seconds."""
    start = time.process_time()
    found = work(shared, item, tell)
    return found, time.process_time() - start


class Killer(threading.Thread):
    """Kills the last node at the first moment after so many jobs at which one runs there."""

    def __init__(self, nodes: Nodes, executor: Timed, after: int) -> None:
        super().__init__(daemon=True)
        self.nodes, self.executor, self.after, self.over = nodes, executor, after, threading.Event()
        self.hit = False

    def run(self) -> None:
        """Wait for the moment, and for work."""
        while not self.over.is_set():
            if self.executor.steps >= self.after and runs_job(self.nodes.running[-1].pid):
                self.nodes.kill(self.nodes.running[-1])
                self.hit = True
                return
            self.over.wait(0.01)


def runs_job(node: int) -> bool:
    """Whether a worker of a node is at a job: Ray calls its process by that, and otherwise idle."""
    for pid in descendants(node):
        with suppress(OSError):
            called = Path(f"/proc/{pid}/cmdline").read_bytes()
            if called.startswith(b"ray::") and b"IDLE" not in called and b"_Desk" not in called:
                return True
    return False


def tell_lost(message: str, lost: list[str]) -> None:
    """Print that a job was begun again, and note it."""
    if "lost" in message:
        lost.append(message)
        print(f"  {message}", flush=True)


@contextmanager
def begun(name: str) -> Iterator[Executor]:
    """Yield an executor that has done a job on each worker, and print what that took."""
    start = time.perf_counter()
    with _executor(name) as executor:
        executor.map(import_all, list(range(4)), None, lambda: None)
        print(f"{name}: begins after {time.perf_counter() - start:.0f} s", flush=True)
        yield executor


@contextmanager
def _executor(name: str) -> Iterator[Executor]:
    if name == "serial":
        yield SERIAL
    elif name == "processes":
        with Processes(2) as processes:
            yield processes
    else:
        with two_nodes() as nodes, Ray(nodes.address) as two:
            yield two


def import_all(shared: None, item: int, tell: Callable[[], None]) -> None:
    """Load what jobs load."""
    import torch

    torch.optim.Adam([torch.nn.Parameter(torch.zeros(1))])


def speed() -> None:
    """Time both commands' work with each executor."""
    from assent.reproduce import ITEMS
    from assent.reproduce.plan import quick
    from assent.reproduce.run import reproduce

    deadline = time.monotonic() + 60 * given.minutes
    log, problem, live = gowalla()
    model = {"training": {"epochs": 2}} if given.quick else {}
    settings = Settings.model_validate({"model": "mf", "tune": "none", **model})
    ceiling(problem, settings)

    def fitted(executor: Executor, folder: Path) -> None:
        plan = RunPlan(budget=0.5, seeds=1)
        fit(log, problem, folder / "run", plan, settings, live=live, executor=executor)

    def reproduced(executor: Executor, folder: Path) -> None:
        users = 150 if given.quick else given.users
        plan = replace(quick(1), models=("mf", "lightgcn"), datasets=(given.dataset,), users=users or None)
        data = None if given.dataset == "simulation" else data_folder()
        reproduce([ITEMS["overall"]], plan, folder / "out", data=data, executor=executor, asked=["overall"])

    works = {
        "fit": (f"fit on {problem.n_users} people of Gowalla", fitted),
        "reproduce": (f"reproduce overall on {given.dataset}", reproduced),
    }
    for what, work in (works[name] for name in given.works.split(",")):
        took = dict[str, float]()
        for name in given.executors.split(","):
            if time.monotonic() > deadline:
                print(f"{what}, {name}: not begun, because {given.minutes} minutes are over", flush=True)
                continue
            with begun(name) as executor, tempfile.TemporaryDirectory() as folder:
                timed = Timed(executor)
                work(timed, Path(folder))
                took[name] = time.perf_counter() - timed.start
            print(f"{what}, {name}: {took[name]:.1f} s, {timed.busy:.1f} of them in lists", flush=True)
            tell_work(f"{what}, {name}", timed)
        if len(took) == 3:
            verdict(f"{what}: serial / two nodes", took["serial"] / took["ray"], 1.7, at_most=False)
            verdict(f"{what}: processes / two nodes", took["processes"] / took["ray"], 0.95, at_most=False)


def tell_work(what: str, timed: Timed) -> None:
    """Print CPU seconds, how long jobs are, and how long two workers take that get in nobody's way.

    CPU seconds are nearly the same on a busy machine. In one process, jobs are part of the leading one's.
    """
    jobs = [seconds for each in timed.jobs for seconds in each]
    alone = time.process_time() - timed.own_start - (sum(jobs) if timed.inner is SERIAL else 0.0)
    best = alone + sum(dealt_out(each) for each in timed.jobs)
    print(f"{what}: {alone + sum(jobs):.1f} CPU seconds, {alone:.1f} of them of the leading process alone")
    lengths = f"{np.median(jobs):.1f} s (median) and {max(jobs):.1f} s (longest)"
    print(f"{what}: {len(jobs)} jobs of {lengths}; half of the work in ones of {half_in(jobs):.1f} s or more")
    gain = (alone + sum(jobs)) / best
    print(f"{what}: dealt out to two workers, that is {best:.1f} s: {gain:.2f} times as fast", flush=True)


def dealt_out(jobs: list[float]) -> float:
    """Return when two workers are ready that take the next job whenever they are free."""
    ready = [0.0, 0.0]
    for seconds in jobs:
        ready[ready.index(min(ready))] += seconds
    return max(ready)


def half_in(jobs: list[float]) -> float:
    """Return the length of jobs in which, with all longer ones, half of the work is."""
    falling = np.sort(jobs)[::-1]
    return float(falling[np.searchsorted(np.cumsum(falling), sum(jobs) / 2)])


def ceiling(problem: Problem, settings: Settings) -> None:
    """Print how much faster two equal trainings are beside each other: what two processors can give."""
    lab = Lab(problem, settings)
    with begun("processes") as two:
        took = []
        for executor in (SERIAL, two):
            for _ in range(2):  # the first time, workers get the problem
                start = time.perf_counter()
                executor.map(train_alone, [0, 1], lab, lambda: None)
                last = time.perf_counter() - start
            took.append(last)
    print(f"two trainings of {took[0] / 2:.1f} s: beside each other {took[0] / took[1]:.2f} times as fast as "
          "one after the other", flush=True)  # fmt: skip


def train_alone(lab: Lab, item: int, tell: Callable[[], None]) -> None:
    """Train on everything, for all epochs; nothing is kept."""
    selection = everything(lab.problem)
    Training(selection, selection, seed=item).train(lab)


def gowalla() -> tuple[Any, Any, Any]:
    """Return a part of Gowalla with unwillingness, its split, and all of its rows to decide on."""
    from assent.data.door import assign

    log = assign(part_of_gowalla(QUICK_USERS if given.quick else given.fitted), "random", 0)
    return log, make_problem(log, Protocol.PAPER_TABLES, seed=0), live_problem(log, seed=0)


class Watch(threading.Thread):
    """Looks at the processes of nodes: the largest memory of each kind, and CPU seconds."""

    def __init__(self, nodes: Nodes) -> None:
        super().__init__(daemon=True)
        self.nodes, self.over = nodes, threading.Event()
        self.peak = 0.0
        """GB of the largest worker, pages that it shares with others included."""
        self.seconds: dict[int, float] = {}

    def run(self) -> None:
        """Look every half second until `over`."""
        while not self.over.wait(0.5):
            for pid in (each for node in self.nodes.running for each in (node.pid, *descendants(node.pid))):
                self._look(pid)

    def _look(self, pid: int) -> None:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
            status = Path(f"/proc/{pid}/status").read_text()
            command = Path(f"/proc/{pid}/cmdline").read_text()
        except OSError:  # it has ended
            return
        fields = stat.rpartition(")")[2].split()
        self.seconds[pid] = sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")
        if command.startswith("ray::"):
            high = next((line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")), "0")
            self.peak = max(self.peak, int(high) / 2**20)


def large() -> None:
    """Decide and train on a log in partitions, on two nodes; then in memory on the same rows."""
    rows = 10**5 if given.quick else given.rows
    source = partitions(rows)
    settings = Settings.model_validate({"training": {"epochs": EPOCHS}})
    out = Path(given.folder) / f"model-{rows}"
    shutil.rmtree(out, ignore_errors=True)
    shards = max(2, rows // 1_250_000)
    with two_nodes(store=10**9) as nodes, Ray(nodes.address) as executor:
        watch = Watch(nodes)
        watch.start()
        start, own = time.perf_counter(), time.process_time()
        plan = LargePlan(method=given.method, shards=shards)
        stages = Stages(lambda: time.process_time() + sum(watch.seconds.values()))
        made = fit_large(source, out, plan, settings, executor=executor, progress=stages)
        wall, own = time.perf_counter() - start, time.process_time() - own
        watch.over.set()
        watch.join()
    cpu = own + sum(watch.seconds.values())
    peak = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 2**20
    print(f"{rows:.0e} rows, {shards} shards: {made.figures}")
    print(f"{rows:.0e} rows: {wall:.0f} s, {cpu:.0f} CPU seconds, leading process {peak:.2f} GB")
    verdict(f"{rows:.0e} rows: peak memory of a worker", watch.peak, 2, "GB")
    if rows > given.compared:
        return
    here = [sys.executable, __file__, "--cases", "memory", "--rows", str(rows), "--folder", given.folder]
    result = subprocess.run([*here, "--method", given.method], stdout=subprocess.PIPE, check=True)
    about = json.loads(result.stdout.splitlines()[-1])
    seconds, memory = about["seconds"], about["peak"]
    print(f"{rows:.0e} rows in memory: {seconds:.0f} CPU seconds with reading, peak {memory:.2f} GB")
    trained = stages.seconds["training, shards of epochs"]
    verdict(f"{rows:.0e} rows: CPU of the training / in memory", trained / about["training"], 2, "times")
    same = about["digest"] == model_digest(
        {n: (out / n).read_bytes() for n in ("model.safetensors", "model.json")}
    )
    verdict(f"{rows:.0e} rows: the same bytes as in memory", float(same), 1, at_most=False)


class Stages:
    """Prints what each stage took."""

    def __init__(self, cpu: Callable[[], float]) -> None:
        self.cpu, self.seconds = cpu, dict[str, float]()

    @contextmanager
    def task(self, label: str, total: int) -> Iterator[Callable[[], None]]:
        """Time a task."""
        start, cpu = time.perf_counter(), self.cpu()
        yield lambda: None
        self.seconds[label], wall = self.cpu() - cpu, time.perf_counter() - start
        print(f"  {label}, {total} steps: {wall:.0f} s, {self.seconds[label]:.1f} CPU seconds", flush=True)


def partitions(rows: int) -> Path:
    """Write the log, unless it is there."""
    folder = Path(given.folder) / f"log-{rows}"
    if not (folder / ".done").exists():
        folder.mkdir(parents=True, exist_ok=True)
        size: dict[str, Any] = {"users": max(1000, rows // 30), "items": max(500, rows // 300)}
        for number, part in enumerate(simulate_parts(max(2, rows // 1_000_000), rows=rows, **size)):
            table = part.table.select("user", "item", "time", "unwillingness")
            table.write_parquet(folder / f"{number:03}.parquet")
        (folder / ".done").touch()
    return folder


def train_in_memory() -> None:
    """Train in memory on what was disclosed; print CPU seconds, memory and a digest as JSON."""
    folder, start = Path(given.folder), time.process_time()
    tables = []
    for file in sorted((folder / f"log-{given.rows}").glob("*.parquet")):
        said = pl.read_parquet(folder / f"model-{given.rows}" / "decisions" / file.name)["decision"]
        tables.append(pl.read_parquet(file).filter(said == "disclosed"))
    data = in_memory(tables)
    settings = Settings.model_validate({"training": {"epochs": EPOCHS}})
    how = settings.model_settings, settings.training
    ready = time.process_time()
    with one_thread():
        trained = train(data, model="ials", model_settings=how[0], settings=how[1], seed=0)
    over = time.process_time()
    peak = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 2**20
    about = {"seconds": over - start, "training": over - ready, "peak": peak}
    print(json.dumps(about | {"digest": model_digest(as_files(trained, "model"))}))


def model_digest(files: dict[str, bytes]) -> str:
    """Hash the files of a model."""
    return sha256(b"".join(files[name] for name in sorted(files))).hexdigest()


CASES: dict[str, Callable[[], None]] = {
    "speed": speed,
    "digest": digests,
    "large": large,
    "memory": train_in_memory,
}

if __name__ == "__main__":
    given = read_options(
        __doc__,
        cases=Option("speed,digest,large", "cases, by commas"),
        kills=Option(10, "nodes to kill, in digest"),
        people=Option(300, "people of the log of digest"),
        minutes=Option(20, "minutes of speed"),
        works=Option("fit,reproduce", "what speed does, by commas"),
        executors=Option("serial,processes,ray", "who does it, by commas"),
        fitted=Option(12000, "people of Gowalla that speed fits"),
        dataset=Option("simulation", "data set that speed reproduces"),
        users=Option(600, "at most so many people of that data set; 0: all"),
        rows=Option(10**7, "rows of large"),
        compared=Option(10**7, "largest number of rows to train on in memory too"),
        method=Option("threshold", "how large decides"),
        folder=Option(str(Path(tempfile.gettempdir()) / "assent-large"), "where large keeps its data"),
    )
    for case in given.cases.split(","):
        CASES[case]()
