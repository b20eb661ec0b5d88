"""The paper's own numbers (`paper.json` names its source) beside ours, and why some cannot be compared."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import product
from statistics import median
from typing import Any

from assent.reproduce.plan import CHANCE, DATASETS, MODELS, PAPER_METHODS, SCR, SIMULATION, THEIR_L, Plan
from assent.reproduce.profiles import Profile
from assent.results.records import METHOD, Way
from assent.results.records import name as way_name
from assent.results.table import Amount, Column, Table


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


_CLOSE = 0.05
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
    return abs(one - other) <= max(2 * combined, _CLOSE * abs(other)) + 1e-12


@cache
def contradictions() -> Mapping[Path, str]:
    """Return the numbers that another number of the paper contradicts, with what they contradict."""
    found: dict[Path, str] = {}
    for path, sentence in (*_by_scratch(), *_by_prices(), *_by_rows(), *_by_ranks(), *_by_violation()):
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
    """Rewards at λ = 1 in both tables, and losses that rewards at several λ imply."""
    table = numbers()["lambda_reward"]
    for model, method, dataset in _places():
        rewards = {price: look_up("lambda_reward", price, model, method, dataset) for price in table}
        first, violation = (look_up("overall", model, method, dataset, figure) for figure in ("reward", "wv"))
        at_one, one = rewards.get("1.0"), ("overall", model, method, dataset, "reward")
        if at_one is None or first is None or violation is None:
            continue
        if at_one[0] != first[0]:
            yield one, f"The table of λ has {at_one[0]:g} for it."
            yield ("lambda_reward", "1.0", model, method, dataset), f"Table 1 has {first[0]:g} for it."
        if method not in BLIND:
            continue
        losses = {price: -value[0] - float(price) * violation[0] for price, value in rewards.items() if value}
        for price, loss in losses.items():
            if abs(loss - median(losses.values())) > _APART:
                others = ", ".join(f"{each:.2f}" for at, each in losses.items() if at != price)
                sentence = (
                    f"It implies a loss of {loss:.2f}, those at the other λ {others}, but the method chooses "
                    "alike at every λ."
                )
                yield ("lambda_reward", price, model, method, dataset), sentence
                if price == "1.0" and at_one[0] == first[0]:
                    yield one, sentence


def _by_rows() -> Iterator[tuple[Path, str]]:
    """What a row of Table 1 says of itself: F1 and precision, reward and violation, Threshold's violation."""
    for model, method, dataset in _places():
        place = ("overall", model, method, dataset)
        row, base = printed(*place), printed("overall", model, "Base", dataset)
        precision = ("more_metrics", model, method, dataset, "precision")
        hits = look_up(*precision)
        if hits and not agree(5 / 3 * hits[0], row["f1"]):
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


def _by_ranks() -> Iterator[tuple[Path, str]]:
    """What precision, NDCG and MRR say of each other: with one test item each, they come from its rank."""
    rows = [("more_metrics", *place) for place in _places()]
    for dataset, models in numbers()["scratch"].items():
        rows += [("scratch", dataset, model, method) for model, found in models.items() for method in found]
    for table, *at in rows:
        row = printed(table, *at)
        f1 = row["f1"] if "f1" in row else printed("overall", *at)["f1"]
        for name, value, factor in (("precision@5", row["precision"], 5), ("F1@5", f1, 3)):
            hits, room = factor * value, factor * _ROUNDED
            for figure, least in (("ndcg", 1 / math.log2(6)), ("mrr", 1 / 5)):
                if not least * (hits - room) - _ROUNDED <= row[figure] <= hits + room + _ROUNDED:
                    allowed = f"{least * hits:.3g} to {hits:.3g}"
                    sentence = f"With one test item each, {name} of {value:g} allows {allowed}."
                    yield (table, *at, figure), sentence
        if row["mrr"] > row["ndcg"] + _ROUNDED:
            yield (table, *at, "mrr"), f"MRR@5 cannot be above NDCG@5, which is {row['ndcg']:g}."


