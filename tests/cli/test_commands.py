"""Every command does what its help says, and its records have the keys that they promise."""

import json
import os
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from assent.cli import fit_commands
from assent.runs.folder import FORMAT
from assent.runs.lds import SCORES
from tests.cli.conftest import PRICED, QUICK, forged_table, records
from tests.cli.processes import killed_at
from tests.conftest import Assent
from tests.small import Listener

KEYS = {
    "dataset",
    "model",
    "method",
    "objective",
    "price",
    "seed",
    "violation",
    "violation_share",
    "reward_sum",
    "reward_mean",
    "precision",
    "recall",
    "f1",
    "ndcg",
    "mrr",
    "hit",
    "seconds",
    "k",
}


def test_fit_leaves_a_whole_run_folder(run_folder: Path) -> None:
    names = {file.name for file in run_folder.iterdir()}
    assert names == {
        "settings.json",
        "selection.parquet",
        "held_out.parquet",
        "sealed.parquet",
        "model.safetensors",
        "model.json",
        "tuning.json",
        "certificate.json",
        "metrics.json",
        "quality.json",
        "report.html",
        "manifest.json",
    }
    table = pl.read_parquet(run_folder / "selection.parquet")
    assert {
        "user",
        "item",
        "unwillingness",
        "source",
        "said",
        "given",
        "disclosed",
        "value",
        "uncertainty",
        "worth_owner",
        "error_owner",
        "worth_everybody",
        "error_everybody",
        "price",
        "reason",
        "cost",
        "together",
        "title",
        "category",
    } == set(table.columns)
    assert table["value"].null_count() == 0
    worth = table["value"] > 2 * table["unwillingness"]
    assert table["disclosed"].to_list() == worth.to_list()
    methods = {record["method"] for record in records(run_folder / "metrics.json")}
    assert methods == {"worth", "nothing"}
    assert all(set(record) >= KEYS for record in records(run_folder / "metrics.json"))
    page = (run_folder / "report.html").read_text().replace("http://www.w3.org", "")
    assert "http://" not in page
    assert "https://" not in page


def test_settings_are_searched_and_what_was_tried_is_kept(
    log_file: Path, run_folder: Path, tmp_path: Path, assent: Assent
) -> None:
    tried = json.loads((run_folder / "tuning.json").read_text())
    assert tried.keys() == {"all", "disclosed"}
    for part in tried.values():
        assert {"settings", "ndcg"} <= part["attempts"][0].keys()
        assert part["found"] in [each["settings"] for each in part["attempts"]]
    about = json.loads((run_folder / "model.json").read_text())
    assert (about["model"], about["settings"]) == ("ials", tried["disclosed"]["found"])
    given = ["--set", "model_settings.strength=0.3"]
    for name, more in (("given", given), ("none", [*given, "--tune", "none"])):
        assert assent("fit", log_file, "--out", tmp_path / name, *QUICK, *more)[0] == 0
        for part in json.loads((tmp_path / name / "tuning.json").read_text()).values():
            assert part["found"]["strength"] == 0.3
            assert {each["settings"]["strength"] for each in part["attempts"]} <= {0.3}
            assert bool(part["attempts"]) is (name == "given")
        assert json.loads((tmp_path / name / "model.json").read_text())["settings"]["strength"] == 0.3


def test_the_final_model_knows_disclosed_interactions_alone(run_folder: Path) -> None:
    table = pl.read_parquet(run_folder / "selection.parquet").filter("disclosed")
    about = records(run_folder / "model.json")
    assert about["item_ids"] == sorted(set(table["item"]))  # type: ignore[call-overload]
    assert about["user_ids"] == sorted(set(table["user"]))  # type: ignore[call-overload]


def test_fit_is_deterministic_and_writes_json(
    log_file: Path, run_folder: Path, tmp_path: Path, assent: Assent
) -> None:
    code, out, _ = assent(
        "fit", log_file, "--out", tmp_path / "again", *PRICED, "--json", tmp_path / "fit.json"
    )
    assert code == 0
    assert "Worth (welfare)" in out
    for name in ("model.safetensors", "model.json", "selection.parquet"):
        assert (tmp_path / "again" / name).read_bytes() == (run_folder / name).read_bytes()
    assert len(records(tmp_path / "fit.json")) == 2


