"""What items that compare methods share: cells of methods at prices, their tables, charts and sentences."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assent.experiments.reproduce import paper
from assent.experiments.reproduce.beside import Beside, beside, reasons
from assent.experiments.reproduce.cells import Cell
from assent.experiments.reproduce.charts import Chart, Series
from assent.experiments.reproduce.grid import Amount, Column, Grid
from assent.experiments.reproduce.plan import NOTHING, OURS, PAPER_METHODS, Plan
from assent.experiments.reproduce.sources import Source
from assent.experiments.reproduce.tasks import Measured
from assent.experiments.standings import mark
from assent.report.data import Way
from assent.report.words import name as way_name

REWARD = Column("reward_mean", "reward", decimals=3, better=1)
VIOLATION = Column("violation", "wv", decimals=3, better=-1)
F1 = Column("f1", "F1 %", 100, better=1)
PRECISION = Column("precision", "precision %", 100, better=1)
NDCG = Column("ndcg", "NDCG %", 100, better=1)
MRR = Column("mrr", "MRR %", 100, better=1)
SECONDS = Column("seconds", "seconds", decimals=1, better=-1)
TRAININGS = Column("trainings", "trainings", decimals=0)
PAPER_KEYS: Mapping[str, str] = {"violation": "wv", "reward_mean": "reward"}
"""What the paper calls figures of the records, where it has another name."""
METHOD_LABEL = {"dataset": "data set", "model": "model", "method_name": "method"}
REFERENCE = {"method_name": way_name(OURS)}
ALL_WAYS: Sequence[Way] = (*PAPER_METHODS.values(), NOTHING)
SCR: Way = ("scratch", "nash")
CHEAP_WAYS: Sequence[Way] = tuple(way for way in ALL_WAYS if way[0] != "proactive")
"""Those that train no model for everything they try."""
PAIRED = "* p ≤ 0.05, ** p ≤ 0.01: paired t-test over repeats against IFRQE++; the best of a place in bold."


def price_cells(
    plan: Plan,
    source: Source,
    model: str,
    ways: Iterable[Way],
    prices: Iterable[float] = (1.0,),
    *,
    labels: Mapping[str, Any] | None = None,
    **changes: Any,
) -> list[Cell]:
    """Every method at every price in every repeat."""
    settings = plan.settings(model, source.name, **changes)
    return [
        Cell(
            source,
            settings,
            seed,
            Measured(way, price),
            {"dataset": source.name, "method_name": way_name(way), **(labels or {})},
        )
        for seed in plan.seeds
        for price in prices
        for way in ways
    ]


def way_of_row(labels: Mapping[str, Any]) -> Way:
    """The method of a row's label."""
    return next(way for way in (*ALL_WAYS, SCR) if way_name(way) == labels["method_name"])


def best_sentence(table: Grid, key: str = "reward_mean") -> list[str]:
    """In how many places IFRQE++ has the best mean of the paper's methods, and where Nothing is above all."""
    places: dict[tuple[Any, ...], dict[str, Amount]] = {}
    for row in table.rows:
        place = tuple(value for label, value in row.labels.items() if label != "method_name")
        if row.amounts[key].mean is not None:
            places.setdefault(place, {})[row.labels["method_name"]] = row.amounts[key]
    ours, nothing = way_name(OURS), way_name(NOTHING)
    judged = [_Judged(place, place[ours].mean or 0.0) for place in places.values() if ours in place]
    if not judged:
        return []
    wins, ties = (sum(each.lead > 0 for each in judged), sum(each.lead == 0 for each in judged))
    level = f", is level with another in {ties}" if ties else ""
    sure = sum(each.is_sure for each in judged)
    over = sum(nothing in each.place and each.of(nothing) >= max(map(each.of, each.place)) for each in judged)
    above = sum(each.reward > each.of("All") for each in judged if "All" in each.place)
    said = [
        f"IFRQE++ has the best mean reward of the paper's methods in {wins} of {len(judged)} places{level}, "
        f"is significantly above each of them (p ≤ 0.05) in {sure}, and is above Base (All) in {above}."
    ]
    if over:
        said.append(
            f"In {over} of them withholding everything (Nothing), which the paper does not show, has a "
            "reward at least as large as every method's."
        )
    return said


@dataclass(frozen=True)
class _Judged:
    """A place of a table: what each method has there, and the mean of IFRQE++."""

    place: Mapping[str, Amount]
    reward: float

    def of(self, name: str) -> float:
        """A method's mean."""
        return self.place[name].mean or 0.0

    @property
    def _rivals(self) -> list[str]:
        return [name for name in self.place if name not in (way_name(OURS), way_name(NOTHING))]

    @property
    def lead(self) -> float:
        """How far IFRQE++ is above the best of the paper's other methods."""
        return self.reward - max(map(self.of, self._rivals), default=-math.inf)

    @property
    def is_sure(self) -> bool:
        """Whether it is above each of them, and no such difference is likely to be chance."""
        return bool(self._rivals) and all(
            self.reward > self.of(name) and bool(mark(self.place[name].p)) for name in self._rivals
        )


def charts_by_model(table: Grid, key: str, y: str, *, factor: float = 1.0) -> list[Chart]:
    """A chart per data set: the models along the axis, a series per method."""
    datasets = dict.fromkeys(row.labels["dataset"] for row in table.rows)
    return [
        Chart(
            f"{table.name}-{key}-{dataset}",
            f"{dataset}",
            "model",
            y,
            _series([row for row in table.rows if row.labels["dataset"] == dataset], "model", key),
            factor,
        )
        for dataset in datasets
    ]


def charts_along(table: Grid, along: str, x: str, key: str, y: str) -> list[Chart]:
    """A chart per data set and model: a label along the axis, a series per method."""
    places = dict.fromkeys((row.labels["dataset"], row.labels["model"]) for row in table.rows)
    return [
        Chart(
            f"{table.name}-{dataset}-{model}",
            f"{dataset}, {model}",
            x,
            y,
            _series(
                [
                    row
                    for row in table.rows
                    if (row.labels["dataset"], row.labels["model"]) == (dataset, model)
                ],
                along,
                key,
            ),
        )
        for dataset, model in places
    ]


def _series(rows: Sequence[Any], along: str, key: str) -> list[Series]:
    found: dict[Way, tuple[list[Any], list[Amount]]] = {}
    for row in rows:
        x, y = found.setdefault(way_of_row(row.labels), ([], []))
        x.append(row.labels[along])
        y.append(row.amounts[key])
    return [Series(way, x, y) for way, (x, y) in found.items()]


def beside_table(plan: Plan, table: Grid, section: str) -> list[Beside]:
    """A table of all models and data sets beside the paper's: `section` of its numbers."""
    found: list[Beside] = []
    for dataset in plan.datasets:
        for model, their_model in paper.MODELS.items():
            for theirs, way in PAPER_METHODS.items():
                row = table.row(dataset=dataset, model=model, method_name=way_name(way))
                printed = paper.printed(section, their_model, theirs, paper.DATASETS[dataset])
                for column in table.columns:
                    key = PAPER_KEYS.get(column.key, column.key)
                    found += beside(
                        {"data set": dataset, "model": their_model, "method": theirs},
                        column,
                        paper.look_up(section, their_model, theirs, paper.DATASETS[dataset], key),
                        row.amounts[column.key] if row else None,
                        [*reasons(plan, dataset, method=theirs, figure=key, row=printed)],
                    )
    return found