_ROUNDED = 0.06
"""By how much rounding may move a printed percentage: those above 10 have one decimal."""
_CUT = 0.3
"""Share of the violation that a limit of 0.5 leaves of uniform unwillingness, a quarter, with some room."""
_UNTRAINED = 0.03
"""How near to ln 2 a loss is that of a model that has learnt nothing."""
_CANDIDATES, _CUTOFF = 100, 5
"""Items that a test item is ranked among, itself included, and the k of the metrics."""


def at_chance(number: "Beside") -> str:
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


KEYS: Mapping[str, str] = {"violation": "wv", "reward_mean": "reward"}
"""What the paper calls figures of the records, where it has another name."""
RANKING = ("f1", "precision", "ndcg", "mrr")
"""Figures of the ranking, in percent."""
USERS_OWN = "Settings of this run are the user's own, not the plan's (see “How it was run”)."
OWN_SETTINGS = "Base models are trained with assent's settings, not the paper's, but for the embedding size."


@dataclass(frozen=True)
class Beside:
    """One number of the paper."""

    labels: Mapping[str, str]
    """Its place, heading by heading."""
    figure: str
    """What it is."""
    paper: float
    paper_error: float | None
    ours: float | None
    """None where it was not measured."""
    error: float | None
    decimals: int
    runs: int | None = None
    """How many repeats ours is the mean of; None where it is no mean."""
    why: Sequence[str] = ()
    """Why the two cannot be compared, in sentences; empty where they can."""
    contradicted: str = ""
    """What else the paper prints that this number cannot be true beside, in a sentence; empty: nothing."""

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's."""
        return None if self.ours is None else self.ours - self.paper


def beside(
    labels: Mapping[str, str],
    column: Column,
    theirs: tuple[float, float | None] | None,
    ours: Amount | None,
    why: Iterable[str],
    contradicted: str = "",
) -> Iterator[Beside]:
    """The paper's number, if it has one, with ours in the same unit, if there is one."""
    if theirs is None:
        return
    ours = ours or Amount(None)
    mean, error = (None if each is None else column.factor * each for each in (ours.mean, ours.error))
    decimals = 3 if column.decimals is None else column.decimals
    figures = *theirs, mean, error, decimals, ours.runs
    yield Beside(labels, column.heading, *figures, tuple(why), contradicted)


def beside_rows(
    plan: Plan,
    table: Table,
    path: str,
    *,
    columns: Sequence[Column] = (),
    datasets: Iterable[str] = DATASETS,
    models: Iterable[str] = MODELS,
    methods: Mapping[str, Way] = PAPER_METHODS,
) -> Iterator[Beside]:
    """The paper's table beside ours, as far as its data sets and models are asked for.

    `path` leads to a row of `numbers`, or to a single one: names with slashes between, where {dataset},
    {model}, {method} and {price} stand for the paper's names. `columns` are those of the table unless given.
    """
    prices = plan.prices if "{price" in path else (None,)
    for dataset, model, price, theirs in product(
        plan.among([*datasets]), plan.of([*models]), prices, methods
    ):
        at = {} if price is None else {"price": price}
        labels = {"data set": dataset, "model": MODELS[model]}
        labels |= {name: f"{value:g}" for name, value in at.items()} | {"method": theirs}
        names = {"dataset": DATASETS[dataset], "model": MODELS[model], "method": theirs}
        place = path.format(**names, **at).split("/")
        row = table.row(dataset=dataset, model=model, **at, **{METHOD: way_name(methods[theirs])})
        for column in columns or table.columns:
            key = KEYS.get(column.key, column.key)
            why = reasons(plan, dataset, method=theirs, figure=key, row=printed(*place))
            found, known = look_up(*place, key) or look_up(*place), contradictions()
            against = known.get((*place, key)) or known.get(tuple(place), "")
            amount = row.amounts[column.key] if row else None
            yield from beside(labels, column, found, amount, why, against)