def test_fit_within_a_budget(log_file: Path, tmp_path: Path, assent: Assent) -> None:
    within = ["--budget", 0.5, "--price", 0.3]
    code, _, err = assent("fit", log_file, "--out", tmp_path / "run", *QUICK, *within)
    assert code == 0, err
    own = records(tmp_path / "run" / "metrics.json")[0]
    assert 0.45 < own["violation_share"] <= 0.5
    assert own["price"] == 0.3
    assert own["decision_price"] is not None
    assert records(tmp_path / "run" / "settings.json")["budget"] == 0.5  # type: ignore[call-overload]


def test_a_price_that_decides_nothing_is_said_to(log_file: Path, tmp_path: Path, assent: Assent) -> None:
    low = assent("fit", log_file, "--out", tmp_path / "low", *QUICK, "--price", 1e-9)
    high = assent("fit", log_file, "--out", tmp_path / "high", *QUICK, "--price", 1e3)
    assert "unwillingness decides 0.0% of the interactions; raise the price" in low[2]
    assert "unwillingness decides" not in high[2]


def test_a_finished_run_is_not_overwritten(log_file: Path, run_folder: Path, assent: Assent) -> None:
    before = (run_folder / "model.json").read_bytes()
    code, _, err = assent("fit", log_file, "--out", run_folder, *PRICED)
    assert (code, err.count("\n")) == (2, 1)
    assert "finished run" in err
    assert "--replace" in err
    assert (run_folder / "model.json").read_bytes() == before


def test_replace_only_replaces_runs(log_file: Path, tmp_path: Path, assent: Assent) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "photo").write_text("kept")
    code, _, err = assent("fit", log_file, "--out", tmp_path / "precious", *QUICK, "--replace")
    assert code == 2
    assert "only replaces run folders" in err
    assert (tmp_path / "precious" / "photo").exists()


def test_what_a_run_depends_on_is_kept_with_it(run_folder: Path) -> None:
    kept = json.loads((run_folder / "settings.json").read_text())
    assert (kept["format"], kept["method"], kept["objective"]) == (FORMAT, "worth", "welfare")
    own: dict[str, Any] = {"influence": None, "reward": "sum", "source": "combined", "folds": 3, "trials": []}
    assert kept["method_settings"] == own
    assert kept["training"]["epochs"] == 2


