"""Figure: reward and time of IFRQE++ with T = 1 to 10 anchors."""

from collections.abc import Sequence
from typing import ClassVar

from assent.experiments.reproduce import method_items as m
from assent.experiments.reproduce.base import Findings, Item
from assent.experiments.reproduce.cells import Cell, Record
from assent.experiments.reproduce.charts import Chart, Series
from assent.experiments.reproduce.grid import grid
from assent.experiments.reproduce.plan import OURS, Plan
from assent.experiments.reproduce.sources import SIMULATION


class Anchors(Item):
    """IFRQE++ with more and more anchors."""

    name: ClassVar[str] = "anchors"
    title: ClassVar[str] = "Number of anchors"
    where: ClassVar[str] = "Figure 2 (b), and the appendix"
    about: ClassVar[str] = (
        "IFRQE++ at price 1 with T anchors: reward, and seconds of anchors, game and final training."
    )

    def cells(self, plan: Plan) -> list[Cell]:
        """IFRQE++ for every T."""
        return [
            cell
            for dataset in plan.among(("diginetica", "amazon-video-games", SIMULATION))
            for model in plan.of(plan.few_models)
            for number in plan.numbers_of_anchors
            for cell in m.price_cells(
                plan, plan.source(dataset), model, [OURS], labels={"anchors": number}, anchors=number
            )
        ]

    def findings(self, plan: Plan, records: Sequence[Record]) -> Findings:
        """The table and two charts per model: reward and seconds."""
        table = grid(
            self.name,
            f"{self.title}, IFRQE++, price 1, {plan.repeats} repeats",
            records,
            labels={"dataset": "data set", "model": "model", "anchors": "T"},
            columns=[m.REWARD, m.VIOLATION, m.NDCG, m.SECONDS],
            reference={"anchors": min(plan.numbers_of_anchors)},
        )
        charts = []
        for model in dict.fromkeys(row.labels["model"] for row in table.rows):
            for key, y in (("reward_mean", "reward"), ("seconds", "seconds")):
                rows = [row for row in table.rows if row.labels["model"] == model]
                series = [
                    Series(
                        dataset,
                        [row.labels["anchors"] for row in rows if row.labels["dataset"] == dataset],
                        [row.amounts[key] for row in rows if row.labels["dataset"] == dataset],
                    )
                    for dataset in dict.fromkeys(row.labels["dataset"] for row in rows)
                ]
                charts.append(
                    Chart(f"{self.name}-{key}-{model}", f"IFRQE++, {model}", "T, anchors", y, series)
                )
        fewest = min(plan.numbers_of_anchors)
        single = [row for row in table.rows if row.labels["anchors"] == fewest]
        better = sum(not row.amounts["reward_mean"].best for row in single)
        said = f"More than one anchor has the best mean reward in {better} of {len(single)} places."
        marks = "* p ≤ 0.05, ** p ≤ 0.01: paired t-test over repeats against T = 1; the best T in bold."
        why = "The paper shows this as a picture, without numbers to put beside ours."
        return Findings([table], charts, said=[said, marks], not_comparable=why)
