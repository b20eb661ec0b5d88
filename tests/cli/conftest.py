"""A tiny log on disk, and settings that train in a moment."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from assent.data.simulate import simulate

QUICK = ["--set", "training.epochs=3", "--set", "model_settings.dimension=4", "--negatives", "20"]
"""Settings for tests: a fit takes about a second."""


@pytest.fixture(scope="session")
def log_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    log = simulate(preference="learnable", users=60, items=50, seed=0)
    table = log.table.join(log.items, on="item", how="left", maintain_order="left")
    path = tmp_path_factory.mktemp("data") / "log.csv"
    table.with_columns(table["category"].list.join("|")).write_csv(path)
    return path


@pytest.fixture(scope="session")
def run_folder(log_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    command = [str(Path(sys.executable).with_name("assent")), "fit", str(log_file), "--out", str(folder)]
    subprocess.run([*command, *QUICK, "--anchors", "2"], check=True, capture_output=True)
    return folder


def records(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text())
    return found
