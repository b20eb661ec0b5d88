from assent.report.words import name as way_name
from assent.reproduce.charts import METHOD, WAYS, rows_by, series_by, series_of
from assent.reproduce.grid import Amount, Row

A, B, C = (Amount(value, None) for value in (1.0, 2.0, 3.0))
ROWS = [
    Row({"dataset": "steam", METHOD: "All", "price": 0.1}, {"f1": A, "wv": B}, 1),
    Row({"dataset": "steam", METHOD: "IFRQE++ (nash)", "price": 0.1}, {"f1": B, "wv": C}, 1),
    Row({"dataset": "steam", METHOD: "All", "price": 2.0}, {"f1": C, "wv": A}, 1),
]


def test_rows_are_grouped_in_order() -> None:
    assert rows_by(ROWS, METHOD, "dataset") == {
        ("All", "steam"): [ROWS[0], ROWS[2]],
        ("IFRQE++ (nash)", "steam"): [ROWS[1]],
    }


def test_a_series_per_label_has_its_own_places_and_methods_are_known_by_name() -> None:
    first, second = series_by(ROWS, METHOD, along="price", key="f1")
    assert (first.of, first.x, first.y) == (("all", ""), [0.1, 2.0], [A, C])
    assert (second.of, second.x, second.y) == (("ifrqe++", "nash"), [0.1], [B])
    (only,) = series_by(ROWS, "dataset", along="price", key="wv")
    assert (only.of, only.y) == ("steam", [B, C, A])


def test_a_series_per_figure() -> None:
    first, second = series_of(ROWS, {"wv": "violation", "f1": "F1"}, along="price")
    assert (first.of, first.x, first.y) == ("violation", [0.1, 0.1, 2.0], [B, C, A])
    assert (second.of, second.y) == ("F1", [A, B, C])


def test_every_method_is_found_by_its_name() -> None:
    assert {way_name(way) for way in WAYS.values()} == set(WAYS)
    assert WAYS["SCR (nash)"] == ("scratch", "nash")
    assert WAYS["Occurrence"] == ("occurrence", "")
