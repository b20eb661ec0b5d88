import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

from assent.evaluation.metrics import RewardForm
from assent.results.comparison import Comparison, Wins, sentences, wins
from assent.results.records import FIGURES

OURS = ("ifrqe++", "nash")
WAYS = [OURS, ("random", ""), ("all", ""), ("nothing", "")]


def made(rewards: dict[tuple[str, float], list[float]], model: str = "mf") -> list[dict[str, Any]]:
    """Records in which a method has these rewards at a price, seed by seed; the mean form is a tenth."""
    objectives = dict(WAYS)
    return [
        {
            **dict.fromkeys(FIGURES, 0.5),
            "dataset": "some",
            "model": model,
            "method": method,
            "objective": objectives[method],
            "price": price,
            "seed": seed,
            "reward_sum": value,
            "reward_mean": value / 10,
        }
        for (method, price), values in rewards.items()
        for seed, value in enumerate(values)
    ]


@pytest.fixture
def records() -> list[dict[str, Any]]:
    return made(
        {
            ("ifrqe++", 0.1): [-1.0, -1.1, -1.2],
            ("ifrqe++", 1.0): [-2.0, -2.1, -2.2],
            ("random", 0.1): [-1.5, -1.7, -1.6],
            ("random", 1.0): [-2.0, -2.3, -2.1],
            ("all", 0.1): [-0.5, -0.6, -0.71],
            ("all", 1.0): [-3.0, -3.1, -3.3],
            ("nothing", 0.1): [-1.9, -1.9, -1.9],
            ("nothing", 1.0): [-1.9, -1.9, -1.9],
        }
    )


def standings(records: list[dict[str, Any]], form: RewardForm = RewardForm.SUM) -> list[dict[str, Any]]:
    return Comparison(records, form, OURS).standings()


def said_of(records: list[dict[str, Any]]) -> list[str]:
    return list(sentences(Comparison(records, RewardForm.SUM, OURS).table, "reward"))


def row(rows: list[dict[str, Any]], method: str, price: float) -> dict[str, Any]:
    (found,) = (each for each in rows if (each["method"], each["price"]) == (method, price))
    return found


def test_standings_have_means_errors_and_paired_tests(records: list[dict[str, Any]]) -> None:
    rows = standings(records)
    random = row(rows, "random", 0.1)
    ours, theirs = np.array([-1.0, -1.1, -1.2]), np.array([-1.5, -1.7, -1.6])
    assert random["reward"] == pytest.approx(-1.6)
    assert random["reward_error"] == pytest.approx(0.1 / np.sqrt(3))
    assert random["ahead"] == pytest.approx(0.5)
    assert random["p"] == pytest.approx(stats.ttest_rel(ours, theirs).pvalue)
    assert random["runs"] == 3
    assert row(rows, "ifrqe++", 0.1)["ahead"] is None
    assert [each["method"] for each in rows if each["best"]] == ["all", "nothing"]


def test_pairs_are_made_by_seed_not_by_order(records: list[dict[str, Any]]) -> None:
    rows = standings(records)
    for each, other in zip(rows, standings(records[::-1])[::-1], strict=True):
        assert other == pytest.approx({**other, "p": each["p"], "ahead": each["ahead"]})


def test_the_form_decides_which_reward_is_judged(records: list[dict[str, Any]]) -> None:
    by_sum, by_mean = (standings(records, form) for form in RewardForm)
    assert row(by_mean, "random", 1.0)["reward"] == pytest.approx(row(by_sum, "random", 1.0)["reward"] / 10)
    assert row(by_mean, "random", 1.0)["ahead"] == pytest.approx(row(by_sum, "random", 1.0)["ahead"] / 10)


def test_wins_are_counted_per_rival(records: list[dict[str, Any]]) -> None:
    found = wins(Comparison(records, RewardForm.SUM, OURS).table, "reward")
    assert found == {
        "Random": Wins(2, 2, 1, []),
        "All": Wins(2, 1, 1, ["price 0.1"]),
        "Nothing": Wins(2, 1, 1, []),
    }


def test_it_is_said_where_nothing_wins(records: list[dict[str, Any]]) -> None:
    said = said_of(records)
    assert said[0] == (
        "IFRQE++ (nash) is at or above Random in 2 of 2 places, significantly above in 1, "
        "significantly below in 0."
    )
    assert said[1].endswith("significantly below in 1 (price 0.1).")
    assert said[-1] == (
        "Nothing wins in 1 of 2 places: no method has a larger mean reward there than withholding everything "
        "(price 1)."
    )
    cheap = [each for each in records if each["price"] == 0.1]
    assert not any("Nothing wins" in each for each in said_of(cheap))


def test_few_repeats_are_compared_without_tests(records: list[dict[str, Any]]) -> None:
    single = standings([each for each in records if each["seed"] == 0])
    assert row(single, "random", 0.1)["ahead"] == pytest.approx(0.5)
    two = [each for each in records if each["seed"] < 2]
    assert {each["p"] for each in (*single, *standings(two))} == {None}
    assert said_of(two)[0] == "IFRQE++ (nash) is at or above Random in 2 of 2 places."
    said = Comparison(two, RewardForm.SUM, OURS).said
    assert any("Not tested: that takes 3 repeats." in each for each in said)


def test_it_is_written_for_people_and_programs(records: list[dict[str, Any]], tmp_path: Path) -> None:
    more = [{**each, "model": "mine:Mine"} for each in records]
    comparison = Comparison([*records, *more], RewardForm.SUM, OURS, ["Note this."])
    files = [path.name for path in comparison.write(tmp_path)]
    assert files == ["compare.csv", "compare.json", "compare.md", "compare-mf.svg", "compare-mine-Mine.svg"]
    table = pl.read_csv(tmp_path / "compare.csv")
    assert table.height == 16
    assert table.filter(method="random", price=0.1, model="mf")["ahead"].item() == pytest.approx(0.5)
    whole = json.loads((tmp_path / "compare.json").read_text())
    assert whole["records"] == [*records, *more]
    assert whole["reward"] == "sum"
    assert whole["wins"][1] == {
        "method": "all", "objective": "", "places": 4, "at_or_above": 2, "significantly_above": 2,
        "significantly_below": 2,
    }  # fmt: skip
    text = (tmp_path / "compare.md").read_text()
    assert r"| mf | 0.1 | Random | −1.600 ±0.058 ↓\* | +0.500 ±0.058 |" in text
    assert "| mf | 1 | Nothing | **−1.900 ±0.000** |" in text
    assert "- Note this." in text
    assert "Nothing wins" in text
    picture = (tmp_path / "compare-mf.svg").read_text()
    assert "reward (sum) above Nothing’s" in picture
    assert "IFRQE++ (nash)" in picture


def test_metrics_at_every_k_are_shown_and_kept(records: list[dict[str, Any]], tmp_path: Path) -> None:
    more = [each | {"k": 10, "ndcg@20": 0.75} for each in records]
    comparison = Comparison(more, RewardForm.SUM, OURS)
    comparison.write(tmp_path)
    assert "| NDCG@10 % | NDCG@20 % |" in (tmp_path / "compare.md").read_text()
    table = pl.read_csv(tmp_path / "compare.csv")
    assert (set(table["k"]), set(table["ndcg@20"]), set(table["ndcg"])) == ({10}, {0.75}, {0.5})
