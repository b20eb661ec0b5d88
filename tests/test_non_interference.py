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

from assent.arrays import Bools
from assent.data.interactions import NO_ITEMS, Interactions
from assent.data.problem import Problem
from assent.data.simulator import simulate
from assent.data.split import make_problem_from_parts, parts_of
from assent.models import MFSettings
from assent.progress import SILENT, Advance, Progress
from assent.settings import Settings
from assent.training import Trained, TrainingSettings, checkpoint, disclose, train
from assent.training.storage import save
from assent.workbench import Workbench

MODEL = MFSettings(dimension=4)
STEADY = TrainingSettings(epochs=4, learning_rate=0.05, batch_size=64, evaluate_every=2)
HASTY = TrainingSettings(epochs=8, learning_rate=0.3, batch_size=64, evaluate_every=1, patience=1)
"""Early stopping decides here, and early."""

Files = dict[str, bytes]
Change = Callable[[pl.DataFrame, np.random.Generator], pl.DataFrame]


def split_log(seed: int, share: float) -> pl.DataFrame:
    """A log with columns for its split and for what is disclosed: about `share` of the training rows.

    Every fifth user discloses nothing at all.
    """
    log = simulate(preference="learnable", users=30, items=40, seed=seed).table
    from_end = pl.len().over("user") - pl.int_range(pl.len()).over("user")
    split = pl.when(from_end == 1).then(pl.lit("test")).when(from_end == 2).then(pl.lit("valid"))
    lots = pl.Series(np.random.default_rng(seed).random(log.height) < share)
    secretive = pl.col("user").str.slice(1).cast(pl.Int64) % 5 == 0
    table = log.with_columns(split=split.otherwise(pl.lit("train")))
    return table.with_columns(disclosed=lots & ~secretive & (pl.col("split") == "train"))


def is_withheld(table: pl.DataFrame) -> pl.Series:
    return (table["split"] == "train") & ~table["disclosed"]


def problem_of(table: pl.DataFrame) -> tuple[Problem, Bools]:
    """The problem of a split log, and the selection of the rows that it marks as disclosed."""
    parts = parts_of(Interactions("log", table, NO_ITEMS))
    problem = make_problem_from_parts(*parts, negatives=1)
    disclosed = set(table.filter("disclosed").select("user", "item").iter_rows())
    users, items = problem.user_ids[problem.train.users], problem.item_ids[problem.train.items]
    selection = [pair in disclosed for pair in zip(users.tolist(), items.tolist(), strict=True)]
    assert sum(selection) == len(disclosed)
    return problem, np.array(selection, dtype=np.bool_)


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
    )


def files_of(trained: Trained, folder: Path) -> Files:
    save(trained, folder / "model")
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def model_files(table: pl.DataFrame, settings: TrainingSettings, folder: Path) -> Files:
    return files_of(fitted(table, settings), folder)


def drop_all(table: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    return table.filter(~is_withheld(table))


def drop_some(table: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    return table.filter(~(is_withheld(table) & pl.Series(rng.random(table.height) < 0.5)))


def drop_one(table: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    places = is_withheld(table).arg_true()
    if not len(places):
        return table
    gone = places[int(rng.integers(len(places)))]
    return table.filter(pl.int_range(pl.len()) != gone)


def drop_secretive_users(table: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """Those who withhold all of their training rows leave the training rows altogether."""
    candid = table.filter("disclosed")["user"].unique().implode()
    return table.filter((pl.col("split") != "train") | pl.col("user").is_in(candid))


def swap_items(table: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """Each withheld row turns into one of another item of the log that its user does not have."""
    every = sorted(set(table["item"]))
    theirs = {user: set(rows["item"]) for (user,), rows in table.group_by("user")}
    items = table["item"].to_list()
    for place in is_withheld(table).arg_true():
        user = table["user"][place]
        items[place] = str(rng.choice([item for item in every if item not in theirs[user]]))
        theirs[user].add(items[place])
    return table.with_columns(item=pl.Series(items))


def invent_items(table: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """Each withheld row turns into one of an item that no other row has; some sort first, some last."""
    names = [f"{'!~'[int(rng.integers(2))]}new {rng.integers(10**9)}-{row}" for row in range(table.height)]
    return table.with_columns(
        item=pl.when(is_withheld(table)).then(pl.Series(names)).otherwise(pl.col("item"))
    )


def change_unwillingness(table: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """Also to "never", which drops the row before anything else."""
    drawn = pl.Series(rng.choice([0.0, 0.2, 0.999, 1.0], table.height))
    value = pl.when(is_withheld(table)).then(drawn).otherwise(pl.col("unwillingness"))
    return table.with_columns(unwillingness=value)


def change_times(table: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """Also to times after the validation and test rows."""
    drawn = pl.Series(rng.choice([-1.0, 0.5, 1e9], table.height))
    return table.with_columns(time=pl.when(is_withheld(table)).then(drawn).otherwise(pl.col("time")))


def shuffle(table: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    return table[rng.permutation(table.height)]


def add_rows(table: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """Everybody, and some new users, withhold a row more."""
    users = ["!new user", *sorted(set(table["user"])), "~new user"]
    added = pl.DataFrame(
        {
            "user": users,
            "item": [f"added {rng.integers(10**9)}" for _ in users],
            "time": rng.random(len(users)) * 10,
            "unwillingness": rng.random(len(users)),
            "split": ["train"] * len(users),
            "disclosed": [False] * len(users),
        }
    )
    return pl.concat([added.select(table.columns), table])


CHANGES: list[Change] = [
    drop_all,
    drop_some,
    drop_one,
    drop_secretive_users,
    swap_items,
    invent_items,
    change_unwillingness,
    change_times,
    shuffle,
    add_rows,
]


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
    hers = set(table.filter(user=table.filter(here)["user"][0])["item"])
    other = next(item for item in sorted(set(table.filter("disclosed")["item"])) if item not in hers)
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
    return tensors | metadata


@pytest.mark.parametrize("change", CHANGES)
def test_withheld_rows_leave_no_trace_in_a_checkpoint(
    change: Change, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "_SECONDS_BETWEEN_SAVES", 0)
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
    """A workbench that has trained on withheld rows, and kept that on disk, does not pass it on."""
    table = split_log(seed=0, share=0.6)
    settings = Settings(model_settings=MODEL, training=STEADY)
    problem, selection = problem_of(table)
    bench = Workbench(problem, settings, seed=7, folder=tmp_path / "work")
    bench.estimates(2)
    after_anchors = files_of(bench.final(selection), tmp_path / "a")

    clean, its_selection = problem_of(drop_all(table, np.random.default_rng(0)))
    alone = Workbench(clean, settings, seed=7).final(its_selection)
    assert after_anchors == files_of(alone, tmp_path / "b")
