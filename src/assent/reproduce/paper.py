"""The paper's own numbers (`paper.json` names its source), and where they contradict each other.

Two numbers contradict each other where arithmetic, their standard errors and rounding leave no way for both
to be true. Which of them is wrong is not known: both are listed.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from itertools import pairwise
from typing import Any

from assent.reproduce.plan import DATASETS, MODELS, SIMULATION
from assent.results.words import MINUS


@cache
def numbers() -> Mapping[str, Any]:
    """Every number of the paper's tables."""
    file = resources.files("assent.reproduce").joinpath("paper.json")
    found: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def look_up(*path: str) -> tuple[float, float | None] | None:
    """A number and its standard error, if the paper has them at this path of `numbers`."""
    place = _at(*path)
    if isinstance(place, list):
        return float(place[0]), float(place[1])
    return None if isinstance(place, Mapping) else (float(place), None)


def printed(*path: str) -> dict[str, float]:
    """The numbers of a row of a table without their errors; none where the paper has no such row."""
    place = _at(*path)
    found = {name: look_up(*path, name) for name in place} if isinstance(place, Mapping) else {}
    return {name: value[0] for name, value in found.items() if value is not None}


def _at(*path: str) -> Any:
    """What `numbers` has at a path; an empty mapping where it has nothing."""
    place: Any = numbers()
    for name in path:
        place = place.get(name, {}) if isinstance(place, Mapping) else {}
    return place


def decimals(number: float, most: int) -> int:
    """Of a number as the tables print it: two, or as many as it needs, but at most `most`."""
    return min(most, max(2, len(f"{number:.10g}".partition(".")[2])))


def sizes(dataset: str) -> tuple[int, int, int]:
    """Users, items and interactions of a data set."""
    users, items, interactions = numbers()["datasets"][DATASETS[dataset]]
    return users, items, interactions


def scratch_ratio(dataset: str, model: str) -> float:
    """Seconds of SCR over those of IFRQE++ in the paper's table."""
    rows = numbers()["scratch"][DATASETS[dataset]][MODELS[model]]
    return float(rows["SCR"]["seconds"] / rows["IFRQE++"]["seconds"])


def gain(model: str, dataset: str, figure: str) -> float:
    """Return by what share of the base model's figure the IFRQE++ of the paper's Table 1 is above it."""
    rows = numbers()["overall"][model]
    base, ours = (float(rows[method][dataset][figure][0]) for method in ("Base", "IFRQE++"))
    return (ours - base) / abs(base)


def disclosed_share(model: str, method: str, dataset: str) -> float:
    """Return the violation of a row of Table 1 over that of its base model, both without errors."""
    of_model = numbers()["overall"][MODELS[model]]
    row, base = (float(of_model[each][DATASETS[dataset]]["wv"][0]) for each in (method, "Base"))
    return row / base


CLOSE = 0.05
"""Largest relative difference in size of data sets that count as the same, and of numbers that match."""
_APART = 0.1
"""How far two losses of the same models are apart that cannot both be true."""
BLIND = ("Base", "Random", "Threshold")
"""Methods that choose the same at every price."""
Path = tuple[str, ...]
"""Where a number is in `numbers`."""


def agree(one: float, other: float, *errors: float | None) -> bool:
    """Return whether two numbers are within two combined standard errors, or within 5 % of the second."""
    combined = math.sqrt(sum((error or 0.0) ** 2 for error in errors))
    return abs(one - other) <= max(2 * combined, CLOSE * abs(other)) + 1e-12


@cache
def contradictions() -> Mapping[Path, str]:
    """Return the numbers that another number of the paper contradicts, with what they contradict."""
    found: dict[Path, str] = {}
    for path, sentence in (*_by_scratch(), *_by_prices(), *_by_rows(), *_by_ranks(), *_by_violation()):
        if sentence not in found.get(path, ""):
            found[path] = f"{found[path]} {sentence}" if path in found else sentence
    return found


def shared_errors() -> tuple[int, int]:
    """In how many rows the appendix prints for precision, NDCG, MRR the errors of F1, wv, reward; and of all.

    Standard errors of such different figures do not agree to the last digit in all three.
    """
    rows = [(_errors("overall", *place), _errors("more_metrics", *place)) for place in _places()]
    return sum(one == other for one, other in rows), len(rows)


def _errors(*path: str) -> list[float]:
    """Return the standard errors of a row of `numbers`, in the order of its figures."""
    return [error for _, error in _at(*path).values()]


