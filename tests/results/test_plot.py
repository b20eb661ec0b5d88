"""Charts: what is drawn, how series are told apart, and the three kinds."""

from pathlib import Path
from typing import Any

import pytest

from assent.methods import METHODS
from assent.results.plot import (
    CANVASES,
    LOOKS,
    Chart,
    QualityChart,
    Series,
    any_look,
    charts,
    quality_chart,
    reward_chart,
)
from assent.results.records import ALL, METHOD, NOTHING, WAYS, name
from assent.results.table import Amount, Row, Table
from assent.support.statistics import Interval

A, B, C = (Amount(value) for value in (1.0, 2.0, 3.0))
ROWS = [
    Row({"dataset": "steam", METHOD: "All", "price": 0.1}, {"f1": A, "wv": B}, 1),
    Row({"dataset": "steam", METHOD: "IFRQE++ (nash)", "price": 0.1}, {"f1": B, "wv": C}, 1),
    Row({"dataset": "steam", METHOD: "All", "price": 2.0}, {"f1": C, "wv": A}, 1),
]
TABLE = Table("some", "Some", {"dataset": "data set", METHOD: "method", "price": "price"}, [], ROWS)


def drawn(figures: str | dict[str, str], by: str = METHOD) -> Chart:
    (chart,) = charts(TABLE, "dataset", along="price", x="price", y="y", figures=figures, by=by)
    return chart


def test_a_series_per_label_has_its_own_places_and_methods_are_known_by_name() -> None:
    chart = drawn("f1")
    first, second = chart.series
    assert (chart.name, chart.title) == ("some-steam", "steam")
    assert (first.of, first.x, first.y) == (("all", ""), [0.1, 2.0], [A, C])
    assert (second.of, second.x, second.y) == (("ifrqe++", "nash"), [0.1], [B])
    (only,) = drawn("wv", "dataset").series
    assert (only.of, only.y) == ("steam", [B, C, A])


def test_a_series_per_figure() -> None:
    first, second = drawn({"wv": "violation", "f1": "F1"}).series
    assert (first.of, first.x, first.y) == ("violation", [0.1, 0.1, 2.0], [B, C, A])
    assert (second.of, second.y) == ("F1", [A, B, C])


def test_every_method_is_found_by_its_name() -> None:
    assert {name(way) for way in WAYS.values()} == set(WAYS)
    for method, kind in METHODS.items():
        for way in [(method, each.value) for each in kind.objectives] or [(method, "")]:
            assert WAYS[name(way)] == way
            assert way in LOOKS


def test_series_look_different() -> None:
    found = [any_look(number) for number in range(14)]
    assert len(set(found)) == 14
    assert len({look.colour for look in found[:7]}) == 7
    assert len(set(LOOKS.values())) == len(LOOKS)
    unknown = Chart("n", "t", "x", "y", [Series((each, ""), [0.0], [A]) for each in "abcd"])
    assert len(set(unknown.looks)) == 4


def test_a_chart_draws_every_series_that_has_a_value(tmp_path: Path) -> None:
    some, none = Amount(0.5, 0.1), Amount(None)
    series = [Series(("random", ""), ["a", "b"], [some, none]), Series("other", ["a", "b"], [some, some])]
    chart = Chart("name", "title", "x", "y", series)
    svg = chart.svg(CANVASES[1])
    assert all(f">{label}<" in svg for label in ("title", "x", "y", "a", "b", "Random", "other"))
    assert [file.name for file in chart.write(tmp_path)] == ["name.svg", "name.png"]
    assert (tmp_path / "name.svg").read_text() == chart.svg()
    assert (tmp_path / "name.png").read_bytes().startswith(b"\x89PNG")


def records(**ndcg: float) -> list[dict[str, Any]]:
    points = {"all": 1.0, "nothing": 0.0}
    return [
        {
            "method": method, "objective": "", "seed": seed, "point": point, "violation_share": point,
            "ndcg": value + 0.01 * seed,
        }
        for method, value in ndcg.items()
        for point in ([points[method]] if method in points else [0.5, 0.25])
        for seed in range(2)
    ]  # fmt: skip


def test_quality_is_drawn_against_violation_with_all_and_nothing_last() -> None:
    chart = quality_chart(records(nothing=0.3, all=0.5, random=0.4, threshold=0.45), ours=("random", ""))
    assert [each.of for each in chart.series] == [("random", ""), ("threshold", ""), ALL, NOTHING]
    assert (chart.series[0].x, chart.series[0].strong) == ([0.25, 0.5], True)
    assert chart.series[0].y[0].mean == pytest.approx(0.405)
    assert chart.y == "NDCG@5"
    assert "this run" not in chart.svg()
    assert (
        "this run" in quality_chart(records(all=0.5, nothing=0.3), run=(0.5, Interval(0.4, 0.3, 0.5))).svg()
    )


def test_nothing_far_below_is_left_out_and_named() -> None:
    near, far = (quality_chart(records(nothing=level, all=0.5, random=0.45)) for level in (0.42, 0.01))
    assert "below this scale" not in near.svg()
    assert "1.5\u202f%, below this scale" in far.svg()


def test_the_k_of_the_records_is_on_the_axis() -> None:
    assert quality_chart([each | {"k": 20} for each in records(all=0.5, nothing=0.3)]).y == "NDCG@20"


@pytest.mark.parametrize("prices", [(0.0, 0.5), (0.1, 1.0)])
@pytest.mark.parametrize("lead", [0.0, -3.0])
def test_rewards_stand_above_nothings(prices: tuple[float, float], lead: float) -> None:
    rows = [
        Row({METHOD: label, "price": price}, {"reward": Amount(-1.0 + above, 0.1)}, 1)
        for price in prices[::-1]
        for label, above in (("Random", lead), ("Nothing", 0.0), ("mine", lead))
    ]
    chart = reward_chart(rows, "reward", name="n", title="t", y="reward")
    assert [each.of for each in chart.series] == [("random", ""), "mine"]
    assert chart.series[0].x == list(prices)
    assert [each.mean for each in chart.series[0].y] == [lead, lead]
    assert all(f">{label}<" in chart.svg() for label in ("Random", "Nothing", "mine"))


def test_charts_on_a_page_come_in_two_sizes_with_colours_of_the_style_sheet() -> None:
    page = QualityChart("n", "", "x", "y", [Series(ALL, [1.0], [A])]).html("In words")
    assert page.count("<svg ") == 2
    assert 'aria-label="In words"' in page
    assert "var(--ink)" in page
    assert "#1c2733" not in page
