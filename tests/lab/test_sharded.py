"""iALS over shards of a log in partitions: the bytes of the solver that holds everything."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from assent.data.simulate import simulate, simulate_parts
from assent.lab import SERIAL, Executor, Processes
from assent.lab.partitions import make_shards, parts_of
from assent.lab.sharded import train_sharded
from assent.support.errors import AssentError
from assent.testing.partitions import in_memory, mixed_partitions
from assent.training import Settings, Trained, train
from assent.training.stored import as_files

SIZE: dict[str, Any] = {"users": 9000, "items": 5000, "rows": 60_000}
"""Three blocks of people, two of items; the last ones are not full."""
SETTINGS = Settings.model_validate(
    {"model": "ials", "model_settings": {"dimension": 8}, "training": {"epochs": 3}}
)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return mixed_partitions(tmp_path_factory.mktemp("log"), 4, **SIZE)


def trained_in_memory(source: Path) -> Trained:
    """Train on the same log by the solver that holds everything."""
    tables = [pl.read_parquet(file) for file in sorted(source.iterdir())]
    data = in_memory([table.filter(pl.col("unwillingness") < 1) for table in tables])
    how = SETTINGS.model_settings, SETTINGS.training
    return train(data, model="ials", model_settings=how[0], settings=how[1], seed=3)


def sharded(source: Path, folder: Path, executor: Executor, count: int = 3) -> Trained:
    shards = make_shards(parts_of(source), folder, count=count, executor=executor)
    return train_sharded(shards, SETTINGS, seed=3, executor=executor)


def files(trained: Trained) -> dict[str, bytes]:
    return as_files(trained, "model")


@pytest.mark.parametrize("count", [1, 2, 5])
def test_shards_have_the_bytes_of_the_solver_that_holds_everything(
    source: Path, tmp_path: Path, count: int
) -> None:
    assert files(sharded(source, tmp_path / "shards", SERIAL, count)) == files(trained_in_memory(source))


def test_processes_have_the_same_bytes(source: Path, tmp_path: Path) -> None:
    with Processes(2) as processes:
        found = files(sharded(source, tmp_path / "two", processes))
    assert found == files(sharded(source, tmp_path / "one", SERIAL))


def test_no_row_that_the_door_turns_away_is_written(source: Path, tmp_path: Path) -> None:
    shards = make_shards(parts_of(source), tmp_path / "all", count=2, executor=SERIAL)
    table = pl.concat([pl.read_parquet(file) for file in source.iterdir()])
    assert shards.rows == table.filter(pl.col("unwillingness") < 1).height < table.height
    fewer = make_shards(parts_of(source, closed=0.5), tmp_path / "few", count=2, executor=SERIAL)
    assert fewer.rows == table.filter(pl.col("unwillingness") <= 0.5).height


def write(folder: Path, **columns: list[Any]) -> Path:
    folder.mkdir()
    pl.DataFrame(columns).write_parquet(folder / "a.parquet")
    return folder


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"user": ["a"]}, r"a\.parquet: no column item; accepted: user, item, unwillingness"),
        ({"user": ["a"], "item": ["x"]}, r"a\.parquet: no column unwillingness"),
        ({"user": ["a", None], "item": ["x", "y"], "unwillingness": [0.1, 0]}, r"a\.parquet, row 2: no user"),
        ({"user": ["a", "b"], "item": ["x", "y"], "unwillingness": [0.1, None]}, "row 2: no unwillingness"),
        ({"user": ["a", "b"], "item": ["x", "y"], "unwillingness": [0.1, 1.5]}, "row 2: unwillingness 1.5"),
        ({"user": ["a", "a"], "item": ["x", "x"], "unwillingness": [0.1, 0.1]}, "a person has an item twice"),
        ({"user": ["a", "a"], "item": ["x", "x"], "unwillingness": [0.1, 1]}, "a person has an item twice"),
    ],
)
def test_what_cannot_be_read_is_refused(columns: dict[str, list[Any]], said: str, tmp_path: Path) -> None:
    with pytest.raises(AssentError, match=said):
        make_shards(
            parts_of(write(tmp_path / "log", **columns)), tmp_path / "shards", count=2, executor=SERIAL
        )


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AssentError, match=r"no \.parquet file in it"):
        parts_of(tmp_path)


@pytest.mark.parametrize("parts", [1, 3, 7])
def test_parts_of_a_simulation_are_the_simulation(parts: int) -> None:
    size: dict[str, Any] = {"users": 300, "items": 200, "rows": 4000, "seed": 2}
    found = list(simulate_parts(parts, **size))
    assert len(found) == parts
    assert pl.concat([part.table for part in found]).equals(simulate(**size).table)
