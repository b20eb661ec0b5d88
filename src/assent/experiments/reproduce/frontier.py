"""Ours: quality against violation for the methods, within budgets."""

from collections.abc import Sequence
from typing import ClassVar

from assent.experiments.reproduce import method_items as m
from assent.experiments.reproduce.base import Findings, Item
from assent.experiments.reproduce.cells import Cell, Record
from assent.experiments.reproduce.means import grid
from assent.experiments.reproduce.plan import NOTHING, Plan
from assent.experiments.reproduce.sources import CHANCE, SIMULATION
from assent.experiments.reproduce.tasks import Measured
from assent.report.data import ALL, Way
from assent.report.words import name as way_name

WAYS: Sequence[Way] = (
    ("random", ""),
    ("threshold", ""),
    ("occurrence", ""),
    ("ifrqe++", "nash"),
    ("ifrqe++", "welfare"),
)


class Frontier(Item):
    """NDCG within shares of All's violation."""

    name: ClassVar[str] = "frontier"
    title: ClassVar[str] = "Frontier: quality against violation"
    where: ClassVar[str] = "Ours"
    about: ClassVar[str] = (
        "Each method discloses within a share of All's violation, whatever the price, so that methods are "
        "compared at the same cost to people. IFRQE++ plays for each user's own reward (nash) or for the sum "
        "of all (welfare), with values as assent has them by default: combined, by a ranking loss."
    )

    def cells(self, plan: Plan) -> list[Cell]:
        """All, each method within each budget, the largest first, and Nothing: in the order of the table."""
        budgets = sorted(plan.points, reverse=True)
        places = [(ALL, 1.0), *((way, point) for point in budgets for way in WAYS), (NOTHING, 0.0)]
        return [
            Cell(
                plan.source(dataset),
                plan.settings_of_ours(model, dataset),
                seed,
                Measured(way, 1.0, point),
                {"dataset": dataset, "method_name": way_name(way), "kept": 100 * point},
            )
            for dataset in plan.datasets
            for model in plan.of(plan.one_model)
            for seed in plan.seeds
            for way, point in places
        ]

    def findings(self, plan: Plan, records: Sequence[Record]) -> Findings:
        """The table and a chart per data set and model."""
        table = grid(
            self.name,
            self.title,
            records,
            labels={"dataset": "data set", "model": "model", "kept": "violation %", "method_name": "method"},
            columns=[m.NDCG, m.F1, m.VIOLATION],
            reference={"method_name": way_name(("threshold", ""))},
        )
        charts = m.charts_along(table, "kept", "violation, % of All’s", "ndcg", "NDCG@5 %", factor=100)
        said = [CHANCE, table.legend] if SIMULATION in plan.datasets else [table.legend]
        return Findings([table], charts, said=said, not_comparable="The paper has no such figure.")
