"""An exact update is byte for byte what a fit on the present log gives, at what has changed alone."""

import dataclasses
import errno
import json
import os
import shutil
import stat
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from assent import AssentError, Store, from_frame, open_run
from assent.data.interactions import Interactions
from assent.data.wishes import Wishes
from assent.methods import make_method
from assent.models import MODELS
from assent.report.facts import headline
from assent.results.words import percent
from assent.runs.calibration import Calibration
from assent.runs.folder import Run
from assent.runs.forget import forget
from assent.runs.history import Event, Grade, history_of, in_numbers, in_sentences, update_of
from assent.runs.plan import plan_of
from assent.runs.prompt import prompt_update
from assent.runs.run import fit, report_of
from assent.runs.update import problems_of, update
from assent.runs.verify import verify
from assent.testing.updates import Way, differences, differing, fresh, log_of, some_table
from assent.training import Settings, Tune
from tests.small import entries

SMALL = {
    name: Settings.model_validate({"model": name, "training": {"epochs": 2}, "tune": "none"})
    for name in MODELS
}
QUICK = Way(
    Settings.model_validate(
        {"model": "mf", "model_settings": {"dimension": 4}, "training": {"epochs": 2}, "tune": "none"}
    )
)
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("model", SMALL)
def test_an_update_is_what_a_fit_gives(model: str, tmp_path: Path) -> None:
    assert differences(Way(SMALL[model]), tmp_path, seed=len(model), steps=2) == []


@pytest.mark.parametrize("keep", [False, True])
def test_an_update_with_trials_and_folds_is_what_a_fit_gives(keep: bool, tmp_path: Path) -> None:
    way = Way(QUICK.settings, make_method("worth", folds=2), keep_calibration=keep)
    assert differences(way, tmp_path, seed=5, steps=2) == []


@pytest.mark.parametrize(
    "way",
    [
        Way(SMALL["ials"].model_copy(update={"tune": Tune.QUICK}), point={"price": 0.05}),
        Way(SMALL["ials"], point={"keep_quality": 0.9}),
        Way(QUICK.settings.model_copy(update={"tune": Tune.QUICK}), shards=2),
    ],
    ids=["tuned, price", "quality kept", "tuned, shards"],
)
def test_an_update_is_what_a_fit_gives_at_every_operating_point(way: Way, tmp_path: Path) -> None:
    assert differences(way, tmp_path, seed=4, steps=2) == []


@pytest.fixture(scope="module")
def table() -> pl.DataFrame:
    return some_table(np.random.default_rng(0))


