"""Sharded runs: a change touches one shard, and an update is byte for byte a fresh fit."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from assent.data.interactions import Interactions
from assent.data.live import live_problem
from assent.data.problem import Problem, make_problem
from assent.data.readers import read_interactions
from assent.data.shards import Part, dealt
from assent.data.simulate import simulate
from assent.game.budget import Budget
from assent.lab import Lab
from assent.lab.tuning import Tuned
from assent.methods import make_method
from assent.methods.worth import WorthMethod
from assent.runs.folder import Run, open_run
from assent.runs.forget import forget
from assent.runs.plan import RunPlan
from assent.runs.run import fit, published
from assent.runs.served import Served
from assent.runs.shards import pooled, settings_on_disclosed
from assent.runs.update import update
from assent.runs.verify import verify
from assent.support.arrays import string_keys
from assent.support.errors import AssentError
from assent.support.files import read_json
from assent.support.progress import Advance
from assent.testing.promises import Promise, edited, rows_of, some_log
from assent.training import Settings
from assent.training.stored import as_files
from tests.cli.conftest import forged
from tests.small import QUICK, Listener, rehashed, timeless

SHARDS = 3
PLAN = RunPlan(method=WorthMethod(folds=2), budget=0.5, seeds=1, shards=SHARDS)
LIGHT = replace(PLAN, method=make_method("worth", source="structure"))
"""Values without folds and trials, to fit often."""
FOLDS = "training and influence without each fold"
"""The task of a method that values a problem: two for each shard that is decided on."""


def small_log(users: int = 60) -> Interactions:
    return simulate(preference="learnable", users=users, items=40, seed=2)


def problems(log: Interactions) -> tuple[Problem, Problem]:
    return make_problem(log, "paper-tables", negatives=9), live_problem(log, negatives=9)


def fitted(
    log: Interactions, out: Path, plan: RunPlan = PLAN, settings: Settings = QUICK, **more: object
) -> Run:
    split, live = problems(log)
    return fit(log, split, out, plan, settings, live=live, **more)  # type: ignore[arg-type]


def without(log: Interactions, *rows: int) -> Interactions:
    kept = ~pl.int_range(pl.len()).is_in(rows)
    return replace(log, table=log.table.filter(kept))


def shard_of(log: Interactions, row: int) -> int:
    return int(dealt(string_keys([log.table["user"][row]]), SHARDS)[0])


def told(run: Run) -> dict[str, object]:
    """All that an update promises to be the same: the files, without what a clock says."""
    same = ("model.json", "model.safetensors", "selection.parquet", "held_out.parquet", "certificate.json")
    files: dict[str, object] = {name: (run.folder / name).read_bytes() for name in (*same, "quality.json")}
    for name, search in run.tuning.items():
        files[name] = {key: value for key, value in search.items() if key != "seconds"}
    shards = [{key: each[key] for key in each if key != "hash"} for each in run.shards]
    return files | {"metrics": timeless(list(run.records)), "shards": shards}


def entries(run: Run) -> list[tuple[bytes, bytes]]:
    """The files of each shard."""
    folder = run.folder / "shards"
    return [
        ((folder / f"{each['entry']}.json").read_bytes(),
         (folder / f"{each['entry']}.safetensors").read_bytes())
        for each in run.shards
    ]  # fmt: skip


@pytest.fixture(scope="module")
def log() -> Interactions:
    return small_log()


@pytest.fixture(scope="module")
def run(log: Interactions, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return fitted(log, tmp_path_factory.mktemp("shards") / "run")


@pytest.fixture(scope="module")
def light(log: Interactions, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return fitted(log, tmp_path_factory.mktemp("light") / "run", LIGHT)


def test_one_shard_is_the_whole(log: Interactions, tmp_path: Path) -> None:
    one, whole = (fitted(log, tmp_path / f"{n}", replace(LIGHT, shards=n)) for n in (1, None))
    for name in ("model.json", "model.safetensors", "selection.parquet", "quality.json"):
        assert (one.folder / name).read_bytes() == (whole.folder / name).read_bytes()
    assert one.records[0]["ndcg"] == whole.records[0]["ndcg"]
    assert whole.shards == []


def test_every_row_is_decided_on_within_the_budget_of_every_shard(log: Interactions, run: Run) -> None:
    _, live = problems(log)
    disclosed = run.selection["disclosed"].to_numpy()
    assert run.selection["user"].to_list() == live.user_ids[live.train.users].tolist()
    assert Budget.of(live, 0.5).allows(disclosed)
    of = dealt(live.user_keys, SHARDS)
    for number, each in enumerate(run.shards):
        part = Part(live, of == number).problem
        own = disclosed[of[live.train.users] == number]
        assert Budget.of(part, 0.5).allows(own)
        assert (each["people"], each["disclosed"]) == (part.n_users, own.sum())
        assert part.violation(own) > 0.4 * part.violation()


def test_the_model_knows_what_all_shards_disclose(log: Interactions, run: Run) -> None:
    disclosed = run.selection.filter("disclosed")
    assert run.trained.model.sizes.rows == disclosed.height
    split, live = problems(log)
    assert verify(run.folder, log, split, live=live, again=True) == []
    assert run.recommend(k=3)["user"].n_unique() == live.n_users
    assert f"dealt into {SHARDS} shards" in (run.folder / "report.html").read_text()


def test_an_update_touches_one_shard(log: Interactions, run: Run, tmp_path: Path) -> None:
    """The others are the same bytes, and nothing is trained for them."""
    left, listener = without(log, 7), Listener()
    updated = update(run, left, tmp_path / "updated", progress=listener)
    assert listener.labels.count(FOLDS) == 2
    touched = shard_of(log, 7)
    pairs = zip(entries(run), entries(updated), strict=True)
    assert [then == now for then, now in pairs] == [number != touched for number in range(SHARDS)]
    assert told(updated) == told(fitted(left, tmp_path / "fresh"))
    assert told(updated) != told(run)
    cost = read_json(updated.folder / "update.json")["cost"]
    assert cost["fresh_seconds"] > cost["seconds"]


@pytest.mark.parametrize("left", [0, 1])
def test_the_people_of_a_shard_may_all_withdraw(
    left: int, log: Interactions, light: Run, tmp_path: Path
) -> None:
    """Or all but one with two rows, who can be measured by nobody."""
    of = pl.Series(dealt(string_keys(log.table["user"].to_list()), SHARDS))
    rows = pl.int_range(pl.len()).over("user")
    theirs = log.table.filter(of == 1).filter(rows < 2)
    stay = theirs.filter(pl.col("user") == theirs["user"][0]) if left else theirs.clear()
    now = replace(log, table=log.table.filter(of != 1).vstack(stay))
    updated, alone = update(light, now, tmp_path / "updated"), fitted(now, tmp_path / "alone", LIGHT)
    assert told(updated) == told(alone)
    assert len(updated.shards) == SHARDS - 1
    assert entries(updated)[0] == entries(light)[0]
    assert {*updated.selection["user"]} == {*now.table["user"]}


def test_forgetting_deletes_the_shards_of_the_run_before(
    log: Interactions, light: Run, tmp_path: Path
) -> None:
    before = open_run(shutil.copytree(light.folder, tmp_path / "before"))
    updated = update(before, without(log, 7), tmp_path / "updated")
    done = forget(updated)
    assert done.found == ()
    assert done.searched == len(updated.manifest.files) + SHARDS
    assert not before.folder.exists()
    assert verify(updated.folder) == []


@pytest.mark.parametrize(("seed", "model"), [(0, "mf"), (1, "ials"), (2, "lightgcn")])
def test_updates_after_any_changes_are_fresh_fits(
    seed: int, model: str, log: Interactions, tmp_path: Path
) -> None:
    quick = {"training": {"epochs": 3}, "model_settings": {"dimension": 4}, "tune": "none"}
    settings, rng = Settings.model_validate({"model": model, **quick}), np.random.default_rng(seed)
    first = latest = fitted(log, tmp_path / "first", LIGHT, settings)
    present = log
    for step in range(2):
        present = changed(log, present, rng)
        latest = update(latest, present, tmp_path / f"{step}")
    assert told(latest) == told(fitted(present, tmp_path / "fresh", LIGHT, settings))
    assert told(latest) != told(first)


def changed(log: Interactions, present: Interactions, rng: np.random.Generator) -> Interactions:
    """Withdraw rows or a person, change what others mind, and let something return."""
    table = present.table.filter(pl.Series(rng.random(len(present)) > 0.005))
    if rng.random() < 0.5:
        table = table.filter(pl.col("user") != rng.choice(table["user"].unique().sort().to_numpy()))
    if rng.random() < 0.7:
        some, minded = (pl.Series(rng.random(table.height)) for _ in range(2))
        more = pl.when(some < 0.02).then(minded).otherwise(pl.col("unwillingness"))
        table = table.with_columns(unwillingness=more)
    lost = log.table.join(table, on=["user", "item"], how="anti", maintain_order="left")
    return replace(log, table=pl.concat([table, lost.filter(pl.Series(rng.random(lost.height) < 0.3))]))


def test_a_shard_that_was_changed_by_hand_is_not_taken_over(
    log: Interactions, light: Run, tmp_path: Path
) -> None:
    copy = shutil.copytree(light.folder, tmp_path / "copy")
    first, second = (copy / "shards" / each["entry"] for each in light.shards[:2])
    about = json.loads(first.with_suffix(".json").read_bytes())
    about["facts"]["price"] = 7.0
    first.with_suffix(".json").write_text(rehashed(about))
    content = bytearray(second.with_suffix(".safetensors").read_bytes())
    content[-1] ^= 1
    second.with_suffix(".safetensors").write_bytes(content)
    updated = update(open_run(copy), log, tmp_path / "updated")
    assert told(updated) == told(light)


class Killer(Listener):
    """Ends the work when a task of this label begins for the given time."""

    def __init__(self, label: str, times: int) -> None:
        super().__init__()
        self.label, self.left = label, times

    @contextmanager
    def task(self, label: str, total: int) -> Iterator[Advance]:
        self.left -= label == self.label
        if not self.left:
            raise KeyboardInterrupt
        with super().task(label, total) as advance:
            yield advance


def test_a_killed_fit_keeps_its_finished_shards(log: Interactions, run: Run, tmp_path: Path) -> None:
    out = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        fitted(log, out, progress=Killer(FOLDS, 3))  # in the second shard
    [kept] = (out / "shards").glob("*.safetensors")
    inode, listener = kept.stat().st_ino, Listener()
    resumed = fitted(log, out, progress=listener)
    assert listener.labels.count(FOLDS) == 2 * (SHARDS - 1)
    assert kept.stat().st_ino == inode
    assert told(resumed) == told(run)


def test_a_run_that_is_replaced_leaves_no_shard(log: Interactions, light: Run, tmp_path: Path) -> None:
    out = tmp_path / "run"
    shutil.copytree(light.folder, out)
    second = fitted(without(log, 7), out, LIGHT, replace=True)
    gone = {each["entry"] for each in light.shards} - {each["entry"] for each in second.shards}
    assert len(gone) == 1
    names = {file.stem for file in (out / "shards").iterdir()}
    assert names == {each["entry"] for each in second.shards}
    assert not [path for path in out.iterdir() if path.name.startswith(".")]


def test_what_is_never_used_changes_no_byte(tmp_path: Path) -> None:
    table, rng, plan = some_log(0), np.random.default_rng(0), replace(LIGHT, shards=2)

    def all_of(table: pl.DataFrame, name: str) -> dict[str, object]:
        table.write_csv(tmp_path / "log.csv")
        os.utime(tmp_path / "log.csv", (0, 0))  # when people said what they mind
        log = read_interactions(tmp_path / "log.csv")
        split, live = make_problem(log, "paper-tables", negatives=5), live_problem(log, negatives=5)
        run = fit(log, split, tmp_path / name, plan, QUICK, live=live)
        return told(run) | {"lists": run.trained.recommend(live.user_ids.tolist(), 3).to_dicts()}

    before = all_of(table, "before")
    for edit in range(2):
        never = rows_of(Promise.NEVER, table, frozenset())
        after = all_of(edited(table, never, Promise.NEVER, rng), f"edit {edit}")
        assert [name for name in before if before[name] != after[name]] == []


def test_what_is_withheld_is_in_no_byte_of_the_model(tmp_path: Path) -> None:
    """Given the decisions, the same model follows from the disclosed rows alone."""
    log = small_log(120)
    searched = QUICK.model_copy(update={"tune": Settings().tune})
    run = fitted(log, tmp_path / "run", replace(LIGHT, shards=2), searched)
    assert len(run.tuning["disclosed"]["attempts"]) > 2
    shown = run.selection.filter("disclosed").select("user", "item")
    table = log.table.join(shown, on=["user", "item"], how="semi", maintain_order="left")
    live = live_problem(replace(log, table=table), negatives=9)
    of, everything = dealt(live.user_keys, 2), np.ones(len(live.train), dtype=np.bool_)
    found = []
    for number in range(2):
        part = Part(live, of == number).problem
        lab = Lab(part, searched)
        found.append(settings_on_disclosed(lab, part, everything[of[live.train.users] == number]))
    _, trained = published(Lab(live, searched), live, everything, pooled(searched, found))
    for name, content in as_files(trained, "model").items():
        assert (run.folder / name).read_bytes() == content


def test_settings_of_shards_are_pooled_by_their_geometric_mean() -> None:
    def found(strength: float, dimension: int) -> Settings:
        return QUICK.model_copy(
            update={
                "model_settings": QUICK.model_settings.model_copy(
                    update={"strength": strength, "dimension": dimension}
                )
            }
        )

    both = pooled(QUICK, [Tuned(found(0.1, 4)), Tuned(found(0.9, 16))]).settings.model_settings
    assert both.strength == pytest.approx(0.3)  # type: ignore[attr-defined]
    assert both.dimension == 8  # type: ignore[attr-defined]
    assert both.initial_scale == QUICK.model_settings.initial_scale  # type: ignore[attr-defined]


def test_a_run_whose_shards_joined_is_whole(tmp_path: Path) -> None:
    """People of a number that too few have are decided on with others; nothing is amiss with that."""
    log = small_log(users=12)
    with pytest.warns(UserWarning, match="of 9 shards, . have too few people to decide on"):
        run = fitted(log, tmp_path / "run", replace(LIGHT, shards=9))
    numbers = [each["numbers"] for each in run.shards]
    assert len(numbers) < 9
    assert sorted(number for each in numbers for number in each) == [*range(9)]
    assert verify(run.folder) == []
    told_of = json.loads((run.folder / "shards.json").read_bytes())
    told_of[0]["numbers"] = []
    forged(run.folder, "shards.json", json.dumps(told_of).encode())
    assert any("has not the shards 0 to 8" in str(each) for each in verify(run.folder))


def test_damage_to_a_shard_is_found(light: Run, tmp_path: Path) -> None:
    run = open_run(shutil.copytree(light.folder, tmp_path / "run"))
    first, second, third = run.shards
    assert verify(run.folder) == []
    (run.folder / "shards" / f"{first['entry']}.json").unlink()
    told_of = json.loads((run.folder / "shards.json").read_bytes())
    told_of[1:] = [third | {"numbers": second["numbers"]}, second | {"numbers": third["numbers"]}]
    forged(run.folder, "shards.json", json.dumps(told_of).encode())
    found = [str(each) for each in verify(run.folder)]
    assert f"shards/{first['entry']}.json: missing, or not what the run wrote" in found
    assert "selection.parquet: other decisions than shard 2 of 3 made" in found
    file = run.folder / "shards" / f"{second['entry']}.safetensors"
    file.write_bytes(file.read_bytes()[:-1])
    assert any(second["entry"] in str(each) for each in verify(run.folder))


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ({"shards": 0}, "shards=0: accepted: a whole number from 1 on"),
        ({"shards": 2, "keep_quality": 0.9, "budget": None}, "shards=2: keep_quality and points compare"),
        ({"shards": 2, "points": (0.5,)}, "shards=2: keep_quality and points compare"),
    ],
)
def test_what_shards_cannot_do_is_refused(plan: dict[str, object], said: str) -> None:
    with pytest.raises(AssentError, match=said):
        replace(PLAN, **plan)  # type: ignore[arg-type]


def test_shards_are_for_live_runs(log: Interactions, light: Run, tmp_path: Path) -> None:
    with pytest.raises(AssentError, match="shards=3: accepted: a live run that makes its own calibration"):
        fit(log, problems(log)[0], tmp_path / "run", PLAN, QUICK)
    with pytest.raises(AssentError, match="shards=3: accepted: a live run that makes its own calibration"):
        update(light, log, tmp_path / "run", keep_calibration=True)
    with pytest.raises(AssentError, match="in shards, each with a price of its own; accepted: grade exact"):
        Served.of(light)


def test_a_reference_is_measured_over_all_shards(log: Interactions, tmp_path: Path) -> None:
    run = fitted(log, tmp_path / "run", replace(LIGHT, reference=True, seeds=2))
    assert [each["method"] for each in run.records] == ["worth"] * 2 + ["all"] * 2 + ["nothing"] * 2
    assert run.quality["kept"] is not None
    assert verify(run.folder) == []
