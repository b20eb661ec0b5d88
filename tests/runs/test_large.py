"""Large logs: decisions and a model with the bytes of a training in memory on what is disclosed."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from assent.lab import SERIAL, Executor
from assent.runs.export import export
from assent.runs.folder import open_run
from assent.runs.large import LargePlan, fit_large, open_any
from assent.support.errors import AssentError
from assent.support.files import read_json
from assent.testing.partitions import mixed_partitions
from assent.training import Settings

SIZE: dict[str, Any] = {"users": 5000, "items": 300, "rows": 30_000}
SETTINGS = Settings.model_validate(
    {"model": "ials", "model_settings": {"dimension": 4}, "training": {"epochs": 2}}
)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return mixed_partitions(tmp_path_factory.mktemp("log"), 3, **SIZE)


def files_of(folder: Path) -> dict[str, bytes]:
    files = [
        file for file in folder.rglob("*") if file.is_file() and file.name not in ("done.json", "large.json")
    ]
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def decisions_of(folder: Path) -> pl.DataFrame:
    return pl.concat(pl.read_parquet(file) for file in sorted((folder / "decisions").iterdir()))


def test_withheld_rows_change_no_byte_of_the_model(source: Path, tmp_path: Path) -> None:
    made = fit_large(source, tmp_path / "out", LargePlan(shards=2), SETTINGS)
    decided = decisions_of(tmp_path / "out")
    counts = dict(decided.group_by("decision").len().iter_rows())
    assert counts == {name: made.figures[name] for name in ("disclosed", "withheld", "never")}
    assert 0.45 < made.figures["violation_share"] <= 0.5
    assert len(decided) == SIZE["rows"]
    other = tmp_path / "disclosed"
    other.mkdir()
    for file in source.iterdir():  # what is not disclosed is not there
        said = pl.read_parquet(tmp_path / "out" / "decisions" / file.name)["decision"]
        pl.read_parquet(file).filter(said == "disclosed").write_parquet(other / file.name)
    fit_large(other, tmp_path / "again", LargePlan(method="all", shards=5), SETTINGS)
    for name in ("model.safetensors", "model.json"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "out" / name).read_bytes()
    assert not (tmp_path / "out" / ".work").exists()


class KilledError(Exception):
    pass


class Dying:
    """Ends after so many lists of jobs."""

    workers = 1

    def __init__(self, left: int) -> None:
        self.left = left

    def map(self, *arguments: Any) -> list[Any]:
        self.left -= 1
        if self.left < 0:
            raise KilledError
        return SERIAL.map(*arguments)


def test_a_killed_command_goes_on_and_changes_no_byte(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = LargePlan(method="occurrence", budget=0.3, shards=2)
    fit_large(source, tmp_path / "whole", plan, SETTINGS)
    monkeypatch.setattr("assent.lab.sharded.SAVE_EVERY", 0.0)
    lists, executor = 0, Dying(0)
    while True:
        try:
            fit_large(source, tmp_path / "killed", plan, SETTINGS, executor=executor)
            break
        except KilledError:
            lists += 1
            executor = Dying(lists)
    assert files_of(tmp_path / "killed") == files_of(tmp_path / "whole")
    assert lists < 20


def test_folders_and_settings_are_guarded(source: Path, tmp_path: Path) -> None:
    executor: Executor = SERIAL
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("mine")
    with pytest.raises(AssentError, match="holds no large log's model"):
        fit_large(source, tmp_path / "mine", LargePlan(), SETTINGS, replace=True)
    out = tmp_path / "out"
    with pytest.raises(KilledError):
        fit_large(source, out, LargePlan(), SETTINGS, executor=Dying(2))
    with pytest.raises(AssentError, match="unfinished work on other data or settings"):
        fit_large(source, out, LargePlan(budget=0.2), SETTINGS)
    fit_large(source, out, LargePlan(budget=0.2), SETTINGS, replace=True, executor=executor)
    with pytest.raises(AssentError, match="holds a finished model"):
        fit_large(source, out, LargePlan(budget=0.2), SETTINGS)


@pytest.mark.parametrize("name", ["more/part.parquet", "more.csv"])
def test_what_would_not_be_read_among_partitions_is_refused(name: str, source: Path, tmp_path: Path) -> None:
    parts = tmp_path / "parts"
    (parts / name).parent.mkdir(parents=True)
    first = sorted(source.iterdir())[0]
    (parts / first.name).write_bytes(first.read_bytes())
    (parts / "_SUCCESS").touch()
    (parts / name).touch()
    with pytest.raises(AssentError, match=r"more.* would not be read"):
        fit_large(parts, tmp_path / "out", LargePlan(), SETTINGS)
    assert not (tmp_path / "out").exists()


def test_a_model_is_not_made_among_the_partitions(source: Path) -> None:
    with pytest.raises(AssentError, match="it lies in the folder of partitions"):
        fit_large(source, source / "out", LargePlan(), SETTINGS)
    assert not (source / "out").exists()


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ({"method": "worth"}, "method=worth: accepted: all, threshold, occurrence, value"),
        ({"method": "value"}, "values: accepted: a column"),
        ({"price": 1.0}, "price: accepted"),
        ({"budget": 1.5}, r"budget=1\.5: accepted: a number from 0 to 1"),
        ({"method": "all", "budget": 0.5}, "method all discloses everything"),
        ({"closed": 1.5}, r"closed=1\.5: accepted: a number from 0 to 1; interactions above it are withheld"),
    ],
)
def test_plans_that_make_no_sense_are_refused(
    plan: dict[str, Any], said: str, source: Path, tmp_path: Path
) -> None:
    with pytest.raises(AssentError, match=said):
        fit_large(source, tmp_path / "new", LargePlan(**plan), SETTINGS)
    assert not (tmp_path / "new").exists()


def test_what_was_made_recommends_and_is_exported_like_a_run(source: Path, tmp_path: Path) -> None:
    out, export_to = tmp_path / "out", tmp_path / "export"
    fit_large(source, out, LargePlan(budget=0.3, closed=0.9), SETTINGS)
    made, decided = open_any(out), decisions_of(out)
    kinds = set(decided["decision"])
    assert kinds == {"disclosed", "withheld", "never", "closed"}
    person = decided.filter(pl.col("decision") == "never")["user"][0]
    had = set(decided.filter(pl.col("user") == person)["item"])
    found = made.recommend([person, "nobody"], k=SIZE["items"])
    shown = {user: table for (user,), table in found.partition_by("user", as_dict=True).items()}
    assert set(shown[person]["item"]) == set(made.trained.item_ids) - had
    assert set(shown["nobody"]["basis"]) == {"general"}
    [most, *_] = decided.filter(pl.col("decision") == "disclosed")["item"].value_counts(sort=True)["count"]
    assert shown["nobody"]["score"][0] == most / len(made.trained.user_ids)
    assert set(made.recommend(person, k=SIZE["items"], include=["never"])["item"]) > set(
        shown[person]["item"]
    )
    export(made, export_to, formats=["safetensors"])
    ids = read_json(export_to / "ids.json")
    assert ids["users"] == made.trained.user_ids.tolist()
    with pytest.raises(AssentError, match="the model of a large log, which can be recommended from"):
        open_run(out)
    (out / "done.json").unlink()
    with pytest.raises(AssentError, match="no finished model of a large log"):
        open_any(out)


def test_given_values_are_decided_on_at_a_price(tmp_path: Path) -> None:
    source = tmp_path / "log"
    source.mkdir()
    rows = {"user": ["a", "a", "b"], "item": ["x", "y", "x"], "unwillingness": [0.5, 0.5, 0.0]}
    pl.DataFrame(rows | {"worth": [0.6, 0.4, 0.0]}).write_parquet(source / "a.parquet")
    plan = LargePlan(method="value", values="worth", price=1.0)
    fit_large(source, tmp_path / "out", plan, SETTINGS)
    assert decisions_of(tmp_path / "out")["decision"].to_list() == ["disclosed", "withheld", "withheld"]