@pytest.fixture(scope="module")
def made(table: pl.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("made")
    way = Way(QUICK.settings, make_method("worth", folds=2))
    return fresh(table, folder / "run", way, Store(folder / "store"))


@pytest.fixture
def run(made: Run, tmp_path: Path) -> Run:
    """A copy of the run with its store, which a test may change."""
    shutil.copytree(made.folder.parent, tmp_path / "made")
    manifest = tmp_path / "made" / "run" / "manifest.json"
    about = json.loads(manifest.read_text()) | {"store": str(tmp_path / "made" / "store")}
    manifest.write_text(json.dumps(about))
    return open_run(manifest.parent)


def store_of(run: Run) -> Store:
    return Store(run.folder.parent / "store")


def milder(table: pl.DataFrame, user: str) -> pl.DataFrame:
    """The log in which somebody minds everything less."""
    less = pl.when(pl.col("user") == user, pl.col("unwillingness") < 1).then(0.5 * pl.col("unwillingness"))
    return table.with_columns(unwillingness=less.otherwise("unwillingness"))


def test_a_changed_mind_repeats_no_training_of_what_is_there_as_before(run: Run, table: pl.DataFrame) -> None:
    store = store_of(run)
    before = entries(store, "measured")
    update(run, log_of(milder(table, "u03")), run.folder.parent / "next", store=store)
    assert entries(store, "measured") == before
    assert len(entries(store, "worth")) > 1


def test_nothing_new_costs_nothing(run: Run, table: pl.DataFrame) -> None:
    store = store_of(run)
    before = {*store.folder.iterdir()}
    after = update(run, log_of(table), run.folder.parent / "next", store=store)
    assert {*store.folder.iterdir()} == before
    assert differing(run, after) == []
    assert "Nothing changed" in in_sentences(update_of(after) or {})[0]


def test_the_run_before_stays_and_the_new_one_is_verified(run: Run, table: pl.DataFrame) -> None:
    now = log_of(table.filter(pl.col("user") != "u02"))
    for keep in (False, True):
        after = run.update(now, run.folder.parent / f"next{keep}", keep_calibration=keep)
        problem, live = problems_of(run, now)
        assert verify(after.folder, now, problem, live=live, again=True) == []
    assert verify(run.folder) == []
    assert after.held_out.is_empty()
    assert after.quality["measured_in"] == run.manifest.mark
    assert after.quality["reached"] == run.quality["reached"]
    again = after.update(now, run.folder.parent / "again", keep_calibration=True)
    assert again.quality["measured_in"] == run.manifest.mark


def test_an_update_does_not_replace_the_run_before(run: Run, table: pl.DataFrame) -> None:
    with pytest.raises(AssentError, match="the run that is updated; accepted: another folder"):
        update(run, log_of(table), run.folder, replace=True)
    assert verify(run.folder) == []


def test_a_killed_update_goes_on(run: Run, table: pl.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    now, out, store = log_of(milder(table, "u05")), run.folder.parent / "next", store_of(run)

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("assent.runs.run.build_report", killed)
        with pytest.raises(KeyboardInterrupt):
            update(run, now, out, store=store)
    known = {*store.folder.glob("*.json")}
    after = update(run, now, out, store=store)
    assert {*store.folder.glob("*.json")} == known
    assert differing(after, update(run, now, run.folder.parent / "whole")) == []


@pytest.mark.parametrize("grade", list(Grade))
def test_a_full_disk_loses_nothing(grade: Grade, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = some_table(np.random.default_rng(0))
    run = fresh(table, tmp_path / "run", Way(SMALL["ials"]))
    now = log_of(milder(table.filter(pl.col("user") != "u02"), "u05"))
    make = update if grade is Grade.EXACT else prompt_update
    flush, room = os.fsync, [0]

    def limited(handle: int) -> None:
        if stat.S_ISREG(os.fstat(handle).st_mode):
            room[0] -= 1
            if room[0] < 0:
                raise OSError(errno.ENOSPC, "No space left on device")
        flush(handle)

    room[0] = many = 1000
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", limited)
        whole = make(run, now, tmp_path / "whole")
        needed = many - room[0]
        for enough in (0, needed // 2, needed - 1):
            out, room[0] = tmp_path / f"next{enough}", enough
            with pytest.raises(OSError, match="No space left"):
                make(run, now, out)
            assert not [*tmp_path.rglob("*.tmp")]
            room[0] = many
            assert differing(make(run, now, out), whole) == []
            assert {file.name for file in out.iterdir()} == {file.name for file in whole.folder.iterdir()}
    assert verify(run.folder) == []


def test_history_tells_each_person_what_changed(run: Run, table: pl.DataFrame) -> None:
    mine = table.filter(pl.col("user") == "u01", pl.col("unwillingness") < 1)["item"].to_list()
    is_mine = pl.col("user") == "u01"
    now = table.filter(~(is_mine & (pl.col("item") == mine[0])), pl.col("user") != "u07")
    never = is_mine & (pl.col("item") == mine[1])
    now = now.with_columns(unwillingness=pl.when(never).then(1.0).otherwise("unwillingness"))
    now = pl.concat([now, pl.DataFrame([("u01", "new", 200.0, 0.1)], now.schema, orient="row")])
    after = update(run, log_of(now), run.folder.parent / "next")
    told = history_of(after).filter(pl.col("user") == "u01")
    events = {row["item"]: row["event"] for row in told.to_dicts()}
    assert events[None] == Event.WITHDRAWN.value
    assert events["new"] == Event.ADDED.value
    assert events[mine[1]] == Event.MIND.value
    assert mine[0] not in events
    assert told.filter(pl.col("item") == mine[1])["state_after"].to_list() == ["never"]
    assert "u07" not in history_of(after)["user"].to_list()
    further = update(after, log_of(now.filter(pl.col("item") != "new")), run.folder.parent / "third")
    assert "new" not in history_of(further)["item"].to_list()
    assert in_numbers(history_of(further))["run"].to_list() == ["next", "third"]
    about = update_of(further) or {}
    followed = [(str(each.folder.resolve()), each.manifest.mark) for each in (after, run)]
    assert [(each["folder"], each["mark"]) for each in about["runs_before"]] == followed
    assert about["still_hold_withdrawn"] == [folder for folder, _ in followed]
    assert about["changes"]["gone"] == 1
    same = update(further, log_of(now.filter(pl.col("item") != "new")), run.folder.parent / "fourth")
    assert (update_of(same) or {})["still_hold_withdrawn"] == about["still_hold_withdrawn"]


def test_forgetting_deletes_and_finds_nothing_left(run: Run, table: pl.DataFrame) -> None:
    store = store_of(run)
    now = table.filter(pl.col("user") != "u04", pl.col("item") != "i05")
    after = update(run, log_of(now), run.folder.parent / "next", store=store)
    about = update_of(after) or {}
    assert about["still_hold_withdrawn"] == [str(run.folder.resolve())]
    found = forget(after)
    assert found.runs == (str(run.folder.resolve()),)
    assert found.found == ()
    assert found.people == 1
    assert found.entries > 0
    assert not run.folder.exists()
    assert {file.stem for file in store.folder.glob("*.json")} <= {*about["entries"]}
    assert all(b"u04" not in file.read_bytes() for file in after.folder.iterdir())
    assert verify(after.folder) == []
    alone = fresh(now, run.folder.parent / "alone", Way(QUICK.settings, make_method("worth", folds=2)))
    assert differing(after, alone) == []


def test_what_is_left_behind_is_found(run: Run, table: pl.DataFrame) -> None:
    store = store_of(run)
    after = update(
        run, log_of(table.filter(pl.col("user") != "u04")), run.folder.parent / "next", store=store
    )
    forged = store.folder.resolve() / f"{'0' * 32}.json"
    about = json.loads((after.folder / "update.json").read_text())
    about["entries"].append(forged.stem)
    forged.write_text(json.dumps({"user_ids": ["u03", "u04"]}))
    (after.folder / "update.json").write_text(json.dumps(about))
    manifest = json.loads((after.folder / "manifest.json").read_text())
    from hashlib import sha256

    manifest["files"]["update.json"] = sha256((after.folder / "update.json").read_bytes()).hexdigest()
    (after.folder / "manifest.json").write_text(json.dumps(manifest))
    assert forget(open_run(after.folder)).found == (str(forged),)
    forged.unlink()
    again = forget(open_run(after.folder))
    assert (again.found, again.people) == ((), 1)


def test_forgetting_deletes_no_other_run_that_is_there_now(run: Run, table: pl.DataFrame) -> None:
    after = update(run, log_of(table.filter(pl.col("user") != "u04")), run.folder.parent / "next")
    shutil.rmtree(run.folder)
    fresh(table, run.folder, QUICK)
    found = forget(after)
    assert found.runs == ()
    assert str(run.folder.resolve()) in found.untouched
    assert run.folder.exists()


def test_the_store_of_the_first_fit_is_forgotten_too(run: Run, table: pl.DataFrame) -> None:
    after = update(run, log_of(table.filter(pl.col("user") != "u04")), run.folder.parent / "next")
    found = forget(after)
    assert found.entries > 0
    assert not [*store_of(run).folder.glob("*.json")]


def test_a_calibration_is_for_what_it_was_found_for(run: Run, table: pl.DataFrame, tmp_path: Path) -> None:
    log = log_of(table)
    split, live = problems_of(run, log)
    plan = dataclasses.replace(plan_of(run), budget=0.1)
    with pytest.raises(AssentError, match=r"was found for budget 0\.5, and 0\.1 is asked"):
        fit(log, split, tmp_path / "out", plan, QUICK.settings, live=live, calibration=Calibration.of(run))


def test_limits_are_not_forgotten(run: Run, table: pl.DataFrame, tmp_path: Path) -> None:
    log = log_of(table)
    split, live = (
        dataclasses.replace(each, wishes=Wishes(budget=np.full(each.n_users, 2.0)))
        for each in problems_of(run, log)
    )
    limited = fit(log, split, tmp_path / "limited", QUICK.plan, QUICK.settings, live=live)
    with pytest.raises(AssentError, match="has people's own limits"):
        update(limited, log, tmp_path / "next", problems=problems_of(run, log))
    closed = dataclasses.replace(QUICK.plan, closed=0.8)
    split, live = problems_of(run, log)
    shut = fit(log, split, tmp_path / "shut", closed, QUICK.settings, live=live)
    with pytest.raises(AssentError, match=r"closed=0\.9: the run before had 0\.8"):
        update(shut, log, tmp_path / "wider", closed=0.9)


def test_what_cannot_be_updated_is_refused(run: Run, table: pl.DataFrame, tmp_path: Path) -> None:
    log = log_of(table)
    problem, live = problems_of(run, log)
    tried = fit(log, problem, tmp_path / "experiment", QUICK.plan, QUICK.settings)
    with pytest.raises(AssentError, match="an experiment; accepted: a live run"):
        update(tried, log, tmp_path / "out")
    with pytest.raises(AssentError, match="holds a finished run"):
        update(run, log, tried.folder, problems=(problem, live))
    with pytest.raises(AssentError, match="follows no run"):
        forget(run)


def test_words_are_not_forgotten_in_the_library(run: Run, table: pl.DataFrame, tmp_path: Path) -> None:
    """A withdrawal, a never and a never taken back; what one file says may not stand in for another's."""
    theirs = table.filter(pl.col("user") == "u01", pl.col("unwillingness") < 1)["item"].to_list()
    user, never = table.filter(pl.col("unwillingness") == 1).select("user", "item").row(0)

    def read(name: str, *lines: str, log: pl.DataFrame = table) -> Interactions:
        file = tmp_path / name
        file.write_text("\n".join(["user,item,unwillingness", *lines]) + "\n")
        return from_frame(log, name="log", wishes=file, allow_unmatched=True)

    words = [f"u01,{theirs[0]},withdraw", f"u01,{theirs[1]},1", f"{user},{never},0.2", "u02,*,withdraw"]
    first = run.update(read("now.csv", *words), tmp_path / "first")
    assert verify(first.folder) == []
    about = json.loads((first.folder / "words.json").read_text())
    assert about == {"source": "file:now.csv", "rows": 1, "people": 1}
    without = [
        log_of(table),
        read("now.csv", *words[1:]),
        read("now.csv", *words[:3]),
        read("now.csv", words[0], *words[2:]),
        read("then.csv", *words[:2], words[3]),
        read("then.csv", f"u01,{theirs[2]},withdraw", *words[1:]),
    ]
    for number, log in enumerate(without):
        with pytest.raises(AssentError, match=r"wishes of file:now\.csv, and the present log without all"):
            first.update(log, tmp_path / f"wrong{number}")
        with pytest.raises(AssentError, match=r"wishes_in_log=True, if the log itself says them now$"):
            prompt_update(first, log, tmp_path / f"wrong{number}")
    is_away = (pl.col("user") == "u01") & (pl.col("item") == theirs[0]) | (pl.col("user") == "u02")
    cleaned = table.filter(~is_away)
    for number, log in enumerate(
        [
            read("now.csv", *words),
            read("now.csv", *words, log=cleaned),
            read("then.csv", words[1], words[2], log=cleaned),
            read("then.csv", "u01,*,withdraw", *words[2:]),
        ]
    ):
        assert verify(first.update(log, tmp_path / f"right{number}").folder) == []
    back = first.update(log_of(table), tmp_path / "back", wishes_in_log=True)
    assert "words.json" not in back.manifest.files


def test_a_log_of_other_people_is_refused(run: Run, table: pl.DataFrame, tmp_path: Path) -> None:
    other = log_of(table.with_columns(user=pl.lit("other-") + pl.col("user")))
    people = table["user"].n_unique()
    for number, make in enumerate((update, prompt_update)):
        with pytest.raises(AssentError, match=rf"has 0 of the {people} people in .*, or most_withdrawn=True"):
            make(run, other, tmp_path / f"refused{number}")
    with pytest.raises(AssentError, match="nothing measured there can be kept"):
        update(run, other, tmp_path / "refused", most_withdrawn=True, keep_calibration=True)
    after = update(run, other, tmp_path / "next", most_withdrawn=True)
    assert (update_of(after) or {})["changes"]["people_withdrawn"] == people
    assert after.quality["measured_in"] is None


def test_figures_of_an_earlier_run_are_dated_wherever_they_are_told(tmp_path: Path) -> None:
    """A chain of updates that keep the calibration names the run that measured, not the one before."""
    table = some_table(np.random.default_rng(0))
    way = Way(SMALL["ials"])
    run = fresh(table, tmp_path / "shop", way)
    day = (run.manifest.finished or "")[:10]
    assert headline(report_of(run)).endswith(" does") or "measured in" not in headline(report_of(run))
    now, later = table.filter(pl.col("user") != "u02"), table.filter(pl.col("user") != "u03")
    by_prompt = prompt_update(prompt_update(run, log_of(now), tmp_path / "a"), log_of(later), tmp_path / "b")
    by_fit = run.update(log_of(now), tmp_path / "c", keep_calibration=True)
    by_fit = by_fit.update(log_of(later), tmp_path / "d", keep_calibration=True)
    disclosed = percent(report_of(run).violation_share)
    for each in (by_prompt, by_fit):
        named = f"the run shop ({run.manifest.mark}) of {day}"
        assert headline(report_of(each)).endswith(f", as measured in {named}, at {disclosed}")
        assert named in (each.folder / "report.html").read_text()
        about = update_of(each) or {}
        assert about["calibration"] == run.manifest.mark
        assert f"by the calibration of {named}." in in_sentences(about)[0]
    cost = in_sentences(update_of(by_fit) or {})[2]
    assert "a fit with the same calibration about" in cost
    assert "a fit from scratch about" in in_sentences(update_of(by_prompt) or {})[2]
