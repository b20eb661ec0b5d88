"""Table 1: every model, data set and method at price 1."""

from collections.abc import Sequence
from typing import ClassVar

from assent.experiments.reproduce import method_items as m
from assent.experiments.reproduce.base import Findings, Item
from assent.experiments.reproduce.cells import Cell, Record
from assent.experiments.reproduce.means import grid
from assent.experiments.reproduce.plan import Plan
from assent.experiments.reproduce.verdict import verdict


class Overall(Item):
    """F1, violation and reward."""

    name: ClassVar[str] = "overall"
    title: ClassVar[str] = "Overall comparison"
    where: ClassVar[str] = "Table 1"
    about: ClassVar[str] = (
        "Every model on every data set at price 1: each method chooses, a model is trained on its choice and "
        "tested. Reward: minus the mean validation loss of a user's samples, minus price · violation."
    )

    def cells(self, plan: Plan) -> list[Cell]:
        """All methods at price 1."""
        return [
            cell
            for dataset in plan.datasets
            for model in plan.models
            for cell in m.price_cells(plan, plan.source(dataset), model, m.ALL_WAYS)
        ]

    def findings(self, plan: Plan, records: Sequence[Record]) -> Findings:
        """The table, rewards as charts, the paper's table beside it."""
        table = grid(
            self.name,
            f"{self.title}, price 1",
            records,
            labels=m.METHOD_LABEL,
            columns=[m.F1, m.VIOLATION, m.REWARD],
            reference=m.REFERENCE,
        )
        return Findings(
            [table],
            m.charts_by_model(table, "reward_mean", "reward (mean loss)"),
            m.beside_table(plan, table, "overall"),
            [*verdict(table), table.legend],
        )
