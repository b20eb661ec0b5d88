import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.cli.conftest import QUICK
from tests.conftest import Assent

WISHES = ["--by-category", "--user-budget", "1.2", "--user-floor", "1", "--utility", "power:1.5"]


def read(path: Path) -> Any:
    return json.loads(path.read_text())


@pytest.mark.parametrize("how", [["--price", "0.02"], ["--budget", "0.4"], ["--method", "threshold"]])
def test_fit_keeps_wishes(how: list[str], log_file: Path, tmp_path: Path, assent: Assent) -> None:
    out = tmp_path / "run"
    code, _, err = assent("fit", log_file, "--out", out, *QUICK, *WISHES, *how)
    assert code == 0, err
    table = pl.read_parquet(out / "selection.parquet").with_columns(kind=pl.col("category").list.first())
    paid = table.filter("disclosed").group_by("user").agg(pl.col("unwillingness").sum())
    assert paid["unwillingness"].max() <= 1.2 + 1e-9  # type: ignore[operator]
    groups = table.filter(pl.col("kind").is_not_null()).group_by("user", "kind")
    assert groups.agg(pl.col("disclosed").n_unique())["disclosed"].max() == 1
    cheapest = table.group_by("user", "kind").agg(pl.col("unwillingness").sum())
    able = set(cheapest.filter(pl.col("unwillingness") <= 1.2)["user"])
    assert able <= set(table.filter("disclosed")["user"])
    wishes = read(out / "settings.json")["wishes"]
    assert wishes["mean_user_budget"] == pytest.approx(1.2)
    assert wishes["mean_user_floor"] == 1
    assert wishes["utility_power"] == 1.5
    assert wishes["groups"] == cheapest.height


def test_certificates_are_written_shown_and_told(run_folder: Path, log_file: Path, assent: Assent) -> None:
    certificate = read(run_folder / "certificate.json")
    assert certificate["largest_gain"] >= certificate["mean_gain"] >= 0
    assert certificate["largest_gain_share"] * -certificate["predicted_reward"] == pytest.approx(
        certificate["largest_gain"]
    )
    assert sum(certificate["rounds_nearest"]) == certificate["rounds"]
    assert certificate["price_of_anarchy"] > 0
    off = abs(certificate["predicted_reward"] - certificate["true_reward"]) / abs(certificate["true_reward"])
    assert certificate["prediction_error"] == pytest.approx(off)
    assert "by the sum of their pairwise losses" in (run_folder / "report.html").read_text()


def test_a_game_with_several_anchors_is_certified(log_file: Path, tmp_path: Path, assent: Assent) -> None:
    game = ["--method", "ifrqe++", "--anchors", 3, "--objective", "nash", "--price", "0.02"]
    for strategy, how in (("factored", []), ("table", ["--set", "table.samples=20"])):
        out = tmp_path / strategy
        code, _, err = assent(
            "fit", log_file, "--out", out, *QUICK, *game, "--set", f"strategy={strategy}", *how
        )
        assert code == 0, err
        certificate = read(out / "certificate.json")
        played = certificate["rounds"] if strategy == "factored" else 20
        assert len(certificate["rounds_nearest"]) == 3
        assert sum(certificate["rounds_nearest"]) == played
        assert certificate["rounds_nearest"][certificate["nearest_anchor"] - 1] > 0
        assert certificate["gains_estimated"] >= 0
        assert "joint selections that were looked at" in (out / "report.html").read_text()


def test_methods_without_a_game_certify_the_true_reward(
    log_file: Path, tmp_path: Path, assent: Assent
) -> None:
    code, _, _ = assent("fit", log_file, "--out", tmp_path / "run", *QUICK, "--method", "threshold")
    assert code == 0
    certificate = read(tmp_path / "run" / "certificate.json")
    assert certificate["prediction_error"] is None
    assert "largest_gain" not in certificate
    said = ", by the sum of their pairwise losses; nothing was predicted."
    assert said in (tmp_path / "run" / "report.html").read_text()


def test_wishes_that_a_method_breaks_are_told(log_file: Path, tmp_path: Path, assent: Assent) -> None:
    limits = ["--user-budget", "0.5", "--user-floor", "2"]
    code, out, _ = assent("fit", log_file, "--out", tmp_path / "all", *QUICK, "--method", "all", *limits)
    assert code == 0
    assert "people than they allow." in out
    certificate = read(tmp_path / "all" / "certificate.json")
    assert certificate["budgets_exceeded"] > 0
    assert (certificate["floors_missed"], certificate["reward_form"]) == (0, "sum")
    command = ["fit", log_file, "--out", tmp_path / "no", *QUICK, "--method", "nothing", *limits]
    code, shown, err = assent(*command)
    assert code == 0
    assert "unwillingness decides" not in err
    certificate = read(tmp_path / "no" / "certificate.json")
    assert certificate["budgets_exceeded"] == 0
    assert certificate["floors_missed"] > 0
    assert "people than they ask for." in shown


