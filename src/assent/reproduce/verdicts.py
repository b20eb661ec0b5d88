"""A verdict on every number of the paper, from what was measured here and from the paper's own tables."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from assent.reproduce.beside import USERS_OWN, Beside
from assent.reproduce.differences import explains
from assent.reproduce.item import REWARD, VIOLATION, Chapter, Item
from assent.reproduce.paper import BLIND, agree, sizes
from assent.reproduce.plan import MODELS, PAPER_METHODS, SIMULATION, Plan
from assent.results.records import METHOD
from assent.results.records import name as way_name
from assent.results.table import Table
from assent.results.words import percent, plural


class Verdict(StrEnum):
    """What is known of a number of the paper."""

    MATCHED = "matched"
    """Ours is within two combined standard errors, or within 5 %."""
    EXPLAINED = "explained"
    """What was measured with one named thing changed matches."""
    CHANCE = "chance"
    """The data carry no preference, and both figures are what a random order gives."""
    CONTRADICTED = "contradicted"
    """Another number of the paper, or its text, cannot be true beside it."""
    OPEN = "open"
    """Measured, and none of these."""
    UNRUN = "not run"
    """Not measured here, and not contradicted."""


MEANING: Mapping[Verdict, str] = {
    Verdict.OPEN: "Measured, not matched, and nothing that was run explains it.",
    Verdict.UNRUN: "Nobody has measured it in this folder. What was run beside it explains nothing of it.",
    Verdict.CONTRADICTED: "Not matched, and something else that the paper prints cannot be true beside it.",
    Verdict.CHANCE: "Neither matched nor explained. The simulation carries no preference, and the paper's "
    "figure and ours are both within two standard errors of a random order: nothing is to be read from it.",
    Verdict.EXPLAINED: "Not matched, but matched once the named thing is changed. The more values are "
    "tried, the likelier one matches by chance.",
    Verdict.MATCHED: "Within two combined standard errors of the paper's, or within 5 %.",
}
"""In the order of the page."""
UNKNOWN = (Verdict.OPEN, Verdict.UNRUN)
"""What is no verdict yet."""


@dataclass(frozen=True)
class Judged:
    """A number of the paper with its verdict."""

    item: str
    number: Beside
    verdict: Verdict
    because: str = ""
    """What explains or contradicts it."""

    @property
    def apart(self) -> float:
        """The difference as a share of the paper's number; −1 where there is none."""
        difference = self.number.difference
        return -1.0 if difference is None else abs(difference) / (abs(self.number.paper) or 1.0)


def judge(plan: Plan, chapters: Sequence[Chapter], counted: Sequence[Item] = ()) -> list[Judged]:
    """Return a verdict on every number of the chapters, largest differences first within each verdict.

    A number that was not measured, here or in `counted` items without a chapter, is contradicted or not run:
    no other figure explains it.

    A smaller version of the experiment matches and explains nothing, and neither does a method whose settings
    the user has changed: these numbers are contradicted or open.
    """
    others = [] if plan.reduced else [*_alternatives(plan, chapters)]
    found = [
        _judged(
            chapter.item.name, number, others, comparable=not plan.reduced and USERS_OWN not in number.why
        )
        for chapter in chapters
        for number in chapter.beside
    ]
    shown = {chapter.item.name for chapter in chapters}
    for item in counted:
        if item.name not in shown:
            nothing = Table(item.name, item.title, item.labels, item.columns, ())
            found += [_judged(item.name, each, (), comparable=False) for each in item.beside(plan, nothing)]
    order = list(MEANING)
    return sorted(found, key=lambda each: (order.index(each.verdict), -each.apart))


def counts(judged: Sequence[Judged]) -> str:
    """How many numbers have each verdict, in a sentence."""
    number = Counter(each.verdict for each in judged)
    parts = ", ".join(f"{number[verdict]} {verdict}" for verdict in [*MEANING][::-1])
    return f"Of {len(judged)} numbers of the paper: {parts}."


def shares(judged: Sequence[Judged]) -> Iterator[str]:
    """What share of the numbers has a verdict, by data set and in all, with chance and without, in words."""
    by_dataset: dict[str, list[Judged]] = {}
    for each in judged:
        by_dataset.setdefault(each.number.labels.get("data set", SIMULATION), []).append(each)
    groups = {**by_dataset, **({"together": judged} if len(by_dataset) > 1 else {})}
    for name, own in groups.items():
        known = sum(each.verdict not in UNKNOWN for each in own)
        random = sum(each.verdict is Verdict.CHANCE for each in own)
        less = f", {percent((known - random) / len(own))} without “chance”" if random else ""
        yield (
            f"{name}: {known} of {plural(len(own), 'number')} ({percent(known / len(own))}{less}) have a "
            "verdict other than open or not run."
        )


