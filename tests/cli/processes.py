"""The command in processes forked from one that has loaded the libraries: no seconds to start."""

import multiprocessing
import os
import sys
from collections.abc import Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path

from assent.lab.executor import Processes


def start(words: Sequence[object], told: Path, *, kill_at: str = "") -> BaseProcess:
    """Start `assent WORDS`; what it prints goes to the file `told`.

    It kills itself when the task `kill_at` begins.
    """
    with Processes(1):  # starts the server that also forks assent's own workers
        context = multiprocessing.get_context("forkserver")
        process = context.Process(target=_run, args=([*map(str, words)], told, kill_at))
        process.start()
    return process


def killed_at(label: str, *arguments: object, command: str = "fit") -> int:
    """Give a command in a process that kills itself when the task `label` begins; return the exit code."""
    process = start([command, *arguments], Path(os.devnull), kill_at=label)
    process.join()
    return process.exitcode or 0


def _run(words: list[str], told: Path, kill_at: str) -> None:
    from assent.cli.app import main

    with open(told, "w") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    if kill_at:
        _kill_at(kill_at)
    sys.argv = ["assent", *words]
    main()


def _kill_at(label: str) -> None:
    from assent.cli import fit_commands, update_commands
    from assent.support.progress import SILENT

    class Killer:
        def task(self, begun: str, total: int) -> object:
            if begun == label:
                os.kill(os.getpid(), 9)
            return SILENT.task(begun, total)

    for commands in (fit_commands, update_commands):
        vars(commands)["watcher"] = Killer
