"""Prompt updates: run folders as those of a fit that say what they keep and how old it is; drift."""

import shutil
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given, settings

from assent.api import Changes, Served, drift, export, open_run, prompt_update, verify
from assent.data.interactions import Interactions
from assent.data.live import disclosed_whole, live_problem
from assent.data.problem import make_problem
from assent.lab.lab import Lab, Training, everything
from assent.runs.folder import HISTORY, UPDATE, Run
from assent.runs.forget import forget
from assent.runs.prompt import Vectors
from assent.runs.run import stopped_after
from assent.support.errors import AssentError
from assent.training.stored import as_files
from tests.runs.lives import QUICK, Rows, asking, folder, histories, log_of, log_with, rows_in, run_of
from tests.runs.test_served import assert_same

History = tuple[list[Changes], Rows]


def updated(run: Run, log: Interactions, out: Path | None = None) -> Run:
    return prompt_update(run, log, out or folder() / "next", check=False)


def changed_log() -> Interactions:
    """Somebody withdraws, somebody says never, somebody new comes, an item goes and one comes."""
    log = log_of()
    rows = {pair: minded for pair, minded in rows_in(log).items() if pair[0] != "u04" and pair[1] != "i07"}
    rows |= dict.fromkeys([each for each in rows if each[0] == "u05"][:2], 1.0)
    rows |= {("zoe", "i01"): 0.1, ("zoe", "i99"): 0.1, ("u06", "i99"): 0.0}
    return log_with(rows, log)


@given(histories(most=2))
@settings(max_examples=6, deadline=None)
def test_a_folder_is_what_is_served_in_memory(history: History) -> None:
    rows = history[1]
    if len({user for (user, _), minded in rows.items() if minded < 1}) < 2:
        return
    run, log = run_of("budget"), log_with(rows, log_of())
    memory = Served.of(run)
    memory.apply(Changes.between(run, log))
    first = updated(run, log)
    assert_same(memory, Served.of(first))
    assert verify(first.folder) == []
    # A further update of the folder leads where one of the exact run does, for rows that it never lost.
    assert Changes.between(first, log).is_empty
    again = updated(first, log)
    assert_same(memory, Served.of(again))
    assert again.settings["base"]["updates"] == 2


def test_the_folder_names_its_grade_and_what_it_keeps() -> None:
    run, log = run_of("budget"), changed_log()
    found = updated(run, log)
    assert found.settings["grade"] == found.quality["grade"] == "prompt"
    base = found.settings["base"]
    assert (base["run"], base["decisions"]) == ("run", run.manifest.decisions)
    withdrawn = sum(table.filter(user="u04").height for table in (run.selection, run.sealed))
    assert base["since"] == Changes.between(run, log).counts() | {"rows_withdrawn": withdrawn}
    assert found.quality["age"].startswith(
        "Values and items are those of the run run; 1 prompt update changed"
    )
    assert found.quality["age"] in (found.folder / "report.html").read_text()
    assert found.quality["reached"] == run.quality["reached"]
    assert open_run(found.folder).is_live
    assert not found.held_out.join(found.selection, on=["user", "item"], how="anti").height


def test_rows_and_vectors_are_checked_against_the_log() -> None:
    log = changed_log()
    found = updated(run_of("budget"), log)
    split, live = make_problem(log, "paper-tables", negatives=5), live_problem(log, negatives=5)
    assert verify(found.folder, log, split, live=live) == []
    other = replace(log, table=log.table.head(log.table.height - 1))
    [finding] = verify(found.folder, other, make_problem(other, "paper-tables", negatives=5),
                       live=live_problem(other, negatives=5))  # fmt: skip
    assert str(finding) == "selection.parquet: has other rows than the log's interactions"
    with pytest.raises(AssentError, match=r"^again=True: a prompt update that keeps items is not trained; "):
        verify(found.folder, log, split, live=live, again=True)


def test_the_run_recommends_as_memory_does() -> None:
    run, log = run_of("budget"), changed_log()
    memory, found = Served.of(run), updated(run, log)
    memory.apply(Changes.between(run, log))
    lists = found.recommend(k=40)
    assert "i07" not in lists["item"]
    assert "u04" not in lists["user"]
    for user in ["u01", "u05", "u06", "zoe"]:
        expected = memory.recommend(user, 40)
        assert lists.filter(user=user).drop("score").equals(expected.drop("score"))


def trained_anew(run: Run, log: Interactions) -> Run:
    return prompt_update(run, log, folder() / "trained", vectors=Vectors.TRAINED, check=False)


