"""Kill `assent update` with signal 9 at random moments, and let its disk run full; then let it go on.

    bench_update_faults.py --kills 6
    bench_update_faults.py --cases disk        a small file system is mounted: for root

kills   an exact update is killed and repeated until it ends by itself, then a prompt one
disk    an exact update writes its run and its store to file systems that are too small for it: what it says,
        and whether it goes on once there is room

In the end the run has to be the one that an update which is left alone makes, and the run before untouched.
"""

import os
import random
import subprocess
import sys
import tempfile
import time
from hashlib import sha256
from multiprocessing import get_context
from multiprocessing.process import BaseProcess as Process
from pathlib import Path

from assent.cli import main
from assent.data.simulate import simulate
from assent.runs.folder import open_run
from assent.runs.manifest import MANIFEST
from assent.testing.updates import differing
from common import Option, read_options, verdict

PEOPLE = 100
SERVER = get_context("forkserver")
"""Forks processes that have imported assent: polars does not survive a fork once it was at work."""
SERVER.set_forkserver_preload(["assent.cli.app"])
SIZES = (32, 128, 512)
"""Kilobytes of the file systems that are too small."""
ENOUGH = "64m"
SETTINGS = [
    "--value",
    "structure",
    "--set",
    "training.epochs=2",
    "--set",
    "tune=none",
    "--seeds",
    "1",
    "--jobs",
    "1",
]


def start(said: Path, *words: str | Path) -> Process:
    """Start a command of assent in a process of its own, which writes what it says to the file `said`."""
    child = SERVER.Process(target=_run, args=(said, [str(word) for word in words]))
    child.start()
    return child


def _run(said: Path, words: list[str]) -> None:
    with said.open("wb") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
        sys.argv = ["assent", *words]
        main()


def alone(said: Path, *words: str | Path) -> float:
    """Run a command to its end; the seconds that it took."""
    started = time.perf_counter()
    child = start(said, *words)
    child.join()
    if child.exitcode:
        sys.exit(f"assent {words[0]} failed: {said.read_text()}")
    return time.perf_counter() - started


def content(folder: Path) -> dict[str, str]:
    """The hash of every file in a folder."""
    return {file.name: sha256(file.read_bytes()).hexdigest() for file in folder.iterdir() if file.is_file()}


def made(folder: Path) -> tuple[Path, list[str | Path]]:
    """A run, and the words of the command that updates it once somebody withdrew everything."""
    log = simulate(preference="learnable", users=PEOPLE, items=300, seed=0)
    log.table.write_csv(folder / "log.csv")
    gone = log.table["user"] == log.table["user"][0]
    log.table.filter(~gone).write_csv(folder / "now.csv")
    alone(folder / "said", "fit", folder / "log.csv", "--out", folder / "run", *SETTINGS)
    return folder / "run", ["update", folder / "run", "--data", folder / "now.csv", "--jobs", "1"]


def kills(folder: Path, run: Path, update: list[str | Path]) -> None:
    """Kill updates of both grades."""
    before, moments, said = content(run), random.Random(0), folder / "said"
    for grade, number in (("exact", given.kills), ("prompt", max(1, given.kills // 3))):
        words: list[str | Path] = [*update, "--grade", grade]
        took = alone(said, *words, "--out", folder / f"whole-{grade}")
        out, killed = folder / f"killed-{grade}", 0
        kept: list[str | Path] = ["--store", folder / "kept"] if grade == "exact" else []
        while killed < number:
            running = start(said, *words, "--out", out, *kept)
            running.join(took * (0.1 + 0.9 * moments.random()))
            if not running.is_alive():
                break  # it was done before
            running.kill()
            running.join()
            killed += 1
        is_whole = (out / MANIFEST).exists()
        if not is_whole:
            alone(said, *words, "--out", out, *kept)
        found = differing(open_run(out), open_run(folder / f"whole-{grade}"))
        verdict(f"{grade}: files that differ after {killed} kills", len(found), 0)
    verdict("files of the run before that changed", len(before.items() - content(run).items()), 0)


def disk(folder: Path, run: Path, update: list[str | Path]) -> None:
    """Let the disk run full, then give it room."""
    before, wrong, said = content(run), list[str](), folder / "said"
    alone(said, *update, "--out", folder / "roomy")
    place = folder / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZES[0]}k", "tmpfs", str(place)], check=True)
    try:
        words: list[str | Path] = [*update, "--out", place / "next", "--store", place / "kept"]
        for size in SIZES:
            subprocess.run(["mount", "-o", f"remount,size={size}k", str(place)], check=True)
            child = start(said, *words)
            child.join()
            lines = said.read_text().splitlines()
            full = [line for line in lines if "No space left" in line]
            print(f"{size} kB: exit code {child.exitcode}; {full}", flush=True)
            if child.exitcode == 0 or len(full) != 1 or full != lines[-1:]:
                wrong.append(f"{size} kB")
        verdict("full disks without one clear line", len(wrong), 0)
        subprocess.run(["mount", "-o", f"remount,size={ENOUGH}", str(place)], check=True)
        alone(said, *words)
        found = differing(open_run(place / "next"), open_run(folder / "roomy"))
        verdict("files that differ once there was room", len(found), 0)
        verdict("files of the run before that changed", len(before.items() - content(run).items()), 0)
    finally:
        subprocess.run(["umount", str(place)], check=False)


CASES = {"kills": kills, "disk": disk}

if __name__ == "__main__":
    given = read_options(
        __doc__,
        cases=Option(tuple(CASES), "which of them"),
        kills=Option(6, "number of kills", quick=2),
    )
    with tempfile.TemporaryDirectory() as temporary:
        made_run, words_of_update = made(Path(temporary))
        for case in given.cases:
            CASES[case](Path(temporary), made_run, words_of_update)
