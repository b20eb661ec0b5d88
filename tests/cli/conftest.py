"""A tiny log on disk, and settings that train in a moment."""

import json
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

from assent.cli.app import app
from assent.data.simulate import simulate
from assent.runs.manifest import MANIFEST

QUICK = [
    "--set", "training.epochs=2", "--set", "model_settings.dimension=4", "--negatives", "20", "--jobs", "1",
]  # fmt: skip
"""Settings for tests: a fit takes less than a second, without other processes."""
PRICED = [*QUICK, "--price", "2", "--seeds", "1"]
"""The same for one seed, at a price that withholds a part of the log."""


@pytest.fixture(scope="session")
def log_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    log = simulate(preference="learnable", users=60, items=50, seed=0)
    table = log.table.join(log.items, on="item", how="left", maintain_order="left")
    path = tmp_path_factory.mktemp("data") / "log.csv"
    table.with_columns(table["category"].list.join("|")).write_csv(path)
    return path


@pytest.fixture(scope="session")
def run_folder(log_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of the default method."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    done = CliRunner().invoke(app, ["fit", str(log_file), "--out", str(folder), *PRICED])
    assert done.exit_code == 0, done.output
    return folder


def forged(folder: Path, name: str, content: bytes) -> None:
    """Write a file of a run, and a manifest that has its hash."""
    (folder / name).write_bytes(content)
    about = json.loads((folder / MANIFEST).read_bytes())
    about["files"][name] = sha256(content).hexdigest()
    (folder / MANIFEST).write_text(json.dumps(about))


def forged_table(folder: Path, name: str, table: pl.DataFrame) -> None:
    """Write a table of a run, and a manifest that has its hash."""
    content = BytesIO()
    table.write_parquet(content)
    forged(folder, name, content.getvalue())


def records(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text())
    return found
