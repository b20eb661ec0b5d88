"""`--executor`: every command that computes gives its jobs to whom it says."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import QUICK
from tests.conftest import Assent
from tests.small import Recorded

Used = list[tuple[str | None, int | None, Recorded]]
ADDRESS = "ray://127.0.0.1:6379"
FEW = [each for each in QUICK if each not in ("--jobs", "1")]
COMMANDS: dict[str, list[Any]] = {
    "fit": ["fit", "LOG", "--seeds", 1, *FEW, "--out", "OUT"],
    "update": ["update", "RUN", "--data", "LOG", "--out", "OUT"],
    "frontier": ["frontier", "LOG", "--points", 0.5, "--seeds", 2, "--methods", "threshold", *FEW],
    "compare": ["compare", "LOG", "--prices", "0.1,1", "--repeats", 2, "--methods", "threshold", *FEW],
    "lds": ["lds", "LOG", "--selections", 10, "--truth-seeds", 1, "--set", "worth.folds=2", *FEW],
    "reproduce": [
        "reproduce", "overall", "--models", "mf", "--datasets", "simulation", "--users", 120, "--repeats", 1,
        "--set", "training.epochs=1", "--set", "proactive.rounds=1", "--out", "OUT",
    ],
}  # fmt: skip


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> Used:
    """What Ray was asked for by the command line; its jobs run here, in the last element."""
    pytest.importorskip("ray", reason="ray is not installed: pip install 'assent[ray]'")
    asked: Used = []

    @contextmanager
    def joined(address: str | None, workers: int | None, say: Any) -> Iterator[Recorded]:
        executor = Recorded()
        asked.append((address, workers, executor))
        yield executor

    monkeypatch.setattr("assent.lab.cluster.Ray", joined)
    return asked


@pytest.mark.parametrize("command", COMMANDS)
def test_jobs_go_to_the_cluster_that_is_asked_for(
    command: str,
    used: Used,
    assent: Assent,
    log_file: Path,
    run_folder: Path,
    tmp_path: Path,
) -> None:
    places = {"LOG": log_file, "RUN": run_folder, "OUT": tmp_path / "out"}
    arguments = [places.get(each, each) for each in COMMANDS[command]]
    code, _, err = assent(*arguments, "--executor", ADDRESS)
    assert code == 0, err
    [(address, workers, executor)] = used
    assert (address, workers) == ("127.0.0.1:6379", None)
    assert sum(map(len, executor.lists)) > 1


def test_a_ray_of_this_machine_has_as_many_workers_as_jobs(
    used: Used, assent: Assent, log_file: Path
) -> None:
    arguments = [log_file if each == "LOG" else each for each in COMMANDS["frontier"]]
    assert assent(*arguments, "--executor", "ray", "--jobs", 3)[0] == 0
    assert used[0][:2] == (None, 3)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--executor", "spark"], "--executor spark: accepted: serial, processes, ray, or ray://HOST:PORT"),
        (["--executor", "ray://host"], "--executor ray://host: accepted: serial, processes, ray"),
        (["--executor", "ray://host:port"], "--executor ray://host:port: accepted: serial"),
        (["--executor", "serial", "--jobs", 2], "--jobs 2: --executor serial has one; accepted: --jobs 1"),
        (["--executor", ADDRESS, "--jobs", 2], "--jobs 2: the cluster at 127.0.0.1:6379 has its own number"),
    ],
)
def test_executors_that_make_no_sense_are_refused_in_a_line(
    options: list[Any], said: str, assent: Assent, log_file: Path, tmp_path: Path
) -> None:
    code, _, err = assent("fit", log_file, "--out", tmp_path / "out", *options)
    assert code == 2
    assert said in err
    assert not (tmp_path / "out").exists()
