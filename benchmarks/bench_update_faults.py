"""Kill `assent update` when it changes the disk, and let its disk run full; then let it go on.

    bench_update_faults.py --kills 12          at twelve of these moments, spread over the whole update
    bench_update_faults.py --kills 0           at every one
    bench_update_faults.py --cases disk        a small file system is mounted: for root

kills   an update dies with signal 9 just before it opens a file to write, renames or deletes one, or makes
        a folder. It is repeated, dies once more on its way, and is then left alone. Exact updates, with a
        store, and prompt ones
disk    an exact update writes its run and its store to file systems that are too small for it: what it says,
        and whether it goes on once there is room

In the end the run has to be the one that an update which is left alone makes, without a file more, and the
run before untouched. What is on the disk changes at these moments alone, but for files that are being
written: these have temporary names until they are whole.
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
from hashlib import sha256
from multiprocessing import get_context
from multiprocessing.process import BaseProcess as Process
from pathlib import Path
from typing import Any

import numpy as np

from assent.cli import main
from assent.data.simulate import simulate
from assent.runs.folder import open_run
from assent.runs.manifest import MANIFEST
from assent.testing.updates import differing
from common import Option, read_options, verdict

PEOPLE = 100
SERVER = get_context("forkserver")
"""Forks processes that have imported assent: polars does not survive a fork once it was at work."""
SERVER.set_forkserver_preload(["assent.cli.app", "assent.cli.update_commands", "assent.cli.fit_commands"])
SHARES = (0.02, 0.1, 0.3, 0.6, 0.8, 0.9, 0.95, 0.98)
"""Sizes of the file systems that are too small, in what the update needs."""
PAGE = 4096
"""Bytes that a small file system gives at least to a file."""
MOVES = ("os.rename", "os.remove", "os.rmdir", "os.mkdir")
"""What changes the disk beside files that are opened to write, as `sys.audit` calls it."""
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
SETTINGS = ["--value", "structure", "--set", "training.epochs=2", "--set", "tune=none", "--seeds", "1"]


class Watch:
    """Counts the changes of the disk below a folder in this process, and dies just before one of them."""

    def __init__(self, folder: Path, die_at: int | None) -> None:
        self.folder, self.die_at, self.count = str(folder), die_at, 0

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Hear of an event of `sys.audit`."""
        if event == "open":
            path, _, flags = arguments
            is_change = bool((flags or 0) & WRITES)
        else:
            is_change = event in MOVES
            path = arguments[0] if is_change else ""
        if is_change and isinstance(path, str | Path) and str(path).startswith(self.folder):
            self.count += 1
            if self.count == self.die_at:
                os.kill(os.getpid(), signal.SIGKILL)


def start(said: Path, *words: str | Path, die_at: int | None = None) -> Process:
    """Start a command of assent in a process of its own; what it says, and its changes, go beside `said`."""
    child = SERVER.Process(target=_run, args=(said, [str(word) for word in words], die_at))
    child.start()
    return child


def _run(said: Path, words: list[str], die_at: int | None) -> None:
    with said.open("wb") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
        sys.argv, watch = ["assent", *words], Watch(said.parent, die_at)
        sys.addaudithook(watch)
        try:
            main()
        finally:
            _counted(said).write_text(str(watch.count))


def _counted(said: Path) -> Path:
    return said.with_suffix(".count")


def alone(said: Path, *words: str | Path) -> int:
    """Run a command to its end; how often it changed the disk."""
    child = start(said, *words)
    child.join()
    if child.exitcode:
        sys.exit(f"assent {words[0]} failed: {said.read_text()}")
    return int(_counted(said).read_text())


def content(folder: Path) -> dict[str, str]:
    """The hash of every file in a folder."""
    return {file.name: sha256(file.read_bytes()).hexdigest() for file in folder.iterdir() if file.is_file()}


def made(folder: Path) -> tuple[Path, list[str | Path]]:
    """A run, and the words of the command that updates it once somebody withdrew everything."""
    log = simulate(preference="learnable", users=PEOPLE, items=300, seed=0)
    log.table.write_csv(folder / "log.csv")
    gone = log.table["user"] == log.table["user"][0]
    log.table.filter(~gone).write_csv(folder / "now.csv")
    alone(folder / "said", "fit", folder / "log.csv", "--out", folder / "run", "--jobs", "1", *SETTINGS)
    return folder / "run", ["update", folder / "run", "--data", folder / "now.csv", "--jobs", "1"]


