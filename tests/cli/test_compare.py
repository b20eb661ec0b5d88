"""`assent compare` as it is typed and read."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import QUICK, records
from tests.conftest import Assent

FEW = ["--repeats", 2, "--prices", "0.05,1", *QUICK]


def test_it_prints_standings_and_says_how_they_were_made(
    log_file: Path, tmp_path: Path, assent: Assent
) -> None:
    out = tmp_path / "compared"
    command: list[Any] = ["compare", log_file, "--methods", "random,worth", *FEW, "--out", out]
    code, text, err = assent(*command, "--json", tmp_path / "records.json")
    assert code == 0
    assert "log, reward (sum), 2 repeats from seed 0, ials" in text
    assert "Worth (nash) is at or above Random in" in text
    assert "Worth: from cross-fitted, by the loss bce, the reward’s own." in text
    assert "Nothing wins" in text
    for name in ("compare.csv", "compare.json", "compare.md", "compare-ials.svg"):
        assert (out / name).exists()
        assert name in err
    found = records(tmp_path / "records.json")
    assert len(found) == 5 * 2 * 2
    assert {each["method"] for each in found} == {"random", "worth", "all", "nothing"}
    whole = json.loads((out / "compare.json").read_text())
    assert whole["reference"] == "Worth (nash)"
    code, again, _ = assent(*command)
    assert (code, again) == (0, text)


def test_what_people_ask_for_is_told(log_file: Path, assent: Assent) -> None:
    wishes = ["--user-budget", "1.5", "--utility", "quadratic"]
    code, text, _ = assent("compare", log_file, "--methods", "threshold", *FEW, *wishes)
    assert code == 0
    assert "Unwillingness: column; split: paper-tables. Both are the same in all repeats" in text
    assert "Rewards count price · violation^2." in text
    assert "Wishes: users with budget 60, mean user budget 1.5. All and Nothing heed none." in text


def test_a_table_fits_80_columns(log_file: Path, assent: Assent) -> None:
    code, text, _ = assent("compare", log_file, "--methods", "ifrqe++:nash", "--anchors", 1, *FEW, columns=80)
    assert code == 0
    assert "…" not in text
    table = [line for line in text.splitlines() if line.startswith(("│", "┃"))]
    assert table
    assert all(len(line) <= 80 for line in table)


def test_rivals_that_retrain_say_so(log_file: Path, assent: Assent) -> None:
    tiny = ["--set", "proactive.rounds=2", "--set", "scratch.selections=2", "--set", "scratch.warm_epochs=1"]
    code, text, _ = assent("compare", log_file, "--methods", "proactive,scratch", *FEW, *tiny)
    assert code == 0
    assert "Proactive: a re-implementation; explored selections are trained on, each from scratch." in text
    assert "goes on from the one before for 1 epochs" in text


def test_the_user_may_play_for_another_loss_form_and_reference(log_file: Path, assent: Assent) -> None:
    options = ["--set", "influence.loss=pairwise", "--reward", "mean", "--reference", "threshold"]
    code, text, _ = assent("compare", log_file, "--methods", "random,ifrqe:nash", *FEW, *options)
    assert code == 0
    assert "reward (mean)" in text
    assert "IFRQE: T = 1, strategies: factored, by the loss pairwise, not the reward’s." in text
    assert "Threshold is at or above Random in" in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--reward", "sum", "--set", "reward=mean"], "--set reward=mean: contradicts --reward sum"),
        (["--prices", "cheap"], "--prices cheap: accepted: numbers from 0 on"),
        (["--prices", "0.1,-1"], "price -1: accepted: a number from 0 to 1e+100"),
        (["--reference", "magic"], "--reference magic: unknown; accepted: all"),
        (["--reference", "random,threshold"], "--reference random,threshold: accepted: one method"),
        (["--methods", "magic"], "--methods magic: unknown; accepted: all"),
        (["--models", "mf,magic"], "magic"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_a_line(
    options: list[str], message: str, log_file: Path, assent: Assent
) -> None:
    code, out, err = assent("compare", log_file, *options)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err


def test_results_of_unknown_origin_are_kept(log_file: Path, tmp_path: Path, assent: Assent) -> None:
    (tmp_path / "compare.csv").write_text("mine")
    command: list[Any] = ["compare", log_file, "--methods", "random", *FEW, "--out", tmp_path]
    code, _, err = assent(*command)
    assert code == 2
    assert "compare.csv: already exists" in err
    assert (tmp_path / "compare.csv").read_text() == "mine"
    assert assent(*command, "--replace")[0] == 0


def test_a_fit_says_which_objective_a_rival_plays_for(log_file: Path, tmp_path: Path, assent: Assent) -> None:
    tiny = [*QUICK, "--tune", "none", "--set", "scratch.selections=2", "--method", "scratch", "--experiment"]
    code, _, err = assent("fit", log_file, *tiny, "--out", tmp_path / "run")
    assert code == 0
    assert "scratch: plays for nash alone" in err
    (own, *_) = records(tmp_path / "run" / "metrics.json")
    assert (own["method"], own["objective"], own["trainings"]) == ("scratch", "nash", 3)
    assert json.loads((tmp_path / "run" / "settings.json").read_text())["objective"] == "nash"
