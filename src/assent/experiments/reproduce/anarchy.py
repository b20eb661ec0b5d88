"""Ours: what it costs that everybody plays for herself."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

from assent.experiments.reproduce import method_items as m
from assent.experiments.reproduce.base import Findings, Item
from assent.experiments.reproduce.cells import Cell, Record
from assent.experiments.reproduce.charts import Chart
from assent.experiments.reproduce.grid import Column
from assent.experiments.reproduce.means import grid
from assent.experiments.reproduce.plan import OURS, Plan
from assent.experiments.reproduce.series import rows_by, series_of
from assent.experiments.reproduce.tasks import Certified
from assent.report.data import Way

SOCIAL: Way = ("ifrqe++", "welfare")
_LABELS = ("dataset", "model", "price", "seed")


class PriceOfAnarchy(Item):
    """Cost of the equilibrium over that of the welfare optimum: predicted, and true."""

    name: ClassVar[str] = "price-of-anarchy"
    title: ClassVar[str] = "Price of anarchy"
    where: ClassVar[str] = "Ours"
    about: ClassVar[str] = (
        "IFRQE++ played for each user's own reward (nash, the paper's equilibrium) and for the sum of all "
        "rewards (welfare). The price of anarchy is the cost (minus reward) of the first over the second: "
        "as predicted from the anchors, and measured after retraining. At 1, selfishness costs nothing."
    )

    def cells(self, plan: Plan) -> list[Cell]:
        """True rewards of both, and the certificate of the first."""
        found = []
        for dataset in plan.datasets:
            source = plan.source(dataset)
            for model in plan.of(plan.one_model):
                found += m.price_cells(plan, source, model, (OURS, SOCIAL), plan.prices)
                found += [
                    Cell(
                        source,
                        plan.settings(model, dataset),
                        seed,
                        Certified(OURS, price),
                        {"dataset": dataset, "model": model, "price": price},
                    )
                    for seed in plan.seeds
                    for price in plan.prices
                ]
        return found

    def findings(self, plan: Plan, records: Sequence[Record]) -> Findings:
        """The table and a chart of both ratios."""
        table = grid(
            self.name,
            self.title,
            list(_ratios(records)),
            labels={"dataset": "data set", "model": "model", "price": "price"},
            columns=[
                Column("predicted", "predicted", decimals=3),
                Column("true", "after retraining", decimals=3),
                Column("nash", "reward, nash", decimals=3),
                Column("welfare", "reward, welfare", decimals=3),
                Column("gain", "largest gain by deviating", decimals=4),
            ],
        )
        charts = [
            Chart(
                f"{self.name}-{dataset}",
                dataset,
                "price of a unit of unwillingness",
                "price of anarchy",
                series_of(rows, {"predicted": "predicted", "true": "after retraining"}, along="price"),
            )
            for (dataset,), rows in rows_by(table.rows, "dataset").items()
        ]
        return Findings([table], charts, said=[table.legend], not_comparable="The paper has no such figure.")


def _ratios(records: Sequence[Record]) -> Iterator[Record]:
    """One record per data set, model, price and repeat for which all three are there."""
    groups: dict[tuple[object, ...], dict[str, Record]] = {}
    for each in records:
        part = "certificate" if "price_of_anarchy" in each else each["objective"]
        groups.setdefault(tuple(each[label] for label in _LABELS), {})[part] = each
    for place, parts in groups.items():
        if len(parts) == 3:
            nash, welfare = parts["nash"]["reward_mean"], parts["welfare"]["reward_mean"]
            certificate = parts["certificate"]
            yield dict(zip(_LABELS, place, strict=True)) | {
                "predicted": certificate["price_of_anarchy"],
                "true": nash / welfare if welfare < 0 else None,
                "nash": nash,
                "welfare": welfare,
                "gain": certificate["largest_gain"],
            }