def test_a_killed_fit_goes_on_and_ends_the_same(
    log_file: Path, run_folder: Path, tmp_path: Path, assent: Assent, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "killed"
    command = [log_file, "--out", folder, *PRICED]
    assert killed_at("fold 2", *command) == -9
    assert list((folder / ".work").glob("*.json"))
    assert not (folder / "report.html").exists()
    listener = Listener()
    monkeypatch.setattr(fit_commands, "watcher", lambda: listener)
    assert assent("fit", *command)[0] == 0
    on_split_and_on_all = [listener.labels.count(f"fold {fold}") for fold in (1, 2, 3)]
    assert on_split_and_on_all == [1, 2, 2]
    assert not (folder / ".work").exists()
    for name in ("model.safetensors", "model.json", "selection.parquet", "settings.json"):
        assert (folder / name).read_bytes() == (run_folder / name).read_bytes()


def test_several_processes_write_the_same(
    log_file: Path, run_folder: Path, tmp_path: Path, assent: Assent
) -> None:
    assert assent("fit", log_file, "--out", tmp_path / "run", *PRICED, "--jobs", 2)[0] == 0
    for name in ("model.safetensors", "model.json", "selection.parquet", "settings.json"):
        assert (tmp_path / "run" / name).read_bytes() == (run_folder / name).read_bytes()


def test_an_unfinished_run_of_other_settings_is_refused(
    log_file: Path, tmp_path: Path, assent: Assent
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "settings.json").write_text('{"format": 1}')
    code, _, err = assent("fit", log_file, "--out", tmp_path / "run", *QUICK)
    assert code == 2
    assert "unfinished run of other data or settings" in err


def test_frontier_prints_writes_and_resumes(log_file: Path, tmp_path: Path, assent: Assent) -> None:
    arguments = ["frontier", log_file, "--points", "0.5,0.25", "--seeds", 2, *QUICK]
    arguments += ["--methods", "threshold,ifrqe:nash", "--k", "5,10", "--out", tmp_path / "front"]
    code, out, _ = assent(*arguments, "--json", tmp_path / "a.json")
    assert code == 0
    assert "Threshold" in out
    found = records(tmp_path / "a.json")
    assert len(found) == 2 * (2 * 2 + 2)
    assert all(set(record) >= KEYS | {"point", "ndcg@10", "recall@10"} for record in found)
    assert all(r["violation_share"] <= r["point"] + 1e-9 for r in found)
    assert assent(*arguments, "--json", tmp_path / "b.json")[0] == 0
    assert records(tmp_path / "b.json") == found
    picture = (tmp_path / "front" / "frontier.svg").read_text(encoding="utf-8")
    for label in ("Threshold", "IFRQE", "All", "Nothing", "violation, share of All’s"):
        assert f">{label}" in picture


def test_metrics_are_taken_of_lists_of_several_lengths(
    log_file: Path, tmp_path: Path, assent: Assent
) -> None:
    options = [*QUICK, "--method", "threshold", "--k", "3,10", "--json", tmp_path / "k.json"]
    code, out, _ = assent("fit", log_file, "--out", tmp_path / "run", *options)
    assert code == 0
    assert "NDCG@3" in out
    assert "NDCG@10" in out
    for record in records(tmp_path / "k.json"):
        assert record["k"] == 3
        assert record["hit@10"] >= record["hit"]


def test_a_setting_of_either_the_method_or_the_frontier_is_taken(
    log_file: Path, tmp_path: Path, assent: Assent
) -> None:
    options = [*QUICK, "--frontier", 0.5, "--frontier-seeds", 1, "--frontier-methods", "random,ifrqe++:nash"]
    options += ["--set", "worth.folds=2", "--anchors", 1, "--json", tmp_path / "r.json"]
    code, _, err = assent("fit", log_file, "--out", tmp_path / "run", *options)
    assert code == 0, err
    kept = json.loads((tmp_path / "run" / "settings.json").read_text())
    assert kept["method_settings"]["folds"] == 2
    assert [each["anchors"] for each in kept["frontier_methods"] if each["method"] == "ifrqe++"] == [1]


def test_a_store_tells_its_size_and_is_pruned(log_file: Path, tmp_path: Path, assent: Assent) -> None:
    front = tmp_path / "front"
    command = ["frontier", log_file, "--points", 0.5, "--seeds", 1, "--methods", "random", *QUICK]
    assert assent(*command, "--out", front)[0] == 0
    cells = front / "cells"
    files = list(cells.iterdir())
    size = sum(file.stat().st_size for file in files)
    (cells / "mine.txt").write_text("kept")
    assert assent("store", cells)[:2] == (0, f"{size:,} bytes\n")
    assert assent("store", cells, "--prune", 30)[:2] == (0, f"0 bytes deleted\n{size:,} bytes\n")
    for file in files:
        os.utime(file, (time.time() - 31 * 24 * 3600,) * 2)
    assert assent("store", cells, "--prune", 30)[:2] == (0, f"{size:,} bytes deleted\n0 bytes\n")
    assert [file.name for file in cells.iterdir()] == ["mine.txt"]


def test_lds(log_file: Path, tmp_path: Path, assent: Assent) -> None:
    arguments = [
        "lds",
        log_file,
        "--selections",
        10,
        "--truth-seeds",
        1,
        *QUICK,
        "--out",
        tmp_path / "kept",
    ]
    code, out, _ = assent(*arguments, "--json", tmp_path / "lds.json")
    assert code == 0
    assert "loss of validation rows" in out
    assert "another seed" in out
    assert "behind averaged" in out
    for level in ("own", "social"):
        assert f"{level}, validation rows: averaged, what is measured, is " in out
        assert f"{level}, validation rows: combined, what decides by default, is " in out
    found = records(tmp_path / "lds.json")
    assert all(set(r) == {"dataset", "model", "rows", "estimator", "level", *SCORES} for r in found)
    assert {r["level"] for r in found} == {"own", "social"}
    code, out, _ = assent(*arguments, "--rows", "test", "--json", tmp_path / "test.json")
    assert code == 0
    assert "loss of test rows" in out
    assert records(tmp_path / "test.json") != found


def test_recommend_and_explain(run_folder: Path, tmp_path: Path, assent: Assent) -> None:
    table = pl.read_parquet(run_folder / "selection.parquet")
    user = table.filter("disclosed")["user"][0]
    code, out, _ = assent("recommend", run_folder, "--user", user, "--k", 4, "--json", tmp_path / "r.json")
    assert code == 0
    assert "item" in out
    disclosed = set(table.filter((pl.col("user") == user) & pl.col("disclosed"))["item"])
    found = records(tmp_path / "r.json")
    assert len(found) == 4
    assert not disclosed & {record["item"] for record in found}
    code, out, _ = assent("explain", run_folder, "--user", user, "--json", tmp_path / "e.json")
    assert code == 0
    explained = records(tmp_path / "e.json")
    assert len(explained) == table.filter(pl.col("user") == user).height
    assert all(record["words"] for record in explained)
    assert "disclosed" in out


def test_somebody_who_disclosed_nothing_is_served(run_folder: Path, assent: Assent) -> None:
    table = pl.read_parquet(run_folder / "selection.parquet")
    nothing = table.group_by("user").agg(pl.col("disclosed").any()).filter(~pl.col("disclosed"))["user"]
    for user in nothing.head(1):
        assert assent("recommend", run_folder, "--user", user)[0] == 0


def test_an_empty_recommendation_says_why(log_file: Path, tmp_path: Path, assent: Assent) -> None:
    options = [*QUICK, "--method", "nothing"]
    assert assent("fit", log_file, "--out", tmp_path / "run", *options)[0] == 0
    user = pl.read_parquet(tmp_path / "run" / "selection.parquet")["user"][0]
    code, out, _ = assent("recommend", tmp_path / "run", "--user", user, "--json", tmp_path / "r.json")
    assert code == 0
    assert "no interaction is disclosed in this run" in out
    assert "score" not in out
    assert records(tmp_path / "r.json") == []


def test_somebody_who_disclosed_every_item_is_told_so(tmp_path: Path, assent: Assent) -> None:
    items = {"ann": "abcdef", "ben": "abcghi"}
    rows = [f"{user},{item},0.5" for user, theirs in items.items() for item in theirs]
    (tmp_path / "log.csv").write_text("\n".join(["user,item,unwillingness", *rows]))
    split = [*QUICK, "--negatives", 1, "--method", "all"]
    assert assent("fit", tmp_path / "log.csv", "--out", tmp_path / "run", *split)[0] == 0
    table = pl.read_parquet(tmp_path / "run" / "selection.parquet")
    everything = table.with_columns(user=pl.lit("ann")).unique("item")
    forged_table(tmp_path / "run", "selection.parquet", everything)
    code, out, _ = assent("recommend", tmp_path / "run", "--user", "ann")
    assert code == 0
    assert "every item that the model knows" in out


def test_data_describe_and_simulate(log_file: Path, tmp_path: Path, assent: Assent) -> None:
    code, out, _ = assent("data", "describe", log_file, "--json", tmp_path / "d.json")
    assert code == 0
    assert "interactions" in out
    assert records(tmp_path / "d.json")[0]["users"] == 60
    code, _, _ = assent("simulate", "--to", tmp_path / "s.parquet", "--users", 30, "--items", 40)
    assert code == 0
    assert assent("data", "describe", tmp_path / "s.parquet")[0] == 0
    assert assent("simulate", "--to", tmp_path / "s.parquet")[0] == 2
    large = ["--users", 30, "--items", 40, "--rows", 300]
    code, out, _ = assent("simulate", "--to", tmp_path / "l.csv", *large)
    assert code == 0
    assert out.startswith("300 interactions of 30 users")


def test_settings_lists_and_set_changes(assent: Assent) -> None:
    code, out, _ = assent("settings")
    assert code == 0
    for setting in ("training.epochs", "model_settings.strength", "influence.loss", "worth.folds"):
        assert f"│ {setting} " in out
    assert "│ ifrqe++.table." in out


def test_a_run_keeps_nothing_but_the_sealed_list_of_somebody_whose_rule_is_never(
    log_file: Path, tmp_path: Path, assent: Assent
) -> None:
    table = pl.read_csv(log_file, schema_overrides={"user": pl.String}).drop("unwillingness")
    table = table.with_columns(pl.col("user").replace({table["user"][0]: "Zenobia"}))
    table.write_csv(tmp_path / "log.csv")
    options = [*QUICK, "--unwillingness", "user:Zenobia=1,*=0.2"]
    assert assent("fit", tmp_path / "log.csv", "--out", tmp_path / "run", *options)[0] == 0
    assert records(tmp_path / "run" / "settings.json")["unwillingness"].startswith("user: 2 rules (")  # type: ignore[call-overload]
    for file in (tmp_path / "run").iterdir():
        assert (b"Zenobia" in file.read_bytes()) == (file.name == "sealed.parquet"), file
