"""Every command does what its help says, and its records have the keys that they promise."""

import subprocess
import sys
from pathlib import Path

import polars as pl

from assent.runs.lds import SCORES
from tests.cli.conftest import QUICK, records
from tests.conftest import Assent

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
}


def test_fit_leaves_a_whole_run_folder(run_folder: Path) -> None:
    names = {file.name for file in run_folder.iterdir()}
    assert names == {
        "settings.json",
        "selection.parquet",
        "held_out.parquet",
        "model.safetensors",
        "model.json",
        "certificate.json",
        "metrics.json",
        "report.html",
    }
    table = pl.read_parquet(run_folder / "selection.parquet")
    assert {
        "user",
        "item",
        "unwillingness",
        "given",
        "disclosed",
        "value",
        "uncertainty",
        "price",
        "reason",
        "cost",
        "together",
        "title",
        "category",
    } == set(table.columns)
    assert table["value"].null_count() == 0
    worth = table["value"] > 0.1 * table["unwillingness"]
    assert table["disclosed"].to_list() == worth.to_list()
    methods = {record["method"] for record in records(run_folder / "metrics.json")}
    assert methods == {"ifrqe++", "all", "nothing"}
    assert all(set(record) >= KEYS for record in records(run_folder / "metrics.json"))
    page = (run_folder / "report.html").read_text().replace("http://www.w3.org", "")
    assert "http://" not in page
    assert "https://" not in page


def test_the_final_model_knows_disclosed_interactions_alone(run_folder: Path) -> None:
    table = pl.read_parquet(run_folder / "selection.parquet").filter("disclosed")
    about = records(run_folder / "model.json")
    assert about["item_ids"] == sorted(set(table["item"]))  # type: ignore[call-overload]
    assert about["user_ids"] == sorted(set(table["user"]))  # type: ignore[call-overload]


def test_fit_is_deterministic_and_writes_json(
    log_file: Path, run_folder: Path, tmp_path: Path, assent: Assent
) -> None:
    code, out, _ = assent(
        "fit", log_file, "--out", tmp_path / "again", *QUICK, "--anchors", 2, "--json", tmp_path / "fit.json"
    )
    assert code == 0
    assert "IFRQE++ (welfare)" in out
    for name in ("model.safetensors", "model.json", "selection.parquet"):
        assert (tmp_path / "again" / name).read_bytes() == (run_folder / name).read_bytes()
    assert len(records(tmp_path / "fit.json")) == 3


def test_fit_within_a_budget(log_file: Path, tmp_path: Path, assent: Assent) -> None:
    code, _, err = assent(
        "fit", log_file, "--out", tmp_path / "run", *QUICK, "--anchors", 1, "--budget", 0.5, "--price", 0.3
    )
    assert code == 0, err
    own = records(tmp_path / "run" / "metrics.json")[0]
    assert 0.45 < own["violation_share"] <= 0.5
    assert own["price"] == 0.3
    assert own["decision_price"] is not None
    assert records(tmp_path / "run" / "settings.json")["budget"] == 0.5  # type: ignore[call-overload]


def test_a_price_that_decides_nothing_is_said_to(log_file: Path, tmp_path: Path, assent: Assent) -> None:
    low = assent("fit", log_file, "--out", tmp_path / "low", *QUICK, "--anchors", 1, "--price", 1e-9)
    high = assent("fit", log_file, "--out", tmp_path / "high", *QUICK, "--anchors", 1, "--price", 1e3)
    assert "unwillingness decides 0.0% of the interactions; raise --price" in low[2]
    assert "unwillingness decides" not in high[2]


def test_a_finished_run_is_not_overwritten(log_file: Path, run_folder: Path, assent: Assent) -> None:
    before = (run_folder / "model.json").read_bytes()
    code, _, err = assent("fit", log_file, "--out", run_folder, *QUICK)
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


