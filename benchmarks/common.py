"""What the benchmarks share: options, data, trainings, the cost of a command, figures beside their targets.

Every benchmark takes `--quick`: a few people of each data set and two epochs a training. Its figures mean
nothing; it shows in a minute whether the script works.
"""

import argparse
import ctypes
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from assent.data.door import assign
from assent.data.interactions import Interactions
from assent.data.named import cut
from assent.data.problem import Problem, Protocol, make_problem
from assent.data.readers import read_interactions
from assent.data.simulate import simulate
from assent.evaluation import evaluate as evaluation
from assent.lab import SERIAL, Executor, Lab, Processes, Training, everything
from assent.support.arrays import Bools
from assent.support.statistics import mean_and_error
from assent.training import Settings, Trained

ROOT = Path(__file__).resolve().parents[1]
REAL = ("diginetica", "steam", "amazon_video_games")
"""The data sets of most figures."""
QUICK_USERS, QUICK_EPOCHS = 300, 2
_SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER of Linux's prctl.h."""


@dataclass(frozen=True)
class Option:
    """An option of a benchmark; the type of the default is that of the value, a tuple is given by commas."""

    default: Any
    help: str
    quick: Any = None
    """The default with `--quick`; None: the same."""
    type: Callable[[str], Any] | None = None
    """Needed where the default is None."""


def read_options(description: str | None, **known: Option) -> argparse.Namespace:
    """Return the values of the `known` options and of `quick`, from the command line."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="small data, short trainings: does it work?")
    for name, option in known.items():
        flag, default = f"--{name.replace('_', '-')}", option.default
        if isinstance(default, bool):
            parser.add_argument(flag, action="store_true", help=option.help)
        elif isinstance(default, list):
            parser.add_argument(flag, action="append", default=default, help=option.help)
        else:
            shown = ",".join(map(str, default)) if isinstance(default, tuple) else default
            text = option.help if default is None else f"{option.help} (default: {shown})"
            parser.add_argument(flag, type=option.type or _reader(default), help=text)
    given = parser.parse_args()
    for name, option in known.items():
        if getattr(given, name) is None:
            is_small = given.quick and option.quick is not None
            setattr(given, name, option.quick if is_small else option.default)
    return given


def _reader(default: Any) -> Callable[[str], Any]:
    if not isinstance(default, tuple):
        return type(default)
    kind = type(default[0])
    return lambda text: tuple(kind(part) for part in text.split(","))


def data_folder() -> Path:
    """Return the folder with the real data sets: ASSENT_DATA, or ../shared/data beside the project.

    Where it is missing, the benchmark ends with a message.
    """
    folder = Path(os.environ.get("ASSENT_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        print(f"skipped: no data at {folder}; set ASSENT_DATA to the folder with the data sets")
        sys.exit(0)
    return folder


def load(
    name: str,
    *,
    quick: bool = False,
    protocol: Protocol = Protocol.PAPER_TABLES,
    source: str = "random",
    earlier: bool = False,
) -> Problem:
    """Return a data set, split, with unwillingness from `source`.

    `simulation` is the demo's log; `gowalla-part` a part of Gowalla that no setting was chosen on. With
    `earlier`, the last row of every user is left out first: a split to make choices on.
    """
    log = load_log(name, quick=quick)
    if earlier:
        at = pl.struct("time", pl.int_range(pl.len()))
        log = replace(log, table=log.table.filter(at.rank("ordinal").over("user") < pl.len().over("user")))
    return make_problem(assign(log, source, 0), protocol, seed=0)


def load_log(name: str, *, quick: bool = False) -> Interactions:
    """Return the log of a data set; with `quick`, of its first users alone."""
    if name == "simulation":
        users = QUICK_USERS if quick else 2400
        return simulate(preference="learnable", users=users, items=500, noise=0.3, seed=0)
    if name == "gowalla-part":
        return part_of_gowalla(people=QUICK_USERS if quick else 4000)
    log = read_interactions(data_folder() / name)
    if not quick:
        return log
    first = log.table["user"].unique().sort().head(QUICK_USERS)
    return replace(log, table=log.table.filter(pl.col("user").is_in(first.to_list())))


def part_of_gowalla(people: int, most: int = 60) -> Interactions:
    """Draw people with 5 to 20 check-ins at places with at most `most`, and the order of their check-ins."""
    log = cut(read_interactions(data_folder() / "gowalla"), most)
    rng = np.random.default_rng(0)
    chosen = rng.choice(log.table["user"].unique().sort().to_numpy(), size=people, replace=False)
    table = log.table.filter(pl.col("user").is_in(chosen.tolist()))
    order = pl.Series("time", rng.permutation(table.height)).cast(table.schema["time"])
    return replace(log, table=table.with_columns(order))


def log_path(name: str, folder: Path, *, quick: bool = False) -> Path:
    """Return a data set as the command line takes it; with `quick`, a small file in `folder`."""
    if not quick:
        return data_folder() / name
    file = folder / f"{name}.csv"
    load_log(name, quick=True).table.write_csv(file)
    return file


def settings_of(model: str = "mf", *, quick: bool = False, **training: Any) -> Settings:
    """Return a model's default settings, with these of its training instead."""
    short = {"epochs": QUICK_EPOCHS} if quick else {}
    return Settings.model_validate({"model": model, "training": {**training, **short}})


