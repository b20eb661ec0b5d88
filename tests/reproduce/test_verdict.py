"""What is said of IFRQE++ in words follows from the table, both ways."""

from assent.reproduce.item import REFERENCE, REWARD, VIOLATION, verdict
from assent.reproduce.plan import OURS
from assent.results.records import name as way_name
from assent.results.table import Table, tabulate

NAME = way_name(OURS)
NOISE = (0.0, 0.001, -0.002, 0.0015)
"""Of the repeats, for methods that differ by chance or surely."""


def table(places: dict[str, dict[str, float]], repeats: int = 4) -> Table:
    """A reward of each method in each data set; IFRQE++ alone does not vary. All discloses 2, others 0.5."""
    lines = [
        {
            "dataset": dataset,
            "method_name": method,
            "seed": seed,
            "reward_mean": mean + (0 if method == NAME else NOISE[seed]),
            "violation": {"All": 2.0, "Nothing": 0.0}.get(method, 0.5),
        }
        for dataset, methods in places.items()
        for method, mean in methods.items()
        for seed in range(repeats)
    ]
    labels = {"dataset": "data set", "method_name": "method"}
    return tabulate(lines, labels, [REWARD, VIOLATION], reference=REFERENCE)


def test_sure_differences_are_told_in_both_directions_and_chance_is_not() -> None:
    *against, disclosed = verdict(
        table(
            {
                "steam": {"All": -2.0, "Threshold": -0.5, NAME: -0.7, "Nothing": -0.7003},
                "diginetica": {"All": -2.0, "Threshold": -1.5, NAME: -0.7, "Nothing": -0.7003},
            }
        )
    )
    assert against == [
        f"{NAME} is at or above All in 2 of 2 places, significantly above in 2, significantly below in 0.",
        f"{NAME} is at or above Threshold in 1 of 2 places, significantly above in 1, significantly below in "
        "1 (steam).",
        f"{NAME} is at or above Nothing in 2 of 2 places, significantly above in 0, significantly below in "
        "0.",
    ]
    assert disclosed.replace("\u202f", " ") == f"{NAME} discloses 25 % of All's violation."


def test_it_is_told_where_no_method_is_above_nothing() -> None:
    said = list(
        verdict(table({"a": {"All": -2.0, NAME: -0.8, "Nothing": -0.7}, "b": {NAME: -0.8, "Nothing": -0.7}}))
    )
    assert "above All in 1 of 1 place, significantly above in 1" in said[0]
    assert "significantly below in 2 (a; b)." in said[1]
    # The other place lacks All: who is best there is not known yet.
    assert said[2] == (
        "Nothing wins in 1 of 1 place: no method has a larger mean reward there than withholding everything "
        "(a)."
    )


def test_few_repeats_are_counted_and_not_called_significant() -> None:
    said = list(verdict(table({"a": {"All": -2.0, "Random": -0.5, NAME: -0.8}}, repeats=2)))
    assert said[0] == f"{NAME} is at or above All in 1 of 1 place."
    assert said[1] == f"{NAME} is at or above Random in 0 of 1 place."


def test_nothing_is_said_where_there_is_nothing_to_compare() -> None:
    assert list(verdict(table({"a": {"All": -2.0, "Random": -0.5}}))) == []
    assert list(verdict(table({"a": {NAME: -2.0}}))) == []


def test_it_is_told_where_nothing_can_pay() -> None:
    said = list(verdict(table({"a": {"All": -2.69, NAME: -0.69, "Nothing": -0.693}})))
    assert said[-1].startswith("In 1 of 1 place the mean loss of All is within 2% of Nothing's")
    assert len(list(verdict(table({"a": {"All": -2.4, NAME: -0.69, "Nothing": -0.693}})))) == len(said) - 1
