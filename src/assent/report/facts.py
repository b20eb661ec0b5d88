"""What the measured frontier says, one sentence per fact."""

from collections.abc import Mapping, Sequence

from assent.report.data import (
    ALL,
    Gap,
    Points,
    Record,
    ReportData,
    Way,
    budgeted_ways,
    by_point,
    gap,
    kept,
    reference,
)
from assent.report.numbers import fixed, listed, plural, share
from assent.report.words import METRIC, name

_NEARLY_ALL = 0.95
"""Share of All's quality that a reader may take for "nearly as good"."""

_FEW_SEEDS = 3
"""Up to so many seeds, a standard error is itself little more than a guess."""


def frontier_facts(data: ReportData) -> list[str]:
    """How the run's method compares with All and with every other method, and what that rests on."""
    ours = by_point(data.frontier, data.way)
    rivals = [way for way in budgeted_ways(data.frontier) if way != data.way]
    if not ours:
        return [f"This frontier was measured for {listed([name(way) for way in rivals])} only."]
    everything = reference(data, ALL)
    return [
        _keeping(data.way, ours, everything),
        *_above_all(data.way, ours, everything),
        *(_against(data.way, ours, rival, by_point(data.frontier, rival)) for rival in rivals),
        _certainty(len({record["seed"] for points in ours.values() for record in points})),
    ]


def _keeping(way: Way, ours: Points, everything: Sequence[Record]) -> str:
    """Down to which point the quality stays nearly All's, without a gap above it."""
    lowest = None
    for point, records in ours.items():
        quality = kept(records, everything)
        if quality is None or quality.ratio < _NEARLY_ALL:
            break
        lowest = point
    goal = f"{share(_NEARLY_ALL)} of All’s quality"
    if lowest is None:
        return f"{name(way)} falls below {goal} already at {share(max(ours))} of All’s violation."
    return f"{name(way)} keeps at least {goal} down to {share(lowest)} of All’s violation."


def _above_all(way: Way, ours: Points, everything: Sequence[Record]) -> list[str]:
    """Where using less is better than using everything."""
    ahead = _signed(_gaps(ours, dict.fromkeys(ours, everything)), 1)
    return [f"It is better than using everything at {_places(ahead)}."] if ahead else []


def _against(way: Way, ours: Points, rival: Way, theirs: Points) -> str:
    """Where the run's method is ahead of another, level with it, or behind."""
    gaps = _gaps(ours, theirs)
    if not gaps:
        return f"{name(rival)} was measured at other points or seeds and cannot be compared."
    parts = []
    for sign, word in ((1, "ahead"), (0, "level"), (-1, "behind")):
        if here := _signed(gaps, sign):
            where = "every point" if len(here) == len(gaps) > 1 else _places(here)
            parts.append(f"{word} at {where}{_largest(here) if sign else ''}")
    return f"Against {name(rival)}: {'; '.join(parts)}."


def _gaps(ours: Points, theirs: Points) -> dict[float, Gap]:
    found = {point: gap(records, theirs[point]) for point, records in ours.items() if point in theirs}
    return {point: each for point, each in found.items() if each is not None}


def _signed(gaps: Mapping[float, Gap], sign: int) -> dict[float, Gap]:
    return {point: each for point, each in gaps.items() if each.sign == sign}


def _places(gaps: Mapping[float, Gap]) -> str:
    return listed([share(point) for point in gaps])


def _largest(gaps: Mapping[float, Gap]) -> str:
    """The largest difference, and where it is if there are several."""
    point = max(gaps, key=lambda each: abs(gaps[each].difference))
    points = f"{fixed(100 * abs(gaps[point].difference), 1)} points of {METRIC}"
    return f" (most at {share(point)}, by {points})" if len(gaps) > 1 else f" (by {points})"


def _certainty(n_seeds: int) -> str:
    if n_seeds == 1:
        return "All this was measured with one seed, so chance may explain any of these differences."
    few = ", which are few" if n_seeds <= _FEW_SEEDS else ""
    return (
        "Ahead, better or behind means: by more than one standard error of the difference, "
        f"over {plural(n_seeds, 'seed')}{few}."
    )
