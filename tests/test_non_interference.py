"""The promise: what is withheld may not change a byte of the final model.

Each test trains twice with the same seed, the second time on a log in which something about the withheld
rows is different, and compares the files. The validation and test rows stay as they are.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from safetensors import safe_open

from assent.data.interactions import NO_ITEMS, Interactions
from assent.lab import Lab, Store, Training
from assent.methods import make_method
from assent.models import MFSettings
from assent.runs.plan import RunPlan
from assent.runs.run import fit
from assent.support.progress import SILENT, Advance, Progress
from assent.testing.subject import (
    CHANGES,
    Change,
    add_rows,
    change_unwillingness,
    drop_all,
    drop_one,
    drop_some,
    invent_items,
    is_withheld,
    problem_of,
    split_log,
)
from assent.training import Settings, Trained, TrainingSettings, disclose, train
from assent.training.stored import save

MODEL = MFSettings(dimension=4)
STEADY = TrainingSettings(epochs=4, learning_rate=0.05, batch_size=64, evaluate_every=2)
HASTY = TrainingSettings(epochs=8, learning_rate=0.3, batch_size=64, evaluate_every=1, patience=1)
"""Early stopping decides here, and early."""

Files = dict[str, bytes]
Fitted = tuple[Files, dict[str, object], list[object]]
"""A model, the settings that were found for it, and what was tried."""


def fitted(
    table: pl.DataFrame,
    settings: TrainingSettings,
    *,
    progress: Progress = SILENT,
    path: Path | None = None,
) -> Trained:
    return train(
        disclose(*problem_of(table)),
        model="mf",
        model_settings=MODEL,
        settings=settings,
        seed=7,
        progress=progress,
        checkpoint=path,
        save_every=0,
    )


def files_of(trained: Trained, folder: Path) -> Files:
    save(trained, folder / "model")
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def model_files(table: pl.DataFrame, settings: TrainingSettings, folder: Path) -> Files:
    return files_of(fitted(table, settings), folder)


@pytest.mark.parametrize("settings", [STEADY, HASTY], ids=["steady", "hasty"])
@pytest.mark.parametrize("change", CHANGES)
def test_withheld_rows_leave_no_trace_in_the_model(
    change: Change, settings: TrainingSettings, tmp_path: Path
) -> None:
    table = split_log(seed=0, share=0.6)
    changed = change(table, np.random.default_rng(1))
    assert not changed.equals(table)
    assert (
        changed.filter(~is_withheld(changed))
        .sort("user", "item")
        .equals(table.filter(~is_withheld(table)).sort("user", "item"))
    )
    assert model_files(changed, settings, tmp_path / "b") == model_files(table, settings, tmp_path / "a")


@examples(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 1000),
    share=st.sampled_from([0.0, 0.1, 0.5, 0.9]),
    changes=st.lists(st.sampled_from(CHANGES), min_size=1, max_size=4),
    settings=st.sampled_from([STEADY, HASTY]),
)
def test_no_series_of_changes_leaves_a_trace(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    share: float,
    changes: list[Change],
    settings: TrainingSettings,
) -> None:
    table = split_log(seed, share)
    rng = np.random.default_rng(seed)
    changed = table
    for change in changes:
        changed = change(changed, rng)
    assume((changed.filter(split="train")["unwillingness"] < 1).any())  # a problem needs a training row
    folder = tmp_path_factory.mktemp("models")
    assert model_files(changed, settings, folder / "b") == model_files(table, settings, folder / "a")


def test_withheld_rows_leave_no_trace_where_file_order_is_all_that_is_known(tmp_path: Path) -> None:
    table = split_log(seed=0, share=0.6).with_columns(time=pl.lit(None, dtype=pl.Float64))
    changed, rng = table, np.random.default_rng(1)
    for change in (drop_some, invent_items, add_rows, change_unwillingness):
        changed = change(changed, rng).with_columns(time=pl.lit(None, dtype=pl.Float64))
    assert model_files(changed, STEADY, tmp_path / "b") == model_files(table, STEADY, tmp_path / "a")


def first_disclosed(table: pl.DataFrame) -> pl.Series:
    """Which row is the first that is disclosed."""
    return pl.Series(np.arange(table.height) == table["disclosed"].arg_true()[0])


def one_disclosed_less(table: pl.DataFrame) -> pl.DataFrame:
    return table.with_columns(disclosed=pl.col("disclosed") & ~first_disclosed(table))


def one_disclosed_gone(table: pl.DataFrame) -> pl.DataFrame:
    return table.filter(~first_disclosed(table))


def one_disclosed_more(table: pl.DataFrame) -> pl.DataFrame:
    more = np.arange(table.height) == is_withheld(table).arg_true()[0]
    return table.with_columns(disclosed=pl.col("disclosed") | pl.Series(more))


def one_disclosed_swapped(table: pl.DataFrame) -> pl.DataFrame:
    here = first_disclosed(table)
    theirs = set(table.filter(user=table.filter(here)["user"][0])["item"])
    other = next(item for item in sorted(set(table.filter("disclosed")["item"])) if item not in theirs)
    return table.with_columns(item=pl.when(here).then(pl.lit(other)).otherwise(pl.col("item")))


@pytest.mark.parametrize("settings", [STEADY, HASTY], ids=["steady", "hasty"])
@pytest.mark.parametrize(
    "change", [one_disclosed_less, one_disclosed_gone, one_disclosed_more, one_disclosed_swapped]
)
def test_a_single_disclosed_row_does_leave_a_trace(
    change: Callable[[pl.DataFrame], pl.DataFrame], settings: TrainingSettings, tmp_path: Path
) -> None:
    table = split_log(seed=0, share=0.6)
    before = model_files(table, settings, tmp_path / "a")
    after = model_files(change(table), settings, tmp_path / "b")
    assert after["model.safetensors"] != before["model.safetensors"]


def test_what_is_withheld_is_withheld_and_dropped_alike(tmp_path: Path) -> None:
    """To withhold a disclosed row and to delete it are the same to the model."""
    table = split_log(seed=0, share=0.6)
    less = model_files(one_disclosed_less(table), STEADY, tmp_path / "a")
    assert model_files(one_disclosed_gone(table), STEADY, tmp_path / "b") == less


def test_early_stopping_decides_in_the_hasty_setting() -> None:
    kept = fitted(split_log(seed=0, share=0.6), HASTY).epochs
    assert 1 <= kept < HASTY.epochs - 1


def test_the_model_names_nobody_and_nothing_withheld(tmp_path: Path) -> None:
    table = invent_items(split_log(seed=0, share=0.6), np.random.default_rng(0))
    files = model_files(table, STEADY, tmp_path)
    about = json.loads(files["model.json"])
    disclosed = table.filter("disclosed")
    assert about["user_ids"] == sorted(set(disclosed["user"]))
    assert about["item_ids"] == sorted(set(disclosed["item"]))
    assert about["sizes"]["rows"] == disclosed.height
    assert b"new" not in files["model.json"] + files["model.safetensors"]


class KilledError(Exception):
    """The process ended here."""


class Killer:
    """Ends a training after its third epoch."""

    @contextmanager
    def task(self, label: str, total: int) -> Iterator[Advance]:
        done = iter(range(1, total + 1))

        def advance() -> None:
            if next(done) == 3:
                raise KilledError

        yield advance


def checkpoint_of(table: pl.DataFrame, settings: TrainingSettings, path: Path) -> dict[str, object]:
    """What a training that is killed leaves at `path`."""
    with pytest.raises(KilledError):
        fitted(table, settings, progress=Killer(), path=path)
    with safe_open(path, framework="np") as file:
        tensors = {name: file.get_tensor(name).tobytes() for name in file.keys()}  # noqa: SIM118
        metadata: dict[str, object] = file.metadata()
    assert metadata.pop("seconds")
    return tensors | metadata


@pytest.mark.parametrize("change", CHANGES)
def test_withheld_rows_leave_no_trace_in_a_checkpoint(change: Change, tmp_path: Path) -> None:
    table = split_log(seed=0, share=0.6)
    changed = change(table, np.random.default_rng(1))
    before, after = (
        checkpoint_of(each, STEADY, tmp_path / name) for each, name in ((table, "a"), (changed, "b"))
    )
    assert before == after
    # Either log continues the training of the other.
    resumed = files_of(fitted(changed, STEADY, path=tmp_path / "a"), tmp_path / "resumed")
    assert resumed == model_files(table, STEADY, tmp_path / "whole")


def test_what_the_anchors_know_does_not_reach_the_final_model(tmp_path: Path) -> None:
    """A lab that has trained on withheld rows, and kept that on disk, does not pass it on."""
    table = split_log(seed=0, share=0.6)
    settings = Settings(model="mf", model_settings=MODEL, training=STEADY)
    problem, selection = problem_of(table)
    lab = Lab(problem, settings, 7, Store(tmp_path / "work"))
    for name in ("worth", "ifrqe++"):
        make_method(name).at_price(lab, 0.1)
    [after] = lab.train([Training(selection)])
    clean, its_selection = problem_of(drop_all(table, np.random.default_rng(0)))
    [alone] = Lab(clean, settings, 7).train([Training(its_selection)])
    assert files_of(after, tmp_path / "a") == files_of(alone, tmp_path / "b")


def fit_files(table: pl.DataFrame, folder: Path) -> Fitted:
    """The model of a whole fit, with a search for its settings, and the attempts of that search.

    What is withheld is minded too much, whatever else it is, so that the same rows are disclosed.
    """
    minded = pl.when("disclosed").then(0.2).otherwise(0.9)
    table = table.with_columns(unwillingness=minded)
    settings = Settings.model_validate(
        {"model": "ials", "model_settings": {"dimension": 4}, "training": {"epochs": 4}, "tune": "quick"}
    )
    plan = RunPlan(make_method("threshold", limit=0.5), price=0.1, seed=7)
    fit(Interactions("log", table, NO_ITEMS), problem_of(table)[0], folder, plan, settings)
    tried = json.loads((folder / "tuning.json").read_text())["disclosed"]
    files = {file.name: file.read_bytes() for file in folder.glob("model.*")}
    return files, tried["found"], tried["attempts"]


@pytest.fixture(scope="module")
def fit_before(tmp_path_factory: pytest.TempPathFactory) -> Fitted:
    return fit_files(split_log(seed=0, share=0.6), tmp_path_factory.mktemp("fit") / "run")


@pytest.mark.parametrize("change", [drop_one, drop_all, invent_items, add_rows])
def test_withheld_rows_leave_no_trace_in_a_fit_that_searches_its_settings(
    change: Change, fit_before: Fitted, tmp_path: Path
) -> None:
    changed = change(split_log(seed=0, share=0.6), np.random.default_rng(1))
    assert fit_files(changed, tmp_path / "run") == fit_before
    files, _, attempts = fit_before
    assert files.keys() == {"model.json", "model.safetensors"}
    assert attempts
