"""What is said of IFRQE++ in words follows from the table, both ways."""

from assent.report.words import name as way_name
from assent.reproduce.grid import Grid, grid
from assent.reproduce.item import REFERENCE, REWARD, VIOLATION
from assent.reproduce.plan import OURS
from assent.reproduce.verdict import verdict

NAME = way_name(OURS)
NOISE = (0.0, 0.001, -0.002, 0.0015)
"""Of the repeats, for methods that differ by chance or surely."""


def table(places: dict[str, dict[str, float]], repeats: int = 4) -> Grid:
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
    return grid("n", "t", lines, labels=labels, columns=[REWARD, VIOLATION], reference=REFERENCE)


def test_sure_differences_are_told_in_both_directions_and_chance_is_not() -> None:
    against, disclosed = verdict(
        table(
            {
                "steam": {"All": -2.0, "Threshold": -0.5, NAME: -0.7, "Nothing": -0.7003},
                "diginetica": {"All": -2.0, "Threshold": -1.5, NAME: -0.7, "Nothing": -0.7003},
            }
        )
    )
    assert against == (
        f"Over 2 combinations of data set, {NAME} has a significantly larger reward than All in 2, Threshold "
        "in 1 and Nothing in 0; a significantly smaller one than Threshold (steam)."
    )
    assert disclosed.replace("\u202f", " ") == f"{NAME} discloses 25 % of All's violation."


def test_it_is_told_where_no_method_is_above_nothing() -> None:
    said = list(
        verdict(table({"a": {"All": -2.0, NAME: -0.8, "Nothing": -0.7}, "b": {NAME: -0.8, "Nothing": -0.7}}))
    )
    assert "than All in 1 of 1 and Nothing in 0" in said[0]
    assert "than Nothing (a) and Nothing (b)." in said[0]
    # The other place lacks All: who is best there is not known yet.
    assert said[1].startswith(
        "In 1 of the 1 that have all methods, none has a larger mean reward than withholding everything"
    )


def test_few_repeats_are_counted_and_not_called_significant() -> None:
    said, *_ = verdict(table({"a": {"All": -2.0, "Random": -0.5, NAME: -0.8}}, repeats=2))
    assert said == (
        f"Over 1 combination of data set, {NAME} has at least the mean reward of All in 1 and Random in 0; "
        "none of this is tested."
    )


def test_nothing_is_said_where_there_is_nothing_to_compare() -> None:
    assert list(verdict(table({"a": {"All": -2.0, "Random": -0.5}}))) == []
    assert list(verdict(table({"a": {NAME: -2.0}}))) == []


def test_it_is_told_where_nothing_can_pay() -> None:
    said = list(verdict(table({"a": {"All": -2.69, NAME: -0.69, "Nothing": -0.693}})))
    assert said[-1].startswith("In 1 of 1 combination the mean loss of All is within 2% of Nothing's")
    assert len(list(verdict(table({"a": {"All": -2.4, NAME: -0.69, "Nothing": -0.693}})))) == len(said) - 1