def test_gaps_in_a_column_need_a_rest(log_file: Path, tmp_path: Path, assent: Assent) -> None:
    log = pl.read_csv(log_file, infer_schema=False)
    gaps = pl.when(pl.int_range(pl.len()) % 3 == 0).then(pl.lit("")).otherwise("unwillingness")
    log.with_columns(unwillingness=gaps).write_csv(tmp_path / "gaps.csv")
    code, _, err = assent("fit", tmp_path / "gaps.csv", "--out", tmp_path / "run", *QUICK)
    assert code == 2
    assert "row 1, column 'unwillingness' is empty; accepted: a number from 0 (use freely) to 1" in err
    assert "--rest" in err
    assert assent("data", "describe", tmp_path / "gaps.csv")[0] == 0
    command = ["fit", tmp_path / "gaps.csv", "--out", tmp_path / "run", *QUICK, "--rest", "own-mean"]
    code, _, err = assent(*command, "--method", "threshold")
    assert code == 0, err
    table = pl.read_parquet(tmp_path / "run" / "selection.parquet")
    assert table["unwillingness"].is_between(0, 1, closed="left").all()
    assert table["unwillingness"].min() > 0  # type: ignore[operator]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--user-budget", "much"], "--user-budget much: not a rule"),
        (["--user-floor", "0.5"], "--user-floor 0.5: accepted: a whole number"),
        (
            ["--method", "ifrqe++", "--objective", "nash", "--prior", "7"],
            "--prior 7: accepted: a probability",
        ),
        (["--utility", "cubic"], "--utility cubic: accepted: linear, quadratic or power:P"),
        (["--rest", "maybe"], "--rest maybe: accepted: own-mean, mean, or a number"),
    ],
)
def test_bad_wishes_are_refused(
    given: list[str], message: str, log_file: Path, tmp_path: Path, assent: Assent
) -> None:
    code, _, err = assent("fit", log_file, "--out", tmp_path / "run", *QUICK, *given)
    assert code == 2
    assert message in err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "given", [["--method", "scratch", "--user-budget", "2"], ["--method", "proactive", "--by-category"]]
)
def test_methods_that_know_no_wishes_say_so(
    given: list[str], log_file: Path, tmp_path: Path, assent: Assent
) -> None:
    code, _, err = assent("fit", log_file, "--out", tmp_path / "run", *QUICK, *given)
    assert code == 2
    assert f"{given[1]}: does not know wishes" in err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("given", [["--utility", "quadratic"], ["--user-budget", "2"]])
def test_tables_know_no_limits(given: list[str], log_file: Path, tmp_path: Path, assent: Assent) -> None:
    command = ["fit", log_file, "--out", tmp_path / "run", *QUICK, "--set", "strategy=table", *given]
    code, _, err = assent(*command, "--method", "ifrqe")
    assert (code, err.count("\n")) == (2, 1)
    assert "--set strategy=table: " in err
    assert "--set strategy=factored" in err
    assert not (tmp_path / "run").exists()


def test_a_prior_is_where_the_game_of_several_anchors_starts(
    log_file: Path, tmp_path: Path, assent: Assent
) -> None:
    how = [*QUICK, "--model", "mf", "--tune", "none", "--price", 0.2]
    how += ["--anchors", 2, "--objective", "nash", "--method", "ifrqe++"]
    chosen = []
    for prior in (0, 1):
        out = tmp_path / str(prior)
        assert assent("fit", log_file, "--out", out, *how, "--prior", prior)[0] == 0
        chosen.append(read(out / "certificate.json"))
    assert chosen[0] != chosen[1]


@pytest.mark.parametrize(
    "command", [["fit"], ["fit", "--method", "ifrqe++", "--objective", "welfare"], ["frontier"], ["compare"]]
)
def test_a_prior_that_no_method_starts_from_is_refused(
    command: list[str], log_file: Path, tmp_path: Path, assent: Assent
) -> None:
    out = tmp_path / "out"
    code, _, err = assent(command[0], log_file, "--out", out, *QUICK, *command[1:], "--prior", 0.5)
    assert (code, err.count("\n")) == (2, 1)
    assert "--prior: only ifrqe++ starts from it" in err
    assert not out.exists()


def test_frontier_and_compare_keep_wishes(log_file: Path, tmp_path: Path, assent: Assent) -> None:
    methods = ["--methods", "threshold,ifrqe", *QUICK, "--user-budget", "0.5"]
    for command in (
        ["frontier", log_file, "--points", 1, "--seeds", 1],
        ["compare", log_file, "--prices", 0, "--repeats", 1, "--utility", "quadratic"],
    ):
        code, _, err = assent(*command, *methods, "--json", tmp_path / f"{command[0]}.json")
        assert code == 0, err
        found = {each["method"]: each for each in read(tmp_path / f"{command[0]}.json")}
        assert found["all"]["violation"] > 1
        for method in ("threshold", "ifrqe"):
            assert 0 < found[method]["violation"] <= 0.5
    code, _, err = assent("compare", log_file, "--methods", "random,scratch", *QUICK, "--user-floor", 1)
    assert code == 2
    assert "scratch: does not know wishes" in err
    command = ["frontier", log_file, "--points", "0.5,0.01", "--methods", "random", *QUICK]
    code, _, err = assent(*command, "--user-floor", 4)
    assert code == 2
    assert "budget 0.01: everybody's floor alone takes a budget of" in err


def test_floors_beyond_the_budget_are_refused(log_file: Path, tmp_path: Path, assent: Assent) -> None:
    command = ["fit", log_file, "--out", tmp_path / "run", *QUICK, "--user-floor", "4"]
    for method in ("worth", "ifrqe", "threshold"):
        for budget in ("--budget", "--frontier"):
            code, _, err = assent(*command, "--method", method, budget, "0.01")
            assert code == 2
            assert "budget 0.01: everybody's floor alone takes a budget of" in err
            assert not (tmp_path / "run").exists()
