"""An item: a table or figure, the cells that it is made of, and what it says.

What items that compare methods share: cells of methods at prices, their tables, charts and sentences.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from assent.report.data import Way
from assent.report.words import name as way_name
from assent.reproduce import paper
from assent.reproduce.beside import Beside, beside, reasons
from assent.reproduce.cells import Cell, Record
from assent.reproduce.charts import METHOD, Chart, rows_by, series_by
from assent.reproduce.grid import Column, Grid
from assent.reproduce.plan import NOTHING, OURS, PAPER_METHODS, DataSource, Plan
from assent.runs.measure import Cell as MethodCell


@dataclass(frozen=True)
class Findings:
    """What an item has to show."""

    grids: Sequence[Grid]
    """Its tables."""
    charts: Sequence[Chart] = ()
    beside: Sequence[Beside] = ()
    """The paper's numbers beside ours."""
    said: Sequence[str] = ()
    """What follows, in sentences."""
    not_comparable: str = field(default="")
    """Why there are no numbers of the paper to compare with, where there are none."""


class Item(ABC):
    """A table or figure of the paper, or one of ours; a subclass is a file and an entry of the registry."""

    name: ClassVar[str]
    """What the command line calls it."""
    title: ClassVar[str]
    where: ClassVar[str]
    """Where the paper has it, or that it is ours."""
    about: ClassVar[str]
    """How it is measured, in a sentence or two."""
    last: ClassVar[bool] = False
    """Whether its cells are computed after all others, because they take longest."""

    @abstractmethod
    def cells(self, plan: Plan) -> list[Cell]:
        """The records that it needs."""

    @abstractmethod
    def findings(self, plan: Plan, records: Sequence[Record]) -> Findings:
        """What the records of these cells say; some may be missing, with their data set."""


REWARD = Column("reward_mean", "reward", decimals=3, better=1)
VIOLATION = Column("violation", "wv", decimals=3)
F1 = Column("f1", "F1 %", 100, better=1)
PRECISION = Column("precision", "precision %", 100, better=1)
NDCG = Column("ndcg", "NDCG %", 100, better=1)
MRR = Column("mrr", "MRR %", 100, better=1)
SECONDS = Column("seconds", "seconds", decimals=1)
TRAININGS = Column("trainings", "trainings", decimals=0)
PAPER_KEYS: Mapping[str, str] = {"violation": "wv", "reward_mean": "reward"}
"""What the paper calls figures of the records, where it has another name."""
METHOD_LABEL = {"dataset": "data set", "model": "model", METHOD: "method"}
REFERENCE = {METHOD: way_name(OURS)}
ALL_WAYS: Sequence[Way] = (*PAPER_METHODS.values(), NOTHING)
CHEAP_WAYS: Sequence[Way] = tuple(way for way in ALL_WAYS if way[0] != "proactive")
"""Those that train no model for everything they try."""


def price_cells(
    plan: Plan,
    source: DataSource,
    model: str,
    ways: Iterable[Way],
    prices: Iterable[float] = (1.0,),
    *,
    labels: Mapping[str, Any] | None = None,
    **changes: Any,
) -> list[Cell]:
    """Every method at every price in every repeat."""
    settings = plan.settings(model)
    return [
        Cell(
            source,
            settings,
            seed,
            MethodCell(plan.method(way, model, source.name, **changes), price),
            {"dataset": source.name, "method_name": way_name(way), **(labels or {})},
        )
        for seed in plan.seeds
        for price in prices
        for way in ways
    ]


def charts_by_model(table: Grid, key: str, y: str, *, factor: float = 1.0) -> list[Chart]:
    """A chart per data set: the models along the axis, a series per method."""
    return [
        Chart(
            f"{table.name}-{key}-{dataset}",
            dataset,
            "model",
            y,
            series_by(rows, METHOD, along="model", key=key),
            factor,
        )
        for (dataset,), rows in rows_by(table.rows, "dataset").items()
    ]


def charts_along(table: Grid, along: str, x: str, key: str, y: str, *, factor: float = 1.0) -> list[Chart]:
    """A chart per data set and model: a label along the axis, a series per method."""
    return [
        Chart(
            f"{table.name}-{dataset}-{model}",
            f"{dataset}, {model}",
            x,
            y,
            series_by(rows, METHOD, along=along, key=key),
            factor,
        )
        for (dataset, model), rows in rows_by(table.rows, "dataset", "model").items()
    ]


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