def test_with_items_trained_the_model_is_that_of_a_training_on_what_is_disclosed() -> None:
    """Bytes: settings and epochs of the run before, the disclosed rows of now, and nothing else."""
    run, log = run_of("budget"), changed_log()
    kept, found = updated(run, log), trained_anew(run, log)
    assert found.selection.equals(kept.selection)
    assert found.manifest.files["model.safetensors"] != kept.manifest.files["model.safetensors"]
    before = run.tuning["disclosed"]
    rows = found.selection.filter("disclosed").select("user", "item")
    alone = log.table.join(rows, on=["user", "item"], how="semi", maintain_order="left")
    problem = live_problem(Interactions(log.name, alone, log.items), negatives=5)
    asked = QUICK.model_copy(
        update={"model_settings": type(QUICK.model_settings).model_validate(before["found"])}
    )
    lab = Lab(replace(problem, judges=None), stopped_after(asked, before["epochs"]), run.settings["seed"])
    whole = replace(lab, problem=disclosed_whole(problem, everything(problem)))
    [expected] = whole.train([Training(everything(whole.problem))])
    for name, content in as_files(expected, "model").items():
        assert (found.folder / name).read_bytes() == content
    assert found.settings["vectors"] == found.quality["vectors"] == "trained"
    assert "the length of the training are those of the run run" in found.quality["age"]
    assert found.quality["age"] in (found.folder / "report.html").read_text()
    live = live_problem(log, negatives=5)
    split = make_problem(log, "paper-tables", negatives=5)
    assert verify(found.folder, log, split, live=live, again=True) == []


def test_with_items_trained_no_byte_of_the_model_comes_from_what_is_withheld() -> None:
    """Withheld and never rows go, come, and are minded otherwise: the same decisions, the same bytes."""
    run, log = run_of("price"), changed_log()
    found, rows = trained_anew(run, log), rows_in(log)
    withheld = found.selection.filter(~pl.col("disclosed")).select("user", "item").rows()
    never = [pair for pair, minded in rows.items() if minded == 1]
    assert len(withheld) > 9
    assert len(never) > 9
    fewer = {pair: minded for pair, minded in rows.items() if pair not in [*withheld[:4], *never[:4]]}
    fewer |= {withheld[5]: 1.0, withheld[6]: 0.999, withheld[7]: 1.0, ("stranger", "i02"): 1.0}
    other = trained_anew(run, log_with(fewer, log))
    used = [each.selection.filter("disclosed").select("user", "item").sort("user", "item")
            for each in (found, other)]  # fmt: skip
    assert used[0].equals(used[1])
    for name in ("model.safetensors", "model.json"):
        assert (found.folder / name).read_bytes() == (other.folder / name).read_bytes()


def test_updates_may_follow_one_with_items_trained() -> None:
    run = open_run(shutil.copytree(run_of("budget").folder, folder() / "run"))
    first = trained_anew(run, changed_log())
    for vectors in Vectors:
        then = prompt_update(first, log_of(), folder() / vectors, vectors=vectors, check=False)
        straight = prompt_update(run, log_of(), folder() / vectors, vectors=vectors, check=False)
        assert verify(then.folder) == []
        assert then.settings["base"]["run"] == straight.settings["base"]["run"] == "run"
    decided = then.selection.select("user", "item", "disclosed").sort("user", "item")
    assert not decided.filter(user="u04", disclosed=True).is_empty()
    forgotten = forget(then)
    assert "run" in [Path(each).name for each in forgotten.runs]


def test_an_export_has_what_is_disclosed_now(tmp_path: Path) -> None:
    log = changed_log()
    found = updated(run_of("budget"), log)
    export(found, tmp_path / "export", formats=["safetensors"])
    text = (tmp_path / "export" / "ids.json").read_text()
    assert '"i07"' not in text
    assert '"u04"' not in text
    assert '"i01"' in text


def test_no_file_names_whoever_withdrew() -> None:
    found = updated(run_of("budget"), changed_log())
    for file in found.folder.iterdir():
        table = pl.read_parquet(file) if file.suffix == ".parquet" else None
        if table is None:
            assert b'"u04"' not in file.read_bytes()
            assert b">u04<" not in file.read_bytes()
        else:
            assert "u04" not in table["user"]


def test_a_row_that_came_and_went_leaves_no_byte_in_the_files() -> None:
    run, log = run_of("budget"), changed_log()
    more = log_with({**rows_in(log), ("u06", "i30"): 0.2, ("adam", "i02"): 0.2}, log)
    detour = updated(updated(run, more), log)
    straight = updated(run, log)
    for name in ("model.safetensors", "model.json"):
        assert (detour.folder / name).read_bytes() == (straight.folder / name).read_bytes()
    assert detour.selection.equals(straight.selection)


