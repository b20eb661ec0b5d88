"""What `--json` writes: flat records with the same keys, each model once."""

from pathlib import Path
from typing import Any

import pytest

from assent.cli import fit_commands
from assent.data.simulate import simulate
from assent.runs.folder import Run
from assent.runs.run import fit
from tests.cli.conftest import QUICK, records
from tests.conftest import Assent
from tests.small import QUICK as SETTINGS

KEYS = [
    "dataset", "model", "method", "objective", "price", "seed", "violation", "violation_share", "reward_sum",
    "reward_mean", "precision", "recall", "f1", "ndcg", "mrr", "hit", "seconds", "trainings",
    "decision_price", "point", "k", "settings",
]  # fmt: skip


def check(found: list[dict[str, Any]]) -> None:
    assert [list(record) for record in found] == [KEYS] * len(found)
    identity = [
        (record["method"], record["objective"], record["seed"], record["point"] or record["price"])
        for record in found
    ]
    assert len(set(identity)) == len(identity)
    models = [(record["method"], record["seed"]) for record in found]
    assert all(models.count((name, seed)) == 1 for name, seed in models if name in ("all", "nothing"))


def test_fit_with_a_frontier(log_file: Path, tmp_path: Path, assent: Assent) -> None:
    options = [*QUICK, "--seeds", 2, "--frontier", "0.5,0.5", "--frontier-methods", "random,ifrqe:welfare"]
    code, _, err = assent("fit", log_file, "--out", tmp_path / "run", *options, "--json", tmp_path / "r.json")
    assert code == 0, err
    found = records(tmp_path / "r.json")
    check(found)
    budgeted = [each for each in found if each["point"] is not None]
    assert sorted((each["method"], each["seed"], each["point"]) for each in budgeted) == [
        ("all", 0, 1.0), ("all", 1, 1.0), ("ifrqe", 0, 0.5), ("ifrqe", 1, 0.5),
        ("nothing", 0, 0.0), ("nothing", 1, 0.0), ("random", 0, 0.5), ("random", 1, 0.5),
        ("worth", 0, 0.5), ("worth", 1, 0.5),
    ]  # fmt: skip
    assert not [each for each in found if each["point"] is None]


def test_fit_alone_has_the_same_keys(run_folder: Path) -> None:
    found = records(run_folder / "metrics.json")
    check(found)
    assert all(record["point"] is None for record in found)


def test_demo(tmp_path: Path, assent: Assent, monkeypatch: pytest.MonkeyPatch) -> None:
    small = simulate(preference="learnable", users=40, items=150, seed=0)
    monkeypatch.setattr(fit_commands, "simulate", lambda **_: small)

    def fit_briefly(log: Any, problem: Any, out: Any, plan: Any, **how: Any) -> Run:
        return fit(log, problem, out, plan, SETTINGS, **how)

    monkeypatch.setattr(fit_commands, "fit", fit_briefly)
    code, _, err = assent("demo", "--jobs", 1, "--out", tmp_path / "demo", "--json", tmp_path / "demo.json")
    assert code == 0, err
    found = records(tmp_path / "demo.json")
    check(found)
    assert len(found) == 3 * (3 * 5 + 2)


def test_describe_and_explain_are_flat(
    log_file: Path, run_folder: Path, tmp_path: Path, assent: Assent
) -> None:
    assert assent("data", "describe", log_file, "--json", tmp_path / "d.json")[0] == 0
    (about,) = records(tmp_path / "d.json")
    names, shares = about["top_categories"].split("|"), about["top_category_shares"].split("|")
    assert len(names) == len(shares) > 1
    assert all(0 < float(share) <= 1 for share in shares)
    user = records(run_folder / "model.json")["user_ids"][0]  # type: ignore[call-overload]
    assert assent("explain", run_folder, "--user", user, "--json", tmp_path / "e.json")[0] == 0
    for record in [about, *records(tmp_path / "e.json")]:
        assert not [value for value in record.values() if isinstance(value, list | dict)]
    assert all(isinstance(record["category"], str) for record in records(tmp_path / "e.json"))