def reasons(
    plan: Plan, dataset: str, *, method: str, figure: str, row: Mapping[str, float] | None = None
) -> Iterator[str]:
    """Why a number of the paper and ours cannot be held against each other, in sentences.

    `method` is a row of the paper's tables, `figure` a key of `paper.json`, `row` all that the table prints
    in that row at price 1, if that is what it prints.
    """
    yield from plan_reasons(plan, method)
    yield from data_reasons(plan, dataset)
    if plan.profile is Profile.ASSENT and figure in (*RANKING, "reward"):
        yield OWN_SETTINGS
    if dataset == SIMULATION and figure in RANKING:
        yield CHANCE
    if figure == "reward" and plan.profile is not Profile.AUTHORS:
        yield "The code that the authors published takes rewards of test rows; ours are of validation rows."
    if figure == "reward" and dataset == SIMULATION:
        yield "Simulated data carry no preference: rewards tell what is disclosed, not what is learnt."
    if figure == "seconds":
        yield "Other machines and other programs: seconds show orders of magnitude only."
    if method == "Random":
        rate = plan.setting(PAPER_METHODS["Random"], dataset, "rate")
        yield _RANDOM.format(rate=f"{100 * rate:g}")
    if method in _METHOD_REASONS:
        yield _METHOD_REASONS[method]
    if method in ("IFRQE", "IFRQE++"):
        yield _EXACT if plan.profile is Profile.ASSENT else _STEP
    if method == "SCR" and (explored := plan.explored(dataset)) != THEIR_L:
        yield f"SCR explores L = {explored} selections here, {THEIR_L} in the paper."
    if figure == "reward" and row and {"reward", "wv"} <= row.keys():
        loss = -row["reward"] - row["wv"]
        if loss < 0:
            yield "The paper's reward is above −λ · wv, which no loss allows."
        if abs(loss - math.log(2)) < _UNTRAINED:
            yield "The paper's loss here is ln 2, that of an untrained model."


def plan_reasons(plan: Plan, method: str | None = None) -> Iterator[str]:
    """What the user or the scale has changed; for a row of the paper's tables, of what that method reads."""
    if plan.reduced:
        yield "This run is a smaller version of the paper's: compare the order, not the figures."
    if plan.changed({**PAPER_METHODS, "SCR": SCR}.get(method or "")):
        yield USERS_OWN


def data_reasons(plan: Plan, dataset: str) -> Iterator[str]:
    """What differs in the data themselves."""
    if dataset == "steam":
        yield "Other data: the paper cites steam.internet.byu.edu, not the reviews that are read here."
    ours, theirs = plan.sizes.get(dataset), sizes(dataset)
    if plan.reduced or not ours:
        return
    if any(abs(a - b) > _CLOSE * b for a, b in zip(ours, theirs, strict=True)):
        have, had = (f"{a:,} users, {b:,} items and {c:,} interactions" for a, b, c in (ours, theirs))
        yield f"Another cut of the data: ours has {have}, the paper's {had}."


_RANDOM = (
    "The paper states no rate of Random, and prints 89 to 100 % of Base's wv for it; ours discloses {rate} % "
    "of the interactions."
)
_EXACT = (
    "The paper's strategies are tables that a sampled gradient moves away from a prior of 0.9; ours are "
    "exact best responses, which withhold whatever does not pay at this price."
)
_STEP = "The paper does not state the step size of Algorithm 3; item “gamma” shows what others give."
_METHOD_REASONS = {
    "Threshold": "The paper says that Threshold withholds unwillingness above 0.5, which leaves 25 % of "
    "Base's wv where unwillingness is uniform; ours does. Its tables print 98 % (Diginetica), 95 % "
    "(simulation) and 90 % (Steam, Amazon), whatever the model but for two rows. The published code has no "
    "Threshold, but a function that withholds at random with the probability `threshold`: 0.02, 0.05 and "
    "0.1 give these shares.",
    "Proactive": "No code of Proactive was published: ours is a re-implementation, with warm starts.",
    "SCR": "No code of SCR was published: ours is a re-implementation.",
}
"""What is not known of the paper's methods, or is not what the paper says of them."""