def test_a_folder_is_whole_or_not_there(tmp_path: Path) -> None:
    run, log = run_of("budget"), changed_log()
    updated(run, log, tmp_path / "next")
    with pytest.raises(AssentError, match="holds a finished run; choose another folder, or replace=True"):
        updated(run, log, tmp_path / "next")
    first = open_run(tmp_path / "next")
    second = prompt_update(first, log_of(), tmp_path / "second", check=False)
    assert second.settings["base"]["updates"] == 2
    assert "u04" in second.selection["user"]
    files = {each.name for each in run.folder.iterdir()} | {UPDATE, HISTORY}
    assert {each.name for each in (tmp_path / "next").iterdir()} == files


def test_limits_of_people_hold_in_the_folder() -> None:
    log = changed_log()
    found = prompt_update(run_of("limits"), log, folder() / "next", wishes=asking, check=False)
    paid = found.selection.filter("disclosed", user="u02")["unwillingness"].sum()
    assert paid <= 0.5
    assert_same(Served.of(found, asking), Served.of(updated_limits(log), asking))


def updated_limits(log: Interactions) -> Run:
    return prompt_update(run_of("limits"), log, folder() / "next", wishes=asking, check=False)


def test_a_log_that_was_read_with_another_limit_is_refused() -> None:
    log = changed_log()
    reason = pl.when(pl.col("unwillingness") > 0.9).then(pl.lit("closed"))
    closed = log.judged(log.minded.select("unwillingness", "source", "said").with_columns(reason=reason))
    assert closed.sealed.height > log.sealed.height
    with pytest.raises(AssentError, match="turns away other rows than the run would; accepted: closed=None"):
        updated(run_of("budget"), closed)


def test_a_log_of_which_nothing_may_be_read_is_refused() -> None:
    log = log_of()
    never = Interactions(log.name, log.table.with_columns(unwillingness=pl.lit(1.0)), log.items)
    assert never.table.is_empty()
    with pytest.raises(AssentError, match="nothing that may be read is left; accepted: at least one"):
        updated(run_of("budget"), never)


def test_values_of_which_none_is_measured_are_too_old() -> None:
    log = log_of()
    others = Interactions(log.name, log.table.with_columns(user="new " + pl.col("user")), log.items)
    aged = drift(run_of("budget"), others)
    assert (aged.sampled, aged.unmeasured) == (0, 1.0)
    assert aged.is_too_old


def test_values_age_with_the_log() -> None:
    run, log = run_of("budget"), log_of()
    fresh = drift(run, log)
    assert (fresh.flipped, fresh.correlation, fresh.unmeasured) == (0, 1, 0)
    assert fresh.sampled == run.selection.height
    assert fresh.noise >= 0
    assert not fresh.is_too_old
    assert fresh.summary().endswith("The values are still good to decide by.")
    rows = rows_in(log)
    rng = np.random.default_rng(0)
    some = {pair: minded for pair, minded in rows.items() if rng.random() < 0.4}
    aged = drift(run, log_with(some, log))
    assert aged.flipped > 0.05
    assert aged.correlation < 1
    assert aged.is_too_old
    new = {(f"new{number}", f"i{1 + number % 30:02}"): 0.2 for number in range(200)}
    assert drift(run, log_with({**rows, **new}, log)).unmeasured == pytest.approx(
        200 / (200 + len(log.table))
    )
    with pytest.warns(
        UserWarning, match="too old to decide by. Accepted: grade exact, which values all anew"
    ):
        prompt_update(run, log_with(some, log), folder() / "next")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = prompt_update(run, log, folder() / "next")
    assert found.quality["drift"]["flipped"] == 0
    assert drift(run_of("threshold"), log_with(some, log)).is_too_old is False


def test_values_age_from_one_exact_run_to_the_next() -> None:
    """Two small updates change as much as one that leads to the same log."""
    run, log, rng = run_of("budget"), log_of(), np.random.default_rng(0)
    rows = rows_in(log)
    lots = rng.random(len(rows))
    half, less = (
        log_with({pair: rows[pair] for pair, lot in zip(rows, lots, strict=True) if lot < most}, log)
        for most in (0.8, 0.6)
    )
    between = prompt_update(run, half, folder() / "half", check=False)
    assert drift(between, less) == drift(run, less)
    assert drift(between, half).flipped == drift(run, half).flipped > 0
    with pytest.warns(UserWarning, match="too old to decide by"):
        after = prompt_update(between, less, folder() / "less")
    assert after.quality["drift"]["flipped"] == drift(run, less).flipped


def test_a_model_with_people_folded_in_is_read_as_it_was_written() -> None:
    run = run_of("budget")
    found = updated(run, changed_log())
    mine, theirs = found.trained.model, run.trained.model
    assert mine.sizes != theirs.sizes
    assert (mine.alpha, mine.l2) == (theirs.alpha, theirs.l2)
    user = str(found.trained.user_ids[0])
    items = found.selection.filter("disclosed", user=user)["item"].to_list()
    assert torch.equal(found.trained.fold_in(items), mine.user_table[0])  # type: ignore[index]
