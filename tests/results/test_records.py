"""Records, flat and typed, and the names of methods and metrics."""

from dataclasses import asdict

import pytest

from assent.results.records import ALL, FIGURES, Record, described, k_of, metric_keys, metric_name, name
from assent.support.errors import AssentError

RECORD = Record(
    dataset="log", model="mf", method="worth", objective="welfare", price=0.1, seed=3, violation=1.5,
    violation_share=0.5, reward_sum=-10.0, reward_mean=-0.5, precision=0.1, recall=0.2, f1=0.15, ndcg=0.3,
    mrr=0.25, hit=0.2, seconds=2.5, trainings=6, decision_price=0.1, point=0.5, further={"ndcg@10": 0.4},
)  # fmt: skip


def test_a_flat_record_has_every_field_and_comes_back() -> None:
    flat = RECORD.flat()
    assert list(flat) == [
        "dataset", "model", "method", "objective", "price", "seed", "violation", "violation_share",
        "reward_sum", "reward_mean", "precision", "recall", "f1", "ndcg", "mrr", "hit", "seconds",
        "trainings", "decision_price", "point", "k", "settings", "ndcg@10",
    ]  # fmt: skip
    assert set(FIGURES) < set(flat)
    assert Record.from_flat(flat) == RECORD
    assert Record.from_flat(flat | {"method_name": "Worth (welfare)"}) == RECORD


def test_a_record_of_before_there_was_k_is_at_5() -> None:
    flat = {key: value for key, value in RECORD.flat().items() if key not in ("k", "ndcg@10")}
    found = Record.from_flat(flat)
    assert (found.k, found.further) == (5, {})
    assert asdict(found) | {"further": {"ndcg@10": 0.4}} == asdict(RECORD)


def test_a_record_that_lacks_figures_is_refused() -> None:
    flat = RECORD.flat()
    del flat["ndcg"], flat["seed"]
    with pytest.raises(AssentError, match="record: lacks ndcg, seed"):
        Record.from_flat(flat)


def test_metrics_say_their_k() -> None:
    records = [RECORD.flat()]
    assert metric_keys("ndcg", records) == ["ndcg", "ndcg@10"]
    assert [metric_name(key, records) for key in ("ndcg", "ndcg@10", "hit")] == ["NDCG@5", "NDCG@10", "Hit@5"]
    assert (k_of([]), k_of([{"k": 20}])) == (5, 20)
    with pytest.raises(AssentError, match="metrics at k of 5, 20; accepted: one k"):
        k_of([{"k": 20}, {}])


def test_names_of_known_and_unknown_methods() -> None:
    ways = (("ifrqe++", "nash"), ALL, ("worth", "welfare"), ("new", ""))
    assert [name(way) for way in ways] == ["IFRQE++ (nash)", "All", "Worth (welfare)", "new"]
    assert [label for label, _ in described([("ifrqe", "nash"), ("new", ""), ALL])] == [
        "All",
        "IFRQE",
        "(nash)",
    ]