@dataclass(frozen=True)
class _Alternative:
    """A figure after one setting was changed."""

    labels: Mapping[str, str]
    figure: str
    what: str
    value: tuple[float, float | None]
    """In the unit of tables, with its standard error."""

    def is_of(self, number: Beside) -> bool:
        """Return whether it is the figure of a number; without a price, both are at price 1."""
        place = {"price": "1", **number.labels}
        return place == {"price": "1", **self.labels} and self.figure == number.figure


def _alternatives(plan: Plan, chapters: Sequence[Chapter]) -> Iterator[_Alternative]:
    """What was measured with one setting changed, by data set, model and method as the paper calls them."""
    names = {way_name(way): theirs for theirs, way in PAPER_METHODS.items()}
    for chapter in chapters:
        (label,) = {"step", "difference"} & chapter.table.labels.keys() or {""}
        for row in chapter.table.rows if label else ():
            if (method := names.get(row.labels[METHOD])) is None:
                continue
            labels = {
                "data set": row.labels["dataset"],
                "model": MODELS[row.labels["model"]],
                "method": method,
            }
            at_price = row.labels.get("price", 1.0)
            labels["price"] = f"{at_price:g}"
            value = row.labels[label]
            what = f"table.step={value:g}" if label == "step" else str(value)
            for column in chapter.table.columns:
                mean, error = row.amounts[column.key].mean, row.amounts[column.key].error
                if mean is None or not explains(what, method, column.heading):
                    continue
                value = column.factor * mean, None if error is None else column.factor * error
                yield _Alternative(labels, column.heading, what, value)
                violation = row.amounts[VIOLATION.key].mean
                if column.key == REWARD.key and method in BLIND and violation is not None and at_price == 1:
                    for price in {*plan.prices} - {1.0}:  # it chooses the same at every price
                        at = mean + (1 - price) * violation, error
                        yield _Alternative(labels | {"price": f"{price:g}"}, column.heading, what, at)


def _judged(item: str, number: Beside, others: Sequence[_Alternative], *, comparable: bool) -> Judged:
    ours = number.ours
    if ours is not None and comparable:
        if agree(ours, number.paper, number.error, number.paper_error):
            return Judged(item, number, Verdict.MATCHED)
        tried = [other for other in others if other.is_of(number)]
        for other in tried:
            value, error = other.value
            if agree(value, number.paper, error, number.paper_error):
                because = f"With {other.what} it is {value:.3g} ({plural(len(tried), 'value')} tried)."
                return Judged(item, number, Verdict.EXPLAINED, because)
        if said := _at_chance(number):
            return Judged(item, number, Verdict.CHANCE, said)
    if number.contradicted:
        return Judged(item, number, Verdict.CONTRADICTED, number.contradicted)
    return Judged(item, number, Verdict.UNRUN if ours is None else Verdict.OPEN)


_CANDIDATES, _CUTOFF = 100, 5
"""Items that a test item is ranked among, itself included, and the k of the metrics."""


def _at_chance(number: Beside) -> str:
    """Return a sentence if a ranking figure of the simulation is what chance gives, and ours too.

    There a test item's rank is uniform, and one test set of the paper's size has the standard error below.
    """
    if number.labels.get("data set") != SIMULATION or number.ours is None:
        return ""
    ranks = range(1, _CUTOFF + 1)
    gains = {
        "F1@5 %": [2 / (_CUTOFF + 1)] * _CUTOFF,
        "Precision@5 %": [1 / _CUTOFF] * _CUTOFF,
        "NDCG@5 %": [1 / math.log2(rank + 1) for rank in ranks],
        "MRR@5 %": [1 / rank for rank in ranks],
    }.get(number.figure)
    if gains is None:
        return ""
    mean = 100 * sum(gains) / _CANDIDATES
    spread = 1e4 * sum(gain**2 for gain in gains) / _CANDIDATES - mean**2
    error = math.sqrt(spread / sizes(SIMULATION)[0])
    if max(abs(each - mean) for each in (number.paper, number.ours)) > 2 * error:
        return ""
    return f"Chance gives {mean:.2f} ± {error:.2f} with one test item each of as many people."
