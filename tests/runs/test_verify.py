"""What `verify` finds: edits, also where the hashes were made to fit, and nothing in an honest run."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.data.interactions import CLOSED, NEVER, NO_ROWS, Interactions
from assent.data.problem import Problem, Protocol, make_problem
from assent.data.simulate import simulate
from assent.methods import make_method
from assent.runs.folder import WORK, open_run
from assent.runs.manifest import MANIFEST, hash_of_decisions, read_manifest
from assent.runs.plan import RunPlan
from assent.runs.run import fit
from assent.runs.verify import not_checked, verify
from assent.support.errors import AssentError
from assent.training import Settings
from tests.cli.conftest import forged, forged_table
from tests.small import QUICK, Listener

CDAE = Settings.model_validate(
    {"model": "cdae", "model_settings": {"dimension": 4}, "training": {"epochs": 2}, "tune": "none"}
)
"""A model that reads the disclosed interactions."""
PLANS = {
    "budget": (RunPlan(method=make_method("threshold"), budget=0.5), QUICK),
    "values": (RunPlan(method=make_method("ifrqe"), price=0.05), QUICK),
    "frontier": (
        RunPlan(method=make_method("threshold"), points=(0.5,), frontier_methods=(make_method("random"),)),
        CDAE,
    ),
    "all": (RunPlan(method=make_method("all")), QUICK),
}


@pytest.fixture(scope="module")
def log() -> Interactions:
    """One with two rows that were turned away, and with titles and categories."""
    made = simulate(preference="learnable", users=40, items=40, seed=3)
    never = ("ann", "i1", "Heat", 1.0, "column", None, NEVER)
    away = [never, ("zoe", "i9", None, 0.9, "column", None, CLOSED)]
    return replace(made, sealed=pl.DataFrame(away, NO_ROWS.schema, orient="row"))


@pytest.fixture(scope="module")
def problem(log: Interactions) -> Problem:
    return make_problem(log, Protocol.PAPER_TABLES, negatives=9)


@pytest.fixture(scope="module")
def whole(log: Interactions, problem: Problem, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("runs")
    for name, (plan, settings) in PLANS.items():
        fit(log, problem, folder / name, plan, settings)
    return {name: folder / name for name in PLANS}


@pytest.mark.parametrize("name", PLANS)
def test_an_honest_run_is_as_it_was_written(
    name: str, log: Interactions, problem: Problem, whole: dict[str, Path]
) -> None:
    seen = Listener()
    assert verify(whole[name]) == []
    assert verify(whole[name], log, problem, again=True, progress=seen) == []
    assert {"checking the files", "final model"} <= set(seen.labels)


def test_a_manifest_says_what_a_run_rests_on(problem: Problem, whole: dict[str, Path]) -> None:
    found = read_manifest(whole["frontier"])
    assert found.problem == problem.fingerprint()
    assert found.files.keys() == {path.name for path in whole["frontier"].iterdir()} - {MANIFEST}
    assert {
        "python",
        "numpy",
        "torch",
        "polars",
        "numba",
        "processor",
        "instructions",
    } <= found.made_with.keys()
    assert found.decisions == hash_of_decisions(open_run(whole["frontier"]).selection)


rows = st.lists(st.tuples(st.text(max_size=3), st.text(max_size=3), st.booleans()), max_size=6)


@given(rows, rows, st.randoms(use_true_random=False))
def test_decisions_are_hashed_without_their_order(one: list[Any], other: list[Any], lots: Any) -> None:
    def hashed(table: list[Any]) -> str:
        schema = {"user": pl.String, "item": pl.String, "disclosed": pl.Boolean}
        return hash_of_decisions(pl.DataFrame(table, schema, orient="row"))

    shuffled = lots.sample(one, len(one))
    assert hashed(shuffled) == hashed(one)
    assert (hashed(one) == hashed(other)) == (sorted(one) == sorted(other))


def edited(name: str, change: Callable[[Any], Any]) -> Callable[[Path], None]:
    """JSON that was changed, with hashes that fit."""

    def edit(run: Path) -> None:
        forged(run, name, json.dumps(change(json.loads((run / name).read_bytes()))).encode())

    return edit


def record(**changes: object) -> Callable[[Path], None]:
    return edited("metrics.json", lambda found: [found[0] | changes, *found[1:]])


def table(
    change: Callable[[pl.DataFrame], pl.DataFrame], name: str = "selection.parquet"
) -> Callable[[Path], None]:
    return lambda run: forged_table(run, name, change(pl.read_parquet(run / name)))


def turned(found: pl.DataFrame) -> pl.DataFrame:
    """The first interaction's decision, the other way."""
    first = pl.int_range(pl.len()) == 0
    return found.with_columns(disclosed=pl.col("disclosed") ^ first)