def _places() -> Iterator[tuple[str, str, str]]:
    """Model, method and data set of every row of Table 1."""
    for model, methods in numbers()["overall"].items():
        for method, datasets in methods.items():
            yield from ((model, method, dataset) for dataset in datasets)


def _by_scratch() -> Iterator[tuple[Path, str]]:
    """IFRQE++ in the table of SCR and in Table 1, which have the same settings."""
    for dataset, models in numbers()["scratch"].items():
        for model, rows in models.items():
            for figure, there in rows["IFRQE++"].items():
                table = "overall" if figure in ("f1", "wv", "reward") else "more_metrics"
                path = (table, model, "IFRQE++", dataset, figure)
                here = look_up(*path)
                if here and not agree(there, *here):
                    yield path, f"The table of SCR has {there:g} for it."
                    other = ("scratch", dataset, model, "IFRQE++", figure)
                    yield other, f"The overall comparison has {here[0]:g} for it."


def _by_prices() -> Iterator[tuple[Path, str]]:
    """Rewards at λ = 1 in both tables, and losses that rewards at other λ imply."""
    for model, method, dataset in _places():
        one = ("overall", model, method, dataset, "reward")
        known = {price: ("lambda_reward", price, model, method, dataset) for price in _at("lambda_reward")}
        first, violation, again = look_up(*one), look_up(*one[:-1], "wv"), look_up(*known["1.0"])
        if first is None or violation is None or again is None:
            continue
        same = [one, known["1.0"]] if again[0] == first[0] else [one]
        if len(same) == 1:
            yield one, f"The table of λ has {again[0]:g} for it."
            yield known["1.0"], f"Table 1 has {first[0]:g} for it."
        for price, path in known.items() if method in BLIND else ():
            reward = look_up(*path)
            if price != "1.0" and reward is not None:
                yield from _by_losses(same, first, path, reward, float(price), violation)


Measured = tuple[float, float | None]
"""A number and its standard error."""


def _by_losses(
    same: Sequence[Path], first: Measured, path: Path, reward: Measured, price: float, violation: Measured
) -> Iterator[tuple[Path, str]]:
    """What a reward at another λ says of that at λ = 1, of a method that chooses and trains alike at all λ.

    A reward is minus the loss, minus λ · violation, so that both imply a loss; none is below 0.
    """
    loss, at_one = -reward[0] - price * violation[0], -first[0] - violation[0]
    paid = price * (violation[1] or 0.0)
    if -loss > _surely((1 + price) * _HALF, reward[1], paid):
        allowed = f"{-price * violation[0]:.3g}".replace("-", MINUS)
        yield path, f"With the violation in Table 1, {violation[0]:g}, no loss allows more than {allowed}."
    apart = abs(price - 1)
    room = _surely((2 + apart) * _HALF, first[1], reward[1], apart * (violation[1] or 0.0))
    if abs(loss - at_one) > max(room, _APART):
        but = "but the method chooses alike at every λ."
        implied = f"With the violation in Table 1 it implies a loss of {loss:.2f}"
        yield path, f"{implied}, the reward in Table 1 one of {at_one:.2f}, {but}"
        implied = f"With its violation it implies a loss of {at_one:.2f}"
        for each in same:
            yield each, f"{implied}, the reward at λ = {price:g} one of {loss:.2f}, {but}"


def _surely(rounding: float, *errors: float | None) -> float:
    """By how much numbers differ that cannot be the same: beyond rounding and three combined errors."""
    return rounding + 3 * math.sqrt(sum((error or 0.0) ** 2 for error in errors))


def _by_rows() -> Iterator[tuple[Path, str]]:
    """What a row of Table 1 says of itself: F1 and precision, reward and violation, Threshold's violation."""
    for model, method, dataset in _places():
        place = ("overall", model, method, dataset)
        row, base = printed(*place), printed("overall", model, "Base", dataset)
        precision = ("more_metrics", model, method, dataset, "precision")
        hits = look_up(*precision)
        if hits and abs(5 / 3 * hits[0] - row["f1"]) > 5 / 3 * _unit(hits[0]) + _unit(row["f1"]) + _TINY:
            both = f"{row['f1']:g} and {hits[0]:g}"
            sentence = f"With one test item each, F1@5 is 5/3 of precision@5; these are {both}."
            yield (*place, "f1"), sentence
            yield precision, sentence
        if row["reward"] + row["wv"] > 0:
            yield (*place, "reward"), "It is above −wv, which no loss allows."
        if method == "Threshold" and dataset != DATASETS[SIMULATION] and row["wv"] > _CUT * base["wv"]:
            share = row["wv"] / base["wv"]
            yield (
                (*place, "wv"),
                f"It is {share:.0%} of Base's; a limit of 0.5 leaves a quarter of uniform unwillingness.",
            )


