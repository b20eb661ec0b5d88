"""Table 1: every model, data set and method at price 1."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

from assent.experiments.reproduce import method_items as m
from assent.experiments.reproduce.base import Findings, Item
from assent.experiments.reproduce.cells import Cell, Record
from assent.experiments.reproduce.charts import Chart, Series
from assent.experiments.reproduce.grid import Grid
from assent.experiments.reproduce.means import grid
from assent.experiments.reproduce.plan import Plan
from assent.experiments.reproduce.series import METHOD, WAYS, rows_by, series_by
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
        """The table, quality against violation and rewards as charts, the paper's table beside it."""
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
            [*_quality(table), *_rewards(table)],
            m.beside_table(plan, table, "overall"),
            [*verdict(table), table.legend],
        )


def _quality(table: Grid) -> Iterator[Chart]:
    """F1 against violation: a small chart per data set and model, a point per method."""
    for (dataset, model), rows in rows_by(table.rows, "dataset", "model").items():
        yield Chart(
            f"{table.name}-f1-{dataset}-{model}",
            f"{dataset}, {model}",
            "wv, violation of a user's willingness",
            "F1 %",
            [
                Series(WAYS[row.labels[METHOD]], [row.amounts["violation"].mean or 0.0], [row.amounts["f1"]])
                for row in rows
            ],
            100,
            measured=True,
            small=True,
        )


def _rewards(table: Grid) -> list[Chart]:
    """Rewards: the models along the axis, a chart per data set; for one model, the data sets in one chart."""
    models = {row.labels["model"] for row in table.rows}
    if len(models) > 1:
        return m.charts_by_model(table, "reward_mean", "reward")
    series = series_by(table.rows, METHOD, along="dataset", key="reward_mean")
    return [Chart(f"{table.name}-reward_mean", ", ".join(models), "data set", "reward", series)]
