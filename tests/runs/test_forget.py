"""Forgetting leaves no byte: every file of the run and of its stores is searched, tables cell by cell."""

import html
import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from assent import Store, open_run
from assent.runs.forget import forget
from assent.runs.history import update_of
from assent.runs.prompt import prompt_update
from assent.runs.update import update
from assent.testing.updates import Way, fresh, log_of, some_table
from assent.training import Settings

PERSON, ITEM = "zoë-7f3a", 'a rare book, 2nd "edition"'
"""Whoever withdraws everything, and the item of a row that others do not have."""
IALS = Settings.model_validate({"model": "ials", "training": {"epochs": 2}, "tune": "none"})
pytestmark = pytest.mark.filterwarnings("ignore")


def holds(file: Path, name: str) -> bool:
    """Whether a file has a name in any writing: as it is, as JSON, as HTML, or in a table."""
    as_json = {json.dumps(name, ensure_ascii=each)[1:-1] for each in (True, False)}
    writings = {name, html.escape(name), *as_json}
    if any(each.encode() in file.read_bytes() for each in writings):
        return True
    return file.suffix == ".parquet" and any(each in pl.read_parquet(file).write_json() for each in as_json)


@pytest.mark.parametrize("kind", ["shards", "prompt between"])
def test_no_file_has_a_byte_of_what_is_forgotten(kind: str, tmp_path: Path) -> None:
    table = some_table(np.random.default_rng(3)).with_columns(
        user=pl.col("user").replace("u04", PERSON), item=pl.col("item").replace("i05", ITEM)
    )
    alone = (pl.col("item") != ITEM) | (pl.int_range(pl.len()).over("item") == 0)  # of one person only
    table = table.filter(alone)
    now = table.filter(pl.col("user") != PERSON, pl.col("item") != ITEM)
    assert table.height - now.height > 4
    store = None if kind == "shards" else Store(tmp_path / "kept")
    run = fresh(table, tmp_path / "run", Way(IALS, shards=2 if kind == "shards" else None), store)
    if kind == "prompt between":
        run = prompt_update(run, log_of(now), tmp_path / "soon", check=True)
    after = update(run, log_of(now), tmp_path / "next", store=store)
    known = [each["folder"] for each in (update_of(after) or {})["runs_before"]]
    assert any(holds(file, name) for name in (PERSON, ITEM) for file in (tmp_path / "run").rglob("*.*"))
    found = forget(open_run(after.folder))
    assert found.found == ()
    assert sorted(found.runs) == sorted(known)
    left = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert len(left) >= len(after.manifest.files)
    assert [file for file in left for name in (PERSON, ITEM) if holds(file, name)] == []