def train(problem: Problem, settings: Settings, seed: int = 0, selection: Bools | None = None) -> Trained:
    """Train a model anew, on all training rows or on `selection[Z]`, with one thread."""
    rows = everything(problem) if selection is None else selection
    return Lab(problem, settings, seed).train([Training(rows)])[0]


def workers(jobs: int) -> AbstractContextManager[Executor]:
    """Return what runs so many trainings beside each other."""
    return Processes(jobs) if jobs > 1 else nullcontext(SERIAL)


def validation_ndcg(problem: Problem, trained: Trained) -> float:
    """Return NDCG@5 in % of the validation rows among their candidates: what settings are chosen on."""
    return 100 * float(evaluation.validation_ndcg(problem, trained).mean())


@dataclass(frozen=True)
class Cost:
    """What a command took."""

    cpu: float
    """Seconds of user and system time, of all its processes."""
    wall: float
    """Seconds."""
    peak: float
    """GB of resident memory of its largest process."""
    total: float
    """Largest GB of memory of all its processes together, shared pages counted once, looked at every half
    second; 0 where the system does not tell."""


def measure(arguments: list[str], *, threads: int = 1, source: Path | None = None) -> Cost:
    """Run the assent command and measure it; what it prints goes to stderr.

    `source` is the `src` folder of another version of assent, to be run instead.
    """
    environment = os.environ | {"OMP_NUM_THREADS": str(threads), "POLARS_MAX_THREADS": str(threads)}
    if source is not None:
        environment["PYTHONPATH"] = str(source)
    if sys.platform == "linux":  # processes that a command leaves behind become ours, to be counted
        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    start = time.perf_counter()
    process = subprocess.Popen(
        [str(Path(sys.executable).with_name("assent")), *arguments],
        env=environment,
        stdout=sys.stderr,
        start_new_session=True,
    )
    watch = _Memory(process.pid)
    watch.start()
    _, status, used = os.wait4(process.pid, 0)
    watch.done.set()
    wall, process.returncode = time.perf_counter() - start, os.waitstatus_to_exitcode(status)
    usages = [used]
    while True:
        try:
            usages.append(os.wait4(-process.pid, 0)[2])
        except ChildProcessError:
            break
    if process.returncode:
        sys.exit(f"{' '.join(arguments)}: failed with exit code {process.returncode}")
    return Cost(
        cpu=sum(each.ru_utime + each.ru_stime for each in usages),
        wall=wall,
        peak=max(each.ru_maxrss for each in usages) / 2**20,
        total=watch.largest / 2**20,
    )


class _Memory(threading.Thread):
    """Looks at the memory of a session's processes, in kB (Linux's /proc)."""

    def __init__(self, session: int) -> None:
        super().__init__(daemon=True)
        self.session, self.largest, self.done = session, 0, threading.Event()

    def run(self) -> None:
        """Look every half second until `done`."""
        while not self.done.wait(0.5):
            self.largest = max(self.largest, sum(map(self._of, Path("/proc").glob("[0-9]*"))))

    def _of(self, process: Path) -> int:
        try:
            if os.getsid(int(process.name)) != self.session:
                return 0
            lines = (process / "smaps_rollup").read_text().splitlines()
        except OSError:  # it has ended
            return 0
        return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


def seconds(work: Callable[[], object]) -> float:
    """Return the CPU time that `work` takes in this process; other programs hardly change it."""
    start = time.process_time()
    work()
    return time.process_time() - start


def draw_growth(file: Path, sizes: Sequence[int], seconds: Mapping[str, Sequence[float]], label: str) -> None:
    """Draw seconds against numbers of interactions, both logarithmic, beside a line of linear growth."""
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for name, times in seconds.items():
        axes.loglog(sizes, times, marker="o", label=name)
    last = next(iter(seconds.values()))[-1]
    axes.loglog(
        sizes, [last * size / sizes[-1] for size in sizes], linestyle="--", color="grey", label="linear"
    )
    axes.set_xlabel("interactions")
    axes.set_ylabel(label)
    axes.legend()
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, metadata={"Date": None})


def with_error(values: float | Sequence[float]) -> str:
    """Return a mean of four digits with its standard error; one value has none."""
    mean, error = mean_and_error(np.atleast_1d(values))
    return _short(mean) if error is None else f"{_short(mean)} ± {error:.2g}"


def _short(value: float) -> str:
    return f"{value:.4g}" if abs(value) < 10_000 else f"{value:.0f}"


def verdict(
    name: str, value: float | Sequence[float], limit: float, unit: str = "", *, at_most: bool = True
) -> None:
    """Print a figure, or the mean of several, beside its target."""
    mean = float(np.mean(value))
    met = mean <= limit if at_most else mean >= limit
    sign, of = "≤" if at_most else "≥", f" {unit}" if unit else ""
    target = f"(target {sign} {_short(limit)}{of}) {'met' if met else 'MISSED'}"
    print(f"{name}: {with_error(value)}{of} {target}", flush=True)