def _by_violation() -> Iterator[tuple[Path, str]]:
    """Figures of rows with the violation of Base: where hardly anything is withheld, they are Base's."""
    for model, method, dataset in _places():
        row, base = (look_up("overall", model, each, dataset, "wv") for each in (method, "Base"))
        if method == "Base" or row is None or base is None or row[0] != base[0]:
            continue
        for table, figure in (("overall", "f1"), *(("more_metrics", name) for name in RANKING[1:])):
            path = (table, model, method, dataset, figure)
            here, there = look_up(*path), look_up(table, model, "Base", dataset, figure)
            if here and there and not agree(here[0], there[0], here[1], there[1]):
                yield (
                    path,
                    f"Its violation is Base's, so that hardly anything is withheld; Base has {there[0]:g}.",
                )


_DISCOUNTS = {rank: (1 / rank, 1 / math.log2(rank + 1)) for rank in range(1, 6)}
"""What a test item at a rank adds to MRR@5 and NDCG@5."""


def _line(one: int, other: int) -> tuple[float, float]:
    """Return a and b such that NDCG = a · hits + b · MRR where all test items are at one of two ranks."""
    (x, y), (other_x, other_y) = _DISCOUNTS[one], _DISCOUNTS[other]
    slope = (other_y - y) / (other_x - x)
    return y - slope * x, slope


_LEAST, *_MOST = (_line(*ranks) for ranks in ((1, 5), *pairwise(_DISCOUNTS)))
"""The a and b of the least NDCG that hits and MRR allow, and those of several that it cannot be above.

The ranks lie on a concave curve, so this holds whatever share of the test items is at which rank.
"""


def _by_ranks() -> Iterator[tuple[Path, str]]:
    """What hits, NDCG and MRR say of each other: with one test item each, they come from its rank.

    Hits are a multiple of precision, and of F1. Rounding, up or down, is at most a unit of the last digit.
    """
    rows: list[Path] = [("more_metrics", *place) for place in _places()]
    for dataset, models in numbers()["scratch"].items():
        rows += [("scratch", dataset, model, method) for model, found in models.items() for method in found]
    for place in rows:
        row = printed(*place)
        f1 = (*place, "f1") if "f1" in row else ("overall", *place[1:], "f1")
        mrr, ndcg = row["mrr"], row["ndcg"]
        for name, path, factor in (("precision@5", (*place, "precision"), 5), ("F1@5", f1, 3)):
            value = _at(*path)
            value = float(value[0] if isinstance(value, list) else value)
            hits, room = factor * value, factor * _unit(value)
            for figure, least in (("ndcg", _DISCOUNTS[5][1]), ("mrr", _DISCOUNTS[5][0])):
                found, slack = row[figure], _unit(row[figure]) + _TINY
                if not least * (hits - room) - slack <= found <= hits + room + slack:
                    allowed = f"{least * hits:.3g} to {hits:.3g}"
                    yield (*place, figure), f"With one test item each, {name} of {value:g} allows {allowed}."
                    beside = f"{figure.upper()}@5 of {found:g} cannot stand beside {name} of {value:g}."
                    yield path, f"With one test item each, {beside}"
            bounds = [a * hits + b * mrr for a, b in (_LEAST, *_MOST)]
            rooms = [a * room + b * _unit(mrr) + _unit(ndcg) + _TINY for a, b in (_LEAST, *_MOST)]
            above = any(ndcg > most + own for most, own in zip(bounds[1:], rooms[1:], strict=True))
            if bounds[0] <= min(bounds[1:]) and (ndcg < bounds[0] - rooms[0] or above):
                sentence = (
                    f"With one test item each, {name} of {value:g} and MRR@5 of {mrr:g} allow NDCG@5 of "
                    f"{bounds[0]:.3g} to {min(bounds[1:]):.3g}; it is {ndcg:g}."
                )
                for each in (path, (*place, "mrr"), (*place, "ndcg")):
                    yield each, sentence


def _unit(number: float) -> float:
    """The last digit that a percentage is printed with: those above 10 have one decimal."""
    return 0.1 if abs(number) >= 10 else 0.01


_TINY = 1e-9
"""Of floating point."""
_HALF = 0.005
"""By how much rounding may move a reward or a violation."""
RANKING = ("f1", "precision", "ndcg", "mrr")
"""Figures of the ranking, in percent."""
_CUT = 0.3
"""Share of the violation that a limit of 0.5 leaves of uniform unwillingness, a quarter, with some room."""
