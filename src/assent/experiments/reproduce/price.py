"""Table of the appendix: rewards at prices 0.1, 0.5, 1 and 2."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

from assent.experiments.reproduce import method_items as m
from assent.experiments.reproduce import paper
from assent.experiments.reproduce.base import Findings, Item
from assent.experiments.reproduce.beside import Beside, beside, reasons
from assent.experiments.reproduce.cells import Cell, Record
from assent.experiments.reproduce.grid import Grid
from assent.experiments.reproduce.means import grid
from assent.experiments.reproduce.plan import PAPER_METHODS, Plan
from assent.experiments.reproduce.verdict import verdict
from assent.report.words import name as way_name


class Price(Item):
    """The reward at each price."""

    name: ClassVar[str] = "price"
    title: ClassVar[str] = "Influence of the price"
    where: ClassVar[str] = "Appendix, influence of the balancing parameter λ"
    about: ClassVar[str] = (
        "The overall comparison at several prices of a unit of unwillingness (the paper's λ)."
    )

    def cells(self, plan: Plan) -> list[Cell]:
        """All methods at all prices."""
        return [
            cell
            for dataset in plan.datasets
            for model in plan.of(plan.few_models)
            for cell in m.price_cells(plan, plan.source(dataset), model, m.ALL_WAYS, plan.prices)
        ]

    def findings(self, plan: Plan, records: Sequence[Record]) -> Findings:
        """The table, a chart per data set and model, the paper's table beside it."""
        table = grid(
            self.name,
            self.title,
            records,
            labels={"dataset": "data set", "model": "model", "price": "price", "method_name": "method"},
            columns=[m.REWARD, m.VIOLATION],
            reference=m.REFERENCE,
        )
        charts = m.charts_along(table, "price", "price of a unit of unwillingness", "reward_mean", "reward")
        return Findings([table], charts, list(_beside(plan, table)), [*verdict(table), table.legend])


def _beside(plan: Plan, table: Grid) -> Iterator[Beside]:
    """The paper's rewards at the prices that were asked for."""
    for dataset in plan.datasets:
        for model in plan.of(plan.few_models):
            for price in plan.prices:
                for theirs, way in PAPER_METHODS.items():
                    row = table.row(dataset=dataset, model=model, price=price, method_name=way_name(way))
                    name = paper.MODELS[model]
                    yield from beside(
                        {"data set": dataset, "model": name, "price": f"{price:g}", "method": theirs},
                        m.REWARD,
                        paper.look_up("lambda_reward", f"{price:.1f}", name, theirs, paper.DATASETS[dataset]),
                        row.amounts["reward_mean"] if row else None,
                        [*reasons(plan, dataset, method=theirs, figure="reward")],
                    )
