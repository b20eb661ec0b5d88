"""What a comparison says: means with errors, paired tests against one method, and who wins where."""

from collections.abc import Sequence
from typing import Any

from assent.experiments.records import FIGURES
from assent.metrics import RewardForm
from assent.report.data import NOTHING, Record, Way, way_of
from assent.report.words import name
from assent.statistics import FEWEST, paired_difference, summarise

LEVELS = ((0.01, "**"), (0.05, "*"))
"""Largest p of each mark."""
PLACE = ("dataset", "model", "price")
"""What the records of one place of the comparison agree on."""


def mark(p: float | None) -> str:
    """How sure a difference is: ** for p ≤ 0.01, * for p ≤ 0.05, nothing otherwise."""
    return next((sign for level, sign in LEVELS if p is not None and p <= level), "")


def standings(records: Sequence[Record], form: RewardForm, reference: Way) -> list[dict[str, Any]]:
    """One row per place and method, place by place: means and errors over seeds, and how the reference does.

    `ahead` is the reward of the reference minus that of the row's method, paired by seed, `ahead_error` its
    standard error and `p` the paired t test's; None in the rows of the reference itself. `best` says whether
    no other mean reward of the place is larger.
    """
    figure = f"reward_{form}"
    summary = summarise(records, by=[*PLACE, "method", "objective"], keys=FIGURES)
    rows = [row | _standing(row, summary, records, figure, reference) for row in summary]
    places = list(dict.fromkeys(map(_place, rows)))
    return sorted(rows, key=lambda row: places.index(_place(row)))


def _standing(
    row: Record, summary: Sequence[Record], records: Sequence[Record], figure: str, reference: Way
) -> dict[str, Any]:
    """What a row of the summary says beyond its own figures."""
    ours, theirs = (_by_seed(records, _place(row), way, figure) for way in (reference, way_of(row)))
    found = paired_difference(list(ours.values()), [theirs[seed] for seed in ours])
    ahead = (None, None, None) if way_of(row) == reference else (found.mean, found.error, found.p)
    return {
        "reward": row[figure],
        "reward_error": row[f"{figure}_error"],
        **dict(zip(("ahead", "ahead_error", "p"), ahead, strict=True)),
        "best": row[figure] >= max(each[figure] for each in summary if _place(each) == _place(row)),
    }


def wins(rows: Sequence[Record], reference: Way) -> list[dict[str, Any]]:
    """Per rival: in how many places the reference is at or above it, significantly above, and below."""
    rivals = dict.fromkeys(way_of(row) for row in rows if way_of(row) != reference)
    found = []
    for rival in rivals:
        theirs = [row for row in rows if way_of(row) == rival]
        found.append(
            {
                "method": rival[0],
                "objective": rival[1],
                "places": len(theirs),
                "at_or_above": sum(row["ahead"] >= 0 for row in theirs),
                "significantly_above": sum(row["ahead"] > 0 and bool(mark(row["p"])) for row in theirs),
                "significantly_below": sum(row["ahead"] < 0 and bool(mark(row["p"])) for row in theirs),
            }
        )
    return found


def sentences(rows: Sequence[Record], reference: Way) -> list[str]:
    """The same in words, and where withholding everything has the best reward."""
    is_tested = max((row["runs"] for row in rows), default=0) >= FEWEST
    said = [
        f"{name(reference)} is at or above {name(way_of(each))} in {each['at_or_above']} of "
        f"{each['places']} places"
        + (
            f", significantly above in {each['significantly_above']}, "
            f"significantly below in {each['significantly_below']}."
            if is_tested
            else "."
        )
        for each in wins(rows, reference)
    ]
    said.append(
        "Significant is p ≤ 0.05 of a paired t-test over repeats, each place for itself: not corrected for "
        "how many there are."
        if is_tested
        else f"Not tested: that takes {FEWEST} repeats."
    )
    best = [row for row in rows if way_of(row) == NOTHING and row["best"]]
    if best:
        where = ", ".join(f"{row['model']} at price {row['price']:g}" for row in best)
        said.append(
            f"Nothing wins: no method has a larger mean reward than withholding everything ({where})."
        )
    return said


def _place(record: Record) -> tuple[Any, ...]:
    return tuple(record[label] for label in PLACE)


def _by_seed(records: Sequence[Record], place: tuple[Any, ...], way: Way, figure: str) -> dict[int, float]:
    return {each["seed"]: each[figure] for each in records if _place(each) == place and way_of(each) == way}
