"""What a table of methods says of IFRQE++, in sentences."""

from collections.abc import Callable, Iterator, Mapping
from statistics import median
from typing import Any

from assent.report.data import ALL
from assent.report.words import listed, plural, share
from assent.report.words import name as way_name
from assent.reproduce.charts import METHOD, rows_by
from assent.reproduce.grid import Amount, Grid, shown
from assent.reproduce.plan import NOTHING, OURS
from assent.support.statistics import FEWEST

REWARD, VIOLATION = "reward_mean", "violation"
_FLAT = 0.02
"""Share by which the loss of All has to be below that of Nothing, for disclosing to be able to pay."""
Places = Mapping[tuple[Any, ...], Mapping[str, Amount]]
"""A figure of each method, by combination of the other labels."""


def verdict(table: Grid) -> Iterator[str]:
    """Whether IFRQE++ has the larger reward, where Nothing has the largest, and how much IFRQE++ discloses.

    A method counts where both it and IFRQE++ were measured.
    """
    rewards = _places(table, REWARD)
    ours = {place: methods for place, methods in rewards.items() if way_name(OURS) in methods}
    if any(len(methods) > 1 for methods in ours.values()):
        yield _against(table, ours)
    yield from _nothing(rewards)
    yield from _disclosed(_places(table, VIOLATION))
    yield from _flat(table)


def _places(table: Grid, key: str) -> Places:
    others = [label for label in table.labels if label != METHOD]
    return {
        place: {row.labels[METHOD]: row.amounts[key] for row in rows if row.amounts[key].mean is not None}
        for place, rows in rows_by(table.rows, *others).items()
    }


def _against(table: Grid, rewards: Places) -> str:
    """How often IFRQE++ is above each other method, and where it is below."""
    labels = listed([heading for key, heading in table.labels.items() if key != METHOD])
    opening = f"Over {plural(len(rewards), 'combination')} of {labels}, {way_name(OURS)} has"
    if table.repeats < FEWEST:
        level = _often(rewards, lambda rival: (rival.difference or 0.0) <= 0)
        return f"{opening} at least the mean reward of {level}; none of this is tested."
    larger = _often(rewards, lambda rival: rival.sign.startswith("↓"))
    above = [
        f"{method} ({', '.join(map(shown, place))})"
        for place, methods in rewards.items()
        for method, rival in methods.items()
        if rival.sign.startswith("↑")
    ]
    smaller = (
        f"a significantly smaller one than {listed(above)}"
        if above
        else "nowhere a significantly smaller one"
    )
    return f"{opening} a significantly larger reward than {larger}; {smaller}."


def _often(rewards: Places, holds: Callable[[Amount], bool]) -> str:
    """For each method in how many combinations something holds of it, and of how many where some lack."""
    found = []
    for method in dict.fromkeys(method for methods in rewards.values() for method in methods):
        rivals = [methods[method] for methods in rewards.values() if method in methods]
        paired = [rival for rival in rivals if rival.difference is not None]
        if paired:
            of_some = f" of {len(paired)}" if len(paired) < len(rewards) else ""
            found.append(f"{method} in {sum(map(holds, paired))}{of_some}")
    return listed(found)


def _nothing(rewards: Places) -> Iterator[str]:
    """Where no method is above Nothing, of the combinations that have all methods."""
    methods = {method for place in rewards.values() for method in place}
    whole = [{name: each.mean or 0.0 for name, each in place.items()} for place in rewards.values()
             if place.keys() == methods]  # fmt: skip
    nothing = way_name(NOTHING)
    best = sum(place[nothing] == max(place.values()) for place in whole if nothing in place)
    if best:
        yield (
            f"In {best} of the {len(whole)} that have all methods, none has a larger mean reward than "
            f"withholding everything ({nothing}), which the paper does not show."
        )


def _disclosed(violations: Places) -> Iterator[str]:
    """How much of All's violation IFRQE++ discloses."""
    shares = [
        (place[way_name(OURS)].mean or 0.0) / whole
        for place in violations.values()
        if {way_name(OURS), way_name(ALL)} <= place.keys() and (whole := place[way_name(ALL)].mean)
    ]
    if shares:
        least, middle, most = (share(of(shares)) for of in (min, median, max))
        spread = least if least == most else f"{least} to {most} (median {middle})"
        yield f"{way_name(OURS)} discloses {spread} of All's violation."


def _flat(table: Grid) -> Iterator[str]:
    """In how many combinations a model of everything has hardly a smaller loss than one of nothing."""
    prices = {"price": 1.0}  # of tables that have no label of it
    losses: dict[tuple[Any, ...], dict[str, float]] = {}
    for row in table.rows:
        reward, violation = (row.amounts[key].mean for key in (REWARD, VIOLATION))
        if reward is not None and violation is not None:
            place = tuple(row.labels[label] for label in table.labels if label != METHOD)
            price = (prices | dict(row.labels))["price"]
            losses.setdefault(place, {})[row.labels[METHOD]] = -reward - price * violation
    both = [each for each in losses.values() if {way_name(ALL), way_name(NOTHING)} <= each.keys()]
    flat = sum(each[way_name(ALL)] > (1 - _FLAT) * each[way_name(NOTHING)] for each in both)
    if flat:
        yield (
            f"In {flat} of {plural(len(both), 'combination')} the mean loss of All is within "
            f"{_FLAT:.0%} of Nothing's, which is ln 2 for every user with validation rows: scores "
            "stay near 0. There next to nothing can pay in this reward, whatever a ranking gains."
        )