def kills(folder: Path, run: Path, update: list[str | Path]) -> None:
    """Kill updates of both grades."""
    before, moments = content(run), random.Random(0)
    for grade in ("exact", "prompt"):
        words: list[str | Path] = [*update, "--grade", grade]
        whole, wrong, killed = folder / f"whole-{grade}", list[str](), 0
        changes = alone(folder / "said", *words, *places(whole, grade))
        at = given.kills or changes
        chosen = sorted({*np.linspace(1, changes, at).round().astype(int).tolist()})
        for moment in chosen:
            out = folder / f"killed-{grade}-{moment}"
            killed += goes_on([*words, *places(out, grade)], out, (moment, moments.randint(1, changes)))
            found = differing(open_run(out), open_run(whole))
            found += [f"{name} is left" for name in content(out).keys() - content(whole).keys()]
            wrong += [f"killed at {moment}: {each}" for each in found]
        moments_of = f"{killed} kills at {len(chosen)} of {changes} moments"
        verdict(f"{grade}: files that differ, or are left, after {moments_of}", len(wrong), 0)
        for each in wrong[:5]:
            print(f"  {each}")
    verdict("files of the run before that changed", len(before.items() - content(run).items()), 0)


def places(out: Path, grade: str) -> list[str | Path]:
    """The words that say where an update writes: exact ones keep a store."""
    stored: list[str | Path] = ["--store", out.with_name(f"{out.name}-kept")]
    return ["--out", out, *(stored if grade == "exact" else [])]


def goes_on(words: list[str | Path], out: Path, moments: tuple[int, ...]) -> int:
    """Kill an update at each of some moments, then leave it alone; how often it was killed before its end."""
    said, killed = out.with_name("said"), 0
    for moment in moments:
        if not (out / MANIFEST).exists():
            child = start(said, *words, die_at=moment)
            child.join()
            killed += child.exitcode == -signal.SIGKILL
    if not (out / MANIFEST).exists():
        alone(said, *words)
    return killed


def disk(folder: Path, run: Path, update: list[str | Path]) -> None:
    """Let the disk run full, then give it room."""
    before, wrong, said = content(run), list[str](), folder / "said"
    roomy, place = folder / "roomy", folder / "small"
    alone(said, *update, "--out", roomy / "next", "--store", roomy / "kept")
    needed = taken(roomy)
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={sizes(needed)[0]}k", "tmpfs", str(place)]
    subprocess.run(mount, check=True)
    try:
        words: list[str | Path] = [*update, "--out", place / "next", "--store", place / "kept"]
        for size in sizes(needed):
            subprocess.run(["mount", "-o", f"remount,size={size}k", str(place)], check=True)
            child = start(said, *words)
            child.join()
            lines = said.read_text().splitlines()
            full = [line for line in lines if "No space left" in line]
            print(f"{size} of {needed} kB: exit code {child.exitcode}; {full}", flush=True)
            if child.exitcode == 0 or len(full) != 1 or full != lines[-1:]:
                wrong.append(f"{size} kB")
        verdict("full disks without one clear line", len(wrong), 0)
        subprocess.run(["mount", "-o", f"remount,size={2 * needed}k", str(place)], check=True)
        alone(said, *words)
        found = differing(open_run(place / "next"), open_run(roomy / "next"))
        verdict("files that differ once there was room", len(found), 0)
        verdict("files of the run before that changed", len(before.items() - content(run).items()), 0)
    finally:
        subprocess.run(["umount", str(place)], check=False)


def taken(folder: Path) -> int:
    """The kilobytes of pages that a folder takes."""
    pages = (-(-file.stat().st_size // PAGE) for file in folder.rglob("*") if file.is_file())
    return sum(pages) * PAGE // 1024


def sizes(needed: int) -> list[int]:
    """Kilobytes of the file systems that are too small: the store does not fit, then the run."""
    return [max(PAGE // 1024, round(share * needed)) for share in SHARES]


CASES = {"kills": kills, "disk": disk}

if __name__ == "__main__":
    given = read_options(
        __doc__,
        cases=Option(tuple(CASES), "which of them"),
        kills=Option(12, "moments at which an update is killed; 0: every one", quick=3),
    )
    with tempfile.TemporaryDirectory() as temporary:
        made_run, words_of_update = made(Path(temporary))
        for case in given.cases:
            CASES[case](Path(temporary), made_run, words_of_update)