def test_a_killed_fit_goes_on_and_ends_the_same(log_file: Path, run_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "killed"
    script = f"""
import os, sys
import assent.workbench as workbench
real, done = workbench.train, []
def train(*args, **kwargs):
    if len(done) == 1:
        os.kill(os.getpid(), 9)
    done.append(1)
    return real(*args, **kwargs)
workbench.train = train
from assent.cli.app import main
sys.argv = {["assent", "fit", str(log_file), "--out", str(folder), *QUICK, "--anchors", "2"]!r}
main()
"""
    killed = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert killed.returncode == -9
    assert list((folder / ".work").glob("anchor-0-*.json"))
    assert not (folder / "report.html").exists()
    again = script.replace("len(done) == 1", "kwargs['label'] == 'anchor 1'")
    subprocess.run([sys.executable, "-c", again], capture_output=True, check=True)
    assert not (folder / ".work").exists()
    for name in ("model.safetensors", "model.json", "selection.parquet", "settings.json"):
        assert (folder / name).read_bytes() == (run_folder / name).read_bytes()


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
    arguments += ["--methods", "threshold,ifrqe:nash", "--out", tmp_path / "front"]
    code, out, _ = assent(*arguments, "--json", tmp_path / "a.json")
    assert code == 0
    assert "Threshold" in out
    found = records(tmp_path / "a.json")
    assert len(found) == 2 * (2 * 2 + 2)
    assert all(set(record) >= KEYS | {"point"} for record in found)
    assert all(r["violation_share"] <= r["point"] + 1e-9 for r in found)
    assert assent(*arguments, "--json", tmp_path / "b.json")[0] == 0
    assert records(tmp_path / "b.json") == found
    picture = (tmp_path / "front" / "frontier.svg").read_text(encoding="utf-8")
    for label in ("Threshold", "IFRQE", "All", "Nothing", "violation, share of All’s"):
        assert f">{label}" in picture


def test_options_without_an_effect_are_told(log_file: Path, tmp_path: Path, assent: Assent) -> None:
    plain = ["fit", log_file, "--method", "threshold", *QUICK, "--out", tmp_path / "plain"]
    code, _, err = assent(*plain)
    assert code == 0
    assert "no effect" not in err
    more = ["--value", "influence", "--anchors", 2, "--frontier-seeds", 3, "--out", tmp_path / "more"]
    code, _, err = assent(*plain, *more)
    assert code == 0
    assert "no effect on threshold: anchors and value" in err
    assert "no effect without --frontier: --frontier-seeds and --frontier-methods" in err


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
    assert len(explained) == table.filter(pl.col("user") == user).height + 2
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
    rows = [f"{user},{item},0.5" for user, hers in items.items() for item in hers]
    (tmp_path / "log.csv").write_text("\n".join(["user,item,unwillingness", *rows]))
    split = [*QUICK, "--negatives", 1, "--method", "all"]
    assert assent("fit", tmp_path / "log.csv", "--out", tmp_path / "run", *split)[0] == 0
    table = pl.read_parquet(tmp_path / "run" / "selection.parquet")
    everything = table.with_columns(user=pl.lit("ann")).unique("item")
    everything.write_parquet(tmp_path / "run" / "selection.parquet")
    code, out, _ = assent("recommend", tmp_path / "run", "--user", "ann")
    assert code == 0
    assert "every item the model knows" in out


def test_data_describe_and_simulate(log_file: Path, tmp_path: Path, assent: Assent) -> None:
    code, out, _ = assent("data", "describe", log_file, "--json", tmp_path / "d.json")
    assert code == 0
    assert "interactions" in out
    assert records(tmp_path / "d.json")[0]["users"] == 60
    code, _, _ = assent("simulate", "--to", tmp_path / "s.parquet", "--users", 30, "--items", 40)
    assert code == 0
    assert assent("data", "describe", tmp_path / "s.parquet")[0] == 0
    assert assent("simulate", "--to", tmp_path / "s.parquet")[0] == 2


def test_settings_lists_and_set_changes(assent: Assent) -> None:
    code, out, _ = assent("settings")
    assert code == 0
    assert "training.epochs" in out
    assert "model_settings.strength" in out


def test_a_run_keeps_nothing_of_somebody_whose_rule_is_never(
    log_file: Path, tmp_path: Path, assent: Assent
) -> None:
    table = pl.read_csv(log_file, schema_overrides={"user": pl.String}).drop("unwillingness")
    table = table.with_columns(pl.col("user").replace({table["user"][0]: "Zenobia"}))
    table.write_csv(tmp_path / "log.csv")
    options = [*QUICK, "--anchors", 1, "--unwillingness", "user:Zenobia=1,*=0.2"]
    assert assent("fit", tmp_path / "log.csv", "--out", tmp_path / "run", *options)[0] == 0
    assert records(tmp_path / "run" / "settings.json")["unwillingness"].startswith("user: 2 rules (")  # type: ignore[call-overload]
    for file in (tmp_path / "run").iterdir():
        assert b"Zenobia" not in file.read_bytes(), file