def as_decided(run: Path) -> None:
    """A manifest whose decisions are those of the selection."""
    about = json.loads((run / MANIFEST).read_bytes())
    about["decisions"] = hash_of_decisions(pl.read_parquet(run / "selection.parquet"))
    (run / MANIFEST).write_text(json.dumps(about))


def turned_and_signed(run: Path) -> None:
    table(turned)(run)
    as_decided(run)


def report(run: Path) -> None:
    forged(run, "report.html", (run / "report.html").read_bytes().replace(b"NDCG@5", b"NDCG@1", 1))


def sealed_and_used(run: Path) -> None:
    used = pl.read_parquet(run / "selection.parquet").head(1).with_columns(reason=pl.lit(CLOSED))
    table(lambda found: pl.concat([found, used.select(found.columns)]), "sealed.parquet")(run)


def stay(run: Path) -> None:
    (run / WORK).mkdir()


EDITS: dict[str, tuple[Callable[[Path], object], str]] = {
    "selection": (table(turned), "selection.parquet: other decisions than those of manifest.json"),
    "selection and manifest": (turned_and_signed, "metrics.json: violation of ifrqe is "),
    "twice": (table(lambda found: pl.concat([found, found[:1]])), "interaction is there twice"),
    "prices": (
        table(lambda found: found.with_columns(pl.col("price") + 1)),
        "break-even prices do not follow",
    ),
    "unwillingness": (
        table(lambda found: found.with_columns(pl.col("unwillingness") * 0.5)),
        "metrics.json: violation of ifrqe is ",
    ),
    "violation": (record(violation=0.1), "metrics.json: violation of ifrqe is 0.1; it comes to "),
    "share": (record(violation_share=0.1), "metrics.json: violation_share of ifrqe is 0.1"),
    "method": (record(method="worth"), "metrics.json: has not the methods ifrqe, all, nothing"),
    "price": (record(price=0.1), "metrics.json: price is 0.1; settings.json has 0.05"),
    "quality": (record(ndcg=0.99), "quality.json: reached is not what metrics.json has"),
    "report": (report, "report.html: does not show what the other files say"),
    "reward": (
        edited("certificate.json", lambda found: found | {"true_reward": -1.0}),
        "certificate.json: prediction_error is ",
    ),
    "seed": (edited("model.json", lambda found: found | {"seed": 9}), "model.json: seed is 9"),
    "people": (
        edited("model.json", lambda found: found | {"user_ids": ["!", *found["user_ids"][1:]]}),
        "model.json: knows other users than those of the disclosed interactions",
    ),
    "settings": (
        edited("settings.json", lambda found: found | {"fingerprint": "0"}),
        "settings.json: fingerprint is '0'; manifest.json has ",
    ),
    "tuning": (
        edited("tuning.json", lambda found: found | {"disclosed": {"found": {"dimension": 5}}}),
        "model.json: has other settings than tuning.json found",
    ),
    "no tuning": (edited("tuning.json", lambda _: {}), "tuning.json: has no settings of the final model"),
    "sealed": (lambda run: forged(run, "sealed.parquet", b"PAR1"), "sealed.parquet: no parquet table"),
    "sealed reason": (
        table(lambda found: found.with_columns(reason=pl.lit("lost")), "sealed.parquet"),
        "sealed.parquet: damaged (reason)",
    ),
    "never that is closed": (
        table(lambda found: found.with_columns(reason=pl.lit(CLOSED)), "sealed.parquet"),
        "sealed.parquet: damaged (reason)",
    ),
    "sealed and used": (sealed_and_used, "selection.parquet: has interactions that sealed.parquet says were"),
    "work": (stay, ".work: still there"),
    "more": (lambda run: (run / "frontier.json").write_text("[]"), "frontier.json: not in manifest.json"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_is_found_although_all_hashes_fit(edit: str, whole: dict[str, Path], tmp_path: Path) -> None:
    run = Path(shutil.copytree(whole["values"], tmp_path / "run"))
    change, expected = EDITS[edit]
    change(run)
    found = [str(each) for each in verify(run)]
    assert any(expected in each for each in found), found


def test_a_budget_that_was_exceeded_is_found(whole: dict[str, Path], tmp_path: Path) -> None:
    run = Path(shutil.copytree(whole["budget"], tmp_path / "run"))
    table(lambda found: found.with_columns(disclosed=pl.lit(True)))(run)
    assert "selection.parquet: discloses more than 50% of the violation, the budget" in map(str, verify(run))


def test_interactions_that_a_model_reads_are_those_disclosed(whole: dict[str, Path], tmp_path: Path) -> None:
    run = Path(shutil.copytree(whole["frontier"], tmp_path / "run"))
    table(turned)(run)
    found = {str(each) for each in verify(run)}
    assert "model.safetensors: reads other interactions than the disclosed ones" in found


def test_another_log_is_found(
    log: Interactions, problem: Problem, whole: dict[str, Path], tmp_path: Path
) -> None:
    other = make_problem(log, Protocol.PAPER_TABLES, negatives=8)
    [found] = verify(whole["values"], log, other)
    assert str(found).startswith(
        "settings.json: of another problem than this log gives; the fit had dataset "
    )
    assert "protocol paper-tables, split_seed 0, negatives 9" in str(found)
    run = Path(shutil.copytree(whole["values"], tmp_path / "run"))
    minded = replace(problem, unwillingness=problem.unwillingness * 0.5)
    settings = edited("settings.json", lambda each: each | {"fingerprint": minded.fingerprint()})
    settings(run)
    found_files = {each.file for each in verify(run, log, minded)}
    assert {"settings.json", "selection.parquet"} <= found_files


@pytest.mark.parametrize("name", ["selection.parquet", "held_out.parquet", "sealed.parquet"])
def test_what_a_table_says_of_the_logs_rows_is_compared(
    name: str, log: Interactions, problem: Problem, whole: dict[str, Path], tmp_path: Path
) -> None:
    """Where a wish comes from, when it was said, and what the item is called: what people are shown."""
    found = pl.read_parquet(whole["budget"] / name)
    other = {
        "source": pl.lit("file:other.csv"),
        "said": pl.lit("2026-01-01T00:00:00Z"),
        "title": pl.lit("Another"),
        "category": pl.lit(["Another"]),
    }
    for column in other.keys() & set(found.columns):
        run = Path(shutil.copytree(whole["budget"], tmp_path / column))
        forged_table(run, name, found.with_columns(other[column].alias(column)))
        about = [str(each) for each in verify(run, log, problem)]
        assert any(each.startswith(f"{name}: column {column} is not what the log says") for each in about)
    run = Path(shutil.copytree(whole["budget"], tmp_path / "fewer"))
    forged_table(run, name, found[1:])
    about = [str(each) for each in verify(run, log, problem)]
    assert any(each.startswith(f"{name}: has other rows than the log's ") for each in about), about


def test_the_order_in_which_rows_were_turned_away_does_not_matter(
    log: Interactions, problem: Problem, whole: dict[str, Path]
) -> None:
    assert verify(whole["budget"], replace(log, sealed=log.sealed[::-1]), problem) == []


def test_metrics_that_the_model_does_not_reach_are_found(
    log: Interactions, problem: Problem, whole: dict[str, Path], tmp_path: Path
) -> None:
    run = Path(shutil.copytree(whole["values"], tmp_path / "run"))
    record(ndcg=0.99)(run)
    assert any(
        str(each).startswith("metrics.json: ndcg of ifrqe is 0.99") for each in verify(run, log, problem)
    )


def test_a_reward_that_the_model_does_not_reach_is_found(
    log: Interactions, problem: Problem, whole: dict[str, Path], tmp_path: Path
) -> None:
    run = Path(shutil.copytree(whole["values"], tmp_path / "run"))
    about = open_run(run).certificate
    off = abs(about["predicted_reward"] + 1) / 1
    edited("certificate.json", lambda found: found | {"true_reward": -1.0, "prediction_error": off})(run)
    found = [str(each) for each in verify(run, log, problem)]
    assert any(each.startswith("certificate.json: true_reward is -1.0; it comes to ") for each in found)


def test_another_model_is_found_by_training_again(
    log: Interactions, problem: Problem, whole: dict[str, Path], tmp_path: Path
) -> None:
    """A model of the same shape that was trained on the same rows for longer."""
    longer = QUICK.model_copy(update={"training": QUICK.training.model_copy(update={"epochs": 9})})
    other = tmp_path / "other"
    fit(log, problem, other, PLANS["budget"][0], longer)
    run = Path(shutil.copytree(whole["budget"], tmp_path / "run"))
    for name in ("model.json", "model.safetensors"):
        forged(run, name, (other / name).read_bytes())
    found = [str(each) for each in verify(run, log, problem, again=True)]
    assert "model.safetensors: training again gives other bytes" in found


def test_what_is_no_run_is_refused(log: Interactions, problem: Problem, tmp_path: Path) -> None:
    with pytest.raises(AssentError, match="no such run folder"):
        verify(tmp_path / "none")
    with pytest.raises(AssentError, match="no run folder, nor one that a fit began"):
        verify(tmp_path)
    with pytest.raises(AssentError, match="accepted: log and problem, or neither"):
        verify(tmp_path, log)
    with pytest.raises(AssentError, match="again=True: needs the log"):
        verify(tmp_path, again=True)


def test_it_is_said_what_was_not_checked() -> None:
    assert len(not_checked(data=False, again=False)) == 3
    assert len(not_checked(data=True, again=True)) == 1
