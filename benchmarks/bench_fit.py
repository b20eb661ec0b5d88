"""What a `fit` with `worth` costs on Diginetica, and how deep the code is that it goes through.

    bench_fit.py --repeats 5                                 one and two jobs, taken in turn
    bench_fit.py --against OTHER                             also another checkout of assent

Prints wall and CPU seconds of whole commands, each in a process of its own, with standard errors over the
repeats. Ratios are taken within a repeat. Then: the longest chain of assent modules on the call stack of a
fit, the number of modules and lines in `src`, CPU seconds of `assent --version`, `--help` and `explain`.
"""

import contextlib
import io
import sys
import tempfile
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

from assent.cli.app import app
from assent.runs.folder import open_run
from common import ROOT, Cost, Option, log_path, measure, read_options, verdict, with_error


def time_fits(data: Path, folder: Path, *, repeats: int, against: Path | None) -> Path:
    """Print what fits cost; returns the folder of a finished one."""
    ways = ["--jobs 1", "--jobs 2", *([] if against is None else [str(against)])]
    costs: dict[str, list[Cost]] = {way: [] for way in ways}
    for number in range(repeats):
        for way in ways:
            out = folder / f"run-{number}-{ways.index(way)}"
            if way.startswith("--"):
                costs[way].append(measure(fit_at(data, out, way.split())))
            else:
                costs[way].append(measure(fit_at(data, out, []), threads=2, source=Path(way) / "src"))
    for way, found in costs.items():
        wall, cpu = ([getattr(each, name) for each in found] for name in ("wall", "cpu"))
        print(f"fit, {way}: {with_error(wall)} s wall, {with_error(cpu)} s CPU", flush=True)
    ours = costs.pop("--jobs 2")
    for way, found in costs.items():
        ratios = [each.wall / other.wall for each, other in zip(ours, found, strict=True)]
        verdict(f"wall time of --jobs 2 / {way}", ratios, 0.65)
    return folder / "run-0-1"


def fit_at(data: Path, out: Path, more: list[str]) -> list[str]:
    """Return the arguments of a fit with the default method; Diginetica has no unwillingness of its own."""
    return ["fit", str(data), "--unwillingness", "random", *more, "--out", str(out)]


class Chain:
    """The assent modules on the call stack, and the longest chain of distinct ones; for `sys.setprofile`."""

    def __init__(self) -> None:
        self.longest: list[str] = []
        self.seen: set[str] = set()
        self._stack: list[str] = []
        self._counts: Counter[str] = Counter()

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Follow a call or a return."""
        module = str(frame.f_globals.get("__name__", ""))
        if not module.startswith("assent"):
            return
        if event == "call":
            self.seen.add(module)
            self._stack.append(module)
            self._counts[module] += 1
            if len(self._counts) > len(self.longest):
                self.longest = list(dict.fromkeys(self._stack))
        elif event == "return" and self._stack:
            self._stack.pop()
            self._counts[module] -= 1
            if not self._counts[module]:
                del self._counts[module]


def chain_of_fit(data: Path, folder: Path) -> Chain:
    """Return the chain of a serial fit by the command line, in this process."""

    def run(out: Path) -> None:
        arguments = fit_at(data, out, ["--jobs", "1", "--set", "training.epochs=2"])
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            app(arguments, standalone_mode=False)

    run(folder / "first")  # imports run code of modules inside other modules: let them be done
    chain = Chain()
    sys.setprofile(chain)
    try:
        run(folder / "second")
    finally:
        sys.setprofile(None)
    return chain


def time_start_up(run: Path, repeats: int) -> None:
    """Print the CPU seconds of commands that compute little."""
    user = str(open_run(run).selection["user"][0])
    for arguments, limit in (
        (["--version"], 0.3),
        (["--help"], 0.3),
        (["explain", str(run), "--user", user], 2),
    ):
        found = [measure(arguments).cpu for _ in range(repeats)]
        verdict(f"assent {arguments[0]}, CPU", found, limit, "s")


if __name__ == "__main__":
    given = read_options(
        __doc__,
        repeats=Option(5, "how often everything is measured", quick=1),
        against=Option(None, "another checkout of assent, whose default fit is timed too", type=Path),
    )
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        finished = time_fits(
            log_path("diginetica", work, quick=given.quick),
            work,
            repeats=given.repeats,
            against=given.against,
        )
        time_start_up(finished, given.repeats)
        found_chain = chain_of_fit(log_path("diginetica", work, quick=True), work)
    verdict("modules in the longest chain of calls of a fit", len(found_chain.longest), 14)
    print(f"  {' → '.join(module.removeprefix('assent.') for module in found_chain.longest)}")
    print(f"modules that a fit goes through: {len(found_chain.seen)}")
    files = sorted((ROOT / "src").rglob("*.py"))
    verdict("modules in src", len(files), 120)
    verdict("lines in src", sum(len(file.read_text().splitlines()) for file in files), 18_000)
