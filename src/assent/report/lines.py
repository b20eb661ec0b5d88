"""The measured frontier as lines, one per method."""

from collections.abc import Sequence
from dataclasses import dataclass

from assent.report.data import (
    ALL,
    NOTHING,
    Record,
    ReportData,
    Way,
    budgeted_ways,
    by_point,
    mean,
    reference,
    standard_error,
    way_of,
)


@dataclass(frozen=True)
class Line:
    """A method's measured points by rising violation share: NDCG and its standard errors (fractions)."""

    way: Way
    violation: Sequence[float]
    quality: Sequence[float]
    error: Sequence[float | None]


def line(way: Way, groups: Sequence[Sequence[Record]]) -> Line:
    """The line through one point per group of records."""
    return Line(
        way,
        violation=[mean(records, "violation_share") for records in groups],
        quality=[mean(records) for records in groups],
        error=[standard_error(records) for records in groups],
    )


def frontier_lines(frontier: Sequence[Record]) -> list[Line]:
    """A line per method of a frontier, in its order; All and Nothing are the last two."""
    return [
        line(way, list(by_point(frontier, way).values())[::-1])
        for way in (*budgeted_ways(frontier), ALL, NOTHING)
    ]


def run_lines(data: ReportData) -> list[Line]:
    """A line per method of the frontier, the run's first; a point for each that only the run's table has.

    All and Nothing are the last two.
    """
    measured = sorted(budgeted_ways(data.frontier), key=lambda way: way != data.way)
    drawn = (*measured, ALL, NOTHING)
    own = [way for way in dict.fromkeys(way_of(record) for record in data.records) if way not in drawn]
    return [
        *(line(way, list(by_point(data.frontier, way).values())[::-1]) for way in measured),
        *(line(way, [data.of(way)]) for way in own),
        *(line(way, [reference(data, way)]) for way in (ALL, NOTHING)),
    ]
