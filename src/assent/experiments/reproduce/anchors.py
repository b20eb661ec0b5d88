"""Figure: reward and time of IFRQE++ with T = 1 to 10 anchors."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

from assent.experiments.reproduce import method_items as m
from assent.experiments.reproduce.base import Findings, Item
from assent.experiments.reproduce.cells import Cell, Record
from assent.experiments.reproduce.charts import Chart
from assent.experiments.reproduce.means import grid
from assent.experiments.reproduce.plan import OURS, Plan
from assent.experiments.reproduce.series import rows_by, series_by
from assent.experiments.reproduce.sources import SIMULATION
from assent.report.numbers import MINUS, plural
from assent.statistics import paired_difference


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
            f"{self.title}, IFRQE++, price 1",
            records,
            labels={"dataset": "data set", "model": "model", "anchors": "T"},
            columns=[m.REWARD, m.VIOLATION, m.NDCG, m.SECONDS],
            reference={"anchors": min(plan.numbers_of_anchors)},
        )
        charts = [
            Chart(
                f"{self.name}-{key}-{model}",
                f"IFRQE++, {model}",
                "T, anchors",
                y,
                series_by(rows, "dataset", along="anchors", key=key),
            )
            for (model,), rows in rows_by(table.rows, "model").items()
            for key, y in (("reward_mean", "reward"), ("seconds", "seconds"))
        ]
        why = "The paper shows this as a picture, without numbers to put beside ours."
        return Findings([table], charts, said=[*_gains(plan, records), table.legend], not_comparable=why)


def _gains(plan: Plan, records: Sequence[Record]) -> Iterator[str]:
    """What the plan's T, or the largest, adds to the reward of the smallest, paired by repeat."""
    rewards: dict[tuple[str, str], dict[int, dict[int, float]]] = {}
    for each in records:
        place = rewards.setdefault((each["dataset"], each["model"]), {})
        place.setdefault(each["anchors"], {})[each["seed"]] = each["reward_mean"]
    for (dataset, model), by_number in rewards.items():
        few, usual = min(by_number), plan.anchors.get(dataset)
        many = usual if usual in by_number and usual != few else max(by_number)
        seeds = sorted(by_number[few].keys() & by_number[many].keys())
        if many == few or not seeds:
            continue
        found = paired_difference(*([by_number[number][seed] for seed in seeds] for number in (many, few)))
        sure = "no test" if found.p is None else f"p = {found.p:.2g}"
        gain = f"{found.mean:+.4f}".replace("-", MINUS)
        yield (
            f"{dataset}, {model}: the reward with T = {many} minus that with T = {few} is {gain} on average "
            f"({plural(len(seeds), 'repeat')}, paired t-test: {sure})."
        )
